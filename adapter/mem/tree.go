package mem

import (
	"slices"

	"github.com/carillon-run/carillon"
)

// tree holds the lanes that have runs, by what takes turns: queues, in a queue the namespaces of a priority,
// in a namespace its shares. See contest for how they do.
type tree struct {
	contest
	lines      map[string]*line // by queue
	weights    map[string]int   // of queues; see Queue.SetWeights
	namespaces map[string]int   // their weights; see Queue.SetNamespaceWeights
	turn       int64            // places given
}

// line is one queue.
type line struct {
	member
	levels [priorities]level
	groups []*group // those with runs

	at    int      // in Queue.lines, while take chooses
	found []*band  // those with wanted runs, by urgency
	aged  []*group // the wanted ones, by age
}

// priorities is how many there are, from 0 on.
const priorities = 10

// level is the runs of one queue and priority.
type level struct {
	contest
	bands map[string]*band // by namespace
}

// band is the runs of one queue, priority and namespace.
type band struct {
	member
	line     *line
	priority int8
	shares   map[string]*share
	contest  contest
	behind   *share            // its lanes have an earlier time than it has; nil: no share is so
	groups   map[string]*group // by needs

	at    int      // in line.found, while take chooses
	found []*group // the wanted ones
}

// share is the lanes of a band that count as one: see carillon.Lane.
type share struct {
	member
	lanes []*lane
	n     int // runs
}

// few says that so few runs of the share wait that the first can be lone: see carillon.Demand.
func (s *share) few() bool { return s.n <= carillon.MaxLone }

// group is the lanes of a band with the same needs. A worker wants all of them or none.
type group struct {
	carillon.Lane // without a share
	band          *band
	n             int     // runs
	fair          []*lane // in the order in which they are served
	old           []*lane // by age
	lone, last    *lane   // the list of those whose share has few runs, by their turns: see lone.go
	passed        int     // places that others got while a run of this group had waited longest
	grew          bool    // it is in Queue.grown
	in            int     // its index in line.groups
	at, agedAt    int     // in band.found and line.aged, while take chooses; none: it is not wanted
}

// lane is a list of runs. It is empty only while it is idle: see Queue.
type lane struct {
	carillon.Lane
	head, tail int32
	n          int
	wake       carillon.Time // of its first run
	time       int64         // of its share; a copy, so that in a heap one key changes at a time
	served     int64         // the value of tree.turn when it was last served
	share      *share
	group      *group
	at, oldAt  int // in group.fair and group.old

	listed         bool // in the list of its group, between these two
	before, behind *lane
}

// The orders of the heaps.
var (
	byShare = order[lane]{
		func(a, b *lane) bool {
			if a.time != b.time {
				return a.time < b.time
			}
			return a.older(b)
		},
		func(l *lane) *int { return &l.at },
	}
	byAge = order[lane]{(*lane).older, func(l *lane) *int { return &l.oldAt }}
	byTop = order[group]{
		func(a, b *group) bool { return byShare.before(a.fair[0], b.fair[0]) },
		func(g *group) *int { return &g.at },
	}
	byOldest = order[group]{
		func(a, b *group) bool { return a.old[0].older(b.old[0]) },
		func(g *group) *int { return &g.agedAt },
	}
	byUrgency = order[band]{
		func(a, b *band) bool {
			if a.priority != b.priority {
				return a.priority > b.priority
			}
			if a.time != b.time {
				return a.time < b.time
			}
			return a.found[0].fair[0].older(b.found[0].fair[0])
		},
		func(b *band) *int { return &b.at },
	}
	byTurn = order[line]{
		func(a, b *line) bool {
			if a.time != b.time {
				return a.time < b.time
			}
			return byOldest.before(a.aged[0], b.aged[0])
		},
		func(l *line) *int { return &l.at },
	}
)

// older says that the first run of the lane has waited longer. Among equals the lane that was served longest
// ago comes first.
func (l *lane) older(o *lane) bool { return l.wake < o.wake || l.wake == o.wake && l.served < o.served }

func newTree() tree { return tree{lines: map[string]*line{}} }

// open adds a lane that has got its first run.
func (t *tree) open(l *lane) {
	q := t.lines[l.Queue]
	if q == nil {
		q = &line{member: member{key: l.Queue, weight: weightOf(t.weights, l.Queue)}}
		t.lines[l.Queue] = q
	}
	t.enter(&q.member)
	b := t.band(q, l)
	name, weight := l.FairShare()
	s := b.shares[name]
	if s == nil {
		s = &share{member: member{key: name}}
		b.shares[name] = s
	}
	if !s.active { // of lanes with several weights the first counts until all of them are empty
		s.weight = int64(weight)
	}
	b.contest.enter(&s.member)
	if b.behind != nil {
		b.reorder(b.behind)
		b.behind = nil
	}
	s.lanes = append(s.lanes, l)
	l.share, l.group, l.time = s, b.group(l), s.time
	l.group.fair, l.group.old = byShare.push(l.group.fair, l), byAge.push(l.group.old, l)
}

// weightOf is the weight of a queue or a namespace.
func weightOf(of map[string]int, name string) int64 { return int64(max(of[name], 1)) }

// setWeights changes the weights of queues. Those that have no runs may still be remembered with a weight.
func (t *tree) setWeights(weights map[string]int) {
	t.weights = weights
	for name, line := range t.lines {
		t.reweigh(&line.member, weightOf(weights, name))
	}
}

// setNamespaceWeights changes the weights of namespaces, in every queue and priority.
func (t *tree) setNamespaceWeights(weights map[string]int) {
	t.namespaces = weights
	for _, line := range t.lines {
		for i := range line.levels {
			at := &line.levels[i]
			for name, b := range at.bands {
				at.reweigh(&b.member, weightOf(weights, name))
			}
		}
	}
}

// waiting is how many runs of a lane and all its shares there are.
func (t *tree) waiting(of carillon.Lane) int {
	if q := t.lines[of.Queue]; q != nil {
		if b := q.level(of.Priority).bands[of.Namespace]; b != nil && b.groups[of.Needs] != nil {
			return b.groups[of.Needs].n
		}
	}
	return 0
}

// band is the band of a queue that a lane belongs to.
func (t *tree) band(q *line, l *lane) *band {
	at := q.level(l.Priority)
	b := at.bands[l.Namespace]
	if b == nil {
		b = &band{
			member: member{key: l.Namespace, weight: weightOf(t.namespaces, l.Namespace)}, line: q,
			priority: l.Priority, shares: map[string]*share{}, groups: map[string]*group{},
		}
		if at.bands == nil {
			at.bands = map[string]*band{}
		}
		at.bands[l.Namespace] = b
	}
	at.enter(&b.member)
	return b
}

// group is the group that a lane belongs to.
func (b *band) group(l *lane) *group {
	g := b.groups[l.Needs]
	if g == nil {
		g = &group{
			Lane: l.WithoutShare(), band: b, in: len(b.line.groups), at: none, agedAt: none,
		}
		b.groups[l.Needs] = g
		b.line.groups = append(b.line.groups, g)
	}
	return g
}

func (q *line) level(priority int8) *level { return &q.levels[min(max(priority, 0), priorities-1)] }

func (b *band) level() *level { return b.line.level(b.priority) }

// moved puts a lane that has another first run, or whose share was served, where it belongs in its group.
func (g *group) moved(l *lane) {
	byShare.fix(g.fair, l)
	byAge.fix(g.old, l)
}

// charge notes that a lane got n places, for its share, its namespace and its queue.
func (t *tree) charge(l *lane, n int) {
	t.turn++
	l.served = t.turn
	l.toEnd()
	b := l.group.band
	b.contest.charge(&l.share.member, n)
	b.level().charge(&b.member, n)
	t.contest.charge(&b.line.member, n)
	if b.contest.weight > l.share.weight {
		b.reorder(l.share)
	} else { // its lanes keep their order until another share comes
		b.behind = l.share
	}
	t.forget(b)
}

// reorder puts the lanes of a share that was charged where they belong, and their groups too while take
// chooses. Each is put in its place before the next one changes.
func (b *band) reorder(s *share) {
	for _, l := range s.lanes {
		l.time = s.time
		byShare.fix(l.group.fair, l)
		if l.group.at != none {
			byTop.fix(b.found, l.group)
		}
	}
}

// close removes a lane that has no more runs, and what has none because of that.
func (t *tree) close(l *lane) {
	g, s, b := l.group, l.share, l.group.band
	g.fair, g.old = byShare.remove(g.fair, l), byAge.remove(g.old, l)
	s.lanes = slices.DeleteFunc(s.lanes, func(o *lane) bool { return o == l })
	if len(s.lanes) == 0 {
		b.contest.leave(&s.member)
	}
	if len(g.fair) == 0 {
		delete(b.groups, g.Needs)
		b.line.drop(g)
	}
	if len(b.groups) == 0 {
		b.level().leave(&b.member)
	}
	if len(b.line.groups) == 0 {
		t.leave(&b.line.member)
	}
	t.forget(b)
}

// drop removes a group from the list of its queue.
func (q *line) drop(g *group) {
	last := len(q.groups) - 1
	q.groups[g.in] = q.groups[last]
	q.groups[g.in].in = g.in
	q.groups[last] = nil
	q.groups = q.groups[:last]
}

// forget drops shares, namespaces and queues that have no runs and need not be remembered any longer.
func (t *tree) forget(b *band) {
	forget(&b.contest, b.shares, func(s *share) *member { return &s.member })
	forget(&b.level().contest, b.level().bands, func(b *band) *member { return &b.member })
	forget(&t.contest, t.lines, func(q *line) *member { return &q.member })
}

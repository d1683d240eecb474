package mem

import (
	"slices"

	"github.com/carillon-run/carillon"
)

// maxBusy bounds the lanes of a group that a pull for lone runs looks at in vain. Those go to the end of the
// list, so the next look begins behind them.
const maxBusy = 256

// count notes that a lane has got a run, or has one less. It keeps the list of lanes whose shares have few
// runs.
func (l *lane) count(by int) {
	s := l.share
	were := s.few()
	l.n, l.group.n, s.n = l.n+by, l.group.n+by, s.n+by
	if few := s.few(); few == were {
		l.list(few && l.n > 0)
	} else {
		for _, other := range s.lanes {
			other.list(few && other.n > 0)
		}
	}
}

// list puts a lane at the end of the list of its group, unless it is in it, or takes it out.
func (l *lane) list(in bool) {
	g := l.group
	switch {
	case in == l.listed:
		return
	case in && g.last == nil:
		g.lone = l
	case in:
		l.before, g.last.behind = g.last, l
	case l.before != nil:
		l.before.behind = l.behind
	default:
		g.lone = l.behind
	}
	switch {
	case in:
		g.last = l
	case l.behind != nil:
		l.behind.before = l.before
	default:
		g.last = l.before
	}
	if l.listed = in; !in {
		l.before, l.behind = nil, nil
	}
}

// toEnd puts a lane that is in the list of its group at its end.
func (l *lane) toEnd() {
	if l.listed && l.behind != nil {
		l.list(false)
		l.list(true)
	}
}

// takeLone removes up to want.Max lone runs of the groups in found.
func (q *Queue) takeLone(want *carillon.Demand) (runs []carillon.Run) {
	var served []*share
	for len(runs) < want.Max {
		var next *lane
		for _, g := range q.found {
			l := g.firstLone(want, served)
			if l != nil && (next == nil || l.comesBefore(next)) {
				next = l
			}
		}
		if next == nil {
			break
		}
		served = append(served, next.share)
		q.tree.charge(next, 1)
		runs = append(runs, q.unlink(next, next.head))
	}
	if len(runs) > 0 {
		q.shrink()
	}
	q.found = emptied(q.found)
	return runs
}

// firstLone is the lane of the group that has the next turn of those whose first run is lone; nil: there is
// none, or it is behind too many that are busy.
func (g *group) firstLone(want *carillon.Demand, served []*share) *lane {
	last := g.last
	for range maxBusy {
		l := g.lone
		if l == nil || !slices.Contains(served, l.share) && (want.Busy == nil || !want.Busy(l.Sharer())) {
			return l
		}
		l.toEnd()
		if l == last {
			break
		}
	}
	return nil
}

// comesBefore says whether the lane has its place before another one.
func (l *lane) comesBefore(o *lane) bool {
	a, b := l.group.band, o.group.band
	switch {
	case a.line != b.line && a.line.time != b.line.time:
		return a.line.time < b.line.time
	case a.line == b.line && a.priority != b.priority:
		return a.priority > b.priority
	case a.line == b.line && a.time != b.time:
		return a.time < b.time
	}
	return byShare.before(l, o)
}

// Has implements carillon.Queue.
func (q *Queue) Has(of carillon.Lane) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.tree.share(of)
	return s != nil && s.n > 0
}

// Freed implements carillon.Queue.
func (q *Queue) Freed(sharers []carillon.Lane) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, of := range sharers {
		if s := q.tree.share(of); s != nil {
			for _, l := range s.lanes {
				q.noteGrown(l.group)
			}
		}
	}
	q.serve()
	q.waiting.Store(int64(len(q.slots)))
}

// share is the share of a lane; nil: it has no runs, and is not remembered.
func (t *tree) share(of carillon.Lane) *share {
	line := t.lines[of.Queue]
	if line == nil {
		return nil
	}
	b := line.level(of.Priority).bands[of.Namespace]
	if b == nil {
		return nil
	}
	name, _ := of.FairShare()
	return b.shares[name]
}

package mem

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/carillon-run/carillon"
)

// QueueConfig says how many due runs are held for workers.
type QueueConfig struct {
	MaxPerLane int // default 100,000
}

// Queue is a first-in-first-out list per lane. Lists are linked through a slab, so a drained lane leaves
// nothing behind. tree.go has the order of the lanes.
//
// A push hands its runs directly to waiting pullers. No puller is woken in vain, and a puller cannot miss a
// run between checking the queue and going to sleep: whenever the lock is free, no puller waits for a lane
// that has a run, except for lone ones (lone.go). So a push offers the waiting pullers only the lanes that it
// added to, however many runs wait in other lanes for a worker that can perform them.
type Queue struct {
	maxPerLane int
	waiting    atomic.Int64

	mu      sync.Mutex
	runs    slab[queued]
	slots   map[carillon.RunID]int32
	peak    int                     // largest len(slots) since the map was made
	lanes   map[carillon.Lane]*lane // those with runs, and idle
	idle    *lane                   // the only lane, without runs: most often the next run is of the same one
	recent  *lane                   // the lane of the run that was pushed last; nil: it is closed
	tree    tree
	pullers []*puller // waiting pullers, longest waiting first
	grown   []*group  // those that got runs since pullers were served
	found   []*group  // those that take chooses from, kept for the next call
	lines   []*line   // of those, while take chooses
}

type queued struct {
	run        carillon.Run
	prev, next int32
}

type puller struct {
	want   carillon.Demand
	runs   []carillon.Run
	copies int // so many of the last runs are still in the queue, see carillon.Demand.Partial
	served chan struct{}
}

const none = -1

// maxCopies bounds how many runs a pull copies: see carillon.Demand.Partial.
const maxCopies = 16

// maxIdle is how many shares the group of an idle lane can have had at once.
const maxIdle = 64

var _ carillon.Queue = (*Queue)(nil)

// NewQueue returns an empty queue.
func NewQueue(cfg QueueConfig) *Queue {
	return &Queue{
		maxPerLane: cmp.Or(cfg.MaxPerLane, 100_000),
		slots:      map[carillon.RunID]int32{},
		lanes:      map[carillon.Lane]*lane{},
		tree:       newTree(),
	}
}

// SetWeights says how many places each queue gets for one of a queue with weight 1, while both have runs that
// are wanted. A queue that is not named has weight 1. It can be called at any time, and is for the places
// that are given from then on. Callers must not modify the map afterwards.
func (q *Queue) SetWeights(weights map[string]int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tree.setWeights(weights)
}

// SetNamespaceWeights says how many places of a queue each namespace gets for one of a namespace with weight
// 1, while both have runs of the same priority that are wanted. Otherwise it is like SetWeights.
func (q *Queue) SetNamespaceWeights(weights map[string]int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tree.setNamespaceWeights(weights)
}

// Len takes no lock if it is asked for all runs.
func (q *Queue) Len(wants ...carillon.Want) (n int) {
	if len(wants) == 0 {
		return int(q.waiting.Load())
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.findAll(&carillon.Demand{Wants: wants})
	for _, g := range q.found {
		n += g.n
	}
	q.found = emptied(q.found)
	return n
}

func (q *Queue) Push(_ context.Context, runs []carillon.Run) (refused []int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for i := range runs {
		if !q.push(&runs[i]) {
			refused = append(refused, i)
		}
	}
	q.serve()
	q.waiting.Store(int64(len(q.slots)))
	return refused, nil
}

func (q *Queue) push(run *carillon.Run) bool {
	if slot, known := q.slots[run.ID]; known {
		old := &q.runs.at(slot).run
		if run.Rev <= old.Rev {
			return true
		}
		if run.Lane() == old.Lane() {
			*old = *run // it keeps its place: a newer revision is no reason to wait longer
			return true
		}
		q.unlink(q.laneOf(old), slot)
	}
	l := q.laneOf(run)
	if !q.hasRoom(l, run) {
		return false
	}
	q.link(l, run, false)
	return true
}

func (q *Queue) hasRoom(l *lane, run *carillon.Run) bool {
	r := room{all: len(q.slots), maxPerLane: q.maxPerLane}
	switch {
	case l != nil:
		r.lane, r.shares = l.n, l.group.n
	case r.all >= 10*q.maxPerLane:
		r.shares = q.tree.waiting(run.Lane())
	}
	return r.left()
}

// laneOf is the lane of a run; nil: it has no runs. Runs of one lane often come together.
func (q *Queue) laneOf(run *carillon.Run) *lane {
	key := run.Lane()
	if q.recent != nil && q.recent.Lane == key {
		return q.recent
	}
	return q.lanes[key]
}

func (q *Queue) Pull(ctx context.Context, want carillon.Demand) ([]carillon.Run, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	q.mu.Lock()
	if runs := q.take(&want); len(runs) > 0 || want.NoWait {
		q.waiting.Store(int64(len(q.slots)))
		q.mu.Unlock()
		return runs, nil
	}
	p := &puller{want: want, served: make(chan struct{})}
	q.pullers = append(q.pullers, p)
	q.mu.Unlock()

	select {
	case <-p.served:
		return p.runs, nil
	case <-ctx.Done():
		q.leave(p)
		return nil, ctx.Err()
	}
}

// leave gives back the runs that a push handed to a puller whose context has just ended.
func (q *Queue) leave(p *puller) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.pullers, p); i >= 0 {
		q.pullers = slices.Delete(q.pullers, i, i+1)
	}
	for i := range slices.Backward(p.runs[:len(p.runs)-p.copies]) {
		q.giveBack(&p.runs[i])
	}
	q.serve()
	q.waiting.Store(int64(len(q.slots)))
}

// serve hands runs of the lanes that have grown to the waiting pullers, longest waiting first. Pullers that
// want only lone runs come later, those that want only spare ones last.
func (q *Queue) serve() {
	for rank := rankAny; rank <= rankSpare; rank++ {
		q.serveThose(rank)
	}
	for _, g := range q.grown {
		g.grew = false
	}
	q.grown = emptied(q.grown)
}

// The ranks of pullers.
const (
	rankAny = iota
	rankLone
	rankSpare
)

func rankOf(want *carillon.Demand) int {
	switch {
	case want.Spare:
		return rankSpare
	case want.Lone:
		return rankLone
	}
	return rankAny
}

func (q *Queue) serveThose(rank int) {
	if len(q.pullers) == 0 {
		return
	}
	q.pullers = slices.DeleteFunc(q.pullers, func(p *puller) bool {
		if len(q.slots) == 0 || rankOf(&p.want) != rank {
			return false
		}
		q.find(q.grown, &p.want)
		p.runs = q.takeFound(&p.want)
		if p.want.Partial {
			taken := len(p.runs)
			p.runs = q.appendUnknown(p.runs, q.grown, &p.want, taken+maxCopies)
			p.copies = len(p.runs) - taken
		}
		if len(p.runs) == 0 {
			return false
		}
		close(p.served)
		return true
	})
}

// take removes up to Max of the runs that are wanted.
func (q *Queue) take(want *carillon.Demand) []carillon.Run {
	q.findAll(want)
	runs := q.takeFound(want)
	if want.Partial {
		most := len(runs) + maxCopies
		for _, line := range q.tree.lines {
			runs = q.appendUnknown(runs, line.groups, want, most)
		}
	}
	return runs
}

// appendUnknown copies the next run of some groups that need labels which the demand does not know of.
func (q *Queue) appendUnknown(
	runs []carillon.Run, groups []*group, want *carillon.Demand, most int,
) []carillon.Run {
	for _, g := range groups {
		if g.n > 0 && len(runs) < most && want.Unknown(g.Lane) {
			runs = append(runs, q.runs.at(g.fair[0].head).run)
		}
	}
	return runs
}

// findAll adds all groups that are wanted to found.
func (q *Queue) findAll(want *carillon.Demand) {
	if len(want.Wants) == 1 && len(want.Wants[0].Queues) > 0 {
		names := want.Wants[0].Queues
		for i, name := range names {
			if line := q.tree.lines[name]; line != nil && !slices.Contains(names[:i], name) {
				q.find(line.groups, want)
			}
		}
	} else {
		for _, line := range q.tree.lines {
			q.find(line.groups, want)
		}
	}
}

// find adds the groups that are wanted, and have runs, to found.
func (q *Queue) find(groups []*group, want *carillon.Demand) {
	for _, g := range groups {
		if g.n > 0 && want.Takes(g.Lane) {
			q.found = append(q.found, g)
		}
	}
}

// emptied is a list without its items, which can be used again. A group that is gone must not stay in memory.
func emptied[T any](list []*T) []*T {
	clear(list)
	return list[:0]
}

// giveBack puts a run back at the front of its lane, even if the lane is full: the run had its place already.
func (q *Queue) giveBack(run *carillon.Run) {
	if _, known := q.slots[run.ID]; known { // pushed again since
		q.push(run)
		return
	}
	q.link(q.laneOf(run), run, true)
}

// link adds a run to its lane. l is nil if the lane does not exist yet.
func (q *Queue) link(l *lane, run *carillon.Run, first bool) {
	slot := q.runs.put(queued{run: *run, prev: none, next: none})
	q.slots[run.ID] = slot
	q.peak = max(q.peak, len(q.slots))
	switch {
	case l == nil:
		if q.idle != nil {
			q.close(q.idle)
		}
		l = &lane{Lane: run.Lane(), head: slot, tail: slot, wake: run.Wake}
		q.lanes[l.Lane] = l
		q.tree.open(l)
	case l.n == 0:
		l.head, l.tail, l.wake = slot, slot, run.Wake
	case first:
		q.runs.at(slot).next, q.runs.at(l.head).prev = l.head, slot
		l.head = slot
		q.headed(l)
	default:
		q.runs.at(slot).prev, q.runs.at(l.tail).next = l.tail, slot
		l.tail = slot
	}
	q.idle, q.recent = nil, l
	l.count(1)
	q.noteGrown(l.group)
}

// noteGrown lets serve offer a group to the waiting pullers.
func (q *Queue) noteGrown(g *group) {
	if !g.grew {
		g.grew = true
		q.grown = append(q.grown, g)
	}
}

// unlink takes a run out of its lane. With its last run the lane leaves the queue, unless it is the only one.
func (q *Queue) unlink(l *lane, slot int32) carillon.Run {
	v := q.runs.take(slot)
	delete(q.slots, v.run.ID)
	if v.next != none {
		q.runs.at(v.next).prev = v.prev
	} else {
		l.tail = v.prev
	}
	l.count(-1)
	switch {
	case l.n == 0 && len(q.lanes) == 1 && cap(l.group.fair) <= maxIdle: // else it keeps the memory of a burst
		q.idle = l
	case l.n == 0:
		q.close(l)
	case v.prev == none:
		l.head = v.next
		q.headed(l)
	default:
		q.runs.at(v.prev).next = v.next
	}
	return v.run
}

func (q *Queue) close(l *lane) {
	if delete(q.lanes, l.Lane); q.recent == l {
		q.recent = nil
	}
	q.tree.close(l)
}

// headed notes that a lane has another first run.
func (q *Queue) headed(l *lane) {
	l.wake = q.runs.at(l.head).run.Wake
	l.group.moved(l)
}

// shrink gives memory back after a burst: maps never do that by themselves.
func (q *Queue) shrink() {
	if len(q.slots) == 0 {
		q.runs.reset()
	}
	if q.peak <= keptRoom || len(q.slots) > q.peak/4 {
		return
	}
	slots, lanes := make(map[carillon.RunID]int32, len(q.slots)), make(map[carillon.Lane]*lane, len(q.lanes))
	maps.Copy(slots, q.slots)
	maps.Copy(lanes, q.lanes)
	q.slots, q.lanes, q.peak = slots, lanes, len(slots)
}

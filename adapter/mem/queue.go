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
// nothing behind.
//
// A push hands its runs directly to waiting pullers. No puller is woken in vain, and a puller cannot miss a
// run between checking the queue and going to sleep: whenever the lock is free, no puller waits for a lane
// that has a run. So a push offers the waiting pullers only the lanes that it added to, however many runs
// wait in other lanes for a worker that can perform them.
type Queue struct {
	maxPerLane int
	waiting    atomic.Int64

	mu      sync.Mutex
	runs    slab[queued]
	slots   map[carillon.RunID]int32
	peak    int                     // largest len(slots) since the map was made
	lanes   map[carillon.Lane]*lane // only lanes with runs
	queues  map[string][]*lane      // the same
	pullers []*puller               // waiting pullers, longest waiting first
	turn    int64
	grown   []*lane // the lanes that got runs since pullers were served
	found   []*lane // the lanes that take chooses from, kept for the next call
	aged    []*lane // the same lanes, by age
}

type queued struct {
	run        carillon.Run
	prev, next int32
}

// lane is a list of runs. It is never empty, so head and tail are always valid.
type lane struct {
	carillon.Lane
	head, tail int32
	n          int
	wake       carillon.Time // of its first run, while take chooses
	at         [2]int        // its places in found and aged, while take chooses
	passed     int           // places that others got while this one had waited longest
	served     int64         // the value of Queue.turn when take last chose it
	grew       bool          // it is in grown
}

type puller struct {
	want   carillon.Demand
	runs   []carillon.Run
	served chan struct{}
}

const none = -1

var _ carillon.Queue = (*Queue)(nil)

// NewQueue returns an empty queue.
func NewQueue(cfg QueueConfig) *Queue {
	return &Queue{
		maxPerLane: cmp.Or(cfg.MaxPerLane, 100_000),
		slots:      map[carillon.RunID]int32{},
		lanes:      map[carillon.Lane]*lane{},
		queues:     map[string][]*lane{},
	}
}

// Len takes no lock if it is asked for all runs.
func (q *Queue) Len(wants ...carillon.Want) (n int) {
	if len(wants) == 0 {
		return int(q.waiting.Load())
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.findAll(&carillon.Demand{Wants: wants})
	for _, l := range q.found {
		n += l.n
	}
	clear(q.found)
	q.found = q.found[:0]
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
		q.unlink(q.lanes[old.Lane()], slot)
	}
	l := q.lanes[run.Lane()]
	if l != nil && !hasRoom(l.n, len(q.slots), q.maxPerLane) {
		return false
	}
	q.link(l, run, false)
	return true
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
	for i := range slices.Backward(p.runs) {
		q.giveBack(&p.runs[i])
	}
	q.serve()
	q.waiting.Store(int64(len(q.slots)))
}

// serve hands runs of the lanes that have grown to the waiting pullers, longest waiting first. Pullers that
// want only spare runs come last.
func (q *Queue) serve() {
	q.serveThose(false)
	q.serveThose(true)
	for _, l := range q.grown {
		l.grew = false
	}
	clear(q.grown) // or a closed lane would stay in memory
	q.grown = q.grown[:0]
}

func (q *Queue) serveThose(spare bool) {
	if len(q.pullers) == 0 {
		return
	}
	q.pullers = slices.DeleteFunc(q.pullers, func(p *puller) bool {
		if len(q.slots) == 0 || p.want.Spare != spare {
			return false
		}
		q.find(q.grown, &p.want)
		p.runs = q.takeFound(p.want.Max)
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
	return q.takeFound(want.Max)
}

// findAll adds all lanes that are wanted to found.
func (q *Queue) findAll(want *carillon.Demand) {
	if len(want.Wants) == 1 && len(want.Wants[0].Queues) > 0 {
		names := want.Wants[0].Queues
		for i, name := range names {
			if !slices.Contains(names[:i], name) {
				q.find(q.queues[name], want)
			}
		}
	} else {
		for _, lanes := range q.queues {
			q.find(lanes, want)
		}
	}
}

// find adds the lanes that are wanted, and have runs, to found.
func (q *Queue) find(lanes []*lane, want *carillon.Demand) {
	for _, l := range lanes {
		if l.n > 0 && want.Takes(l.Lane) {
			q.found = append(q.found, l)
		}
	}
}

// giveBack puts a run back at the front of its lane, even if the lane is full: the run had its place already.
func (q *Queue) giveBack(run *carillon.Run) {
	if _, known := q.slots[run.ID]; known { // pushed again since
		q.push(run)
		return
	}
	q.link(q.lanes[run.Lane()], run, true)
}

// link adds a run to its lane. l is nil if the lane does not exist yet.
func (q *Queue) link(l *lane, run *carillon.Run, first bool) {
	slot := q.runs.put(queued{run: *run, prev: none, next: none})
	q.slots[run.ID] = slot
	q.peak = max(q.peak, len(q.slots))
	if l == nil {
		l = &lane{Lane: run.Lane(), head: slot, tail: slot}
		q.lanes[l.Lane] = l
		q.queues[l.Queue] = append(q.queues[l.Queue], l)
	} else if first {
		q.runs.at(slot).next, q.runs.at(l.head).prev = l.head, slot
		l.head = slot
	} else {
		q.runs.at(slot).prev, q.runs.at(l.tail).next = l.tail, slot
		l.tail = slot
	}
	l.n++
	if !l.grew {
		l.grew = true
		q.grown = append(q.grown, l)
	}
}

// unlink takes a run out of its lane. With its last run the lane leaves the queue.
func (q *Queue) unlink(l *lane, slot int32) carillon.Run {
	v := q.runs.take(slot)
	delete(q.slots, v.run.ID)
	if v.prev != none {
		q.runs.at(v.prev).next = v.next
	} else {
		l.head = v.next
	}
	if v.next != none {
		q.runs.at(v.next).prev = v.prev
	} else {
		l.tail = v.prev
	}
	l.n--
	if l.n == 0 {
		q.close(l)
	}
	return v.run
}

func (q *Queue) close(l *lane) {
	delete(q.lanes, l.Lane)
	lanes := slices.DeleteFunc(q.queues[l.Queue], func(other *lane) bool { return other == l })
	if len(lanes) == 0 {
		delete(q.queues, l.Queue)
		return
	}
	q.queues[l.Queue] = lanes
}

// shrink gives memory back after a burst: maps never do that by themselves.
func (q *Queue) shrink() {
	if len(q.slots) == 0 {
		q.runs.reset()
	}
	if q.peak <= keptRoom || len(q.slots) > q.peak/4 {
		return
	}
	slots := make(map[carillon.RunID]int32, len(q.slots))
	maps.Copy(slots, q.slots)
	q.slots, q.peak = slots, len(slots)
}

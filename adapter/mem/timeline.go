package mem

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/carillon-run/carillon"
)

// TimelineConfig says how many runs of the near future the timeline holds.
type TimelineConfig struct {
	MaxPerLane int // default 100,000; see room
}

// Timeline is a min-heap of runs by WakePos. The runs stay in place in a slab; the heap moves only their
// keys.
type Timeline struct {
	maxPerLane int

	mu     sync.Mutex
	runs   slab[carillon.Run]
	slots  map[carillon.RunID]int32
	lanes  map[carillon.Lane]int
	shares map[carillon.Lane]int // of the lanes with a share, by the lane without it
	heap   []wake
	place  []int32 // by slot: its index in the heap
	due    []int32 // the slots that Due takes out, kept for the next call
}

// wake is an entry of the heap: the key to compare and the slot of the run, so that ordering does not touch
// the runs.
type wake struct {
	pos  carillon.WakePos
	slot int32
}

// NewTimeline returns an empty timeline.
func NewTimeline(cfg TimelineConfig) *Timeline {
	return &Timeline{
		maxPerLane: cmp.Or(cfg.MaxPerLane, 100_000),
		slots:      map[carillon.RunID]int32{},
		lanes:      map[carillon.Lane]int{},
		shares:     map[carillon.Lane]int{},
	}
}

func (t *Timeline) Add(_ context.Context, runs []carillon.Run) (refused []int, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range runs {
		if !t.add(&runs[i]) {
			refused = append(refused, i)
		}
	}
	return refused, nil
}

func (t *Timeline) add(run *carillon.Run) bool {
	slot, known := t.slots[run.ID]
	if known {
		old := t.runs.at(slot)
		if run.Rev <= old.Rev {
			return true
		}
		if run.Lane() == old.Lane() {
			*old = *run
			t.move(int(t.place[slot]), wake{run.WakePos(), slot})
			return true
		}
		// The run changes lanes. If the new lane is full, the old value is still wrong: better to hold none.
		t.drop(slot)
	}
	lane := run.Lane()
	n := t.lanes[lane]
	r := room{lane: n, shares: n, all: len(t.heap), maxPerLane: t.maxPerLane}
	if lane.Share != "" {
		r.shares = t.shares[lane.WithoutShare()]
	}
	if !r.left() {
		return false
	}
	t.lanes[lane] = n + 1
	if lane.Share != "" {
		t.shares[lane.WithoutShare()]++
	}
	slot = t.runs.put(*run)
	t.slots[run.ID] = slot
	for int(slot) >= len(t.place) {
		t.place = append(t.place, 0)
	}
	t.heap = append(t.heap, wake{})
	t.up(len(t.heap)-1, wake{run.WakePos(), slot})
	return true
}

func (t *Timeline) Due(_ context.Context, now carillon.Time, shards []int, limit int) (
	runs []carillon.Run, next carillon.Time, err error,
) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if shards != nil {
		runs, next = t.dueOf(now, shards, limit)
		return runs, next, nil
	}
	t.due = t.due[:0]
	for len(t.due) < limit && len(t.heap) > 0 && t.heap[0].pos.Wake <= now {
		t.due = append(t.due, t.heap[0].slot)
		t.unheap(0)
	}
	if len(t.due) > 0 {
		runs = make([]carillon.Run, len(t.due))
		for i, slot := range t.due {
			runs[i] = t.forget(slot)
		}
		t.shrink()
	}
	if len(t.heap) > 0 {
		next = t.heap[0].pos.Wake
	}
	return runs, next, nil
}

// dueOf is Due for some shards. It looks at all runs: the heap is made for a node that asks for all shards.
func (t *Timeline) dueOf(
	now carillon.Time, shards []int, limit int,
) (runs []carillon.Run, next carillon.Time) {
	var wanted []wake
	for _, w := range t.heap {
		if slices.Contains(shards, w.pos.ID.Job.Shard()) {
			wanted = append(wanted, w)
		}
	}
	slices.SortFunc(wanted, func(a, b wake) int {
		if a.pos.Less(b.pos) {
			return -1
		}
		return 1 // no two are equal
	})
	for _, w := range wanted {
		if w.pos.Wake > now || len(runs) == limit {
			next = w.pos.Wake
			break
		}
		runs = append(runs, t.drop(w.slot))
	}
	t.shrink()
	return runs, next
}

// Len says how many runs are held.
func (t *Timeline) Len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.heap)
}

func (t *Timeline) drop(slot int32) carillon.Run {
	t.unheap(int(t.place[slot]))
	return t.forget(slot)
}

// forget removes a run that has left the heap from everything else.
func (t *Timeline) forget(slot int32) carillon.Run {
	run := t.runs.take(slot)
	delete(t.slots, run.ID)
	lane := run.Lane()
	if n := t.lanes[lane]; n > 1 {
		t.lanes[lane] = n - 1
	} else {
		delete(t.lanes, lane) // users name queues: a name must not stay for ever
	}
	if lane.Share != "" {
		if all := lane.WithoutShare(); t.shares[all] > 1 {
			t.shares[all]--
		} else {
			delete(t.shares, all)
		}
	}
	return run
}

// keptRoom is how many entries can stay allocated while unused.
const keptRoom = 4096

// shrink gives memory back after a burst: maps never do that by themselves. It halves the memory when a
// quarter is in use, so the adds that must have come before pay for each copy.
func (t *Timeline) shrink() {
	if cap(t.heap) <= keptRoom || len(t.heap) > cap(t.heap)/4 {
		return
	}
	t.heap = append(make([]wake, 0, max(2*len(t.heap), keptRoom/2)), t.heap...)
	slots := make(map[carillon.RunID]int32, len(t.heap))
	for _, w := range t.heap {
		slots[w.pos.ID] = w.slot
	}
	lanes := make(map[carillon.Lane]int, len(t.lanes))
	maps.Copy(lanes, t.lanes)
	t.slots, t.lanes = slots, lanes
	if cap(t.due) > keptRoom {
		t.due = nil
	}
	if len(t.heap) == 0 {
		t.runs.reset()
		t.place = nil
	}
}

// The heap has four children per node: a move writes to half as many levels as with two, and the children
// share two cache lines.
const children = 4

// unheap removes the entry at i.
func (t *Timeline) unheap(i int) {
	last := len(t.heap) - 1
	w := t.heap[last]
	t.heap = t.heap[:last]
	if i < last {
		t.move(i, w)
	}
}

// move puts w where it belongs, starting from the hole at i.
func (t *Timeline) move(i int, w wake) {
	if i > 0 && w.pos.Less(t.heap[(i-1)/children].pos) {
		t.up(i, w)
		return
	}
	t.down(i, w)
}

func (t *Timeline) up(i int, w wake) {
	for i > 0 {
		parent := (i - 1) / children
		if !w.pos.Less(t.heap[parent].pos) {
			break
		}
		t.set(i, t.heap[parent])
		i = parent
	}
	t.set(i, w)
}

func (t *Timeline) down(i int, w wake) {
	for {
		first := i*children + 1
		if first >= len(t.heap) {
			break
		}
		least := first
		for c := first + 1; c < min(first+children, len(t.heap)); c++ {
			if t.heap[c].pos.Less(t.heap[least].pos) {
				least = c
			}
		}
		if !t.heap[least].pos.Less(w.pos) {
			break
		}
		t.set(i, t.heap[least])
		i = least
	}
	t.set(i, w)
}

func (t *Timeline) set(i int, w wake) {
	t.heap[i] = w
	t.place[w.slot] = int32(i)
}

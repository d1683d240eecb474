package dispatch

import (
	"time"

	"github.com/carillon-run/carillon"
)

// inflight is a run in flight from this node, as last committed: with it the dispatcher decides about an end
// without a read.
type inflight struct {
	run    carillon.Run
	job    *carillon.Job
	guards carillon.Guards // of a guarded run, as last heard
	// since is when this node last handed it over or read it, by the monotonic clock: the time of the claim
	// can be set.
	since time.Time

	// pending: the commit of the claim, or the pull that asked for it, is under way. The worker cannot list
	// the run yet. Before the commit, run is the state that the commit writes.
	pending   bool
	committed bool

	before, after *inflight // its neighbours in the list of its worker
}

// inflightTable holds the runs in flight from this node, by run and by worker. It is only a memory: where an
// entry is missing or old, the dispatcher asks the store. The caller holds the dispatcher's mu.
type inflightTable struct {
	runs      map[carillon.RunID]*inflight
	of        map[string]*inflight // the first entry of each worker that has any
	performed *performed
}

func newInflightTable() inflightTable {
	return inflightTable{
		runs: map[carillon.RunID]*inflight{}, of: map[string]*inflight{}, performed: newPerformed(),
	}
}

func (m *inflightTable) put(h *inflight) {
	if old := m.runs[h.run.ID]; old != nil {
		m.drop(old)
	}
	m.runs[h.run.ID] = h
	m.performed.begin(&h.run)
	h.since = time.Now()
	first := m.of[h.run.Worker]
	h.before, h.after = nil, first
	if first != nil {
		first.before = h
	}
	m.of[h.run.Worker] = h
}

func (m *inflightTable) drop(h *inflight) {
	delete(m.runs, h.run.ID)
	m.performed.end(h.run.ID)
	m.unlink(h)
	h.release()
}

// release drops references that the rest of the batch would keep in memory.
func (h *inflight) release() { h.job, h.guards = nil, nil }

func (m *inflightTable) unlink(h *inflight) {
	switch {
	case h.before != nil:
		h.before.after = h.after
	case h.after != nil:
		m.of[h.run.Worker] = h.after
	default:
		delete(m.of, h.run.Worker)
	}
	if h.after != nil {
		h.after.before = h.before
	}
	h.before, h.after = nil, nil
}

func (m *inflightTable) dropAll(worker string) {
	for h := m.of[worker]; h != nil; h = h.after {
		delete(m.runs, h.run.ID)
		m.performed.end(h.run.ID)
		h.release()
	}
	delete(m.of, worker)
}

// session is what a dispatcher remembers of a worker's session.
type session struct {
	seen     time.Time // when its session was last known to be alive
	holds    map[carillon.Held]bool
	mark     mark
	stopping bool // the worker pulls no more runs
	over     bool // it has ended
}

// mark is when the latest beat of a worker came here. A beat that has heard of it, or of a later one, was
// sent after this time.
type mark struct {
	number int64
	came   time.Time
}

// sentAfter is a time after which the worker sent the beat, zero if none is known. It also remembers when the
// beat came. The caller holds the dispatcher's mu.
func (v *session) sentAfter(b carillon.Beat, came time.Time) (after time.Time) {
	if b.Heard >= v.mark.number {
		after = v.mark.came
	}
	if b.Number > v.mark.number {
		v.mark = mark{b.Number, came}
	}
	return after
}

// EndPulls implements scheduler.Pulls.
func (d *Dispatcher) EndPulls(workers []string) {
	for _, worker := range workers {
		d.forget(worker)
	}
}

// forget drops all that is remembered of a worker whose session is over, and ends its pulls: a run that they
// claim would be taken back at once.
func (d *Dispatcher) forget(worker string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v := d.workers[worker]; v != nil {
		v.over = true
		delete(d.workers, worker)
	}
	d.inflight.dropAll(worker)
	d.reservations.end(worker)
	d.tellFreed()
}

// touch notes that a worker's session is alive. It drops workers that were silent for long: they are gone, or
// use another node.
func (d *Dispatcher) touch(worker string) *session {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Sub(d.pruned) > carillon.SessionTime {
		d.pruned = now
		for id, v := range d.workers {
			if now.Sub(v.seen) > 2*carillon.SessionTime {
				delete(d.workers, id)
			}
		}
		for id := range d.inflight.of {
			if d.workers[id] == nil {
				d.inflight.dropAll(id)
			}
		}
	}
	v := d.workers[worker]
	if v == nil {
		v = &session{}
		d.workers[worker] = v
	}
	v.seen = now
	return v
}

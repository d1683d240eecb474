package desk

import (
	"time"

	"github.com/carillon-run/carillon"
)

// handed is a run that was given out here, as last committed: with it an end can be decided without a read.
type handed struct {
	run   carillon.Run
	job   *carillon.Job
	guard *carillon.Guard
	since time.Time // when this desk began to give it, by the monotonic clock: the time of the claim can be set

	// giving: its commit, or the pull that asked for it, is under way. Until then run is what it will be.
	giving    bool
	committed bool
	waiter    *waiter // who has promised room to a job that is being submitted, and gets it; nil: it was pulled

	before, after *handed // in the list of its worker
}

// memory is what was given out here, to whom. It is nothing but that: where something is missing or old, the store is
// asked. The caller holds the desk's mu.
type memory struct {
	runs map[carillon.RunID]*handed
	of   map[string]*handed // the first of each worker that has any
}

func newMemory() memory {
	return memory{runs: map[carillon.RunID]*handed{}, of: map[string]*handed{}}
}

func (m *memory) put(h *handed) {
	if old := m.runs[h.run.ID]; old != nil {
		m.drop(old)
	}
	m.runs[h.run.ID] = h
	h.since = time.Now()
	first := m.of[h.run.Worker]
	h.before, h.after = nil, first
	if first != nil {
		first.before = h
	}
	m.of[h.run.Worker] = h
}

func (m *memory) drop(h *handed) {
	delete(m.runs, h.run.ID)
	m.unlink(h)
	h.letGo()
}

// letGo takes back the promise that was made for a run, if it still is one, and lets go of what others of its batch would keep
// in memory.
func (h *handed) letGo() {
	if w := h.waiter; w != nil {
		h.waiter = nil
		w.room++
		w.promised.Done()
	}
	h.job, h.guard = nil, nil
}

func (m *memory) unlink(h *handed) {
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

func (m *memory) dropAll(worker string) {
	for h := m.of[worker]; h != nil; h = h.after {
		delete(m.runs, h.run.ID)
		h.letGo()
	}
	delete(m.of, worker)
}

// visitor is what a desk remembers of a worker.
type visitor struct {
	seen  time.Time // when its session was last known to be alive
	holds map[carillon.Held]bool
	stops bool // it asks for nothing more
}

// forget drops what is remembered of a worker that is gone.
func (d *Desk) forget(worker string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.workers, worker)
	d.handed.dropAll(worker)
}

// alive notes that a worker's session is. Those that were not heard of for long are gone, or went to another desk.
func (d *Desk) alive(worker string) *visitor {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	if now.Sub(d.pruned) > carillon.SessionTime {
		d.pruned = now
		for id, v := range d.workers {
			if now.Sub(v.seen) > 2*carillon.SessionTime {
				delete(d.workers, id)
				d.handed.dropAll(id)
			}
		}
	}
	v := d.workers[worker]
	if v == nil {
		v = &visitor{}
		d.workers[worker] = v
	}
	v.seen = now
	return v
}

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
}

// memory is what was given out here, to whom. It is nothing but that: where something is missing or old, the store is
// asked. The caller holds the desk's mu.
type memory struct {
	runs map[carillon.RunID]*handed
	of   map[string]map[carillon.RunID]*handed // by worker
}

func newMemory() memory {
	return memory{runs: map[carillon.RunID]*handed{}, of: map[string]map[carillon.RunID]*handed{}}
}

func (m *memory) put(h *handed) {
	m.drop(h.run.ID)
	m.runs[h.run.ID] = h
	if m.of[h.run.Worker] == nil {
		m.of[h.run.Worker] = map[carillon.RunID]*handed{}
	}
	m.of[h.run.Worker][h.run.ID] = h
}

func (m *memory) drop(id carillon.RunID) {
	h := m.runs[id]
	if h == nil {
		return
	}
	delete(m.runs, id)
	delete(m.of[h.run.Worker], id)
	if len(m.of[h.run.Worker]) == 0 {
		delete(m.of, h.run.Worker)
	}
}

func (m *memory) dropAll(worker string) {
	for id := range m.of[worker] {
		delete(m.runs, id)
	}
	delete(m.of, worker)
}

// visitor is what a desk remembers of a worker.
type visitor struct {
	seen  time.Time // when its session was last known to be alive
	holds map[carillon.Held]bool
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

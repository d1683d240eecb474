package dispatch

import (
	"sync"
	"sync/atomic"

	"github.com/carillon-run/carillon"
)

// performed knows of which lanes each worker performs runs, as far as this node gave them to it. It is for
// slots that workers keep: they are not for a lane of which the worker performs a run already. Until the
// first worker asks for such a slot, nothing is counted. It is called under other locks, and calls nothing.
type performed struct {
	on atomic.Bool

	mu   sync.Mutex
	lane map[carillon.RunID]workerLane
	runs map[workerLane]int
	idle []workerLane // those that have no run any more, since takeIdle
}

type workerLane struct {
	worker string
	carillon.Lane
}

func newPerformed() *performed {
	return &performed{lane: map[carillon.RunID]workerLane{}, runs: map[workerLane]int{}}
}

// begin notes that a worker has got a run.
func (p *performed) begin(run *carillon.Run) {
	if !p.on.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(run.ID)
	of := workerLane{run.Worker, run.Lane()}
	p.lane[run.ID] = of
	p.runs[of]++
}

// end notes that this node no longer knows of the run.
func (p *performed) end(id carillon.RunID) {
	if !p.on.Load() {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.remove(id)
}

// remove takes a run out of the count. The caller holds mu.
func (p *performed) remove(id carillon.RunID) {
	of, known := p.lane[id]
	if !known {
		return
	}
	delete(p.lane, id)
	if p.runs[of]--; p.runs[of] == 0 {
		delete(p.runs, of)
		p.idle = append(p.idle, of)
	}
}

// takeIdle returns the lanes of which workers performed the last run since it was called before.
func (p *performed) takeIdle() (idle []workerLane) {
	if !p.on.Load() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	idle, p.idle = p.idle, nil
	return idle
}

// any says whether a worker performs runs of a lane.
func (p *performed) any(worker string, lane carillon.Lane) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs[workerLane{worker, lane}] > 0
}

// lookAgain lets pulls for kept slots look again for runs of lanes that their workers performed until now.
// The caller holds mu.
func (d *Dispatcher) lookAgain() {
	for _, of := range d.inflight.performed.takeIdle() {
		d.reservations.lookAgain(of)
	}
}

// countPerformed begins to count, when the first worker asks for a slot that it keeps.
func (d *Dispatcher) countPerformed() {
	if d.inflight.performed.on.Load() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inflight.performed.on.Store(true)
	for _, h := range d.inflight.runs {
		d.inflight.performed.begin(&h.run)
	}
}

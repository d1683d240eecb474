package dispatch

import (
	"sync"
	"sync/atomic"

	"github.com/carillon-run/carillon"
)

// performed knows of which sharers (carillon.Lane) the workers of this node perform runs, as far as this node
// gave them to them. It is for slots that workers keep: they are not for a sharer of which a run is performed
// already. Until the first worker asks for such a slot, nothing is counted. It is called under other locks,
// and calls nothing.
type performed struct {
	on atomic.Bool

	mu    sync.Mutex
	of    map[carillon.RunID]carillon.Lane
	runs  map[carillon.Lane]int
	freed []carillon.Lane // those that have no run any more, since takeFreed
}

func newPerformed() *performed {
	return &performed{of: map[carillon.RunID]carillon.Lane{}, runs: map[carillon.Lane]int{}}
}

// begin notes that a worker has got a run.
func (p *performed) begin(run *carillon.Run) {
	if !p.on.Load() {
		return
	}
	sharer := run.Lane().Sharer()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.add(sharer, 1) // first, so that a run that is here already frees nothing
	p.remove(run.ID)
	p.of[run.ID] = sharer
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

// come notes that runs are on their way to kept slots, or with -1 that they are not any more: then they have
// begun, or will not.
func (p *performed) come(runs []carillon.Run, sign int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range runs {
		p.add(runs[i].Lane().Sharer(), sign)
	}
}

// remove takes a run out of the count. The caller holds mu.
func (p *performed) remove(id carillon.RunID) {
	if sharer, known := p.of[id]; known {
		delete(p.of, id)
		p.add(sharer, -1)
	}
}

// add counts runs of a sharer. The caller holds mu.
func (p *performed) add(sharer carillon.Lane, n int) {
	if p.runs[sharer] += n; p.runs[sharer] == 0 {
		delete(p.runs, sharer)
		p.freed = append(p.freed, sharer)
	}
}

// takeFreed returns the sharers of which the last run has ended since it was called before.
func (p *performed) takeFreed() (freed []carillon.Lane) {
	if !p.on.Load() {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	freed, p.freed = p.freed, nil
	return freed
}

// any says whether runs of a sharer are performed.
func (p *performed) any(sharer carillon.Lane) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.runs[sharer] > 0
}

// tellFreed lets pulls for kept slots look again for runs of sharers that were performed until now. The
// caller may hold mu.
func (d *Dispatcher) tellFreed() {
	if freed := d.inflight.performed.takeFreed(); len(freed) > 0 {
		d.cfg.Queue.Freed(freed)
	}
}

// countPerformed begins to count, when the first worker asks for a slot that it keeps.
func (d *Dispatcher) countPerformed() {
	if d.inflight.performed.on.Load() {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inflight.performed.on.Swap(true) {
		return
	}
	for _, h := range d.inflight.runs {
		d.inflight.performed.begin(&h.run)
	}
}

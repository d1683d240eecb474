package dispatch

import (
	"github.com/carillon-run/carillon"
)

// Reserve promises room of a waiting pull to a run that is about to be submitted, unless older due runs wait
// for it. When Notice hears of the commit, the run goes to that pull, so nothing has to be handed over
// afterwards.
func (d *Dispatcher) Reserve(
	run *carillon.Run, job *carillon.Job, now carillon.Time,
) (worker string, ok bool) {
	if d.cfg.Queue.Len() > 0 || d.inHand.Load() > 0 {
		return "", false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.waiting {
		if w.takes(run) {
			w.room--
			w.promised.Add(1)
			d.inflight.put(&inflight{run: run.Claim(w.worker, now), job: job, pending: true, waiter: w})
			return w.worker, true
		}
	}
	return "", false
}

// takes says that the pull wants the run and has room for it. The caller holds the dispatcher's mu.
func (w *waiter) takes(run *carillon.Run) bool {
	return w.room > 0 && w.want.Takes(run.Lane())
}

// Waits says for each run whether a pull waits that has room for it beside the runs before it, and beside the
// runs in the queue.
func (d *Dispatcher) Waits(runs []carillon.Run) []bool {
	waits := make([]bool, len(runs))
	if d.cfg.Queue.Len() > 0 || d.inHand.Load() > 0 {
		return waits
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	given := make([]int, len(d.waiting)) // room of each pull that the runs before have taken
	for i := range runs {
		for k, w := range d.waiting {
			if w.takes(&runs[i]) && given[k] < w.room {
				given[k]++
				waits[i] = true
				break
			}
		}
	}
	return waits
}

// Starting says that due runs wait and that some are on their way to a worker.
func (d *Dispatcher) Starting() bool { return d.inHand.Load() > 0 && d.cfg.Queue.Len() > 0 }

// Release takes back promises whose runs were not committed.
func (d *Dispatcher) Release(ids []carillon.RunID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		if h := d.inflight.runs[id]; h != nil && h.waiter != nil {
			d.inflight.drop(h)
		}
	}
}

// deliver gives a waiting pull a run that was submitted already claimed, and ends its wait.
func (w *waiter) deliver(task carillon.Task) {
	w.mu.Lock()
	w.tasks = append(w.tasks, task)
	w.mu.Unlock()
	w.awaken()
	w.promised.Done()
}

package desk

import (
	"slices"

	"github.com/carillon-run/carillon"
)

// Reserve promises room of a pull that waits to a run that is about to be submitted, unless older due runs wait for it.
// When the commit is noticed the run goes to that pull, so nothing has to be handed over afterwards.
func (d *Desk) Reserve(run *carillon.Run) (worker string, ok bool) {
	if d.cfg.Waiting() > 0 || d.inHand.Load() > 0 {
		return "", false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.waiting {
		if w.room > 0 && (len(w.queues) == 0 || slices.Contains(w.queues, run.Queue)) {
			w.room--
			w.promised.Add(1)
			d.reserved[run.ID] = w
			return w.worker, true
		}
	}
	return "", false
}

// Release takes promises back whose runs were not committed.
func (d *Desk) Release(ids []carillon.RunID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		if w := d.reserved[id]; w != nil {
			delete(d.reserved, id)
			w.room++
			w.promised.Done()
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

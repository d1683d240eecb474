package worker

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-run/carillon"
)

// pullLoops is more than one so that the next runs are asked for while the claims of others are being committed.
const pullLoops = 4

// pull asks for as many runs as there are free slots. No more: what a worker has in hand no other worker can take, and no
// priority can overtake.
func (w *Worker) pull(ctx context.Context) {
	for ctx.Err() == nil {
		if !w.ends.caughtUp(ctx) {
			return
		}
		if w.cfg.Clock() > w.lease.Until() { // what came now would have to be handed back
			sleep(ctx, tendEvery)
			continue
		}
		n := w.slots.take(ctx)
		if n == 0 {
			return
		}
		sent := w.cfg.Clock()
		id := w.ID()
		tasks, err := w.cfg.Desk.Pull(ctx, carillon.Pull{Worker: id, Queues: w.cfg.Queues, Max: n})
		tasks = tasks[:min(n, len(tasks))] // no desk gives more
		w.slots.release(n - len(tasks))
		late := w.late(sent)
		if ctx.Err() != nil {
			late = "the worker is stopping"
		}
		if late == "" && len(tasks) > 0 && !w.begin(tasks, id, sent) {
			late = "it was claimed for a session that is over"
		}
		if late != "" {
			for i := range tasks {
				w.handBack(tasks[i], late)
			}
		}
		if err != nil && ctx.Err() == nil {
			w.silent("ask for runs", err)
		}
		if err != nil || late != "" {
			sleep(ctx, tendEvery)
		}
	}
}

// late says why what came with an answer must not begin: by now it may be somebody else's.
func (w *Worker) late(sent time.Duration) string {
	switch now := w.cfg.Clock(); {
	case now-sent > carillon.PullLate && !w.cfg.Inside:
		return "the answer to the worker's pull came too late"
	case now > w.lease.Until():
		return "the worker's lease was over"
	}
	return ""
}

// handBack returns a run that was not begun.
func (w *Worker) handBack(task carillon.Task, why string) {
	a := &attempt{w: w, Task: task, finishing: true, over: true, outcome: carillon.Outcome{Kind: carillon.Lost, Reason: why}}
	w.mu.Lock()
	if w.held[task.Run.ID] == nil {
		w.held[task.Run.ID] = a
	}
	w.mu.Unlock()
	w.slots.release(1)
	w.ends.add(a)
}

// sayEvery is how often a worker that no server answers says so again.
const sayEvery = time.Minute

// silent says that the desk does not answer, and again every minute; whatever works next says that it does again. The error
// names the servers that were tried.
func (w *Worker) silent(what string, err error) {
	if errors.Is(err, carillon.ErrLost) {
		return // the next beat hears of it and opens a new session
	}
	now := w.cfg.Clock()
	last := w.said.Load()
	due := !w.away.Swap(true) || now-time.Duration(last) >= sayEvery
	if due && w.said.CompareAndSwap(last, int64(now)) {
		w.cfg.Logger.Error("the control node does not answer: trying again", "while", what, "error", err)
	}
}

func (w *Worker) answered() {
	if w.away.Swap(false) && !w.cfg.Inside { // a node says itself that its store works again
		w.cfg.Logger.Info("the control node answers again")
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

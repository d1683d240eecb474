package worker

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
	"github.com/carillon-run/carillon/internal/failpoint"
	"github.com/carillon-run/carillon/worker/protocol"
)

// pullLoops is more than one so that the worker asks for the next runs while nodes commit the claims of
// others.
const pullLoops = 4

// pull asks for as many runs as there are free slots. It asks for no more: another worker cannot take a run
// that this worker holds, and a run of higher priority cannot overtake it.
func (w *Worker) pull(ctx context.Context) {
	for ctx.Err() == nil {
		if w.cfg.Boottime() > w.lease.Until() { // the worker would have to hand back a run that came now
			await.For(ctx, tendEvery)
			continue
		}
		want, any := w.want()
		if !any { // the application may register a handler later
			await.For(ctx, tendEvery)
			continue
		}
		asks := w.slots.take(ctx)
		if asks.n == 0 {
			return
		}
		sent := w.cfg.Boottime()
		id := w.ID()
		tasks, err := w.cfg.Dispatcher.Pull(ctx, protocol.Pull{
			Worker: id, Want: want, Max: asks.n, Lone: asks.lone,
		})
		tasks = tasks[:min(asks.n, len(tasks))] // no dispatcher returns more
		if len(tasks) > 0 {
			failpoint.At("pull.after")
		}
		bytes := 0
		for i := range tasks {
			bytes += weigh(&tasks[i])
		}
		w.slots.answered(asks, len(tasks), bytes)
		late := "the worker is stopping"
		if ctx.Err() == nil {
			late = w.begin(tasks, id, sent)
		}
		if late != "" {
			for i := range tasks {
				w.handBack(tasks[i], late)
			}
		}
		switch {
		case err == nil || ctx.Err() != nil:
		case asks.lone && errors.Is(err, carillon.ErrInvalid): // an older server does not know the field
			if w.slots.keepNone() {
				w.cfg.Logger.Warn("the server does not know kept slots: all are for all runs", "error", err)
			}
		default:
			w.silent("ask for runs", err)
		}
		if err != nil || late != "" {
			await.For(ctx, tendEvery)
		}
	}
}

// late says why the runs of an answer must not begin: another worker may hold them by now. The caller holds
// mu, so that each beat that is sent later than PullLate after the pull lists all that the pull brought.
func (w *Worker) late(session string, sent time.Duration) string {
	switch now := w.cfg.Boottime(); {
	case w.id != session:
		return "it was claimed for a session that is over"
	case now-sent > protocol.PullLate && !w.cfg.Inside:
		return "the answer to the worker's pull came too late"
	case now > w.lease.Until():
		return "the worker's lease was over"
	}
	return ""
}

// handBack returns a run that was not begun.
func (w *Worker) handBack(task protocol.Task, why string) {
	a := &attempt{
		w: w, Task: task, finishing: true, over: true,
		outcome: carillon.Outcome{Kind: carillon.OutcomeLost, Reason: why},
	}
	w.mu.Lock()
	if w.held[task.Run.ID] == nil {
		w.held[task.Run.ID] = a
	}
	w.mu.Unlock()
	w.slots.ended(weigh(&a.Task), a.weighEnd())
	w.ends.add(a)
}

// want says which runs this worker takes, and whether it can perform any at all. It makes no list anew: each
// pull asks for it.
func (w *Worker) want() (want carillon.Want, any bool) {
	want = carillon.Want{
		Namespaces: w.cfg.Namespaces, Queues: w.cfg.Queues, Kinds: w.kinds, Labels: w.cfg.Labels,
	}
	if w.types != nil {
		if want.Types = w.types(); len(want.Types) == 0 {
			want.Kinds = w.others
		}
	}
	return want, len(want.Kinds) > 0
}

// sayEvery is how often a worker logs again that no server answers.
const sayEvery = time.Minute

// silent logs that the dispatcher does not answer, and logs it again every minute. The next beat or
// registration that succeeds logs that it answers again. The error names the servers that the client tried.
func (w *Worker) silent(what string, err error) {
	if errors.Is(err, carillon.ErrSessionOver) {
		return // the next beat hears of it and opens a new session
	}
	now := w.cfg.Boottime()
	last := w.said.Load()
	due := !w.away.Swap(true) || now-time.Duration(last) >= sayEvery
	if due && w.said.CompareAndSwap(last, int64(now)) {
		w.cfg.Logger.Error("the control node does not answer: trying again", "while", what, "error", err)
	}
}

func (w *Worker) answered() {
	if w.away.Swap(false) && !w.cfg.Inside { // a node logs itself that its store works again
		w.cfg.Logger.Info("the control node answers again")
	}
}

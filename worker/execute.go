package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/worker/protocol"
)

// attempt is a task that this worker performs. It lives until its end is reported.
type attempt struct {
	w *Worker
	protocol.Task
	asked  time.Duration // when the worker asked for it, by the worker's clock
	before *attempt      // earlier attempt of the same run, which may not have returned yet
	out    output

	outcome carillon.Outcome // set at the end, with rest: the lines that were not reported before
	rest    []carillon.Line

	mu        sync.Mutex
	cancel    context.CancelCauseFunc
	why       error // to stop, if the stop came before there was a context to cancel
	began     carillon.Time
	begun     bool // the dispatcher knows that it is running
	finishing bool
	over      bool          // nothing of the attempt is left
	returned  chan struct{} // closed then; made when the next attempt waits for it
}

// execute performs the attempt, in a goroutine that does nothing else meanwhile.
func (a *attempt) execute() {
	ctx, cancel := context.WithCancelCause(a.w.base)
	a.mu.Lock()
	a.cancel, a.began = cancel, a.w.cfg.Clock.Now()
	why := a.why
	a.mu.Unlock()
	if why != nil {
		cancel(why)
	}
	var outcome carillon.Outcome
	defer func() {
		if outcome.Kind == 0 { // a handler ended its goroutine, as t.FailNow does
			outcome = carillon.Outcome{
				Kind: carillon.OutcomeRetriable, Reason: "the handler ended its goroutine (runtime.Goexit)",
			}
			if ctx.Err() != nil {
				outcome = ended(ctx)
			}
		}
		cancel(nil)
		a.finish(outcome)
	}()
	before, free := a.follow(ctx)
	if free {
		before = a.perform(ctx)
	}
	outcome = before
}

// ended is the outcome of an attempt whose context ended before an executor returned an outcome.
func ended(ctx context.Context) carillon.Outcome {
	o := carillon.Outcome{Kind: carillon.OutcomeLost, Reason: context.Cause(ctx).Error()}
	if errors.Is(context.Cause(ctx), executor.ErrStopped) {
		o.Kind = carillon.OutcomeStopped
	}
	return o
}

// finish hands in how the attempt ended. The slot becomes free when the executor has returned, not when the
// end is recorded.
func (a *attempt) finish(outcome carillon.Outcome) {
	a.mu.Lock()
	a.finishing = true
	a.leave()
	a.mu.Unlock()
	a.outcome, a.rest = outcome, a.out.rest()
	a.outcome.Started = a.began
	a.w.slots.ended(weigh(&a.Task), a.weighEnd())
	a.w.ends.add(a)
}

// leave says that nothing of the attempt is left. The caller holds mu.
func (a *attempt) leave() {
	a.over = true
	if a.returned != nil {
		close(a.returned)
	}
}

// gone is closed when nothing of the attempt is left.
func (a *attempt) gone() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.returned == nil {
		a.returned = make(chan struct{})
		if a.over {
			close(a.returned)
		}
	}
	return a.returned
}

// follow waits for the earlier attempt of the run to end. If that attempt does not react, this one can still
// be stopped.
func (a *attempt) follow(ctx context.Context) (outcome carillon.Outcome, free bool) {
	if a.before == nil {
		return outcome, true
	}
	a.before.stop(executor.ErrLeaseOver)
	select {
	case <-a.before.gone():
		a.before = nil
		return outcome, true
	case <-ctx.Done():
	}
	return ended(ctx), false
}

// alone says that the attempt has a goroutine of its own.
func (a *attempt) alone() bool {
	return len(a.w.alone) > 0 && slices.Contains(a.w.alone, a.Job.Target.Kind())
}

func (a *attempt) perform(ctx context.Context) carillon.Outcome {
	task := executor.Task{
		Run: a.Run, Job: a.Job, Checkpoint: a.Checkpoint, Lease: &a.w.lease, Save: a.save,
		Print: func(stream, line string) { a.print(ctx, stream, line) },
	}
	kind := a.Job.Target.Kind()
	with := a.w.cfg.Executors[kind]
	if with == nil {
		return executor.Unable(fmt.Sprintf("this worker has no executor for %s targets", kind))
	}
	if limit := a.Job.Timeout.Std(); limit > 0 {
		timer := time.AfterFunc(limit, func() { a.stop(executor.ErrTimeout) })
		defer timer.Stop()
	}
	return executor.Perform(ctx, with, task)
}

// stop ends the attempt for a reason; the first one counts.
func (a *attempt) stop(why error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cancel != nil {
		a.cancel(why)
	} else if a.why == nil {
		a.why = why
	}
}

// abandon stops an attempt that no longer holds its run. An attempt that is finishing has lost the run by its
// own end, so it goes on.
func (a *attempt) abandon() {
	a.mu.Lock()
	finishing := a.finishing
	a.mu.Unlock()
	if !finishing {
		a.stop(executor.ErrLeaseOver)
	}
}

func (a *attempt) goesOn() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return !a.over
}

func stopped(reason string) error { return fmt.Errorf("%w: %s", executor.ErrStopped, reason) }

// save keeps a checkpoint, if this attempt still holds the run.
func (a *attempt) save(ctx context.Context, checkpoint []byte) error {
	if len(checkpoint) > carillon.MaxCheckpoint {
		return &carillon.FieldError{
			Field: "checkpoint", Given: fmt.Sprintf("%d bytes", len(checkpoint)), Want: "at most 64 KiB",
		}
	}
	receipts, err := a.w.cfg.Dispatcher.Report(ctx, a.w.ID(), []protocol.Report{
		{Held: a.Held(), Token: a.Token, Checkpoint: checkpoint},
	})
	if err != nil {
		return err
	}
	if receipts[0] != protocol.ReceiptRecorded {
		return fmt.Errorf("%w: attempt %d no longer holds %s", carillon.ErrLost, a.Run.Attempt, a.Run.ID)
	}
	return nil
}

package worker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/ledger"
)

// attempt is one claim of a run by this worker, from the commit of the claim to the commit of its end.
type attempt struct {
	w        *Worker
	id       carillon.RunID
	before   *attempt      // of the same run, which may not have returned yet
	returned chan struct{} // closed when nothing of the attempt is left
	out      output

	mu        sync.Mutex
	job       *carillon.Job // nil: not read yet
	run       carillon.Run  // as last committed
	guard     *carillon.Guard
	cancel    context.CancelCauseFunc
	why       error // to stop, if that was asked before there was a context to cancel
	began     carillon.Time
	begun     bool // the store knows that it is running
	finishing bool
}

// execute performs the attempt: definition, checkpoint, executor, output, end. The slot is free when the executor has
// returned, not when the end is on disk.
func (a *attempt) execute() {
	ctx, cancel := context.WithCancelCause(a.w.base)
	a.mu.Lock()
	a.cancel, a.began = cancel, carillon.Now()
	why, run := a.why, a.run
	a.mu.Unlock()
	if why != nil {
		cancel(why)
	}
	if a.before != nil {
		a.before.stop(executor.ErrLeaseOver)
		<-a.before.returned
		a.before = nil
	}
	outcome := a.perform(ctx, run)
	close(a.returned)
	cancel(nil)
	outcome.Started = a.began
	a.out.end(a)
	a.w.pendingEnds.Add(1)
	a.w.slots.release(1)
	a.finish(outcome)
}

func (a *attempt) perform(ctx context.Context, run carillon.Run) carillon.Outcome {
	job, err := a.define(ctx, run)
	if err != nil {
		return carillon.Outcome{Kind: carillon.Lost, Reason: "its definition could not be read: " + err.Error()}
	}
	task := executor.Task{Run: run, Job: job, Lease: &a.w.lease, Print: a.print, Save: a.save}
	if run.Attempt > 1 {
		runs, err := a.w.cfg.Store.Runs(ctx, []carillon.RunID{run.ID}, true)
		if err != nil {
			return carillon.Outcome{Kind: carillon.Lost, Reason: "its checkpoint could not be read: " + err.Error()}
		}
		if len(runs) > 0 && runs[0].Output != nil {
			task.Checkpoint = runs[0].Output.Checkpoint
		}
	}
	kind := job.Target.Kind()
	with := a.w.cfg.Executors[kind]
	if with == nil {
		return carillon.Outcome{Kind: carillon.Fatal, Reason: fmt.Sprintf("this worker has no executor for %q targets", kind)}
	}
	if limit := job.Timeout.Std(); limit > 0 {
		timer := time.AfterFunc(limit, func() { a.stop(executor.ErrTimeout) })
		defer timer.Stop()
	}
	return with.Execute(ctx, task)
}

// define returns the definition, which is read if the claim did not come with it.
func (a *attempt) define(ctx context.Context, run carillon.Run) (*carillon.Job, error) {
	if job := a.definition(); job != nil {
		return job, nil
	}
	jobs, err := a.w.cfg.Ledger.Definitions.Get(ctx, []carillon.JobVersion{run.Definition()})
	if err == nil && jobs[0] == nil {
		err = carillon.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.job = jobs[0]
	return a.job, nil
}

func (a *attempt) definition() *carillon.Job {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.job
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

// notice takes a committed change of the run that the attempt holds.
func (a *attempt) notice(run *carillon.Run) {
	a.mu.Lock()
	mine := run.State.Held() && run.Attempt == a.run.Attempt
	finishing := a.finishing
	if mine && run.Rev > a.run.Rev {
		a.run = *run
	}
	a.mu.Unlock()
	switch {
	case !mine && !finishing:
		a.stop(executor.ErrLeaseOver) // somebody took it
	case mine && run.Has(carillon.Stop):
		a.stop(fmt.Errorf("%w: %s", executor.ErrStopped, run.Reason))
	}
}

func (a *attempt) number() int32 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.run.Attempt
}

// save keeps a checkpoint, if this attempt still holds the run.
func (a *attempt) save(ctx context.Context, checkpoint []byte) error {
	a.mu.Lock()
	namespace, fence := a.run.Namespace, a.run.Fence()
	a.mu.Unlock()
	return a.w.cfg.Ledger.SaveCheckpoint(ctx, namespace, a.id, fence, checkpoint)
}

// finish posts the end. Where somebody changed the run meanwhile (a request to stop, a checkpoint), it is read again.
func (a *attempt) finish(outcome carillon.Outcome) {
	a.mu.Lock()
	a.finishing = true
	run, guard, job := a.run, a.guard, a.job
	a.mu.Unlock()
	if job == nil || run.Has(carillon.Guarded) && guard == nil { // a retry of a guarded run brings no guard along
		go a.finishAgain(outcome)
		return
	}
	change := carillon.Settle(run.Finish(job, outcome, carillon.Now(), rand.Float64()), guard)
	a.w.cfg.Ledger.Post([]carillon.Change{change}, func(lost []int, err error) {
		if err == nil && len(lost) == 0 {
			a.w.drop(a)
			return
		}
		go a.finishAgain(outcome)
	})
}

// finishAgain tries until the end is recorded, or somebody else's is: a result is never given up for an outage.
func (a *attempt) finishAgain(outcome carillon.Outcome) {
	defer a.w.drop(a)
	id, number := a.id, a.number()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := a.w.cfg.Ledger.Finish(a.w.base, id, number, outcome, rand.Float64())
		switch {
		case err == nil:
			return
		case errors.Is(err, carillon.ErrLost):
			a.w.cfg.Logger.Warn("result refused: the attempt no longer holds its run", "run", id, "attempt", number)
			return
		case errors.Is(err, ledger.ErrClosed), errors.Is(err, carillon.ErrNotFound):
			a.w.cfg.Logger.Error("result not recorded", "run", id, "attempt", number, "error", err)
			return
		}
		a.w.cfg.Logger.Error("record a result", "run", id, "attempt", number, "error", err)
		if !sleep(a.w.base, wait) {
			return
		}
	}
}

package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/carillon-run/carillon"
)

// maxTries bounds how often a decision is made again after another writer was quicker.
const maxTries = 100

var errTooBusy = fmt.Errorf("%w: %d tries lost; try again", carillon.ErrBusy, maxTries)

// EditJob gives a job a new definition. edit works on a copy of the present definition, and can be called
// more than once.
func (l *Ledger) EditJob(
	ctx context.Context, namespace string, id carillon.JobID, edit func(*carillon.Definition) error,
) (carillon.Job, error) {
	job, _, err := l.updateJob(ctx, namespace, id, ofJob(
		func(w carillon.JobSnapshot, now carillon.Time) (c carillon.Change, err error) {
			def := w.Job.Definition
			if err := edit(&def); err != nil {
				return c, err
			}
			if !w.Job.Schedule.Equal(def.Schedule) {
				if w.Ran, err = l.ran(ctx, &w.Job); err != nil {
					return c, err
				}
			}
			return w.Edit(def, now)
		}))
	return job, err
}

// ran is the latest scheduled time of a recurring job that has a record; see carillon.JobSnapshot. It skips
// runs that a user asked for, which stand in between. A run that has not ended by now is among the unfinished
// runs that updateJob has read before.
func (l *Ledger) ran(ctx context.Context, job *carillon.Job) (carillon.Time, error) {
	if !job.Schedule.Recurring() {
		return 0, nil
	}
	q := carillon.RunQuery{
		Namespace: job.Namespace, Job: job.ID, Limit: 1000,
		States: []carillon.State{
			carillon.StateSucceeded, carillon.StateFailed, carillon.StateCanceled, carillon.StateSkipped,
		},
	}
	for range maxTries {
		page, err := l.cfg.Store.FindRuns(ctx, q)
		if err != nil {
			return 0, err
		}
		for _, run := range page.Runs { // latest due first
			if run.ByClock() && (run.State != carillon.StateCanceled || run.Attempt > 0) {
				return max(run.Covers, run.Until), nil
			}
		}
		if q.After = page.Next; page.Next == "" {
			break
		}
	}
	return 0, nil
}

// CancelJob ends a job. No run of it is claimed after this has returned.
func (l *Ledger) CancelJob(
	ctx context.Context, namespace string, id carillon.JobID, keepRunning bool,
) (carillon.Job, error) {
	job, _, err := l.updateJob(ctx, namespace, id, ofJob(
		func(w carillon.JobSnapshot, now carillon.Time) (carillon.Change, error) {
			return w.Cancel(keepRunning, now)
		}))
	return job, err
}

// CancelUnfinishedJob is CancelJob, but refuses a job that has finished.
func (l *Ledger) CancelUnfinishedJob(
	ctx context.Context, namespace string, id carillon.JobID, keepRunning bool,
) (carillon.Job, error) {
	job, _, err := l.updateJob(ctx, namespace, id, ofJob(
		func(w carillon.JobSnapshot, now carillon.Time) (carillon.Change, error) {
			if w.Job.StateOf(w.Runs) == carillon.JobFinished {
				return carillon.Change{}, fmt.Errorf("%w: %s has finished", carillon.ErrConflict, id)
			}
			return w.Cancel(keepRunning, now)
		}))
	return job, err
}

// PauseJob holds a job. No run of it is claimed after this has returned.
func (l *Ledger) PauseJob(ctx context.Context, namespace string, id carillon.JobID) (carillon.Job, error) {
	job, _, err := l.updateJob(ctx, namespace, id, ofJob(carillon.JobSnapshot.Pause))
	return job, err
}

// ResumeJob lets a paused job go on.
func (l *Ledger) ResumeJob(ctx context.Context, namespace string, id carillon.JobID) (carillon.Job, error) {
	job, _, err := l.updateJob(ctx, namespace, id, ofJob(carillon.JobSnapshot.Resume))
	return job, err
}

// RunNow adds a run that is due at once. A payload that is not nil takes the place of the job's payload.
func (l *Ledger) RunNow(
	ctx context.Context, namespace string, id carillon.JobID, payload json.RawMessage,
) (carillon.Run, error) {
	_, run, err := l.updateJob(ctx, namespace, id,
		func(w carillon.JobSnapshot, now carillon.Time) (carillon.Change, carillon.Run, error) {
			return w.RunNow(payload, now)
		})
	return run, err
}

// RetryRun adds a run that repeats an ended one; a dead letter is then no longer one. If the run still
// waits for its next attempt, that attempt becomes due now, and RetryRun returns the run itself.
func (l *Ledger) RetryRun(ctx context.Context, namespace string, id carillon.RunID) (carillon.Run, error) {
	_, run, err := l.updateJob(ctx, namespace, id.Job,
		func(w carillon.JobSnapshot, now carillon.Time) (c carillon.Change, run carillon.Run, err error) {
			of, dead, err := l.ended(ctx, namespace, id)
			if err != nil {
				return c, run, err
			}
			if _, part := w.Job.Part(); part && of.State.Ended() {
				return l.retryPart(ctx, &w, &of, func() (carillon.Change, carillon.Run, error) {
					return w.Retry(of, dead, now)
				})
			}
			return w.Retry(of, dead, now)
		})
	return run, err
}

// RetryDeadLetter is RetryRun for dead letters only: of two concurrent calls, one finds that the run is no
// longer a dead letter. A payload that is not nil takes the place of the one that the letter had.
func (l *Ledger) RetryDeadLetter(
	ctx context.Context, namespace string, id carillon.RunID, payload json.RawMessage,
) (carillon.Run, error) {
	_, run, err := l.updateJob(ctx, namespace, id.Job,
		func(w carillon.JobSnapshot, now carillon.Time) (c carillon.Change, run carillon.Run, err error) {
			of, dead, err := l.ended(ctx, namespace, id)
			if err == nil && !dead {
				err = fmt.Errorf("%w: %s is not a dead letter", carillon.ErrNotFound, id)
			}
			if err != nil {
				return c, run, err
			}
			if _, part := w.Job.Part(); part {
				return l.retryPart(ctx, &w, &of, func() (carillon.Change, carillon.Run, error) {
					return w.Redrive(of, payload, now)
				})
			}
			return w.Redrive(of, payload, now)
		})
	return run, err
}

// CancelRun ends a waiting run, or asks a held one to stop.
func (l *Ledger) CancelRun(ctx context.Context, namespace string, id carillon.RunID) (carillon.Run, error) {
	if _, err := l.run(ctx, namespace, id); err != nil {
		return carillon.Run{}, err
	}
	_, run, err := l.updateJob(ctx, namespace, id.Job,
		func(w carillon.JobSnapshot, now carillon.Time) (carillon.Change, carillon.Run, error) {
			c, err := w.CancelRun(id, now)
			if err != nil {
				return c, carillon.Run{}, err
			}
			return c, c.Runs[0], nil
		})
	return run, err
}

// SaveCheckpoint keeps a checkpoint for the next attempt. It refuses the checkpoint of an attempt that no
// longer holds the run.
func (l *Ledger) SaveCheckpoint(
	ctx context.Context, namespace string, id carillon.RunID, fence int64, data []byte,
) error {
	if len(data) > carillon.MaxCheckpoint {
		return &carillon.FieldError{
			Field: "checkpoint", Given: fmt.Sprintf("%d bytes", len(data)), Want: "at most 64 KiB",
		}
	}
	for range maxTries {
		run, err := l.run(ctx, namespace, id)
		if err != nil {
			return err
		}
		if !run.State.Held() || run.Fence() != fence {
			return fmt.Errorf("%w: attempt with fence %d no longer holds %s", carillon.ErrLost, fence, id)
		}
		run.Output = &carillon.Output{Checkpoint: data}
		if lost, err := l.Commit(ctx, []carillon.Change{{Runs: []carillon.Run{run}}}); err != nil ||
			len(lost) == 0 {
			return err
		}
	}
	return errTooBusy
}

// decide makes a decision about a job. The run is the one that the caller asked for, if there is one.
type decide = func(carillon.JobSnapshot, carillon.Time) (carillon.Change, carillon.Run, error)

func ofJob(rule func(carillon.JobSnapshot, carillon.Time) (carillon.Change, error)) decide {
	return func(w carillon.JobSnapshot, now carillon.Time) (carillon.Change, carillon.Run, error) {
		c, err := rule(w, now)
		return c, carillon.Run{}, err
	}
}

// updateJob reads the snapshot of a job, decides and commits. It does so again if another writer was quicker.
// The job that it returns can be finished, which is not stored.
func (l *Ledger) updateJob(
	ctx context.Context, namespace string, id carillon.JobID, decide decide,
) (job carillon.Job, run carillon.Run, err error) {
	key := keyedBy(ctx, namespace)
	for range maxTries {
		snapshot, err := l.Snapshot(ctx, namespace, id)
		if err != nil {
			return job, run, err
		}
		now := l.cfg.Clock.Now()
		change, asked, err := decide(snapshot, now)
		if err != nil {
			return job, run, err
		}
		changed := snapshot.After(&change)
		if err := key.answer(&change, &changed, &asked, now); err != nil {
			return job, run, err
		}
		lost, err := l.Commit(ctx, []carillon.Change{change})
		if err != nil {
			return job, run, err
		}
		if len(lost) == 0 {
			return changed, asked, nil
		}
		if err := l.look(ctx, key); err != nil {
			return job, run, err
		}
	}
	return job, run, errTooBusy
}

// Update performs a write that is about no job. decide reads what it needs and makes the change; it is called
// again if another writer was quicker. The namespace is that of the caller's idempotency key.
func (l *Ledger) Update(
	ctx context.Context, namespace string, decide func(now carillon.Time) (carillon.Change, error),
) error {
	key := keyedBy(ctx, namespace)
	for range maxTries {
		now := l.cfg.Clock.Now()
		change, err := decide(now)
		if err != nil {
			return err
		}
		if err := key.answer(&change, nil, nil, now); err != nil {
			return err
		}
		lost, err := l.Commit(ctx, []carillon.Change{change})
		if err != nil || len(lost) == 0 {
			return err
		}
		if err := l.look(ctx, key); err != nil {
			return err
		}
	}
	return errTooBusy
}

// Snapshot reads a job, then its unfinished runs, then its guards. The order matters: a run that is added
// after the job was read raises the Rev of the job or of a run read here, so a decision that has not seen the
// new run loses.
func (l *Ledger) Snapshot(
	ctx context.Context, namespace string, id carillon.JobID,
) (carillon.JobSnapshot, error) {
	var w carillon.JobSnapshot
	jobs, err := l.cfg.Store.Jobs(ctx, []carillon.JobVersion{{Job: id}})
	if err != nil {
		return w, err
	}
	if len(jobs) == 0 || jobs[0].Namespace != namespace {
		return w, fmt.Errorf("%w: %s", carillon.ErrNotFound, id)
	}
	w.Job = jobs[0]
	if w.Runs, err = l.unfinished(ctx, namespace, id); err != nil {
		return w, err
	}
	w.Guards, err = l.cfg.Store.Guards(ctx, carillon.GuardQuery{
		Namespace: namespace, Keys: []string{id.OverlapKey(), id.PauseKey()},
	})
	return w, err
}

// unfinished reads all unfinished runs of a job as they were at one instant. A single page is such a
// snapshot. Between two pages a run can be claimed and its successor added where the reader has already been.
// So if there are several pages, they are read until two reads agree.
func (l *Ledger) unfinished(
	ctx context.Context, namespace string, id carillon.JobID,
) ([]carillon.Run, error) {
	var before []carillon.Run
	for range maxTries {
		runs, pages, err := l.unfinishedPages(ctx, namespace, id)
		if err != nil || pages == 1 || before != nil && slices.EqualFunc(runs, before, sameRow) {
			return runs, err
		}
		before = runs
	}
	return nil, errTooBusy
}

func sameRow(a, b carillon.Run) bool { return a.ID == b.ID && a.Rev == b.Rev }

func (l *Ledger) unfinishedPages(
	ctx context.Context, namespace string, id carillon.JobID,
) (runs []carillon.Run, pages int, err error) {
	q := carillon.RunQuery{
		Namespace: namespace, Job: id,
		States: []carillon.State{carillon.StateWaiting, carillon.StateClaimed, carillon.StateRunning},
		Limit:  1000,
	}
	for {
		page, err := l.cfg.Store.FindRuns(ctx, q)
		if err != nil {
			return nil, 0, err
		}
		runs, pages = append(runs, page.Runs...), pages+1
		if page.Next == "" {
			return runs, pages, nil
		}
		q.After = page.Next
	}
}

func (l *Ledger) run(ctx context.Context, namespace string, id carillon.RunID) (carillon.Run, error) {
	return l.read(ctx, namespace, id, false)
}

func (l *Ledger) read(
	ctx context.Context, namespace string, id carillon.RunID, whole bool,
) (carillon.Run, error) {
	runs, err := l.cfg.Store.Runs(ctx, []carillon.RunID{id}, whole)
	if err != nil {
		return carillon.Run{}, err
	}
	if len(runs) == 0 || runs[0].Namespace != namespace {
		return carillon.Run{}, fmt.Errorf("%w: %s", carillon.ErrNotFound, id)
	}
	return runs[0], nil
}

// ended reads an ended run, with the payload that was given to it alone, and says whether it is a dead
// letter.
func (l *Ledger) ended(
	ctx context.Context, namespace string, id carillon.RunID,
) (of carillon.Run, dead bool, err error) {
	of, err = l.read(ctx, namespace, id, true)
	if err != nil && !errors.Is(err, carillon.ErrNotFound) {
		return of, false, err
	}
	letters, findErr := l.cfg.Store.FindRuns(ctx, carillon.RunQuery{
		Namespace: namespace, Job: id.Job, Dead: true, From: id.Due, To: id.Due + 1, Limit: 1,
	})
	if findErr != nil {
		return of, false, findErr
	}
	if len(letters.Runs) > 0 {
		letter := letters.Runs[0] // a dead letter is kept longer than history
		letter.Output = of.Output
		return letter, true, nil
	}
	return of, false, err
}

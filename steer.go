package carillon

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// repairCheck is when somebody looks again at a run that waits for another one, in case the word of its end was lost.
const repairCheck = 30 * time.Second

// Whole is a job with all that is unfinished of it: what a decision about the job itself rests on.
type Whole struct {
	Job   Job
	Runs  []Run  // unfinished
	Guard *Guard // nil if the job has none
}

// Submit is the change that brings a new job into being, with its first run. Namespace and ID are set by the caller.
func Submit(job *Job, now Time) Change {
	job.Version, job.State, job.Created, job.Updated = 1, Active, now, now
	due := job.Schedule.At
	if job.Schedule.Recurring() {
		due = cmp.Or(job.Schedule.Next(now), job.Schedule.Last(now)) // the last: ends_at came between Admit and here
	}
	run := NewRun(job, due)
	run.Covers = due
	c := Change{Job: job, Runs: []Run{run}}
	if run.Has(Guarded) {
		c.Guards = []Guard{NewOverlapGuard(job)}
	}
	return c
}

// Cancel ends the job: what waits is canceled with it, what runs is asked to stop, or left to its end if keep. To cancel
// it again does no harm: who did not hear the answer may ask twice, and who kept what ran may stop it now.
func (w Whole) Cancel(keep bool, now Time) (Change, error) {
	job := w.Job
	if job.State != JobCanceled {
		job.State, job.Updated = JobCanceled, max(now, job.Updated)
	}
	c := Change{Job: &job}
	t := turnsOf(w.Guard)
	for _, run := range w.Runs {
		switch {
		case run.State == Waiting:
			c.Runs = append(c.Runs, run.ended(&job, Canceled, "the job was canceled", now).through(&job.Schedule, now))
			t = t.without(run.ID.Due)
		case keep:
			run.Flags |= Last
			c.Runs = append(c.Runs, run)
		default:
			run.Flags |= Stop | Last
			run.Reason = "the job was canceled"
			c.Runs = append(c.Runs, run)
		}
	}
	if w.Guard != nil {
		c.Guards = []Guard{t.guard(*w.Guard)}
	}
	return c, nil
}

// Pause holds what is unfinished: nothing of the job is claimed until it is resumed. What runs goes on to its end.
func (w Whole) Pause(now Time) (Change, error) {
	if w.Job.State != Active {
		return Change{}, fmt.Errorf("%w: %s is %s; only an active job can be paused", ErrConflict, w.Job.ID, w.Job.State)
	}
	job := w.Job
	job.State, job.Updated = Paused, max(now, job.Updated)
	c := Change{Job: &job}
	for _, run := range w.Runs {
		c.Runs = append(c.Runs, run.hold(now))
	}
	return c, nil
}

// hold keeps a run from being claimed. The pause before a retry stays: it must not be shorter for being interrupted.
func (r Run) hold(now Time) Run {
	r.Flags |= OnHold
	if r.State == Waiting && (r.Attempt == 0 || r.Wake <= now) {
		r.Wake = Never
	}
	return r
}

// through lets the end of a planned run stand for all due times that have come by now: there will be no later record.
func (r Run) through(s *Schedule, now Time) Run {
	if last := s.Last(now); r.ByClock() && !r.Has(Planned) && last > r.Covers {
		r.Until = last
	}
	return r
}

// Resume lets go what was held. Due times by the clock that passed meanwhile are recorded as skipped; a one-off whose
// time has passed runs now.
func (w Whole) Resume(now Time) (Change, error) {
	if w.Job.State != Paused {
		return Change{}, fmt.Errorf("%w: %s is %s, not paused", ErrConflict, w.Job.ID, w.Job.State)
	}
	job := w.Job
	job.State, job.Updated = Active, max(now, job.Updated)
	c := Change{Job: &job}
	for _, run := range w.Runs {
		run.Flags &^= OnHold
		if run.State == Waiting && run.Wake == Never {
			run.Wake = max(run.ID.Due, now)
		}
		fresh := run.State == Waiting && run.Attempt == 0 && run.ByClock() && !run.Has(Planned)
		if fresh && run.Covers <= now && job.Schedule.Recurring() {
			d := Due{Job: &job, Run: run, Guard: w.Guard}
			skipped := d.skipTo(0, now)
			skipped.Runs[0].Reason = "the job was paused"
			c.Runs = append(c.Runs, skipped.Runs...)
			continue
		}
		c.Runs = append(c.Runs, run)
	}
	return c, nil
}

// RunNow adds a run that is due at once and stands for no scheduled time.
func (w Whole) RunNow(now Time) (Change, Run, error) {
	return w.add(Run{}, now)
}

// Retry adds a run that repeats a finished one. History is not reopened: the new run says what it repeats.
func (w Whole) Retry(of Run, dead bool, now Time) (Change, Run, error) {
	if !of.State.Ended() {
		return Change{}, Run{}, fmt.Errorf("%w: %s is %s; only a finished run can be retried", ErrConflict, of.ID, of.State)
	}
	c, run, err := w.add(of, now)
	if dead {
		c.Redriven = []RunID{of.ID}
	}
	return c, run, err
}

func (w Whole) add(of Run, now Time) (Change, Run, error) {
	if w.Job.State == JobCanceled {
		return Change{}, Run{}, fmt.Errorf("%w: %s is canceled", ErrConflict, w.Job.ID)
	}
	job := w.Job
	run := NewRun(&job, w.free(&job, w.unused(now, now), true))
	job.Updated = max(job.Updated, run.ID.Due)
	run.Flags |= Extra
	run.Covers, run.RetryOf = of.Covers, of.ID.Due
	if job.State == Paused {
		run = run.hold(now)
	}
	c := Change{Job: &job}
	if job.Overlap != OverlapAllow {
		run.Flags |= Guarded
		c = w.guard(c)
	}
	c.Runs = append(c.Runs, run)
	return c, run, nil
}

// guard brings the job's unfinished runs under an overlap guard, once there is more than one run to rule.
func (w Whole) guard(c Change) Change {
	if w.Guard != nil {
		c.Guards = []Guard{*w.Guard}
		return c
	}
	t := turns{}
	for _, run := range w.Runs {
		run.Flags |= Guarded
		if run.Attempt > 0 {
			t = t.with(run.ID.Due)
		}
		c.Runs = append(c.Runs, run)
	}
	c.Guards = []Guard{t.guard(NewOverlapGuard(&w.Job))}
	return c
}

// unused is the first millisecond from due on after the last one in which the job was changed. A run that was named by an
// earlier one may have ended already, so that free does not see it, but its name stays taken: two runs of one name
// would have the same fence. A clock that was set back by more than a moment is not waited for.
func (w Whole) unused(due, now Time) Time {
	if after := w.Job.Updated + 1; after > due && after.Sub(now) < time.Second {
		return after
	}
	return due
}

// free is the first millisecond from due on that no unfinished run of the job has. A manual run also keeps off the due
// times by the clock, whose runs are yet to be planned.
func (w Whole) free(job *Job, due Time, manual bool) Time {
	taken := func(due Time) bool {
		return slices.ContainsFunc(w.Runs, func(r Run) bool { return r.ID.Due == due }) ||
			manual && job.Schedule.Last(due) == due
	}
	for taken(due) {
		due++
	}
	return due
}

// CancelRun ends a waiting run, or asks a held one to stop. The schedule goes on.
func (w Whole) CancelRun(id RunID, now Time) (Change, error) {
	i := slices.IndexFunc(w.Runs, func(r Run) bool { return r.ID == id })
	if i < 0 {
		return Change{}, fmt.Errorf("%w: %s has ended already", ErrConflict, id)
	}
	run := w.Runs[i]
	if run.State != Waiting {
		run.Flags |= Stop
		run.Reason = "canceled by request"
		return Change{Runs: []Run{run}}, nil
	}
	d := Due{Job: &w.Job, Run: run, Guard: w.Guard}
	c := Change{Runs: []Run{run.ended(&w.Job, Canceled, "canceled by request", now)}}
	if next := d.plan(&c.Runs[0], false); next != nil && w.Job.State != JobCanceled {
		if w.Job.State == Paused {
			*next = next.hold(now)
		}
		c.Runs = append(c.Runs, *next)
	}
	return d.leaveTurn(c), nil
}

package carillon

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Edit gives the job a new definition, which the caller has admitted, and moves to it every run that has not
// begun. A run that has begun, and its retries, keep the old definition. A changed schedule replaces the
// planned run, unless its due time stays the same.
func (w JobSnapshot) Edit(def Definition, now Time) (Change, error) {
	if w.Job.State == JobCanceled {
		return Change{}, fmt.Errorf("%w: %s is canceled; only a job that is not canceled can be changed",
			ErrConflict, w.Job.ID)
	}
	if part, is := w.Job.Part(); is {
		return Change{}, fmt.Errorf("%w: %s is a node of the workflow run %s; edit the workflow",
			ErrConflict, w.Job.ID, part.Run)
	}
	e := edit{was: w, job: w.Job, turns: w.Guards.turns(), now: now}
	e.job.Definition, e.job.Updated = def, max(now, e.job.Updated)
	e.job.Version++
	moved := !w.Job.Schedule.Equal(e.job.Schedule)
	if moved && w.Job.Schedule.Recurring() != e.job.Schedule.Recurring() {
		return Change{}, otherKind(&e.job.Schedule)
	}
	e.move(moved)
	e.guard()
	c := Change{Job: &e.job, Runs: slices.Concat(e.ended, e.begun, e.rest)}
	if guard := w.Guards.Of(GuardOverlap); guard != nil {
		c.Guards = []Guard{e.turns.guard(*guard)}
	} else if e.guarded || e.turns.Named != 0 {
		c.Guards = []Guard{e.turns.guard(e.job.OverlapGuard())}
	}
	return c, nil
}

// otherKind refuses to turn a one-time job into a recurring one, or the other way round.
func otherKind(s *Schedule) *FieldError {
	if s.Recurring() {
		return invalid(
			"schedule", cmp.Or(s.Cron, s.Every.String()), "at or after; for a schedule submit a new job",
		).
			because("a one-time job cannot become a recurring job")
	}
	given := s.At.String()
	if s.After != 0 { // not admitted yet
		given = s.After.String()
	}
	return invalid("schedule", given, "cron or every; for a single time submit a new job").
		because("a recurring job cannot become a one-time job")
}

// edit collects the changes to a job and its runs.
type edit struct {
	was     JobSnapshot
	job     Job
	turns   turns
	now     Time
	ended   []Run
	begun   []Run
	rest    []Run // not begun
	guarded bool
	// followed says that a begun run of a one-off gets another one beside it.
	followed bool
}

// move moves the runs that have not begun to the new definition. moved says that the schedule has changed.
func (e *edit) move(moved bool) {
	var next *Run
	if moved {
		next = e.replan()
	}
	for _, run := range e.was.Runs {
		switch planned := run.ByClock() && !run.Has(FlagPlanned); {
		case run.Attempt > 0 || run.State != StateWaiting:
			e.begun = append(e.begun, run)
		case moved && planned && next != nil && next.Covers == run.Covers:
			next = nil // the run stands for the same due time in both schedules
			e.rest = append(e.rest, e.moveTo(run))
		case moved && planned:
			e.ended = append(
				e.ended,
				run.ended(
					&e.job, StateCanceled, "the schedule was changed", e.now,
				).through(&e.was.Job.Schedule, e.now),
			)
			e.turns = e.turns.without(run.ID.Due)
		default:
			e.rest = append(e.rest, e.moveTo(run))
		}
	}
	// If a one-off has begun already, it gets another run only at a time in the future.
	if next != nil && (len(e.ended) > 0 || e.job.Schedule.Recurring() || e.job.Schedule.At > e.now) {
		e.rest = append(e.rest, *next)
		e.follow()
	}
}

// follow notes that the last run of rest comes beside a one-off's run that has begun, so that the end of
// either does not free the job's unique key: see Change.freeKey. The change then contains the begun run: its
// end, if it was decided before, must lose.
func (e *edit) follow() {
	if e.job.Unique == nil || e.job.Schedule.Recurring() {
		return
	}
	for i := range e.begun {
		if run := &e.begun[i]; run.ByClock() {
			run.Flags |= FlagPlanned
			e.rest[len(e.rest)-1].Seq = run.Seq + 1
			e.followed = true
		}
	}
}

// moveTo moves a run that has not begun to the new definition. If the late hook was told of it before, the
// new one is not told of it again.
func (e *edit) moveTo(run Run) Run {
	run = run.moveTo(&e.job, e.now)
	switch {
	case e.job.Late == nil:
		run.Flags &^= FlagLate
	case e.was.Job.Late == nil:
		run.Flags |= FlagLate
	}
	return run
}

func (r Run) moveTo(job *Job, now Time) Run {
	if r.Parked() { // the new definition may have other limits
		r.Wake = r.ready(now)
	}
	r.Flags &^= FlagParked
	if r.Hold = job.line(); r.Has(FlagOnHold) {
		r.Hold = ""
	}
	r.Version, r.Queue, r.Priority, r.About = job.Version, job.Queue, int8(job.Priority), job.about()
	r.Needs, r.Share = job.needs(), job.share()
	if job.Misfire.Policy != MisfireOnce {
		r.Flags |= FlagMisfirePolicy
	}
	return r
}

// maxBack is how far a clock can be set back so that replan still trusts the time before. If it was set back
// further, the time before was wrong: an edit must be able to bring a schedule back from the year 2036.
const maxBack = time.Hour

// replan returns the first run of the changed schedule; its number continues from the run that it replaces.
func (e *edit) replan() *Run {
	var seq int32
	after := e.now
	// A time that has run is not planned again, even if the clock was set back since.
	if e.was.Ran.Sub(e.now) < maxBack {
		after = max(after, e.was.Ran)
	}
	for _, run := range e.was.Runs {
		if run.ByClock() {
			seq = max(seq, run.Seq)
			if run.Has(FlagPlanned) { // it counts, and its time has passed
				seq, after = max(seq, run.Seq+1), max(after, run.Covers)
			}
		}
	}
	covers := e.job.Schedule.At
	due := e.was.unused(covers)
	if e.job.Schedule.Recurring() {
		covers = e.job.Schedule.Next(after)
		due = covers
	}
	if seq == 0 { // the count starts again
		e.turns.Replaced = 0
	}
	if due == 0 || e.job.Schedule.MaxRuns > 0 && int(seq)-e.turns.Replaced >= e.job.Schedule.MaxRuns {
		return nil
	}
	run := NewRun(&e.job, e.was.free(&e.job, due, false))
	run.Covers, run.Seq = covers, seq
	if due != covers { // see unused
		e.turns.Named, run.Wake = run.ID.Due, run.ready(e.now)
	}
	run.Flags |= FlagAdditional // its due time is not the one that the job row was first written with
	if e.job.State == JobPaused {
		run = run.hold(e.now)
	}
	return &run
}

// guard brings the runs under the overlap guard, or releases them if they may overlap now. Begun runs that
// ran side by side so far each get a place in the guard. The change then contains all begun runs, also one
// that waits for a retry: a claim of that run that was decided before the others were in its way must lose.
func (e *edit) guard() {
	begun := e.begun
	if !e.followed {
		e.begun = nil
	}
	e.guarded = e.job.Overlap != OverlapAllow &&
		(e.job.Schedule.Recurring() || e.was.Guards.Of(GuardOverlap) != nil || len(begun)+len(e.rest) > 1)
	if !e.guarded {
		for i := range e.rest { // a begun run gives up its turn when it ends, not before
			e.rest[i], e.turns = e.rest[i].leaveLine(e.turns, e.now)
		}
		return
	}
	if slices.ContainsFunc(begun, func(r Run) bool { return !r.Has(FlagGuarded) }) {
		e.begun = begun
	}
	for i := range e.begun {
		if run := &e.begun[i]; !run.Has(FlagGuarded) {
			run.Flags |= FlagGuarded
			e.turns = e.turns.with(run.ID.Due)
		}
	}
	for i := range e.rest {
		e.rest[i].Flags |= FlagGuarded
	}
}

// leaveLine takes a run out of the guard. If the run waited for its turn, it need not wait any longer.
func (r Run) leaveLine(t turns, now Time) (Run, turns) {
	if t.has(r.ID.Due) && !r.Has(FlagOnHold) {
		r.Wake = r.ready(now)
	}
	r.Flags &^= FlagGuarded
	return r, t.without(r.ID.Due)
}

package carillon

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// repairCheck is after how long a run that waits for another one is decided again, in case the notice of the
// other run's end was lost.
const repairCheck = 30 * time.Second

// JobSnapshot is a snapshot of the job with all its unfinished runs: a decision about the job itself is based
// on it.
type JobSnapshot struct {
	Job    Job
	Runs   []Run // unfinished
	Guards Guards
	// Ran is the latest scheduled time that has a record of a run by the clock. Runs that were canceled
	// before they began do not count. Only an edit needs it.
	Ran Time
}

// Submit is the change that creates a new job, with its first run, and lets it take its unique key. The
// caller sets Namespace and ID.
func Submit(job *Job, now Time) Change {
	job.Version, job.State, job.Created, job.Updated = 1, JobActive, now, now
	due := job.Schedule.At
	if job.Schedule.Recurring() {
		// Last is for a job whose ends_at passed between Admit and here.
		due = cmp.Or(job.Schedule.Next(now), job.Schedule.Last(now))
	}
	run := NewRun(job, due)
	run.Covers = due
	c := Change{Job: job, Runs: []Run{run}}
	if run.Has(FlagGuarded) {
		c.Guards = []Guard{job.OverlapGuard()}
	}
	if job.Unique != nil {
		c.Guards = append(c.Guards, job.TakeKey(Guard{}, now))
	}
	return c
}

// Cancel ends the job. It cancels runs that wait, and asks runs that workers hold to stop, or leaves them to
// their end if keep is set. Cancel is idempotent: a caller that got no answer can ask again. Cancelling again
// without keep also stops runs that an earlier cancel kept.
func (w JobSnapshot) Cancel(keep bool, now Time) (Change, error) {
	job := w.Job
	job.State = JobCanceled
	c := Change{Job: &job}
	t := w.Guards.turns()
	for _, run := range w.Runs {
		switch {
		case run.State == StateWaiting:
			c.Runs = append(
				c.Runs,
				run.ended(&job, StateCanceled, "the job was canceled", now).through(&job.Schedule, now),
			)
			t = t.ended(&run)
		case keep:
			run.Flags |= FlagNoRetry
			c.Runs = append(c.Runs, run)
		default:
			run.Flags |= FlagStop | FlagNoRetry
			run.Reason = "the job was canceled"
			c.Runs = append(c.Runs, run)
		}
	}
	if guard := w.Guards.Of(GuardOverlap); guard != nil {
		c.Guards = []Guard{t.guard(*guard)}
	}
	c.endParts(&job)
	c.dropPause(&w)
	c.freeKeyOfCanceled(&job)
	return c, nil
}

// Pause puts the unfinished runs on hold: no run of the job is claimed until the job is resumed. Runs that
// workers hold go on to their end.
func (w JobSnapshot) Pause(now Time) (Change, error) {
	if w.Job.State != JobActive {
		return Change{}, fmt.Errorf(
			"%w: %s is %s; only an active job can be paused", ErrConflict, w.Job.ID, w.Job.State,
		)
	}
	job := w.Job
	job.State = JobPaused
	c := Change{Job: &job}
	for _, run := range w.Runs {
		c.Runs = append(c.Runs, run.hold(now))
	}
	return c, nil
}

// hold keeps a run from being claimed. The delay before a retry stays: the pause of the job must not shorten
// it. The run leaves the line in which it waits: others must not wait for it.
func (r Run) hold(now Time) Run {
	r.Hold, r.Flags = "", r.Flags&^FlagParked|FlagOnHold
	if r.State == StateWaiting && (r.Attempt == 0 || r.Wake <= now) {
		r.Wake = Never
	}
	return r
}

// through makes the end of a planned run stand for all due times that have come by now: they get no later
// record.
func (r Run) through(s *Schedule, now Time) Run {
	if last := s.Last(now); r.ByClock() && !r.Has(FlagPlanned) && last > r.Covers {
		r.Until = last
	}
	return r
}

// Resume takes the runs off hold. Due times by the clock that passed meanwhile are recorded as skipped; a
// one-off whose time has passed runs now.
func (w JobSnapshot) Resume(now Time) (Change, error) {
	if w.Job.State != JobPaused {
		return Change{}, fmt.Errorf(
			"%w: %s is %s; only a paused job can be resumed", ErrConflict, w.Job.ID, w.Job.State,
		)
	}
	job := w.Job
	job.State = JobActive
	c := Change{Job: &job}
	for _, run := range w.Runs {
		run.Flags &^= FlagOnHold
		if run.State == StateWaiting && run.Wake == Never {
			run.Wake = run.ready(now)
		}
		if run.State == StateWaiting && run.Attempt == 0 { // one that has begun has an older definition
			run.Hold = job.line()
		}
		if run.ID.Due <= now { // the pause made it late, and a caller wanted that
			run.Flags &^= FlagLate
		}
		fresh := run.State == StateWaiting && run.Attempt == 0 && run.ByClock() && !run.Has(FlagPlanned)
		if fresh && run.Covers <= now && job.Schedule.Recurring() {
			d := Candidate{Job: &job, Run: run, Guards: w.Guards}
			skipped := d.skipTo(0, now)
			skipped.Runs[0].Reason = "the job was paused"
			c.Runs = append(c.Runs, skipped.Runs...)
			c.Guards, c.Compared = skipped.Guards, skipped.Compared
			continue
		}
		c.Runs = append(c.Runs, run)
	}
	c.resumed(&w, now)
	return c, nil
}

// RunNow adds a run that is due at once and stands for no scheduled time. If the caller gives a payload, the
// run gets that one and not the job's; the JSON null means no payload at all.
func (w JobSnapshot) RunNow(payload json.RawMessage, now Time) (Change, Run, error) {
	if err := admitPayload(payload); err != nil {
		return Change{}, Run{}, err
	}
	return w.add(Run{}, payload, now)
}

// Retry adds a run that repeats an ended one. History is not reopened: the new run names the run that it
// repeats. If the given run waits for its next attempt, Retry makes that attempt due now instead. If the
// ended run had its own payload (of.Output), the new run gets it too.
func (w JobSnapshot) Retry(of Run, dead bool, now Time) (Change, Run, error) {
	if i := slices.IndexFunc(w.Runs, func(r Run) bool { return r.ID == of.ID }); i >= 0 {
		return w.tryNow(w.Runs[i], now)
	}
	if !of.State.Ended() {
		return Change{}, Run{}, fmt.Errorf("%w: %s is changing now; try again", ErrConflict, of.ID)
	}
	c, run, err := w.add(of, of.ownPayload(), now)
	if dead {
		c.Retried = []RunID{of.ID}
	}
	return c, run, err
}

func (w JobSnapshot) tryNow(run Run, now Time) (Change, Run, error) {
	var why string
	switch {
	case run.State != StateWaiting:
		why = "is " + run.State.String() +
			"; only a run that has ended, or that waits for its next attempt, can be retried"
	case run.Has(FlagOnHold):
		why = "is on hold, because " + w.Job.ID.String() + " is paused; resume the job"
	case run.Attempt == 0:
		why = "has not begun; it is due at " + run.ID.Due.String() +
			". To run the job now as well, add a run with \"carillon run --now " + w.Job.ID.String() + "\""
	case run.Parked(): // it does not wait for a time, and keeps its place in the line
		return Change{Runs: []Run{run}}, run, nil
	default:
		run.Wake = min(run.Wake, now) // a lost run is due already, and keeps its place in the queue
		return Change{Runs: []Run{run}}, run, nil
	}
	return Change{}, Run{}, fmt.Errorf("%w: %s %s", ErrConflict, run.ID, why)
}

func (w JobSnapshot) add(of Run, payload []byte, now Time) (Change, Run, error) {
	if w.Job.State == JobCanceled {
		return Change{}, Run{}, fmt.Errorf("%w: %s is canceled; it gets no more runs", ErrConflict, w.Job.ID)
	}
	job := w.Job
	run := NewRun(&job, w.free(&job, w.unused(now), true))
	run.Flags |= FlagAdditional
	run.Covers, run.RetryOf = of.Covers, of.ID.Due
	if payload != nil {
		run.Flags, run.Output = run.Flags|FlagOwnPayload, &Output{Payload: payload}
	}
	run.Wake = run.ready(now)
	if job.State == JobPaused {
		run = run.hold(now)
	}
	c := Change{Job: &job}
	var err error
	if job.Overlap != OverlapAllow {
		run.Flags |= FlagGuarded
		c = w.guard(c)
		c, err = w.line(c, &run, now)
	} else {
		c.Guards = []Guard{w.turnGuard()}
	}
	guard := Guards(c.Guards).Of(GuardOverlap)
	t := turnsOf(guard)
	t.Named = run.ID.Due
	*guard = t.guard(*guard)
	c.Runs = append(c.Runs, run)
	return c, run, err
}

// line gives a run that a caller asked for its place in line, in the change that adds it: an accepted run is
// not skipped afterwards. If the overlap policy would skip the run, line refuses it instead. A run that
// repeats another one waits for its turn under every policy, because it would otherwise be lost. Under
// replace a run that repeats none gets no place: Decide finds its turn when it is due, and stops the run that
// has it.
func (w JobSnapshot) line(c Change, run *Run, now Time) (Change, error) {
	if w.Job.Overlap == OverlapReplace && run.RetryOf == 0 {
		return c, nil
	}
	guard := Guards(c.Guards).Of(GuardOverlap)
	t := turnsOf(guard)
	if w.Job.Overlap != OverlapReplace {
		c, t = w.lineUp(c, t, now)
	}
	switch {
	case len(t.Queue) >= maxQueued:
		return c, fmt.Errorf(
			"%w: %d runs of %s are waiting already; try again when some of them have ended",
			ErrConflict, maxQueued,
			w.Job.ID,
		)
	case run.RetryOf != 0:
	case w.Job.Overlap == OverlapSkip && t.first() != 0:
		return c, fmt.Errorf("%w: %s has not ended, and the overlap policy of the job is skip: %s",
			ErrConflict, RunID{w.Job.ID, t.first()}, w.advice(t.first()))
	case w.Job.Overlap == OverlapQueue && len(t.Queue) > 0 && (t.Holder != 0 || len(t.Queue) > 1):
		return c,
			fmt.Errorf("%w: %s waits already, and the overlap policy of the job, queue, lets only one run "+
				"wait: %s",
				ErrConflict, RunID{w.Job.ID, t.Queue[len(t.Queue)-1]}, w.advice(t.Queue[len(t.Queue)-1]))
	}
	t.Queue = append(slices.Clone(t.Queue), run.ID.Due)
	if !t.free(run.ID.Due) && !run.Has(FlagOnHold) {
		run.Wake = now.Add(repairCheck) // the end of the run before it wakes it earlier
	}
	*guard = t.guard(*guard)
	return c, nil
}

// advice is what a caller can do about the run because of which a manual run is refused.
func (w JobSnapshot) advice(due Time) string {
	const others = "wait until it has ended, cancel it, or change the policy to queue_all or allow"
	for i := range w.Runs {
		if run := &w.Runs[i]; run.ID.Due == due && run.State == StateWaiting && run.Attempt > 0 {
			return fmt.Sprintf("start its next attempt now (\"carillon retry %s\"), %s", run.ID, others)
		}
	}
	return others
}

// lineUp puts in line the run that is due and would take the free turn as soon as a worker has a slot: the
// run that the caller asks for now comes behind it. Like every run in line it has its successor planned.
func (w JobSnapshot) lineUp(c Change, t turns, now Time) (Change, turns) {
	i := w.next(now)
	if t.first() != 0 || i < 0 {
		return c, t
	}
	d := Candidate{Job: &w.Job, Run: w.Runs[i]}
	if _, missed := d.missed(now); missed {
		return c, t
	}
	d.Run.Flags |= FlagGuarded
	next := d.plan(&d.Run, true)
	c.Runs = append(slices.DeleteFunc(c.Runs, func(r Run) bool { return r.ID == d.Run.ID }), d.Run)
	if next != nil {
		c.Runs = append(c.Runs, *next)
	}
	t.Queue = []Time{d.Run.ID.Due}
	return c, t
}

// next is the index of the earliest run that is due and has not begun, -1 if there is none. Due times that
// pass while a recurring job is paused are skipped when it is resumed, so they are in no run's way.
func (w JobSnapshot) next(now Time) int {
	earliest := -1
	for i, run := range w.Runs {
		if run.State != StateWaiting || run.Attempt > 0 || run.ready(now) > now ||
			run.Has(FlagOnHold) && run.ByClock() && w.Job.Schedule.Recurring() {
			continue
		}
		if earliest < 0 || run.ID.Due < w.Runs[earliest].ID.Due {
			earliest = i
		}
	}
	return earliest
}

// turnGuard is the job's guard, or a new one.
func (w JobSnapshot) turnGuard() Guard {
	if guard := w.Guards.Of(GuardOverlap); guard != nil {
		return *guard
	}
	return w.Job.OverlapGuard()
}

// guard brings the job's unfinished runs under an overlap guard, once there is more than one run to rule.
func (w JobSnapshot) guard(c Change) Change {
	guard := w.turnGuard()
	t := turnsOf(&guard)
	for _, run := range w.Runs {
		if run.Has(FlagGuarded) {
			continue
		}
		run.Flags |= FlagGuarded
		if run.Attempt > 0 {
			t = t.with(run.ID.Due)
		}
		c.Runs = append(c.Runs, run)
	}
	c.Guards = []Guard{t.guard(guard)}
	return c
}

// unused is the first millisecond from due on that is after the last edit, and after every name (due time)
// that was given to a run that a caller asked for. Such a run may have ended already, so that free does not
// see it, but its name stays taken: two runs of one name would have the same fence. So names run ahead of a
// clock that was set back, and of a clock that advances more slowly than callers ask for runs; see ready.
func (w JobSnapshot) unused(due Time) Time {
	return max(due, w.Job.Updated+1, w.Guards.turns().Named+1)
}

// free is the first millisecond from due on that is not the due time of an unfinished run of the job. A
// manual run also avoids the due times of the schedule, whose runs are not planned yet.
func (w JobSnapshot) free(job *Job, due Time, manual bool) Time {
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
func (w JobSnapshot) CancelRun(id RunID, now Time) (Change, error) {
	i := slices.IndexFunc(w.Runs, func(r Run) bool { return r.ID == id })
	if i < 0 {
		return Change{}, fmt.Errorf("%w: %s has ended already", ErrConflict, id)
	}
	run := w.Runs[i]
	if run.State != StateWaiting {
		run.Flags |= FlagStop
		run.Reason = "canceled by request"
		return Change{Runs: []Run{run}}, nil
	}
	d := Candidate{Job: &w.Job, Run: run, Guards: w.Guards}
	c := Change{Runs: []Run{run.ended(&w.Job, StateCanceled, "canceled by request", now)}}
	if next := d.plan(&c.Runs[0], false); next != nil && w.Job.State != JobCanceled {
		if w.Job.State == JobPaused {
			*next = next.hold(now)
		}
		c.Runs = append(c.Runs, *next)
	}
	c.settle(&w.Job)
	return d.leaveTurn(c), nil
}

package carillon

import (
	"cmp"
	"fmt"
	"slices"
)

// Candidate is a waiting run whose wake has come, with everything that a decision about it needs.
type Candidate struct {
	Job    *Job
	Run    Run
	Guards Guards // of a guarded run
	// Others are the unfinished runs among those that NeedsOthers names.
	Others []Run
	// Limits are those of the job, and those that operators set for it. Counters are their guards; a claim
	// needs none, because it takes slots by folds.
	Limits   []Limit
	Counters []Guard
	// Gate is the oldest closed gate that matches the job; nil: none. Line is the gate that Run.Hold names,
	// as long as it is known.
	Gate   *Gate
	Line   *Gate
	Worker string // the worker that wants to claim the run; empty: none yet, decide without a claim
	// Reuse is a list that the change of a claim can take for its runs, with what is in it; nil: a new list.
	Reuse []Run
}

// Verdict is the result of a decision.
type Verdict uint8

const (
	VerdictReady Verdict = iota + 1 // the run may start: pass it to the workers; there is nothing to commit
	VerdictClaim                    // the Change claims it for the worker
	VerdictEnd                      // the Change ends it: skipped
	VerdictWait                     // the Change makes it wait for its turn
	// it is on hold, or waits in a line already: there is nothing to commit, and what ends that passes it on
	VerdictHold
)

// Decide says what happens to a due run at now. The misfire policy decides if the run is late, the overlap
// policy if another run of its job is unfinished; otherwise the run starts. A claim of a run by the clock
// plans its successor in the same change, so that a schedule can neither stop nor fork. A run on hold stays
// as it is, whatever its wake. A run that comes to a closed gate waits there, or is skipped.
func (d Candidate) Decide(now Time) (Verdict, Change) {
	if d.Run.Has(FlagOnHold) {
		return VerdictHold, Change{}
	}
	if first, missed := d.missed(now); missed {
		return VerdictEnd, d.skipTo(first, now)
	}
	if verdict, c, decided := d.gated(now); decided {
		return verdict, c
	}
	if !d.Run.Has(FlagGuarded) {
		return d.start(now)
	}
	t := d.Guards.turns()
	// Its turn has come, but its due time, an unused name, is a moment ahead of the clock; see ready.
	if ready := d.Run.ready(now); d.Run.Attempt == 0 && ready > now && t.has(d.Run.ID.Due) {
		c := d.wait(now)
		c.Runs[0].Wake = ready
		return VerdictWait, c
	}
	if t.free(d.Run.ID.Due) && !d.crowded(t) {
		return d.start(now)
	}
	if t.has(d.Run.ID.Due) { // it keeps its place, even if the policy has changed since
		return VerdictWait, d.wait(now)
	}
	switch d.policy(now) {
	case OverlapQueue:
		if len(t.Queue) > 0 {
			return VerdictEnd, d.skip(
				fmt.Sprintf("overlap: %s waits already", RunID{d.Job.ID, t.Queue[0]}), now,
			)
		}
	case OverlapQueueAll:
		if len(t.Queue) >= maxQueued && d.Run.RetryOf != 0 {
			return VerdictWait, d.wait(now)
		}
		if len(t.Queue) >= maxQueued {
			return VerdictEnd, d.skip(fmt.Sprintf("overlap: %d runs wait already", maxQueued), now)
		}
	case OverlapReplace:
		return VerdictWait, d.replace(t, now)
	default:
		return VerdictEnd, d.skip(fmt.Sprintf("overlap: %s has not ended", RunID{d.Job.ID, t.first()}), now)
	}
	return VerdictWait, d.queue(t, now)
}

// NeedsOthers returns the other runs that the decision must read, after the guards: those that the overlap
// guard names. The decision stops them (replace), or waits for runs that ran side by side with this one
// before an edit. A run that gets its place in the guard later changes the guard, so the decision loses.
func (d *Candidate) NeedsOthers() []RunID {
	if !d.Run.Has(FlagGuarded) {
		return nil
	}
	t := d.Guards.turns()
	replaces := d.Job.Overlap == OverlapReplace && d.Run.RetryOf == 0 && !t.free(d.Run.ID.Due) &&
		!t.has(d.Run.ID.Due)
	if !replaces && len(t.Beside) == 0 {
		return nil
	}
	ids := make([]RunID, 0, 1+len(t.Beside)+len(t.Queue))
	for _, due := range slices.Concat([]Time{t.Holder}, t.Beside, t.Queue) {
		if due != 0 && due != d.Run.ID.Due {
			ids = append(ids, RunID{d.Job.ID, due})
		}
	}
	return ids
}

// crowded says that a run which has its turn must still wait: a worker holds another run that began before
// the overlap policy forbade it. Only the holder of the turn can begin, so a run beside it that no worker
// holds now stays so.
func (d Candidate) crowded(t turns) bool {
	return slices.ContainsFunc(d.Others, func(r Run) bool {
		return r.State.Held() && slices.Contains(t.Beside, r.ID.Due)
	})
}

// policy is the overlap policy for this run. Runs that catch up with missed times, and runs that repeat
// finished ones, wait for each other: a person who asked for all of them would otherwise get the first and a
// list of skips.
func (d Candidate) policy(now Time) Overlap {
	if d.Run.RetryOf != 0 {
		return OverlapQueueAll
	}
	if d.Job.Overlap == OverlapSkip && d.Job.Misfire.Policy == MisfireAll && d.Run.ByClock() &&
		now.Sub(d.Run.ID.Due) > grace {
		return OverlapQueueAll
	}
	return d.Job.Overlap
}

// missed applies the misfire policy to a run by the clock that was never claimed.
func (d *Candidate) missed(now Time) (first Time, missed bool) {
	if d.Run.Attempt > 0 || !d.Run.ByClock() || d.Run.Has(FlagPlanned) || !d.Run.Has(FlagMisfirePolicy) {
		return 0, false
	}
	// It came in time, and waited in a line. A later due time in its place would wait again, at the end.
	if d.Run.Has(FlagParked) {
		return 0, false
	}
	first = d.Job.Misfire.first(&d.Job.Schedule, d.Run.Covers, now)
	return first, first != d.Run.Covers
}

// skipTo records the due times before first as missed and plans first. If first is 0, it plans the next due
// time after now.
func (d Candidate) skipTo(first, now Time) Change {
	run := d.Run.End(StateSkipped, "missed: no worker could run it at its time", now)
	run.About = d.Job.about()
	next, until := first, first-1
	if first == 0 {
		next, until = d.Job.Schedule.Next(now), now
	}
	if last := d.Job.Schedule.Last(until); last > d.Run.Covers {
		run.Until = last
	}
	if first != 0 {
		run.Reason = fmt.Sprintf("missed: %s runs in its place", RunID{d.Job.ID, first})
	}
	c := Change{Runs: []Run{run.expire(d.Job)}}
	if next != 0 {
		c.Runs = append(c.Runs, d.successor(next, false))
	}
	c.settle(d.Job)
	return d.leaveTurn(c)
}

func (d *Candidate) start(now Time) (Verdict, Change) {
	if d.Worker == "" {
		return d.ready(now)
	}
	// A node of another version may have planned it without all needs. Then this worker may not have them. Or
	// it was not put in the line of its job, in which runs start in the order of their due times.
	needs, line := d.Job.needs(), d.Job.line()
	if d.Run.Needs != "" && d.Run.Needs != needs || d.Run.Hold == "" && line != "" {
		run := d.Run
		run.Needs, run.Share = needs, d.Job.share()
		if run.Hold == "" {
			run.Hold = line
		}
		return VerdictWait, Change{Runs: []Run{run}}
	}
	at, t := now, turns{}
	if d.Run.Has(FlagGuarded) {
		t = d.Guards.turns()
		at = max(at, t.Claimed+1)
	}
	run := d.Run.Claim(d.Worker, at)
	// at can be ahead of the clock, but the watch loop must find the run by the clock.
	run.Wake = min(d.Run.Wake, now)
	run.Needs, run.Share = d.Job.needs(), d.Job.share() // a row from before runs knew them
	c := Change{Runs: append(d.Reuse[:0], run)}
	if next := d.plan(&c.Runs[0], true); next != nil {
		c.Runs = append(c.Runs, *next)
	}
	d.startsLate(&c, now)
	c.takeSlots(d.Limits, &d.Run)
	if run.Has(FlagGuarded) && t.Holder != run.ID.Due { // a retry has its turn already
		t = t.without(run.ID.Due)
		t.Holder, t.Claimed = run.ID.Due, run.Claimed
		c.setTurns(t, *d.Guards.Of(GuardOverlap))
	}
	return VerdictClaim, c
}

// ready says that the run may start, unless a limit has no room for it: then it waits in the line of that
// limit. A limit that has room now can be full when a worker claims the run; then it is decided again.
func (d *Candidate) ready(now Time) (Verdict, Change) {
	switch limit := d.full(now); {
	case limit == nil:
		return VerdictReady, Change{}
	case d.Run.Hold == limit.Hold() && d.Run.Wake == Never:
		return VerdictHold, Change{}
	default:
		return VerdictWait, d.Run.Park(limit.Hold())
	}
}

func (d Candidate) skip(reason string, now Time) Change {
	run := d.Run.End(StateSkipped, reason, now).expire(d.Job)
	run.About = d.Job.about()
	c := Change{Runs: []Run{run}}
	if next := d.plan(&c.Runs[0], false); next != nil {
		c.Runs = append(c.Runs, *next)
	}
	c.settle(d.Job)
	// compared: the reason for the skip must still hold
	c.setTurns(d.Guards.turns(), *d.Guards.Of(GuardOverlap))
	return c
}

// wait sets a later wake, so that the run is decided again then. It neither changes nor compares the guard: a
// thousand runs that wait in one line would make each other lose. If the turn became free meanwhile, the
// claim that loses to this change is decided again.
func (d Candidate) wait(now Time) Change {
	run := d.Run
	run.Wake = now.Add(repairCheck)
	c := Change{Runs: []Run{run}}
	if next := d.plan(&c.Runs[0], true); next != nil {
		c.Runs = append(c.Runs, *next)
	}
	return c
}

func (d Candidate) queue(t turns, now Time) Change {
	c := d.wait(now)
	t.Queue = append(slices.Clone(t.Queue), d.Run.ID.Due)
	c.setTurns(t, *d.Guards.Of(GuardOverlap))
	return c
}

// replace asks the run that has the turn to stop, ends the runs that wait in line, and makes this run wait
// until they are gone. A run that is in line but not among Others stays there: only a decision that has read
// it can end it. A run that repeats another one goes on, or stays in line behind this one: a person asked for
// it, and it would be lost.
func (d Candidate) replace(t turns, now Time) Change {
	unbegun := d.unbegun(t)
	next := d.afterUnbegun(unbegun)
	t.Replaced += len(unbegun)
	was := *d.Guards.Of(GuardOverlap)
	d.Guards = d.Guards.With(t.guard(was)) // usedUp reads the new count from it
	c := d.wait(now)
	if next != nil {
		c.Runs = append(c.Runs, *next)
	}
	line := t
	line.Queue = append(slices.Clone(t.Queue), d.Run.ID.Due)
	reason := "replaced by " + d.Run.ID.String()
	for _, other := range d.Others {
		switch {
		case !t.has(other.ID.Due), other.RetryOf != 0:
			continue
		// between two attempts: nothing has to stop first
		case other.State == StateWaiting && other.Attempt > 0:
			other = other.ended(d.Job, StateCanceled, reason, now)
			line = line.ended(&other)
		case other.State == StateWaiting:
			other = other.ended(d.Job, StateSkipped, reason, now)
			line = line.without(other.ID.Due)
		case other.Has(FlagStop):
			continue
		default:
			other.Flags |= FlagStop
			other.Reason = reason
		}
		c.Runs = append(c.Runs, other)
	}
	c.settle(d.Job)
	line = line.before(d.Run.ID.Due, d.Others)
	c.setTurns(line, was)
	if line.free(d.Run.ID.Due) {
		c.Runs[0].Wake = now
	}
	return c
}

// unbegun are the runs by the clock that replace ends before they began.
func (d Candidate) unbegun(t turns) (list []Run) {
	for _, other := range d.Others {
		if other.ByClock() && other.State == StateWaiting && other.Attempt == 0 && t.has(other.ID.Due) {
			list = append(list, other)
		}
	}
	return list
}

// afterUnbegun is the run by the clock that follows runs which are replaced before they began: max_runs had
// left no room for it, but these runs do not count. A run by the clock that replaces them plans it itself.
func (d Candidate) afterUnbegun(unbegun []Run) *Run {
	if d.Run.ByClock() || len(unbegun) == 0 {
		return nil
	}
	last := slices.MaxFunc(unbegun, func(a, b Run) int { return cmp.Compare(a.Covers, b.Covers) })
	d.Run = last // successor numbers the run after it
	due := d.Job.Schedule.Next(last.Covers)
	next := d.successor(due, true)
	if due == 0 || d.Job.Version != 1 || !d.usedUp(&next) {
		return nil // the schedule is over, or goes on already; an edit may have begun another one since
	}
	counted := next
	counted.Seq -= int32(len(unbegun))
	if d.usedUp(&counted) {
		return nil
	}
	return &next
}

func (r Run) ended(job *Job, state State, reason string, now Time) Run {
	r = r.End(state, reason, now).expire(job)
	r.About = job.about()
	return r
}

// plan returns the successor of run by the schedule and marks run as planned. It returns nil if run is not by
// the clock, has a successor already, or is the last one.
func (d Candidate) plan(run *Run, counts bool) *Run {
	if !run.ByClock() || run.Has(FlagPlanned) || !d.Job.Schedule.Recurring() {
		return nil
	}
	run.Flags |= FlagPlanned
	due := d.Job.Schedule.Next(run.Covers)
	next := d.successor(due, counts)
	if due == 0 || d.usedUp(&next) {
		return nil
	}
	return &next
}

// usedUp says that max_runs leaves no room for a next run by the clock.
func (d Candidate) usedUp(next *Run) bool {
	limit := d.Job.Schedule.MaxRuns
	return limit > 0 && int(next.Seq) >= limit && int(next.Seq)-d.Guards.turns().Replaced >= limit
}

// successor is the run by the clock at due. counts says whether the run before it counts for max_runs.
func (d Candidate) successor(due Time, counts bool) Run {
	next := NewRun(d.Job, due)
	next.Covers, next.Seq = due, d.Run.Seq
	if counts {
		next.Seq++
	}
	return next
}

// leaveTurn takes a guarded run out of its guard, and lets the store compare the guard.
func (d Candidate) leaveTurn(c Change) Change {
	if guard := d.Guards.Of(GuardOverlap); guard != nil && d.Run.Has(FlagGuarded) {
		c.setTurns(turnsOf(guard).ended(&d.Run), *guard)
	}
	return c
}

// EndChange is the change for a finished attempt: the run as Finish left it, its slots given back and, if the
// run has ended, its guard without it, and the job's unique key free.
func EndChange(job *Job, run Run, guards Guards) Change {
	c := Change{Runs: []Run{run}}
	c.settle(job)
	c.giveBack(&c.Runs[0])
	if guard := guards.Of(GuardOverlap); guard != nil && run.State.Ended() && run.Has(FlagGuarded) {
		c.setTurns(turnsOf(guard).ended(&run), *guard)
	}
	return c
}

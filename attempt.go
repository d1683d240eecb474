package carillon

import (
	"fmt"
	"strings"
	"time"
)

// Outcome is how one attempt ended, as its executor saw it.
type Outcome struct {
	Kind       OutcomeKind
	Exit       uint8  // the exit code of a command that failed; 0: none
	Status     uint16 // the status that an http target answered as it failed; 0: none
	Reason     string
	Output     *Output
	Started    Time          // when the executor began
	RetryAfter time.Duration // at least this long before the next attempt; 0: by the job's policy
}

// OutcomeKind tells a failure that is worth a retry from one that is not, and both from an attempt that did
// not end by itself.
type OutcomeKind uint8

const (
	OutcomeSuccess OutcomeKind = iota + 1
	OutcomeRetriable
	OutcomeFatal
	OutcomeStopped // a caller or a replacing run asked it to stop, and it is gone
	OutcomeLost    // its worker released it: lease over, shutdown. Costs no attempt
	OutcomeCrashed // its worker died
)

// Claim gives a waiting run to a worker. A run that waited for its turn has a wake in the future; from its
// claim on the watch loop must find it, in case the worker dies. A run that only waited for its due time
// keeps its wake, so no index entry moves. The time of the claim never goes back from attempt to attempt,
// even if the clock does, because the fence is made from it.
func (r Run) Claim(worker string, now Time) Run {
	r.Wake = min(r.Wake, now)
	r.Hold, r.Flags = "", r.Flags&^FlagParked
	r.State, r.Worker, r.Reason, r.Claimed, r.Started = StateClaimed, worker, "", max(now, r.Claimed), 0
	r.Attempt++
	return r
}

// NeedsNoDecision says that a due run needs no decision: it has no guard, and the misfire policy does not
// apply to it or the run is not late enough for it.
func (r *Run) NeedsNoDecision(now Time) bool { return !r.Has(FlagGuarded) && !r.mayBeMissed(now) }

// NeedsOnlyGuard says that only the guard decides about a due run.
func (r *Run) NeedsOnlyGuard(now Time) bool { return r.Has(FlagGuarded) && !r.mayBeMissed(now) }

// mayBeMissed says that the misfire policy has to decide about a due run: see Candidate.missed.
func (r *Run) mayBeMissed(now Time) bool {
	return r.Has(FlagMisfirePolicy) && !r.Has(FlagPlanned|FlagParked) && r.Attempt == 0 && r.ByClock() &&
		now.Sub(r.Covers) >= minEvery
}

// Begin records that a claimed run has begun. A short run ends before this is written.
func (r Run) Begin(started, now Time) Run {
	r.State, r.Started = StateRunning, r.began(started, now)
	return r
}

// began is when an attempt began, by the store's clock. A worker on another machine says it by its own clock,
// which may be wrong: it was not before the claim and not after now.
func (r *Run) began(said, now Time) Time {
	if said == 0 {
		return 0
	}
	return max(min(said, now), r.Claimed)
}

// End makes the run terminal.
func (r Run) End(state State, reason string, now Time) Run {
	r.State, r.Reason, r.Ended, r.Wake, r.Flags = state, reason, now, 0, r.Flags&^(FlagOnHold|FlagStop)
	r.Needs, r.Share, r.Hold = "", "", ""
	return r
}

// Finish applies an outcome to a held run: the run ends, or waits for its next attempt. random is from [0,1).
func (r Run) Finish(job *Job, o Outcome, now Time, random float64) Run {
	rule := job.Retry.Rules.of(&o)
	if rule != nil {
		o.Kind = rule.kind()
	}
	if o.Output != nil {
		r.Output = o.Output
	}
	if r.Started == 0 {
		r.Started = r.began(o.Started, now)
	}
	// A run that was only put off, because its host or its worker is not ready, can be so a thousand times.
	if putOff := o.Kind == OutcomeLost && o.RetryAfter > 0; !putOff &&
		(r.Attempt > 1 || o.Kind != OutcomeSuccess) {
		r.record(&o, now)
	}
	stop := r.Reason // why it was asked to stop, if it was
	r.About, r.Reason = r.aboutOf(job), o.Reason
	switch o.Kind {
	case OutcomeSuccess:
		return r.End(StateSucceeded, "", now).expire(job)
	case OutcomeRetriable, OutcomeFatal:
		r.Failures++
	case OutcomeLost:
		r.Losses++
	case OutcomeCrashed:
		r.Losses++
		r.Crashes++
	}
	switch {
	case o.Kind == OutcomeStopped, r.Has(FlagStop) && stop == "":
		return r.End(StateCanceled, o.Reason, now).expire(job)
	case r.Has(FlagStop): // it ended otherwise before it could be stopped
		return r.End(StateCanceled, stop+": "+o.Reason, now).expire(job)
	case o.Kind == OutcomeFatal, o.Kind == OutcomeRetriable && r.Failures >= job.Retry.attempts(rule):
		return r.fail(job, o.Reason, now)
	case r.Crashes >= job.Retry.MaxCrashes:
		died := plural(int(r.Crashes), "time")
		return r.fail(job, "quarantined: its worker died "+died+" while it ran", now)
	case r.Has(FlagNoRetry):
		return r.End(StateCanceled, afterCancel+o.Reason, now).expire(job)
	}
	return r.again(job, o, now, job.Retry.afterRule(rule, int(r.Failures), random))
}

// fail ends the run for good: it becomes a dead letter.
func (r Run) fail(job *Job, reason string, now Time) Run {
	if job.PauseAfter > 0 {
		r.Flags |= FlagPauseAfter
	}
	return r.End(StateFailed, reason, now).expire(job)
}

// again puts the run back to waiting. A lost run does not wait, because the loss was not its fault: it wakes
// at its due time, so that it comes before every run that is due later. But a worker that was given a run
// that it cannot perform asks for a moment, or it could get the run again at once, again and again.
// delay is that of the job after a failure.
func (r Run) again(job *Job, o Outcome, now Time, delay time.Duration) Run {
	r.State, r.Worker, r.Wake = StateWaiting, "", min(r.ID.Due, now)
	r.Hold = job.line()
	switch {
	case o.Kind == OutcomeRetriable:
		r.Wake = now.Add(max(delay, o.RetryAfter))
	case o.Kind == OutcomeLost && o.RetryAfter > 0:
		r.Wake = now.Add(o.RetryAfter)
	}
	if r.Has(FlagOnHold) {
		r = r.hold(now)
	}
	return r
}

// Records says whether the run is in the state that the outcome of the given attempt left it in. If so, this
// is a repeated report, which was recorded the first time. A run that another party took back or stopped has
// a different state or reason.
func (r *Run) Records(attempt Held, o *Outcome) bool {
	if r.Held() != attempt || r.State.Held() {
		return false
	}
	switch o.Kind {
	case OutcomeSuccess:
		return r.State == StateSucceeded
	case OutcomeStopped:
		return r.State == StateCanceled
	}
	return r.State != StateSucceeded && (r.Reason == o.Reason || strings.HasSuffix(r.Reason, ": "+o.Reason))
}

// afterCancel begins the reason of a run that would have had another attempt if its job had not been
// canceled.
const afterCancel = "the job was canceled: "

func (r Run) expire(job *Job) Run {
	if keep := job.Retention.Runs; keep != 0 {
		r.Expires = r.Ended.Add(keep.Std())
	}
	if keep := job.Retention.DeadLetters; keep != 0 && r.State == StateFailed {
		r.DeadExpires = r.Ended.Add(keep.Std())
	}
	return r
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

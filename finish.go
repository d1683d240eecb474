package carillon

import (
	"fmt"
	"time"
)

// Outcome is how one attempt ended, as its executor saw it.
type Outcome struct {
	Kind       OutcomeKind
	Reason     string
	Output     *Output
	Started    Time          // when the executor began
	RetryAfter time.Duration // at least this long before the next attempt; 0: by the job's policy
}

// OutcomeKind tells a failure worth repeating from one that is not, and both from an attempt that had no say.
type OutcomeKind uint8

const (
	Success OutcomeKind = iota + 1
	Retriable
	Fatal
	Stopped // ended because somebody asked for it, and is gone
	Lost    // ended because its worker let go of it: lease over, shutdown. Costs no attempt
	Crashed // its worker died
)

// Claim gives a waiting run to a worker. A run that waited its turn has a wake in the future; from its claim on the watch
// loop must find it, in case the worker dies. A run that only waited for its due time keeps its wake, so no index moves.
// The time of the claim never goes back from attempt to attempt, even if the clock does: it makes the fence.
func (r Run) Claim(worker string, now Time) Run {
	r.Wake = min(r.Wake, now)
	r.State, r.Worker, r.Reason, r.Claimed, r.Started = Claimed, worker, "", max(now, r.Claimed), 0
	r.Attempt++
	return r
}

// Plain says that a due run needs no decision: it has no guard, and the misfire policy has nothing to say about it or
// it is too fresh for that.
func (r *Run) Plain(now Time) bool {
	return !r.Has(Guarded) && (!r.Has(Missable) || r.Attempt > 0 || !r.ByClock() || now.Sub(r.Covers) < MinEvery)
}

// Begin records that a claimed run is going on. Short runs end before anybody writes this.
func (r Run) Begin(started Time) Run {
	r.State, r.Started = Running, started
	return r
}

// End makes the run terminal.
func (r Run) End(state State, reason string, now Time) Run {
	r.State, r.Reason, r.Ended, r.Wake, r.Flags = state, reason, now, 0, r.Flags&^(OnHold|Stop)
	return r
}

// Finish applies an outcome to a held run: it ends, or waits for its next attempt. random is from [0,1).
func (r Run) Finish(job *Job, o Outcome, now Time, random float64) Run {
	if o.Output != nil {
		r.Output = o.Output
	}
	if r.Started == 0 {
		r.Started = o.Started
	}
	r.About, r.Reason = job.about(), o.Reason
	switch o.Kind {
	case Success:
		return r.End(Succeeded, "", now).expire(job)
	case Retriable, Fatal:
		r.Failures++
	case Lost:
		r.Losses++
	case Crashed:
		r.Losses++
		r.Crashes++
	}
	switch {
	case o.Kind == Stopped, r.Has(Stop):
		return r.End(Canceled, o.Reason, now).expire(job)
	case o.Kind == Fatal, o.Kind == Retriable && int(r.Failures) >= job.Retry.MaxAttempts:
		return r.End(Failed, o.Reason, now).expire(job)
	case int(r.Crashes) >= job.Retry.MaxCrashes:
		return r.End(Failed, "quarantined: its worker died "+plural(int(r.Crashes), "time")+" while it ran", now).expire(job)
	case r.Has(Last):
		return r.End(Canceled, afterCancel+o.Reason, now).expire(job)
	}
	return r.again(job, o, now, random)
}

// again puts the run back to waiting. A loss waits for nothing, it was not the run's fault: it is awake since its due
// time, so that it comes before everything that is due later.
func (r Run) again(job *Job, o Outcome, now Time, random float64) Run {
	r.State, r.Worker, r.Wake = Waiting, "", min(r.ID.Due, now)
	if o.Kind == Retriable {
		r.Wake = now.Add(max(job.Retry.After(int(r.Failures), random), o.RetryAfter))
	}
	if r.Has(OnHold) && r.Wake <= now {
		r.Wake = Never
	}
	return r
}

// Records says that the run is as an outcome of the given attempt has left it: a report of it that comes again was recorded
// the first time. What others make of a run, who take it back or stop it, reads differently.
func (r *Run) Records(attempt Held, o *Outcome) bool {
	if r.Held() != attempt || r.State.Held() {
		return false
	}
	switch o.Kind {
	case Success:
		return r.State == Succeeded
	case Stopped:
		return r.State == Canceled
	}
	return r.State != Succeeded && (r.Reason == o.Reason || r.Reason == afterCancel+o.Reason)
}

// afterCancel begins the reason of a run that would have been tried again, had its job not been canceled.
const afterCancel = "the job was canceled: "

func (r Run) expire(job *Job) Run {
	if keep := job.Retention.Runs; keep != 0 {
		r.Expires = r.Ended.Add(keep.Std())
	}
	if keep := job.Retention.DeadLetters; keep != 0 && r.State == Failed {
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

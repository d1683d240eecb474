package carillon

import (
	"math"
	"time"
)

// Retry says how often a failing run is tried again, and how long it waits between two attempts.
type Retry struct {
	MaxAttempts int32 `json:"max_attempts"` // failures after which the run is a dead letter; default 3
	// MaxCrashes ends a run whose worker died this often while it ran: the run would take down the next
	// worker too. Default 5.
	MaxCrashes int32    `json:"max_crashes"`
	Backoff    Backoff  `json:"backoff"`   // default exponential
	Delay      Duration `json:"delay"`     // before the second attempt; Zero: none. Default 1s
	MaxDelay   Duration `json:"max_delay"` // cap before jitter; default 10m, or Delay if longer
	// Jitter is up to which share is added, never taken away; Zero: none. Default 0.2.
	Jitter float64 `json:"jitter"`
}

// Equal says that two retry rules are the same.
func (r Retry) Equal(other Retry) bool { return r == other }

// Backoff is how the delay grows from one failure to the next.
type Backoff string

const (
	BackoffExponential Backoff = "exponential" // doubles
	BackoffFixed       Backoff = "fixed"
)

// After is how long to wait after the given number of failures; random is from [0,1). Jitter only adds: a
// target that asked for a pause gets at least that, and the retries of a burst spread out instead of coming
// back together.
func (r Retry) After(failures int, random float64) time.Duration {
	delay := float64(r.Delay)
	if r.Backoff == BackoffExponential {
		delay *= math.Pow(2, float64(max(failures-1, 0)))
	}
	delay = min(delay, float64(r.MaxDelay))
	return time.Duration(delay * (1 + r.Jitter*random)).Truncate(time.Millisecond)
}

func (r *Retry) admit() *FieldError {
	if r.MaxDelay == 0 {
		r.MaxDelay = max(Duration(10*time.Minute), r.Delay)
	}
	switch {
	case r.MaxAttempts < 1 || r.MaxAttempts > 1000:
		return invalid("retry.max_attempts", r.MaxAttempts, "a number from 1 to 1000")
	case r.Backoff != BackoffExponential && r.Backoff != BackoffFixed:
		return invalid("retry.backoff", r.Backoff, "exponential or fixed")
	case r.Delay > Duration(365*24*time.Hour):
		return invalid("retry.delay", r.Delay, "at most 365d")
	case r.MaxDelay > Duration(365*24*time.Hour):
		return invalid("retry.max_delay", r.MaxDelay, "at most 365d")
	case r.MaxDelay < r.Delay:
		return invalid("retry.max_delay", r.MaxDelay, "at least retry.delay, which is %s", r.Delay)
	case !(r.Jitter >= 0 && r.Jitter <= 1):
		return invalid("retry.jitter", r.Jitter, "a number from 0 to 1")
	case r.MaxCrashes < 1 || r.MaxCrashes > 1000:
		return invalid("retry.max_crashes", r.MaxCrashes, "a number from 1 to 1000")
	}
	return nil
}

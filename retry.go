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
	// Rules make exceptions for some failures. Behind a pointer, because few jobs have any. Default none.
	Rules *RetryRules `json:"rules,omitempty"`
}

// Equal says that two retry policies are the same.
func (r Retry) Equal(other Retry) bool {
	same := r.Rules.equal(other.Rules)
	r.Rules, other.Rules = nil, nil
	return same && r == other
}

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
	return r.jittered(min(delay, float64(r.MaxDelay)), random)
}

func (r Retry) jittered(delay, random float64) time.Duration {
	return time.Duration(delay * (1 + r.Jitter*random)).Truncate(time.Millisecond)
}

// attempts is how many failures a run can have if the last one matches the rule (nil: none).
func (r *Retry) attempts(rule *RetryRule) int32 {
	if rule == nil || rule.MaxAttempts == 0 {
		return r.MaxAttempts
	}
	return rule.MaxAttempts
}

// afterRule is After for a failure that matches the rule (nil: none).
func (r *Retry) afterRule(rule *RetryRule, failures int, random float64) time.Duration {
	if rule == nil || rule.After == 0 {
		return r.After(failures, random)
	}
	return r.jittered(float64(rule.After), random)
}

func (r *Retry) admit() *FieldError {
	if len(r.Rules.list()) == 0 {
		r.Rules = nil
	} else if err := r.Rules.admit(); err != nil {
		return err.In("retry")
	}
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

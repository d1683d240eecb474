package carillon

import "encoding/json"

// plainHookJob is a HookJob without its methods.
type plainHookJob HookJob

// hookJobJSON is the JSON of a HookJob: a field that is Zero is 0 there, and one that is zero is left out.
// Its own fields hide those of the same name that are embedded.
type hookJobJSON struct {
	*plainHookJob
	Priority *int       `json:"priority,omitempty"`
	Timeout  *Duration  `json:"timeout,omitempty"`
	Retry    *retryJSON `json:"retry,omitempty"`
}

type retryJSON struct {
	*Retry
	MaxAttempts *int32    `json:"max_attempts,omitempty"`
	MaxCrashes  *int32    `json:"max_crashes,omitempty"`
	Backoff     Backoff   `json:"backoff,omitempty"`
	Delay       *Duration `json:"delay,omitempty"`
	MaxDelay    *Duration `json:"max_delay,omitempty"`
	Jitter      *float64  `json:"jitter,omitempty"`
}

// MarshalJSON writes the fields that were given.
func (j HookJob) MarshalJSON() ([]byte, error) {
	v := hookJobJSON{
		plainHookJob: (*plainHookJob)(&j), Priority: given(j.Priority), Timeout: given(j.Timeout),
	}
	if r := &j.Retry; !r.Equal(Retry{}) {
		v.Retry = &retryJSON{
			Retry: r, MaxAttempts: given(r.MaxAttempts), MaxCrashes: given(r.MaxCrashes), Backoff: r.Backoff,
			Delay: given(r.Delay), MaxDelay: given(r.MaxDelay), Jitter: given(r.Jitter),
		}
	}
	return marshal(v)
}

// UnmarshalJSON reads what MarshalJSON writes. The strict decoder reads what callers give.
func (j *HookJob) UnmarshalJSON(b []byte) error {
	v := hookJobJSON{plainHookJob: new(plainHookJob), Retry: &retryJSON{Retry: new(Retry)}}
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*j = HookJob(*v.plainHookJob)
	j.Priority, j.Timeout = asGiven(v.Priority), asGiven(v.Timeout)
	if r := v.Retry; r != nil {
		j.Retry = *r.Retry
		j.Retry.MaxAttempts, j.Retry.MaxCrashes, j.Retry.Backoff =
			asGiven(r.MaxAttempts), asGiven(r.MaxCrashes), r.Backoff
		j.Retry.Delay, j.Retry.MaxDelay, j.Retry.Jitter =
			asGiven(r.Delay), asGiven(r.MaxDelay), asGiven(r.Jitter)
	}
	return nil
}

// given is nil for a number that is not given.
func given[T int | int32 | float64 | Duration](n T) *T {
	switch n {
	case 0:
		return nil
	case Zero:
		return new(T)
	}
	return &n
}

// asGiven is the number that given wrote.
func asGiven[T int | int32 | float64 | Duration](n *T) T {
	switch {
	case n == nil:
		return 0
	case *n == 0:
		return Zero
	}
	return *n
}

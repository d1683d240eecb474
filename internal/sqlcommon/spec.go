// Package sqlcommon is what the SQL stores have in common: how they write definitions and the attempts that
// workers hold, the steps of a schema, and how they search. Bytes that one store wrote mean the same to all.
package sqlcommon

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillon-run/carillon"
)

// spec holds the values of a definition that are not usual, as JSON. Name, type, owner and payload have their
// own columns, and so has the time of a one-off. Most of millions of jobs have only usual values: a store
// writes, keeps and parses nothing for them.
type spec struct {
	Labels    map[string]string   `json:"labels,omitempty"`
	Queue     *string             `json:"queue,omitempty"`
	Needs     map[string]string   `json:"needs,omitempty"`
	Priority  *int                `json:"priority,omitempty"`
	FairBy    *string             `json:"fair_by,omitempty"`
	Weight    *int32              `json:"fair_weight,omitempty"`
	Pause     *int32              `json:"pause_after,omitempty"`
	Limits    []carillon.Limit    `json:"limits,omitempty"`
	Unique    *carillon.Unique    `json:"unique,omitempty"`
	Schedule  *carillon.Schedule  `json:"schedule,omitempty"`
	Target    *carillon.Target    `json:"target,omitempty"`
	Timeout   *carillon.Duration  `json:"timeout,omitempty"`
	Retry     *carillon.Retry     `json:"retry,omitempty"`
	Overlap   *carillon.Overlap   `json:"overlap,omitempty"`
	Misfire   *carillon.Misfire   `json:"misfire,omitempty"`
	Retention *carillon.Retention `json:"retention,omitempty"`
	OnFailure *carillon.Hook      `json:"on_failure,omitempty"`
	OnSuccess *carillon.Hook      `json:"on_success,omitempty"`
	Late      *carillon.Hook      `json:"late,omitempty"`
}

// usual has the values of a definition for the fields that its spec leaves out. They are written out here and
// not taken from the defaults: if a default changes one day, stored definitions must not change
// with it.
var usual = carillon.Definition{
	Queue: "default", Priority: 5, FairWeight: 1, Timeout: 0, Overlap: "skip",
	Retry: carillon.Retry{
		MaxAttempts: 3, Backoff: "exponential", Delay: carillon.Duration(time.Second),
		MaxDelay: carillon.Duration(10 * time.Minute),
		Jitter:   0.2, MaxCrashes: 5,
	},
	Misfire: carillon.Misfire{Policy: "once", Max: 100, Window: carillon.Duration(24 * time.Hour)},
}

// Encode returns the spec of a definition whose job row holds due; nil if all values are usual.
func Encode(d *carillon.Definition, due carillon.Time) ([]byte, error) {
	s := spec{
		Labels: d.Labels, Needs: d.Needs, Limits: d.Limits, Unique: d.Unique,
		OnFailure: d.OnFailure, OnSuccess: d.OnSuccess, Late: d.Late,
	}
	differs := len(d.Labels) > 0 || len(d.Needs) > 0 || len(d.Limits) > 0 || d.Unique != nil ||
		d.OnFailure != nil || d.OnSuccess != nil || d.Late != nil
	differs = unless(&s.Queue, &d.Queue, usual.Queue) || differs
	differs = unless(&s.Priority, &d.Priority, usual.Priority) || differs
	differs = unless(&s.FairBy, &d.FairBy, usual.FairBy) || differs
	differs = unless(&s.Weight, &d.FairWeight, usual.FairWeight) || differs
	differs = unless(&s.Pause, &d.PauseAfter, usual.PauseAfter) || differs
	differs = unlessEqual(&s.Schedule, &d.Schedule, carillon.Schedule{At: due}) || differs
	differs = unless(&s.Timeout, &d.Timeout, usual.Timeout) || differs
	differs = unlessEqual(&s.Retry, &d.Retry, usual.Retry) || differs
	differs = unless(&s.Overlap, &d.Overlap, usual.Overlap) || differs
	differs = unlessEqual(&s.Misfire, &d.Misfire, usual.Misfire) || differs
	differs = unlessEqual(&s.Retention, &d.Retention, usual.Retention) || differs
	if d.Target != (carillon.Target{Handler: d.Target.Handler}) || d.Target.Handler == nil {
		s.Target, differs = &d.Target, true
	}
	if !differs {
		return nil, nil
	}
	b, err := json.Marshal(&s)
	if err != nil {
		return nil, fmt.Errorf("write the definition: %w", err)
	}
	return b, nil
}

// unless points to a value if it is not the usual one, and says whether it does.
func unless[T comparable](to **T, value *T, usual T) bool {
	if *value == usual {
		return false
	}
	*to = value
	return true
}

// unlessEqual is unless for parts of a definition, which can hold lists.
func unlessEqual[T interface{ Equal(T) bool }](to **T, value *T, usual T) bool {
	if (*value).Equal(usual) {
		return false
	}
	*to = value
	return true
}

// Decode fills in the part of a definition that Encode wrote.
func Decode(b []byte, due carillon.Time, d *carillon.Definition) error {
	d.Queue, d.Priority, d.Timeout, d.Retry, d.Overlap, d.Misfire, d.Retention =
		usual.Queue, usual.Priority, usual.Timeout, usual.Retry, usual.Overlap, usual.Misfire, usual.Retention
	d.FairBy, d.FairWeight, d.Unique = usual.FairBy, usual.FairWeight, nil
	d.PauseAfter = usual.PauseAfter
	d.OnFailure, d.OnSuccess, d.Late = nil, nil, nil
	d.Needs, d.Limits, d.Schedule = nil, nil, carillon.Schedule{At: due}
	d.Target = carillon.Target{Handler: &carillon.Handler{}}
	if len(b) == 0 {
		d.Labels = map[string]string{}
		return nil
	}
	if limits, only := onlyLimits(b); only {
		d.Labels, d.Limits = map[string]string{}, limits
		return nil
	}
	var s spec
	if err := json.Unmarshal(b, &s); err != nil {
		return fmt.Errorf("read the definition: %w", err)
	}
	if d.Labels = s.Labels; d.Labels == nil {
		d.Labels = map[string]string{}
	}
	d.Needs, d.Limits, d.Unique = s.Needs, s.Limits, s.Unique
	d.OnFailure, d.OnSuccess, d.Late = s.OnFailure, s.OnSuccess, s.Late
	set(&d.Queue, s.Queue)
	set(&d.Priority, s.Priority)
	set(&d.FairBy, s.FairBy)
	set(&d.FairWeight, s.Weight)
	set(&d.PauseAfter, s.Pause)
	set(&d.Schedule, s.Schedule)
	set(&d.Target, s.Target)
	set(&d.Timeout, s.Timeout)
	set(&d.Retry, s.Retry)
	set(&d.Overlap, s.Overlap)
	set(&d.Misfire, s.Misfire)
	set(&d.Retention, s.Retention)
	return nil
}

func set[T any](to *T, value *T) {
	if value != nil {
		*to = *value
	}
}

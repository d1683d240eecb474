package wire

import (
	"bytes"
	"encoding/json"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/jobjson"
)

// JobDetail is a job with its last and next run, which a person wants to know first.
type JobDetail struct {
	carillon.Job
	LastRun *carillon.Run `json:"last_run"` // held by a worker, else the latest that has begun; nil: none
	NextRun *carillon.Run `json:"next_run"` // the waiting run that is due first
	// Reason is why Carillon paused the job; empty: it is not paused, or a caller paused it.
	Reason string `json:"reason,omitempty"`
}

// ListedJob is a job in a list.
type ListedJob struct {
	carillon.Job
	LastRun *carillon.Run `json:"last_run"` // the latest that has begun; nil: none
}

// DueTimes are the coming due times of a job.
type DueTimes struct {
	Timezone string    `json:"timezone,omitempty"` // of a cron schedule
	Items    []DueTime `json:"items"`
}

// DueTime is an instant, and for cron schedules what the clocks of the zone show then.
type DueTime struct {
	Due    carillon.Time `json:"due_at"`
	Local  string        `json:"local,omitempty"`
	Offset string        `json:"offset,omitempty"`
}

// RunRequest is the optional body of a request to run a job now.
type RunRequest struct {
	Payload json.RawMessage `json:"payload"`
}

// Refusal is a job that an application submitted inside its database and that was not admitted, with the
// reason.
type Refusal struct {
	ID     carillon.JobID  `json:"id"`
	At     carillon.Time   `json:"submitted_at"`
	Reason string          `json:"reason"`
	Job    json.RawMessage `json:"job"`
}

// Batch is several definitions that are submitted together. jobjson.DefineBatch reads it.
type Batch = jobjson.Batch

// AppendBatch writes a Batch of definitions that are already JSON.
func AppendBatch(b []byte, defs [][]byte) []byte {
	b = append(b, `{"jobs":[`...)
	return append(append(b, bytes.Join(defs, []byte(","))...), "]}"...)
}

// MarshalDefinition writes a definition for a submit. It leaves out fields that are zero: the server fills in
// their defaults. carillon.Zero is written as 0. jobjson.Define reads it.
func MarshalDefinition(d *carillon.Definition) ([]byte, error) {
	return json.Marshal(definition{
		Definition: d, Name: d.Name, Type: d.Type, Owner: d.Owner, Labels: d.Labels, Queue: d.Queue,
		Needs:    d.Needs,
		Priority: given(&d.Priority), FairWeight: given(&d.FairWeight),
		PauseAfter: given(&d.PauseAfter), Payload: d.Payload,
		Timeout: given(&d.Timeout),
		Retry: retry{
			given(&d.Retry.MaxAttempts), given(&d.Retry.MaxCrashes), d.Retry.Backoff, given(&d.Retry.Delay),
			given(&d.Retry.MaxDelay), given(&d.Retry.Jitter), d.Retry.Rules,
		},
		Overlap:   d.Overlap,
		Misfire:   misfire{d.Misfire.Policy, given(&d.Misfire.Max), given(&d.Misfire.Window)},
		Retention: d.Retention,
	})
}

// definition has fields that hide the embedded ones of the same name, to leave them out when they are zero.
type definition struct {
	*carillon.Definition
	Name       string             `json:"name,omitempty"`
	Type       string             `json:"type,omitempty"`
	Owner      string             `json:"owner,omitempty"`
	Labels     map[string]string  `json:"labels,omitempty"`
	Queue      string             `json:"queue,omitempty"`
	Needs      map[string]string  `json:"needs,omitempty"`
	Priority   *int               `json:"priority,omitempty"`
	FairWeight *int32             `json:"fair_weight,omitempty"`
	PauseAfter *int32             `json:"pause_after,omitempty"`
	Payload    json.RawMessage    `json:"payload,omitempty"`
	Timeout    *carillon.Duration `json:"timeout,omitempty"`
	Retry      retry              `json:"retry,omitzero"`
	Overlap    carillon.Overlap   `json:"overlap,omitempty"`
	Misfire    misfire            `json:"misfire,omitzero"`
	Retention  carillon.Retention `json:"retention,omitzero"`
}

type retry struct {
	MaxAttempts *int32             `json:"max_attempts,omitempty"`
	MaxCrashes  *int32             `json:"max_crashes,omitempty"`
	Backoff     carillon.Backoff   `json:"backoff,omitempty"`
	Delay       *carillon.Duration `json:"delay,omitempty"`
	MaxDelay    *carillon.Duration `json:"max_delay,omitempty"`
	Jitter      *float64           `json:"jitter,omitempty"`

	Rules *carillon.RetryRules `json:"rules,omitempty"`
}

type misfire struct {
	Policy carillon.MisfirePolicy `json:"policy,omitempty"`
	Max    *int                   `json:"max,omitempty"`
	Window *carillon.Duration     `json:"window,omitempty"`
}

// given is nil for a number that is not given.
func given[T int | int32 | float64 | carillon.Duration](n *T) *T {
	switch *n {
	case 0:
		return nil
	case carillon.Zero:
		return new(T)
	}
	return n
}

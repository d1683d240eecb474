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

// MarshalDefinition writes a definition for a submit. It leaves out empty values, for which the server has a
// default or no meaning. jobjson.Define reads it.
func MarshalDefinition(d *carillon.Definition) ([]byte, error) {
	w := definition{
		Definition: d, Name: d.Name, Type: d.Type, Owner: d.Owner, Labels: d.Labels, Queue: d.Queue,
		Payload: d.Payload, Retry: d.Retry, Overlap: d.Overlap, Misfire: d.Misfire,
	}
	if d.Timeout >= 0 { // below 0: not set, see carillon.NewDefinition
		w.Timeout = &d.Timeout
	}
	return json.Marshal(w)
}

// definition has fields that hide the embedded ones of the same name, to leave them out when they are empty.
type definition struct {
	*carillon.Definition
	Name    string             `json:"name,omitempty"`
	Type    string             `json:"type,omitempty"`
	Owner   string             `json:"owner,omitempty"`
	Labels  map[string]string  `json:"labels,omitempty"`
	Queue   string             `json:"queue,omitempty"`
	Payload json.RawMessage    `json:"payload,omitempty"`
	Timeout *carillon.Duration `json:"timeout,omitempty"`
	Retry   carillon.Retry     `json:"retry,omitzero"`
	Overlap carillon.Overlap   `json:"overlap,omitempty"`
	Misfire carillon.Misfire   `json:"misfire,omitzero"`
}

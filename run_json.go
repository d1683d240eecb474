package carillon

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// runJSON is the shape of a run that the API documents.
type runJSON struct {
	ID          RunID           `json:"id"`
	Job         JobID           `json:"job_id"`
	Namespace   string          `json:"namespace"`
	State       State           `json:"state"`
	Status      string          `json:"status"`
	Name        string          `json:"name,omitempty"`
	Type        string          `json:"type,omitempty"`
	Owner       string          `json:"owner,omitempty"`
	Queue       string          `json:"queue"`
	Priority    int8            `json:"priority"`
	Version     int32           `json:"version"`
	Attempt     int32           `json:"attempt"`
	Failures    int32           `json:"failures"`
	Losses      int32           `json:"losses"`
	Fence       string          `json:"fence"` // text: JavaScript's numbers end at 2^53
	Due         Time            `json:"due_at"`
	Covers      Time            `json:"covers_at,omitzero"`
	Until       Time            `json:"until_at,omitzero"`
	NextAttempt Time            `json:"next_attempt_at,omitzero"`
	Claimed     Time            `json:"claimed_at"`
	Started     Time            `json:"started_at"`
	Ended       Time            `json:"ended_at"`
	Worker      string          `json:"worker_id,omitempty"`
	Reason      string          `json:"reason,omitempty"`
	Hold        string          `json:"hold,omitempty"` // what a held run waits for
	Stopping    bool            `json:"stopping,omitempty"`
	RetryOf     RunID           `json:"retry_of,omitzero"`
	Payload     json.RawMessage `json:"payload,omitempty"` // its own payload, not its job's
	Result      json.RawMessage `json:"result,omitempty"`
	Checkpoint  json.RawMessage `json:"checkpoint,omitempty"`
}

// Shape returns a value of the struct that MarshalJSON writes, for the description of the API.
func (Run) Shape() any { return runJSON{} }

// MarshalJSON writes the shape that the API documents.
func (r Run) MarshalJSON() ([]byte, error) {
	about := About{}
	if r.About != nil {
		about = *r.About
	}
	v := runJSON{
		ID: r.ID, Job: r.ID.Job, Namespace: r.Namespace, State: r.State, Status: r.Shown(Now()),
		Name: about.Name, Type: about.Type, Owner: about.Owner,
		Queue: r.Queue, Priority: r.Priority, Version: r.Version, Attempt: r.Attempt, Failures: r.Failures,
		Losses: r.Losses,
		Fence:  strconv.FormatInt(r.Fence(), 10), Due: r.ID.Due, Covers: r.Covers, Until: r.Until,
		Claimed: r.Claimed,
		Started: r.Started, Ended: r.Ended, Worker: r.Worker, Reason: r.Reason,
		Stopping: r.Has(FlagStop) && !r.State.Ended(),
	}
	if r.Parked() {
		v.Hold = r.Hold
	} else if r.State == StateWaiting && !r.Has(FlagOnHold) {
		v.NextAttempt = max(r.Wake, r.ID.Due)
	}
	if r.RetryOf != 0 {
		v.RetryOf = RunID{r.ID.Job, r.RetryOf}
	}
	if r.Output != nil {
		v.Result, v.Checkpoint, v.Payload = text(r.Output.Result), text(r.Output.Checkpoint), r.Output.Payload
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	// A page that shows the JSON escapes it itself; on a terminal a reason should read as it is.
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return b.Bytes(), err
}

// UnmarshalJSON reads what MarshalJSON writes, for clients. It does not read Status, which follows from the
// rest and the time. Fields that only the store and its workers need (Rev, Seq and the like) are not in the
// JSON and stay zero. Writing the run again gives the same JSON.
func (r *Run) UnmarshalJSON(b []byte) error {
	var v runJSON
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	*r = Run{
		ID: v.ID, Namespace: v.Namespace, State: v.State, Queue: v.Queue, Priority: v.Priority,
		Version: v.Version,
		Attempt: v.Attempt, Failures: v.Failures, Losses: v.Losses, Wake: v.NextAttempt, Covers: v.Covers,
		Until:   v.Until,
		Claimed: v.Claimed, Started: v.Started, Ended: v.Ended, Worker: v.Worker, Reason: v.Reason,
		RetryOf: v.RetryOf.Due,
	}
	if about := (About{v.Name, v.Type, v.Owner}); about != (About{}) {
		r.About = &about
	}
	if v.Result != nil || v.Checkpoint != nil || v.Payload != nil {
		r.Output = &Output{Result: v.Result, Checkpoint: v.Checkpoint, Payload: v.Payload}
	}
	if v.Stopping {
		r.Flags |= FlagStop
	}
	if v.State == StateWaiting && v.NextAttempt == 0 { // only a held run, and that of a paused job
		r.Wake, r.Hold = Never, v.Hold
		if v.Hold == "" {
			r.Flags |= FlagOnHold
		}
	}
	return nil
}

// text shows bytes as JSON if they are JSON, else as a string. A reader gets the JSON, so a text comes back
// in quotes: removing them would turn the text "1" into a number when it is written again.
func text(b []byte) json.RawMessage {
	if len(b) == 0 || json.Valid(b) {
		return b
	}
	quoted, _ := json.Marshal(string(b)) // a string always marshals
	return quoted
}

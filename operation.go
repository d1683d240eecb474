package carillon

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Operation is a long action on many things, such as a pause of all jobs that match a filter. A node performs
// it in the background, page by page. Its record shows how far it is, and after a crash any node goes on
// where the record says.
type Operation struct {
	ID     OperationID   `json:"id,omitzero"`
	Kind   OperationKind `json:"kind"`
	Filter JobFilter     `json:"filter,omitzero"` // of kinds that act on jobs
	Dead   *DeadFilter   `json:"dead,omitempty"`  // of the kind redrive: which dead letters
	Rate   int           `json:"rate"`            // things a second, rounded up; 0: as many as it can
	By     string        `json:"by,omitempty"`    // name of the credential that began it
	// KeepRunning says that a cancel lets running runs go on to their end.
	KeepRunning bool         `json:"keep_running,omitempty"`
	Release     *GateRelease `json:"release,omitempty"` // of the kind release: which gate

	State  OperationState `json:"state,omitempty"`
	Reason string         `json:"reason,omitempty"` // why it ended like this
	// Total is how many things match. It rises while the operation is counting. Things can change before
	// their turn comes, so the sum of Done, Failed and Skipped can end below it or above it.
	Total   int              `json:"total"`
	Done    int              `json:"done"`
	Failed  int              `json:"failed"`
	Skipped int              `json:"skipped"` // gone, or changed so that the action no longer applies
	Errors  []OperationError `json:"errors,omitempty"`

	Created Time `json:"created_at,omitzero"`
	Updated Time `json:"updated_at,omitzero"`
	Ended   Time `json:"ended_at,omitzero"`

	Namespace string `json:"-"`
}

// OperationError says why the action failed for one thing. An operation keeps the first ones.
type OperationError struct {
	Item   string `json:"item"` // such as the id of a job
	Reason string `json:"reason"`
}

const (
	// OperationTime is how long the record of an operation is kept after its end.
	OperationTime = 30 * 24 * time.Hour
	// ReleaseTime is the same for a release. People begin other operations, but a program can pause and
	// resume a queue all day.
	ReleaseTime = 24 * time.Hour
	// DefaultOperationRate is the rate of an operation for which the caller chooses none.
	DefaultOperationRate = 100

	// MaxOpenOperations is how many operations of a namespace can be open at the same time, about: requests
	// that begin them at the same moment do not see each other.
	MaxOpenOperations = 100

	maxOperationRate   = 10_000
	maxOperationErrors = 20
	maxOperationReason = 300 // characters
)

// OperationKind is what an operation does to each thing.
type OperationKind string

const (
	OperationPause  OperationKind = "pause"
	OperationResume OperationKind = "resume"
	OperationCancel OperationKind = "cancel"
	OperationRun    OperationKind = "run" // adds a run that is due at once
	// OperationRedrive retries dead letters.
	OperationRedrive OperationKind = "redrive"
	// OperationRelease lets the runs leave that a gate held. It begins when the gate opens: see GateRelease.
	OperationRelease OperationKind = "release"
)

// actsOn says on jobs in which states a kind acts: by default, and if the filter names further ones.
type actsOn struct{ states, further []JobState }

// operationKinds lists the kinds that callers begin and that act on jobs. A kind that acts on other things,
// such as redrive, needs a filter of its own beside Operation.Filter, and a way to find and change these
// things: see internal/operations.
var operationKinds = map[OperationKind]actsOn{
	OperationPause:  {states: []JobState{JobActive}},
	OperationResume: {states: []JobState{JobPaused}},
	OperationCancel: {states: []JobState{JobActive, JobPaused}},
	OperationRun:    {states: []JobState{JobActive}, further: []JobState{JobPaused, JobFinished}},
}

// OperationState is the state of an operation.
type OperationState string

const (
	OperationCounting OperationState = "counting"
	OperationRunning  OperationState = "running"
	OperationDone     OperationState = "done" // it has acted on everything, which can have failed for some
	OperationCanceled OperationState = "canceled"
	OperationFailed   OperationState = "failed" // it cannot go on: see Reason
)

// OperationStates are all states, in the order in which an operation can pass them.
var OperationStates = []OperationState{
	OperationCounting, OperationRunning, OperationDone, OperationCanceled, OperationFailed,
}

// Over says that the operation does nothing more.
func (s OperationState) Over() bool { return s != OperationCounting && s != OperationRunning }

// OperationID is a number like a JobID; its text form is "op_" and 13 characters.
type OperationID int64

const operationPrefix = "op_"

func (id OperationID) String() string {
	return string(appendDigits([]byte(operationPrefix), uint64(id), idDigits))
}

func (id OperationID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

func (id *OperationID) UnmarshalText(b []byte) (err error) {
	*id, err = ParseOperationID(string(b))
	return err
}

// ParseOperationID is as strict as ParseJobID.
func ParseOperationID(s string) (OperationID, error) {
	digits, ok := strings.CutPrefix(s, operationPrefix)
	n, valid := parseDigits(digits, idDigits)
	if !ok || !valid || int64(n) <= 0 {
		return 0, invalid(
			"id", s, "an operation id: op_ and %d characters of 0-9 a-z without i l o u", idDigits,
		)
	}
	return OperationID(n), nil
}

// Shard is the partition of an operation: the node that owns it performs the operation.
func (id OperationID) Shard() int { return JobID(id).Shard() }

// Admit checks what a caller asks for.
func (o *Operation) Admit() error {
	const kinds = "pause, resume, cancel, run or redrive"
	acts, ofJobs := operationKinds[o.Kind]
	switch {
	case o.Kind == OperationRelease:
		return invalid("kind", o.Kind, kinds).because("a release begins when a gate opens")
	case !ofJobs && o.Kind != OperationRedrive:
		return invalid("kind", o.Kind, kinds)
	case o.Rate < 0 || o.Rate > maxOperationRate:
		return invalid("rate", o.Rate, "a number from 1 to %d, or 0 for as many as it can", maxOperationRate)
	}
	if o.KeepRunning && o.Kind != OperationCancel {
		return invalid("keep_running", "true", "it only with cancel").because("the kind is %s", o.Kind)
	}
	if o.Kind == OperationRedrive {
		return o.admitRedrive()
	}
	if o.Dead != nil {
		return invalid("dead", "", "it only with redrive").because("the kind is %s", o.Kind)
	}
	if err := o.Filter.admit(); err != nil {
		return err.In("filter")
	}
	allowed := slices.Concat(acts.states, acts.further)
	for _, state := range o.Filter.States {
		if !slices.Contains(allowed, state) {
			return invalid("filter.states", state, "%s", oneOf(allowed)).because(
				"%s does nothing to a job that is %s", o.Kind, state,
			)
		}
	}
	if len(o.Filter.States) == 0 {
		o.Filter.States = acts.states
	}
	return nil
}

func (o *Operation) admitRedrive() error {
	if !o.Filter.empty() {
		return invalid("filter", "", "the filter of a redrive in dead").because("it chooses jobs")
	}
	if o.Dead == nil {
		o.Dead = &DeadFilter{}
	}
	if err := o.Dead.admitAction(); err != nil {
		return err.In("dead")
	}
	return nil
}

func oneOf(states []JobState) string {
	words := make([]string, len(states))
	for i, state := range states {
		words[i] = state.String()
	}
	return strings.Join(words, " or ")
}

// Fail counts a thing for which the action failed.
func (o *Operation) Fail(item string, err error) {
	o.Failed++
	if len(o.Errors) == maxOperationErrors {
		return
	}
	text := err.Error()
	for _, class := range []error{ErrConflict, ErrInvalid, ErrNotFound} {
		text = strings.TrimPrefix(text, class.Error()+": ") // the rest says it in full
	}
	reason := []rune(text)
	if len(reason) > maxOperationReason {
		reason = append(reason[:maxOperationReason-1], '…')
	}
	o.Errors = append(o.Errors, OperationError{Item: item, Reason: string(reason)})
}

// OperationRecord is what the store keeps of an operation: a guard, and beside it a second guard while the
// operation is open, by which nodes find it among all that are over.
type OperationRecord struct {
	Operation
	// Cursor is behind the last thing that was counted or taken into Pending; empty: at the beginning.
	Cursor string `json:"cursor,omitempty"`
	// Pending are the things whose turn it is. They are written before the node acts on them, and counted in
	// the write after that. So a node that takes over knows exactly which actions may have been performed.
	Pending []string `json:"pending,omitempty"`
	// Last says that there is nothing behind Cursor.
	Last bool `json:"last,omitempty"`

	Rev int32 `json:"-"` // 0: it is not stored yet

	over bool // when it was read
}

// Key is the key of the record's guard.
func (id OperationID) Key() string { return string(GuardOperation) + "/" + id.String() }

// openKey is the key of the guard of an open operation. Releases have a kind of their own, which the loop of
// operations does not look for.
func (r *OperationRecord) openKey() string {
	kind := GuardOpenOperation
	if r.Kind == OperationRelease {
		kind = GuardOpenRelease
	}
	return string(kind) + "/" + r.ID.String()
}

// Save is the change that writes a record which was read at its Rev. The change also adds the guard of an
// open operation when it begins, and removes it when the operation ends.
func (r *OperationRecord) Save(now Time) Change {
	guard := Guard{Namespace: r.Namespace, Key: r.ID.Key(), Rev: r.Rev, Value: r.value(now)}
	open := Guard{Namespace: SystemNamespace, Key: r.openKey()}
	c := Change{Guards: []Guard{guard}}
	switch {
	case r.Rev == 0:
		open.Value = []byte(r.Namespace)
		c.Guards = append(c.Guards, open)
	case r.State.Over():
		c.Guards[0].Expires = r.Ended.Add(OperationTime)
		if !r.over {
			open.Rev = 1 // it is written once
			c.Guards = append(c.Guards, open)
		}
	}
	return c
}

// OperationOf reads the guard of a record.
func OperationOf(g *Guard) (OperationRecord, error) {
	r := OperationRecord{Rev: g.Rev}
	if err := json.Unmarshal(g.Value, &r); err != nil {
		return r, fmt.Errorf("the guard %s holds no operation: %w", g.Key, err)
	}
	r.Namespace, r.over = g.Namespace, r.State.Over()
	return r, nil
}

// OperationQuery asks for the records of a namespace.
func OperationQuery(namespace string) GuardQuery {
	return GuardQuery{Namespace: namespace, Prefix: string(GuardOperation) + "/"}
}

// OpenOperationQuery asks for the guards of all open operations; see OpenOperationOf.
func OpenOperationQuery() GuardQuery {
	return GuardQuery{Namespace: SystemNamespace, Prefix: string(GuardOpenOperation) + "/"}
}

// OpenOperationOf is which operation the guard of an open one stands for.
func OpenOperationOf(g *Guard) (namespace string, id OperationID, err error) {
	_, text, _ := strings.Cut(g.Key, "/")
	id, err = ParseOperationID(text)
	return string(g.Value), id, err
}

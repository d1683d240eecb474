package wire

import (
	"encoding/json"

	"github.com/carillon-run/carillon"
)

// DeadLetter is a run that failed for good.
type DeadLetter struct {
	carillon.Run
	DeadFacts
}

// DeadFacts is what a dead letter has beside its run.
type DeadFacts struct {
	Fingerprint carillon.Fingerprint `json:"fingerprint"`         // of its reason
	ExpiresAt   carillon.Time        `json:"expires_at,omitzero"` // when it is forgotten; not there: never
}

// MarshalJSON adds the facts to the fields that a run writes itself.
func (d DeadLetter) MarshalJSON() ([]byte, error) { return withFields(d.Run, d.DeadFacts) }

// UnmarshalJSON reads what MarshalJSON writes.
func (d *DeadLetter) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, &d.DeadFacts); err != nil {
		return err
	}
	return d.Run.UnmarshalJSON(b)
}

// DeadLetterDetail is a dead letter with everything that is needed to understand it. The run has its result,
// its checkpoint and its own payload.
type DeadLetterDetail struct {
	carillon.Run
	DeadFacts
	DeadStory
}

// DeadStory is what explains a dead letter.
type DeadStory struct {
	Error string `json:"error"` // what the reasons of its group have in common
	// JobDefinition is the one that the run had. It is not there if the job is forgotten.
	JobDefinition *carillon.Definition `json:"definition,omitempty"`
	// Attempts are the last ones, at most DeadLetterAttempts.
	Attempts []carillon.Attempt `json:"attempts"`
	Log      []carillon.Line    `json:"log"` // the last lines, at most DeadLetterLines
}

// DeadLetterAttempts is how many attempts a dead letter is shown with.
const DeadLetterAttempts = 100

// DeadLetterLines is how many lines of its log a dead letter is shown with.
const DeadLetterLines = 100

// MarshalJSON adds the facts and the story to the fields that a run writes itself.
func (d DeadLetterDetail) MarshalJSON() ([]byte, error) {
	return withFields(d.Run, struct {
		DeadFacts
		DeadStory
	}{d.DeadFacts, d.DeadStory})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (d *DeadLetterDetail) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, &d.DeadFacts); err != nil {
		return err
	}
	if err := json.Unmarshal(b, &d.DeadStory); err != nil {
		return err
	}
	return d.Run.UnmarshalJSON(b)
}

// withFields writes a run with further fields, of which there is at least one.
func withFields(run carillon.Run, more any) ([]byte, error) {
	text, err := json.Marshal(run)
	if err != nil {
		return nil, err
	}
	fields, err := json.Marshal(more)
	if err != nil {
		return nil, err
	}
	text[len(text)-1] = ','
	return append(text, fields[1:]...), nil
}

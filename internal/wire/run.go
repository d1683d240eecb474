package wire

import (
	"encoding/json"

	"github.com/carillon-run/carillon"
)

// RunDetail is a run with what it waits for.
type RunDetail struct {
	carillon.Run
	WaitsFor *Wait `json:"waits_for,omitempty"` // nil: it does not wait
}

// MarshalJSON adds waits_for to the fields that a run writes itself.
func (d RunDetail) MarshalJSON() ([]byte, error) {
	text, err := json.Marshal(d.Run)
	if err != nil || d.WaitsFor == nil {
		return text, err
	}
	more, err := json.Marshal(d.WaitsFor)
	text = append(text[:len(text)-1], `,"waits_for":`...)
	return append(append(text, more...), '}'), err
}

// UnmarshalJSON reads what MarshalJSON writes.
func (d *RunDetail) UnmarshalJSON(b []byte) error {
	var more struct {
		WaitsFor *Wait `json:"waits_for"`
	}
	if err := json.Unmarshal(b, &more); err != nil {
		return err
	}
	d.WaitsFor = more.WaitsFor
	return d.Run.UnmarshalJSON(b)
}

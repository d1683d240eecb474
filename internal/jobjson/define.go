package jobjson

import (
	"fmt"
	"strconv"

	"github.com/carillon-run/carillon"
)

// Batch is the JSON form of several definitions that are submitted together.
type Batch struct {
	Jobs []carillon.Definition `json:"jobs"`
}

const (
	MaxBatch = 1000    // definitions in a Batch
	MaxItems = 1 << 16 // items in any other list
	maxDepth = 32
)

// Define reads a definition that was submitted at the given time, fills in its defaults and admits it.
func Define(body []byte, at carillon.Time) (carillon.Definition, error) {
	var def carillon.Definition
	if err := Decode(body, &def); err != nil {
		return def, err
	}
	return def, admit(&def, at)
}

// admit admits a definition that was just decoded. The decoder has checked the payload, and Admit would scan
// all of it once more: so Admit does not see it, unless it is too large.
func admit(def *carillon.Definition, at carillon.Time) error {
	payload := def.Payload
	if len(payload) > carillon.MaxPayload {
		return def.Admit(at)
	}
	def.Payload = nil
	err := def.Admit(at)
	if string(payload) != "null" {
		def.Payload = payload
	}
	return err
}

// DefineBatch is Define for a Batch. It returns all definitions, or an error that names the first wrong one.
func DefineBatch(body []byte, at carillon.Time) ([]carillon.Definition, error) {
	var b Batch
	if err := decode(body, &b, maxDepth+2); err != nil { // each job may be as deep as one submitted alone
		return nil, err
	}
	if len(b.Jobs) == 0 {
		return nil, &carillon.FieldError{
			Field: "jobs", Given: "none", Wrong: "no job is given",
			Want: fmt.Sprintf("1 to %d jobs", MaxBatch),
		}
	}
	for i := range b.Jobs {
		err := admit(&b.Jobs[i], at)
		if fault, ok := err.(*carillon.FieldError); ok {
			return nil, fault.In("jobs[" + strconv.Itoa(i) + "]")
		} else if err != nil {
			return nil, err
		}
	}
	return b.Jobs, nil
}

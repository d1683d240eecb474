package wire

import "github.com/carillon-run/carillon"

// WaitKind is the kind of thing that a waiting run waits for.
type WaitKind string

const (
	WaitTime    WaitKind = "time"    // its due time or its next attempt
	WaitResume  WaitKind = "resume"  // its job is paused
	WaitTurn    WaitKind = "turn"    // another run of its job
	WaitHold    WaitKind = "hold"    // what its hold names, such as a limit
	WaitWorker  WaitKind = "worker"  // a worker that serves its queue and can perform it: there is none
	WaitSlot    WaitKind = "slot"    // a free slot: all are taken
	WaitClaim   WaitKind = "claim"   // a worker that could take it has not done so yet
	WaitUnknown WaitKind = "unknown" // a worker; the list of workers cannot be read now
)

// Wait says what a waiting run waits for. It is computed when a person asks, and stored nowhere.
type Wait struct {
	Kind  WaitKind       `json:"kind"`
	Text  string         `json:"text"`              // a sentence for people
	Until carillon.Time  `json:"until_at,omitzero"` // WaitTime
	Run   carillon.RunID `json:"run_id,omitzero"`   // WaitTurn: who has the turn, or is next in line
	// Ahead is how many runs come before it: for WaitTurn unfinished runs of its job, for WaitHold runs that
	// wait for the same, else due runs of its namespace, queue and needs, of higher priorities or of its own
	// share, up to MaxAhead.
	Ahead *int `json:"ahead,omitempty"`
}

// MaxAhead bounds how many runs are counted before a waiting run: this many means this many or more.
const MaxAhead = 1000

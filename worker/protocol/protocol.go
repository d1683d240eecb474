// Package protocol is what a worker and the nodes agree on: five calls, their messages, and the times. The
// worker inside a node and a worker on another machine use the same interface.
package protocol

import (
	"context"
	"time"

	"github.com/carillon-run/carillon"
)

// The times that workers and nodes agree on. PullWait, PullLate, LeaseTime and carillon.SessionTime are each
// longer than the one before by more than a beat. So a node that takes a run back can be sure that no worker
// runs it any more: see docs/guarantees.md.
const (
	BeatEvery = time.Second
	PullWait  = time.Second     // the longest wait of a pull; the rest of PullLate is for the claim
	PullLate  = 3 * time.Second // a worker begins no run from an answer later than this after its pull
	LeaseTime = 5 * time.Second // a worker stops its runs this long after it sent its last good beat
	// Handover is longer than PullLate by a beat. If a worker sends a beat this long after its pull was
	// answered, and does not list a run of that answer, it never begins the run: the answer was lost or late.
	Handover = 4 * time.Second
	// UnknownTime is the time after which a node takes back a run that its live worker does not list, even if
	// the node cannot tell when the worker sent its last beat. If the worker sent it within PullLate, no
	// later beat was answered, so its lease was over LeaseTime after that. SessionTime leaves it time to
	// stop.
	UnknownTime = PullLate + carillon.SessionTime
)

// Dispatcher is where a worker gets its runs and reports their outcomes: the node that the worker is part of,
// or an HTTP client of a node. The worker may repeat every call; what it reports twice is recorded once.
type Dispatcher interface {
	// Register opens a session for a worker, and returns the worker's id.
	Register(ctx context.Context, r Registration) (worker string, err error)
	// Pull waits up to PullWait for due runs and returns up to Max, claimed by the worker. It returns no run
	// that the worker does not want: such a run waits for another worker. No runs is no error.
	Pull(ctx context.Context, p Pull) ([]Task, error)
	// Report records what attempts report, and returns a receipt for each report. After an error the outcome
	// is unknown.
	Report(ctx context.Context, worker string, reports []Report) ([]Receipt, error)
	// Beat prolongs the worker's session. It lists all attempts that the worker was given and whose end has
	// no receipt yet. carillon.ErrSessionOver: other workers may hold those runs by now. Pull can fail with
	// it too.
	Beat(ctx context.Context, b carillon.Beat) (Orders, error)
	// Leave ends the session.
	Leave(ctx context.Context, worker string) error
}

// Registration is what a worker tells about itself when it registers.
type Registration struct {
	// ID is the id that the worker gets. The API draws one that is bound to the credential which registers
	// the worker; empty: the dispatcher draws one.
	ID   string
	Name string // what it calls itself, for people
	carillon.Profile
}

// Pull asks for work.
type Pull struct {
	Worker        string
	carillon.Want // a queue is "name" or "name=weight"
	Max           int
	Lone          bool // for slots that the worker keeps: see carillon.Demand
}

// Task is a run that was claimed for a worker, with what the worker needs to perform it.
type Task struct {
	Run        carillon.Run
	Job        *carillon.Job
	Checkpoint []byte // saved by an earlier attempt; nil: none
	Token      string // proves to a node that its sender was given this attempt; empty inside a node
}

func (t *Task) Held() carillon.Held { return t.Run.Held() }

// Report is the news of one attempt: any of these fields, in this order.
type Report struct {
	carillon.Held
	Token      string
	Begun      carillon.Time   // when the attempt began
	Lines      []carillon.Line // lines that it printed, each with its Offset
	Checkpoint []byte          // its latest checkpoint
	End        *carillon.Outcome
}

// Receipt is the answer to a report.
type Receipt string

const (
	ReceiptRecorded Receipt = "recorded" // now or earlier: a repeated report is recorded once
	ReceiptRefused  Receipt = "refused"  // the attempt no longer holds its run
	ReceiptAgain    Receipt = "again"    // its lines could not be stored now: send them again
)

// Orders are the answer to a beat.
type Orders struct {
	Stop  []Order
	Nodes []string // addresses that serve the API, for workers that dial in
}

// Order tells a worker to stop an attempt. Lost: the attempt no longer holds its run; its result is not
// needed.
type Order struct {
	carillon.Held
	Lost   bool
	Reason string
}

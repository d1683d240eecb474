package carillon

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"
)

// The times that workers and those who watch them agree on. Each is longer than the one before by more than a beat, so
// whoever takes a run back can be sure that nobody runs it any more: see docs/guarantees.md.
const (
	BeatEvery   = time.Second
	PullWait    = time.Second     // the longest that a pull waits for something to do; the rest of PullLate is for the claim
	PullLate    = 3 * time.Second // an answer that comes later after the pull was sent begins nothing
	LeaseTime   = 5 * time.Second // a worker stops its runs so long after it sent its last good beat
	Handover    = 5 * time.Second // a claimed run that its live worker does not list by then is taken back
	SessionTime = 7 * time.Second // without a beat for so long, by the coordinator's clock, a session may be ended
)

// Desk is where a worker gets its runs and hands in what became of them: the node that it is part of, or the way to one
// over HTTP. Every call may be repeated; what was said already is said once.
type Desk interface {
	// Register opens a session for a worker, and returns the id that it is known by.
	Register(ctx context.Context, r Registration) (worker string, err error)
	// Pull waits up to PullWait for due runs and returns up to Max, claimed by the worker. None is no error.
	Pull(ctx context.Context, p Pull) ([]Task, error)
	// Report hands in what attempts have to say, and returns a receipt for each. After an error nothing is known.
	Report(ctx context.Context, worker string, reports []Report) ([]Receipt, error)
	// Beat prolongs the worker's session. It holds all attempts that it has been given and whose end has no receipt yet.
	// ErrLost: the session is over, whatever the worker held may be somebody else's by now.
	Beat(ctx context.Context, b Beat) (Orders, error)
	// Leave ends the session.
	Leave(ctx context.Context, worker string) error
}

// Registration is what a worker tells about itself when it registers.
type Registration struct {
	Name string // what it calls itself, for people
	Profile
}

// Pull asks for work.
type Pull struct {
	Worker string
	Queues []string // none: of any
	Max    int
}

// Task is a run that was claimed for a worker, with what it needs to perform it.
type Task struct {
	Run        Run
	Job        *Job
	Checkpoint []byte // saved by an attempt before; nil: none
	Token      string // proves to a node that whoever shows it was given this attempt; empty inside a node
}

func (t *Task) Held() Held { return t.Run.Held() }

// Report is what an attempt has to say: any of its fields, in this order.
type Report struct {
	Held
	Token      string
	Begun      Time   // it is going on since then
	Lines      []Line // it printed these; each has its Offset
	Checkpoint []byte // it has come so far
	End        *Outcome
}

// Receipt says what became of a report.
type Receipt string

const (
	Recorded Receipt = "recorded" // now, or before: a report that is repeated is recorded once
	Refused  Receipt = "refused"  // the attempt no longer holds its run
	Again    Receipt = "again"    // its lines could not be kept now: send them again
)

// Orders are what a worker is told with each beat.
type Orders struct {
	Stop  []Order
	Nodes []string // where the API is served, for workers that dial in
}

// Order tells a worker to stop an attempt. Lost: it does not hold the run any more, nobody waits for its result.
type Order struct {
	Held
	Lost   bool
	Reason string
}

// NodeAddresses are where workers can dial nodes. Those that beat within the last two seconds come first: a node that is killed
// stays a member for SessionTime. Otherwise the order is random, so that workers spread over the nodes.
func NodeAddresses(members []Member, now Time) []string {
	var fresh, rest []string
	for i := range members {
		switch m := &members[i]; {
		case m.Kind != KindNode || m.Addr == "":
		case now.Sub(m.Beat) <= 2*BeatEvery:
			fresh = append(fresh, m.Addr)
		default:
			rest = append(rest, m.Addr)
		}
	}
	for _, list := range [][]string{fresh, rest} {
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	}
	return append(fresh, rest...)
}

// WorkerPrefix begins the ids of workers that dial in; 20 hexadecimal digits follow.
const WorkerPrefix = "worker_"

// DialedInWorker says that an id has the form of those that servers give to workers that dial in.
func DialedInWorker(worker string) bool {
	digits, ok := strings.CutPrefix(worker, WorkerPrefix)
	return ok && len(digits) == 20 && strings.Trim(digits, "0123456789abcdef") == ""
}

// InnerPrefix begins the ids of workers that are part of a node. Others dial in, and outlive the node that they dialed.
const InnerPrefix = "inner_"

// InnerWorker says that a worker was part of a node, so that what it ran ended with that node's process.
func InnerWorker(worker string) bool { return strings.HasPrefix(worker, InnerPrefix) }

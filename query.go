package carillon

import (
	"slices"
	"time"
)

// GuardQuery asks for guards by key, or for all keys that begin with Prefix.
type GuardQuery struct {
	Namespace string
	Keys      []string
	Prefix    string
}

// WakeQuery asks for unfinished runs with Wake up to Until, after a position in their order.
type WakeQuery struct {
	Shards []int // nil: all
	Lane   *Lane // nil: all
	// Full are lanes whose waiting runs nobody has room for: a store may leave them out. One that has passed over many stops
	// there, however few it has found, and returns the last that it passed over as well: see More.
	Full []Lane
	// Held asks only for runs that a worker holds; not together with Lane. A store passes over those that wait as it does over full lanes: it may stop
	// after many, and then returns the last that it passed over as well.
	Held  bool
	After WakePos
	Until Time
	Limit int
}

// WakePos is a place in the order of wakes.
type WakePos struct {
	Wake Time
	ID   RunID
}

func (r *Run) WakePos() WakePos { return WakePos{r.Wake, r.ID} }

// Wants says whether a run is of the shards and lanes that are asked for, not of a full one, and held if that is asked for.
func (q *WakeQuery) Wants(run *Run) bool {
	lane := run.Lane()
	return (q.Shards == nil || slices.Contains(q.Shards, run.ID.Job.Shard())) && (q.Lane == nil || *q.Lane == lane) &&
		!q.passes(run)
}

// passes says that a run waits and is passed over.
func (q *WakeQuery) passes(run *Run) bool {
	return run.State == Waiting && (q.Held || slices.Contains(q.Full, run.Lane()))
}

// More says that there may be something behind a page: it has as many runs as were asked for, or it ends with one that was
// passed over, where the store has stopped.
func (q *WakeQuery) More(page []Run) bool {
	if len(page) == 0 {
		return false
	}
	last := &page[len(page)-1]
	return len(page) >= q.Limit || q.passes(last)
}

// Less is the order of wakes: (Wake, Due, Job).
func (p WakePos) Less(o WakePos) bool {
	if p.Wake != o.Wake {
		return p.Wake < o.Wake
	}
	if p.ID.Due != o.ID.Due {
		return p.ID.Due < o.ID.Due
	}
	return p.ID.Job < o.ID.Job
}

// JobQuery asks for a page of jobs. Empty fields do not filter. States are of the job, Latest of its latest run by
// due time that has begun or is due next: pending (not begun), running, failed (failed or canceled or skipped do not
// count as succeeded), succeeded.
type JobQuery struct {
	Namespace   string
	States      []JobState
	Latest      []LatestState
	Owner       string
	Type        string
	Name        string
	Labels      []Label // all of them must be there
	CreatedFrom Time    // inclusive
	CreatedTo   Time    // exclusive
	Before      JobID
	Limit       int
	WithLast    bool // each job with its last run
}

// Label is a label that a query asks for, with exactly this value, which can be empty.
type Label struct{ Key, Value string }

// IndexedLabel is the label by which a store can find jobs: the first, in a namespace. The others filter.
func (q *JobQuery) IndexedLabel() (Label, bool) {
	if q.Namespace == "" || len(q.Labels) == 0 {
		return Label{}, false
	}
	return q.Labels[0], true
}

// LatestState sums up a job by its latest run.
type LatestState string

const (
	LatestPending   LatestState = "pending"   // no run has begun yet
	LatestRunning   LatestState = "running"   // a run is claimed or running
	LatestFailed    LatestState = "failed"    // the latest ended run failed
	LatestSucceeded LatestState = "succeeded" // the latest ended run succeeded
)

// LatestOf sums up a job by its unfinished runs and by the ended one with the latest due time of those that had begun
// (nil: none). What was skipped or canceled before it began says nothing about the job.
func LatestOf(unfinished []Run, ended *Run) LatestState {
	switch latest := LastOf(unfinished, ended); {
	case latest == nil || latest.State == Waiting:
		return LatestPending
	case latest.State.Held():
		return LatestRunning
	case latest.State == Succeeded:
		return LatestSucceeded
	}
	return LatestFailed
}

// LastOf is the run that a job is summed up by: the latest by due time that a worker holds, else the latest that has begun;
// nil if none has. It has neither About nor Output.
func LastOf(unfinished []Run, ended *Run) *Run {
	last := ended
	for i := range unfinished {
		run := &unfinished[i]
		if run.Attempt == 0 {
			continue
		}
		held, before := run.State.Held(), last != nil && last.State.Held()
		if last == nil || held && !before || held == before && last.ID.Due < run.ID.Due {
			last = run
		}
	}
	if last == nil {
		return nil
	}
	run := *last
	run.About, run.Output = nil, nil
	return &run
}

// JobPage is a page of jobs. Next is not zero if there may be more, even when Jobs is short or empty: a search gives up
// its turn after a bounded number of rows instead of scanning millions.
type JobPage struct {
	Jobs []Job
	Last []*Run // WithLast: of each of the Jobs, see LastOf; nil: none has begun
	Next JobID
}

// RunQuery asks for a page of runs. Empty fields do not filter. A run is wanted if it is in one of the States, or has one of
// the Statuses at Now.
type RunQuery struct {
	Namespace string
	Job       JobID
	States    []State
	Statuses  []Status
	Now       Time // for Statuses and Present
	Present   bool // without runs that wait, and are neither due at Now nor awake
	Worker    string
	Dead      bool // dead letters only
	From      Time // due at or after
	To        Time // due before
	After     string
	Limit     int
}

// RunPage is a page of runs; Next, if not empty, is the After of the following page, as in JobPage.
type RunPage struct {
	Runs []Run
	Next string
}

// Event is something that happened to a run or a job, told to whoever listens.
type Event struct {
	Kind      EventKind
	Namespace string
	Run       Run   // for EventRun
	Job       JobID // for all
}

// EventKind says what an event is about.
type EventKind uint8

const (
	EventRun    EventKind = iota + 1 // a run changed: Run is its new value
	EventJob                         // a job changed
	EventMissed                      // the listener was too slow, and does not know what it missed
)

// EventFilter chooses events; empty fields do not filter.
type EventFilter struct {
	Namespace string
	Job       JobID
	Run       RunID
}

// Chunk is some lines that one attempt printed. Offset counts the lines of the attempt before it. The notice that the desk
// writes at the beginning of a later attempt has offset -1.
type Chunk struct {
	Namespace string
	Run       RunID
	Attempt   int32
	Offset    int64
	Lines     []Line
	Keep      time.Duration // 0: by the server's rule
}

// Line is one line of output.
type Line struct {
	At      Time   `json:"at"`
	Stream  string `json:"stream"` // stdout, stderr, or carillon for what Carillon itself has to say
	Text    string `json:"text"`
	Attempt int32  `json:"attempt"`
	Offset  int64  `json:"offset"` // lines of the attempt before it; -1 for the notice with which a later attempt begins
}

// LogQuery asks for lines of a run, in the order printed, after a position.
type LogQuery struct {
	Namespace    string
	Run          RunID
	AfterAttempt int32
	AfterOffset  int64 // lines of AfterAttempt up to and including this one are left out; -1: only its notice
	Limit        int
}

// LogSearch asks for lines that contain a text, newest day first.
type LogSearch struct {
	Namespace string
	Text      string
	Limit     int
}

// Hit is a line that a search found.
type Hit struct {
	Run RunID
	Line
}

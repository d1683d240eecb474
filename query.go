package carillon

import (
	"slices"
	"time"
)

// GuardQuery asks for guards by key, or for all keys that begin with Prefix.
type GuardQuery struct {
	Namespace string // empty, without Keys: all namespaces
	Keys      []string
	Prefix    string
}

// WakeQuery asks for unfinished runs with Wake up to Until, after a position in their order.
type WakeQuery struct {
	Shards []int // nil: all
	Lane   *Lane // nil: all
	// AnyShare says that Lane stands for all lanes that differ from it only in their share.
	AnyShare bool
	// Full are lanes without room for their waiting runs: a store may leave those runs out. A store may stop
	// after it has skipped many such runs; it then returns the last one that it skipped, so that More reports
	// true and the caller can resume there.
	Full []Lane
	// Held asks only for runs that a worker holds; not together with Lane. A store skips waiting runs as it
	// skips runs of full lanes: it may stop after many, and then returns the last one that it skipped.
	Held  bool
	After WakePos
	Until Time
	Limit int
}

// WakePos is a position in the order of wakes.
type WakePos struct {
	Wake Time
	ID   RunID
}

func (r *Run) WakePos() WakePos { return WakePos{r.Wake, r.ID} }

// Wants says whether the query asks for a run: the run is of the given shards and lane, and the query does
// not pass over it.
func (q *WakeQuery) Wants(run *Run) bool {
	lane := run.Lane()
	return (q.Shards == nil || slices.Contains(q.Shards, run.ID.Job.Shard())) &&
		(q.Lane == nil || *q.Lane == lane || q.AnyShare && q.Lane.WithoutShare() == lane.WithoutShare()) &&
		!q.passes(run)
}

// passes says that the query passes over a run: the run waits, and Held is set or its lane is full.
func (q *WakeQuery) passes(run *Run) bool {
	return run.State == StateWaiting && (q.Held || slices.Contains(q.Full, run.Lane()))
}

// More says whether there may be runs behind a page: the page has as many runs as were asked for, or it ends
// with a run that the store skipped, where it stopped.
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

// HoldName names the line of the runs of a namespace that have the same Hold.
type HoldName struct {
	Namespace string
	Hold      string
}

// LineQuery asks for the first runs of lines. It leaves out runs that are due after Until, and runs whose
// wake comes after Until, such as one that waits for a retry; but a run without a wake (Never) is wanted.
type LineQuery struct {
	Lines []HoldName // the answer has the runs of each of them together, in any order of lines
	After RunID      // only runs after this one in the order (Due, Job); zero: from the first on
	Until Time
	Limit int // of the runs of each line
}

// Wants says whether a run of one of the lines is one that the query asks for, but for Limit.
func (q *LineQuery) Wants(run *Run) bool {
	return run.State == StateWaiting && run.ID.Due <= q.Until &&
		(run.Wake <= q.Until || run.Wake == Never) &&
		(q.After.IsZero() || q.After.Due < run.ID.Due ||
			q.After.Due == run.ID.Due && q.After.Job < run.ID.Job)
}

// QueueCount says how many runs of a queue are in one situation: a worker holds them (State), or they wait
// for a worker, for what Hold names, or until their job is resumed (Paused). A run that is not due yet counts
// nowhere, and neither does one that waits for a retry.
type QueueCount struct {
	Queue  string
	State  State
	Hold   string // of parked runs, see Run.Parked
	Paused bool
	Runs   int
	Oldest Time // the earliest due time among them
}

// CountOf is the situation of an unfinished run at now; false: it counts nowhere.
func CountOf(r *Run, now Time) (c QueueCount, counts bool) {
	c = QueueCount{Queue: r.Queue, State: r.State, Runs: 1, Oldest: r.ID.Due}
	switch {
	case r.State.Held():
		return c, true
	case r.ID.Due > now:
		return c, false
	case r.Has(FlagOnHold):
		c.Paused = true
		return c, r.Wake == Never
	case r.Parked():
		c.Hold = r.Hold
		return c, true
	}
	return c, r.Wake <= now
}

// JobQuery asks for a page of jobs. Empty fields do not filter, except Parts. States are of the job. Latest
// is what LatestOf says about the job's runs: pending, running, succeeded, or failed, which stands for every
// other end (failed, canceled or skipped).
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
	// Parts asks for the jobs of the nodes of workflows as well. Without it they are left out, unless Labels
	// has the key WorkflowLabel: a workflow can have thousands of them.
	Parts bool
}

// Label is a label with exactly this value, which can be empty.
type Label struct{ Key, Value string }

// IndexedLabel is the label by which a store can find jobs: the first label, if the query names a namespace.
// The other labels filter.
func (q *JobQuery) IndexedLabel() (Label, bool) {
	if q.Namespace == "" || len(q.Labels) == 0 {
		return Label{}, false
	}
	return q.Labels[0], true
}

// LatestState sums up a job by its latest run.
type LatestState string

const (
	LatestPending   LatestState = "pending"   // no run has begun yet, or the latest waits for a retry
	LatestRunning   LatestState = "running"   // a run is claimed or running
	LatestFailed    LatestState = "failed"    // the latest run that had begun ended without success
	LatestSucceeded LatestState = "succeeded" // the latest run that had begun succeeded
)

// LatestOf sums up a job by its unfinished runs and by its ended run with the latest due time among those
// that had begun (nil: none). A run that was skipped or canceled before it began says nothing about the job.
func LatestOf(unfinished []Run, ended *Run) LatestState {
	switch latest := LastOf(unfinished, ended); {
	case latest == nil || latest.State == StateWaiting:
		return LatestPending
	case latest.State.Held():
		return LatestRunning
	case latest.State == StateSucceeded:
		return LatestSucceeded
	}
	return LatestFailed
}

// LastOf is the run that sums up a job: of the runs that workers hold the one with the latest due time, else
// of the begun runs the one with the latest due time; nil if none has begun. It has neither About nor Output.
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

// JobPage is a page of jobs. Next is not zero if there may be more, even when Jobs is short or empty: a
// search stops after a bounded number of rows instead of scanning millions.
type JobPage struct {
	Jobs []Job
	Last []*Run // WithLast: LastOf of each of the Jobs; nil: none has begun
	Next JobID
}

// RunQuery asks for a page of runs. Empty fields do not filter. It wants a run that is in one of the States,
// or that has one of the Statuses at Now.
type RunQuery struct {
	Namespace string
	Job       JobID
	States    []State
	Statuses  []Status
	Now       Time // for Statuses and Present
	Present   bool // leave out runs that wait and are neither due nor awake at Now
	Worker    string
	Dead      bool // dead letters only
	From      Time // due at or after
	To        Time // due before
	// The following are only for dead letters, see DeadFilter. A store finds letters by Fingerprint, and by a
	// Type without a star, with an index, if the query names a namespace.
	Type        string
	Owner       string
	Queue       string
	Labels      []Label // all of them are labels of the job now
	Error       string
	Fingerprint Fingerprint
	EndedFrom   Time // ended at or after
	EndedTo     Time // ended before

	After string
	Limit int
}

// RunPage is a page of runs; Next, if not empty, is the After of the following page, as in JobPage.
type RunPage struct {
	Runs []Run
	Next string
}

// Event is something that happened to a run or a job, published to listeners.
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
	EventMissed                      // the listener was too slow, and does not know which events it missed
)

// EventFilter chooses events; empty fields do not filter.
type EventFilter struct {
	Namespace string
	Job       JobID
	Run       RunID
}

// Chunk is a group of lines that one attempt printed. Offset counts the lines of the attempt before it. The
// notice that the dispatcher writes at the beginning of a later attempt has offset -1.
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
	Stream  string `json:"stream"` // stdout, stderr, or carillon for lines of Carillon itself
	Text    string `json:"text"`
	Attempt int32  `json:"attempt"`
	Offset  int64  `json:"offset"` // lines of the attempt before it; -1: the notice of a later attempt
}

// LogQuery asks for lines of a run, in the order printed, after a position.
type LogQuery struct {
	Namespace    string
	Run          RunID
	AfterAttempt int32
	AfterOffset  int64 // lines of AfterAttempt up to and including this are left out; -1: only its notice
	Limit        int
}

package carillon

import (
	"slices"
	"strings"
	"time"
)

// State is where a run stands. A run that waits for a retry is Waiting again; a due run that is not claimed
// yet is Waiting too.
type State uint8

const (
	StateWaiting State = iota + 1
	StateClaimed       // a worker holds it and has not begun
	StateRunning       // begun; written only for runs that last longer than a moment
	StateSucceeded
	StateFailed // for good: a dead letter
	StateCanceled
	StateSkipped
)

var states = []string{"", "waiting", "claimed", "running", "succeeded", "failed", "canceled", "skipped"}

func (s State) String() string                { return states[s] }
func (s State) MarshalText() ([]byte, error)  { return []byte(s.String()), nil }
func (s *State) UnmarshalText(b []byte) error { return unmarshalState(s, states, b) }

// Ended states are terminal: the run has left the hot table for history and never comes back.
func (s State) Ended() bool { return s >= StateSucceeded }

// Held says that a worker has the run.
func (s State) Held() bool { return s == StateClaimed || s == StateRunning }

// Status is a word that people see for some runs in place of their state. It is not stored: it follows from
// the run and the time.
type Status string

const (
	StatusQueued   Status = "queued"   // waiting, and its time has come
	StatusPaused   Status = "paused"   // waiting until its job is resumed
	StatusHeld     Status = "held"     // waiting for what its Hold names
	StatusStopping Status = "stopping" // held, and asked to stop
)

// Within are the states that the runs of a status can be in; none: there is no such status.
func (s Status) Within() []State {
	switch s {
	case StatusQueued, StatusPaused, StatusHeld:
		return []State{StateWaiting}
	case StatusStopping:
		return []State{StateClaimed, StateRunning}
	}
	return nil
}

// Status is the word that people see for the run at now, if that is not its state.
func (r *Run) Status(now Time) (s Status, any bool) {
	switch {
	case r.State.Held() && r.Has(FlagStop):
		return StatusStopping, true
	case r.State == StateWaiting && r.Has(FlagOnHold):
		return StatusPaused, true
	case r.Parked():
		return StatusHeld, true
	case r.State == StateWaiting && r.Wake <= now:
		return StatusQueued, true
	}
	return "", false
}

// Parked says that the run is in the line of what its Hold names, and that no wake ends its wait: the
// scheduler passes it on when its turn has come.
func (r *Run) Parked() bool {
	return r.State == StateWaiting && r.Hold != "" && r.Wake == Never && !r.Has(FlagOnHold)
}

// Shown is the word that people see for the run at now: its status, else its state.
func (r *Run) Shown(now Time) string {
	if s, any := r.Status(now); any {
		return string(s)
	}
	return r.State.String()
}

func unmarshalState[S ~uint8](s *S, names []string, b []byte) error {
	i := slices.Index(names[1:], string(b))
	if i < 0 {
		return invalid("state", string(b), "one of %s", strings.Join(names[1:], ", "))
	}
	*s = S(i + 1)
	return nil
}

// Flags are further facts about an unfinished run. They are bits because the hot row must stay narrow. Stores
// keep all 16 bits.
type Flags uint16

const (
	FlagGuarded       Flags = 1 << iota // the job's overlap guard rules it: a claim or end compares the guard
	FlagPlanned                         // its successor has been planned already
	FlagOnHold                          // the job is paused: no worker claims it
	FlagStop                            // a caller, or a run that replaces it, asked it to stop
	FlagNoRetry                         // no further attempt: its job was canceled while a worker held it
	FlagMisfirePolicy                   // its job's misfire policy may apply if it is late
	// recurring, manual or retried, not a one-off's first run; in the job index
	FlagAdditional
	FlagOwnPayload // the caller gave it a payload in place of its job's; it is in Output
	FlagParked     // it waits, or has waited, in a line since it became due: see Run.Park
	FlagPart       // its end is the end of a node of a workflow: see Part
	// FlagPauseAfter is of a run that failed for good, in the change that ends it: its job has pause_after
	FlagPauseAfter
	FlagLate // it has not started, and its job's late hook was not told of it yet: see Late
)

// Run is one run of a job. The row, the queue message, what a worker holds and what a person sees are this
// one type.
type Run struct {
	ID        RunID
	Namespace string
	Queue     string
	Needs     string // what a worker must have to perform it, see Job.needs; empty if it has ended
	Share     string // its share of the queue, see Lane.FairShare; empty if it has ended
	Hold      string // what it waits for beside its wake, see Limit.Hold; empty: nothing, or it has ended
	Slots     string // the slots of limits that its present attempt has taken, see slot; empty: none
	Worker    string // the worker that holds it, or held it last
	Reason    string // why it is in this state: the last error, what was skipped and why
	About     *About // what history copies from the job; nil in the hot path until a caller needs it
	Output    *Output
	Wake      Time // the time by which a loop looks at the run
	Covers    Time // the scheduled time it stands for; none for manual runs
	Until     Time // for skips and late cancels: the last due time of the range that this record stands for
	Claimed   Time // start of the current or last attempt
	Started   Time
	Ended     Time
	Expires   Time // when history forgets it; 0: by the server's rule
	// DeadExpires is when the dead letters forget a Failed run; 0: by the server's rule.
	DeadExpires Time
	RetryOf     Time // the due time of the ended run of this job that it repeats
	Rev         int32
	Version     int32 // of the job's definition
	Seq         int32 // how many runs by the clock came before it
	Attempt     int32 // claims so far
	Failures    int32 // failed attempts, which max_attempts bounds
	Losses      int32 // attempts that ended without a result: worker died, handed back, store away
	Crashes     int32 // losses in which the worker died
	State       State
	Priority    int8
	Flags       Flags
}

// About is what people want to know about a run without opening its job.
type About struct {
	Name, Type, Owner string
}

// Output is what a run returns, the payload that was given to it alone, and the record of an attempt. It is
// stored beside the run, not in its hot row: a nil field means no change.
type Output struct {
	Result     []byte
	Checkpoint []byte
	Payload    []byte // JSON, see FlagOwnPayload; written with the insert of the run
	// Attempt is the record of the attempt that this write ends; nil: none. Store.Attempts reads it, not
	// Store.Runs. A record of the same attempt takes the place of the one before.
	Attempt *Attempt
}

// Lane groups the runs that travel together to workers: the same workers can perform all of them, in the
// order of their wakes. Memory is bounded per lane, so that no backlog hides the runs of another namespace,
// queue, type or share.
type Lane struct {
	Namespace string
	Queue     string
	Needs     string
	Share     string
	Priority  int8
}

// ownPayload is the payload that was given to the run alone; nil: the run has its job's, or was read without
// Output.
func (r *Run) ownPayload() []byte {
	if r.Output == nil {
		return nil
	}
	return r.Output.Payload
}

// Unattended is the worker of runs that no worker holds: those of workflows, and of nodes that wait. They
// go by their wake alone, whatever members there are: see internal/conductor.
const Unattended = "carillon"

// Unattended says that the run is going on, and that no worker holds it.
func (r *Run) Unattended() bool { return r.Worker == Unattended && r.State.Held() }

func (r *Run) Lane() Lane             { return Lane{r.Namespace, r.Queue, r.Needs, r.Share, r.Priority} }
func (r *Run) Has(f Flags) bool       { return r.Flags&f != 0 }
func (r *Run) ByClock() bool          { return r.Covers != 0 && r.RetryOf == 0 }
func (r *Run) Definition() JobVersion { return JobVersion{r.ID.Job, r.Version} }

// Fence is one number made from the time of the claim and the attempt. It rises with every attempt of a run.
// It also rises over all claims of a job whose runs do not overlap, in whatever order they are claimed:
// outside systems can refuse the lower of two. No claim gets the fence of another claim of its run, not even
// of a claim that the store has lost in a failover.
func (r *Run) Fence() int64 {
	return int64(r.Claimed)<<attemptBits | int64(r.Attempt)&(1<<attemptBits-1)
}

// Held names the run's present attempt.
func (r *Run) Held() Held { return Held{r.ID, r.Fence()} }

// attemptBits leaves 43 bits for milliseconds, the year 2248.
const attemptBits = 20

// moment is how far the name (due time) of a run can be ahead of the clock so that the run still waits for
// it.
const moment = time.Second

// ready is when a waiting run can begin, from now on: at its due time. If that is far ahead only because the
// run needed a name that no run has had (the clock was set back, or callers asked for thousands of runs at
// once), the run does not wait for it.
func (r *Run) ready(now Time) Time {
	switch {
	case r.ID.Due == r.Covers || r.ID.Due.Sub(now) < moment:
		return max(r.ID.Due, now)
	case r.ByClock():
		return max(r.Covers, now)
	}
	return now
}

// NewRun is a job's run at due, waiting. All runs of a recurring job are additional; callers set
// FlagAdditional on the second and later runs of a one-off job.
func NewRun(job *Job, due Time) Run {
	r := Run{
		ID: RunID{job.ID, due}, Namespace: job.Namespace, Queue: job.Queue, Priority: int8(job.Priority),
		Needs: job.needs(), Share: job.share(), Hold: job.line(), Version: job.Version,
		Wake: due, State: StateWaiting, About: job.about(),
	}
	if job.Schedule.Recurring() || job.Misfire.Policy != MisfireOnce {
		r.Flags |= FlagMisfirePolicy
	}
	if job.Schedule.Recurring() {
		r.Flags |= FlagAdditional
		if job.Overlap != OverlapAllow {
			r.Flags |= FlagGuarded
		}
	}
	if job.Late != nil {
		r.Flags |= FlagLate
	}
	return r
}

func (j *Job) about() *About { return &About{Name: j.Name, Type: j.Type, Owner: j.Owner} }

// aboutOf is what the run knows of its job already, if that is still right: a run that ends soon after its
// submit needs no second copy.
func (r *Run) aboutOf(job *Job) *About {
	if r.About != nil && *r.About == (About{Name: job.Name, Type: job.Type, Owner: job.Owner}) {
		return r.About
	}
	return job.about()
}

// Before says whether workers take this due run before the other one of the same queue, but for the places
// that go to the run that has waited longest: see Queue.Pull.
func (r *Run) Before(o *Run) bool {
	if r.Priority != o.Priority {
		return r.Priority > o.Priority
	}
	return r.WakePos().Less(o.WakePos())
}

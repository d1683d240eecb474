package carillon

import (
	"context"
	"iter"
	"slices"
	"strings"
	"time"
)

// Store is the truth. It knows no rules: it compares revisions and keeps rows. A query without a Limit
// returns up to DefaultLimit rows.
type Store interface {
	// Commit applies each change whose rows still have the revisions they carry (0: must not exist) and
	// returns the ascending indexes of the changes that lost. Changes are applied in order. They are
	// independent, unless they are joined; the rows of one change, or of joined ones, are written all
	// together or not at all. When Commit returns, the applied changes survive a crash of process and
	// machine. After an error the outcome is unknown: read again, then decide again. ErrFull says that there
	// is no room, ErrPermanent that no further commit will succeed.
	Commit(ctx context.Context, changes []Change) (lost []int, err error)

	// Jobs returns the definitions that exist, in no promised order. Version 0 asks for the latest.
	Jobs(ctx context.Context, ids []JobVersion) ([]Job, error)

	// Runs returns the runs that exist, in no promised order, with About filled in. For each id that is the
	// unfinished run, else the last run of that name in history, else, if history has forgotten it, the dead
	// letter. whole adds Output, but for records of attempts.
	Runs(ctx context.Context, ids []RunID, whole bool) ([]Run, error)

	// Attempts returns the records of attempts of a run whose number is above after, in the order of their
	// numbers: see Run.Attempts.
	Attempts(ctx context.Context, run RunID, after int32, limit int) ([]Attempt, error)

	// Guards returns the guards that exist.
	Guards(ctx context.Context, q GuardQuery) ([]Guard, error)

	// Wakes returns unfinished runs ordered by (Wake, Due, Job), without About and Output.
	Wakes(ctx context.Context, q WakeQuery) ([]Run, error)

	// Line returns waiting runs that have the same Hold, ordered by (Due, Job), without About and Output.
	Line(ctx context.Context, q LineQuery) ([]Run, error)

	// Holds returns the names of lines that have a run, ordered by (Namespace, Hold), in pages. A line that
	// gets or loses its only run meanwhile may be returned or not.
	Holds(ctx context.Context, after HoldName, limit int) ([]HoldName, error)

	// Counts counts the unfinished runs of a namespace that are due at now, for people: it may take long
	// where millions of runs wait. Order is not promised.
	Counts(ctx context.Context, namespace string, now Time) ([]QueueCount, error)

	// FindJobs returns a page of jobs, newest first, each with the state that follows from its runs (Finished
	// too).
	FindJobs(ctx context.Context, q JobQuery) (JobPage, error)

	// FindRuns returns a page of runs with About filled in. Runs of one job: latest due first. Runs of all
	// jobs: first the unfinished, earliest due first, then the ended, latest end first. Dead letters:
	// latest first. Records that nodes wrote in the same millisecond can come in any order.
	FindRuns(ctx context.Context, q RunQuery) (RunPage, error)

	// DeadGroups groups the dead letters of a namespace by the fingerprints of their reasons, those with the
	// most letters first. It is quick where a million letters have a thousand reasons.
	DeadGroups(ctx context.Context, q DeadGroupQuery) ([]DeadGroup, error)

	// Forget removes up to limit ended runs and dead letters that neither their own expiry nor the rule
	// (0: for ever) keeps at now, then guards that expired GuardGrace ago or earlier, and returns how many; 0
	// means that nothing is left to remove. A guard that is written with a later expiry meanwhile stays. If a
	// whole large partition of history may go, a store may drop it at once. Output and attempts go with the
	// last record of their run. A one-off job goes, with its definitions and its overlap guard, when no run,
	// record or dead letter of it is left.
	Forget(ctx context.Context, rule Retention, now Time, limit int) (int, error)
}

// Timeline is a fast copy of the near future. It may forget runs; the loader adds them again.
type Timeline interface {
	// Add takes runs to be woken at their Wake. A run that is added twice is there once; the higher Rev wins.
	// Add returns the indexes of the runs that it had no room for: room is bounded per lane, so that one
	// lane's backlog cannot hide another lane's run.
	Add(ctx context.Context, runs []Run) (refused []int, err error)
	// Due takes out up to limit runs whose Wake is not after now, earliest first, and returns the wake of the
	// next one (0: none). It looks only at runs of these shards; nil: at all, an empty list: at none. A node
	// asks a timeline of its own for all shards, because the timeline also has runs of other nodes' shards,
	// those that were committed on this node.
	Due(ctx context.Context, now Time, shards []int, limit int) (runs []Run, next Time, err error)
}

// Queue is the order in which due runs go to the workers of one node. It is in the memory of that node, and a
// run that is pushed while it is in the queue is there once: the higher Rev wins.
type Queue interface {
	// Push returns the indexes of the runs that their lane had no room for; they are still in the store.
	Push(ctx context.Context, runs []Run) (refused []int, err error)
	// Pull takes out up to want.Max runs, and waits until there is at least one. Runs of a lane come in the
	// order in which they were pushed. Queues take turns, by their weights if the implementation can be told
	// any. In a queue the highest priority comes first. In a priority namespaces take turns, in a namespace
	// shares do, by their weights (see Lane.FairShare), and in a share the earliest wake comes first. But one
	// place in ten of a queue goes to the wanted run that has waited longest, whatever its priority, so no
	// run waits for ever. If ctx ends before there is a run, Pull takes nothing and returns the error of ctx.
	// Demand.Partial has one more rule.
	Pull(ctx context.Context, want Demand) ([]Run, error)
	// Len is how many runs wait of lanes that any of the wants takes. Without wants that is all runs, and
	// cheap: the ledger asks before every commit; with wants it asks only while many submits wait. Its
	// callers hold locks, so it must not wait for anything.
	Len(wants ...Want) int
	// Has says whether runs wait of the sharer of a lane, see Lane.Sharer. Its callers hold locks, so it must
	// not wait for anything.
	Has(lane Lane) bool
	// Freed says that sharers were Busy and are no longer: a Pull for lone runs that waits may take one of
	// theirs now. Its callers hold locks, so it must not wait for anything.
	Freed(sharers []Lane)
}

// MaxLone is how many runs of a sharer wait at most, if the first of them is lone: see Demand.Lone.
const MaxLone = 4

// Demand says which due runs are wanted, and how.
type Demand struct {
	Wants  []Want // runs of lanes that any of these takes; none: all runs
	Max    int
	NoWait bool // if there is no such run now, take none
	Spare  bool // take only runs for which no Pull without Spare waits
	// Lone says to take only lone runs, for which no other Pull waits, one of each sharer: see Lane.Sharer.
	// The first run of a sharer is lone if at most MaxLone of its runs wait, and the sharer is not Busy. A
	// worker asks so for the slots that it keeps: a flood has more runs that wait, or has some that are
	// performed. Lone runs come in the order of other pulls, except that sharers with the same needs take
	// turns, and that none gets a place for its age.
	Lone bool
	Busy func(sharer Lane) bool // it is called under locks, and must not wait for anything; nil: none is
	// Partial says that Wants have only those labels of the workers that are Known: the labels that runs are
	// known to need. If there are runs that need another label, see Unknown, Pull returns copies of some of
	// them behind the wanted runs, one for each such lane, and these runs stay in the queue. So a node whose
	// thousand workers have a thousand labels asks other nodes one short question, until a run needs one of
	// these.
	Partial bool
	Known   []Label
}

// Takes says whether runs of a lane are wanted.
func (d *Demand) Takes(lane Lane) bool {
	return len(d.Wants) == 0 || slices.ContainsFunc(d.Wants, func(w Want) bool { return w.Takes(lane) })
}

// Unknown says whether runs of a lane could be wanted, but need labels that are not known to be needed.
func (d *Demand) Unknown(lane Lane) bool {
	if !d.Partial {
		return false
	}
	known, unknown := []Label(nil), false
	for _, label := range lane.Labels() {
		if slices.Contains(d.Known, label) {
			known = append(known, label)
		} else {
			unknown = true
		}
	}
	lane = lane.WithoutLabels()
	return unknown && slices.ContainsFunc(d.Wants, func(w Want) bool {
		return w.Takes(lane) && !slices.ContainsFunc(known, func(l Label) bool { return !w.Has(l) })
	})
}

// Carrier brings due runs to this node from one place, such as another node. Its other end takes them from
// the Queue there, with Demand.Spare, so that a run moves only if no worker there waits for it.
//
// A carried run is advice, like every run in a Queue: the node that gets it claims it like any other. Runs
// come at least once and in any order. An answer that gets lost costs time only: some seconds after the other
// end gave runs away, it looks whether they were claimed.
type Carrier interface {
	// Fetch waits for runs, for some seconds at most, and returns up to want.Max; it can return none. When
	// they arrive, the pull that wanted them can be gone: then they wait here for the next one.
	Fetch(ctx context.Context, want Demand) ([]Run, error)
}

// Bus publishes events to listeners, at most once. Only speed depends on it.
type Bus interface {
	// Publish goes through events while it runs: once, several times, or not at all if no listener would get
	// them. So an event is made only for a bus that delivers it.
	Publish(ctx context.Context, events iter.Seq[Event]) error
	// Subscribe delivers events until ctx ends. A slow listener loses events and then gets one of kind
	// EventMissed.
	Subscribe(ctx context.Context, filter EventFilter) (<-chan Event, error)
}

// LogStore keeps the lines that runs print, in order. The same (run, attempt, offset) twice is stored once.
type LogStore interface {
	Append(ctx context.Context, chunks []Chunk) error
	Read(ctx context.Context, q LogQuery) ([]Line, error)
	// Trim removes lines that are older than their chunk's Keep, or than keep if the chunk has none.
	Trim(ctx context.Context, now Time, keep time.Duration) error
}

// Coordinator keeps the sessions of nodes and workers, by its own clock. It grants nothing: the shards of a
// node follow from the list of members, and two nodes that both believe that they own a shard
// do no harm.
type Coordinator interface {
	// Join opens sessions. If one of the ids has a session, Join opens none and returns ErrConflict. Ids are
	// random per start. A node whose session is over joins again under its id; a worker takes a new id.
	Join(ctx context.Context, members []Member) error
	// Beat prolongs sessions and stores what their members say they hold. It answers each beat, at the same
	// index. A beat that comes after, or together with, a beat of the same member with a higher number was
	// delayed: it is old and changes nothing. Of beats without a number that come together the last counts,
	// the others are old. A beat without a number that comes alone always counts, and the next numbered beat
	// is still compared with the highest number before. A repeated beat changes nothing the second time, and
	// may get the same answer as the first time. No beat brings back a session that is over.
	Beat(ctx context.Context, beats []Beat) ([]Standing, error)
	// Leave ends sessions. Ending one that is over is no error.
	Leave(ctx context.Context, ids []string) error
	// Members returns the members that the query asks for and whose session is not over, by id, and the time
	// by the coordinator's clock. A question about few members is quick, so that a node can tell from it how
	// far that clock is ahead.
	Members(ctx context.Context, q MemberQuery) (members []Member, now Time, err error)
}

// MemberQuery asks for members.
type MemberQuery struct {
	IDs   []string // none: all; not together with Expire
	Holds bool     // each with what it holds
	// Expire, in a query for all members, first ends the sessions that no beat has prolonged for SessionTime,
	// unless the coordinator's clock has passed Expire. A session ends only by a call, not by the mere
	// passing of time, so that after an outage of the coordinator the members that are still alive can go
	// on. A call that the outage delayed comes after Expire, and ends no session.
	Expire Time
}

// SessionTime is the time without a beat, by the coordinator's clock, after which a session may be ended. It
// is longer than a worker goes on without an answer to its beats: see worker/protocol.
const SessionTime = 7 * time.Second

// Member is one process that joined.
type Member struct {
	ID   string
	Kind string // MemberNode or MemberWorker
	Addr string // of a node: where it serves the API; of a worker: what it calls itself
	Profile
	Joined Time // by the coordinator's clock; Join ignores it
	Beat   Time // when the last beat (or the join) came, by the same clock; Join ignores it
	// Number and Heard are those of the last beat, 0 before the first. Join ignores them.
	Number, Heard int64
	// Holds is what the last beat listed, in its order, in an answer to MemberQuery.Holds; nil if that was
	// nothing. Join ignores it.
	Holds []Held
}

// Profile is what a process tells about itself when it joins: for people, and to explain why a run waits. No
// decision uses it, and any of it can be missing: a pull says anew what the worker takes.
type Profile struct {
	Host    string `json:"host,omitempty"`
	Version string `json:"version,omitempty"` // of the program
	Want           // of a worker; a queue is "name" or "name=weight"
	Slots   int    `json:"slots,omitempty"` // runs that a worker performs at the same time; 0: not told
}

// Takes says whether a worker with this profile takes the runs of a lane.
func (p *Profile) Takes(lane Lane) bool { return p.Serves(lane) && p.performs(lane.Needs) }

// Serves says whether a worker with this profile serves the lane's queue, whatever the runs need.
func (p *Profile) Serves(lane Lane) bool {
	return within(p.Namespaces, lane.Namespace) &&
		(len(p.Queues) == 0 || slices.ContainsFunc(p.Queues, func(served string) bool {
			name, _, _ := strings.Cut(served, "=") // from its weight
			return name == lane.Queue
		}))
}

// The kinds of members.
const (
	MemberNode   = "node"
	MemberWorker = "worker"
)

// Beat says that a member is alive, and which runs it holds.
type Beat struct {
	ID     string
	Number int64 // rises from beat to beat of a session; 0: not numbered
	// Heard is the number of the session's latest beat that was answered, 0 if there is none yet. It proves
	// that this beat was sent after that answer: see protocol.Handover.
	Heard int64
	Holds []Held
	// Stopping says that the worker has no pull in flight any more: it will never begin a run that it does
	// not list here. It is for the dispatcher: a coordinator does not keep it.
	Stopping bool
}

// Standing is the answer to a beat: what it did to the session of its member.
type Standing uint8

const (
	StandingOver      Standing = iota // the session is over
	StandingOld                       // the session goes on, but the beat is out of date
	StandingProlonged                 // the session was prolonged, and what the beat says is stored
)

// Held names an attempt by its run and its fence, see Run.Fence.
type Held struct {
	Run   RunID
	Fence int64
}

// Attempt is the number of the attempt, which is a part of its fence.
func (h Held) Attempt() int32 { return int32(h.Fence & (1<<attemptBits - 1)) }

// Claimed is when the attempt was claimed, the other part of its fence.
func (h Held) Claimed() Time { return Time(h.Fence >> attemptBits) }

// Intake is where applications leave jobs inside their own database transactions.
type Intake interface {
	// Submissions returns submissions that wait to be admitted, oldest first, or refused ones, latest first.
	Submissions(ctx context.Context, q SubmissionQuery) ([]Submission, error)
	// Acknowledge removes the admitted submissions, and keeps the refused ones, each with its Reason. A
	// submission that is not there, or no longer waits, stays as it is.
	Acknowledge(ctx context.Context, admitted []JobID, refused []Submission) error
}

// Submission is a job that an application left in an Intake: its id is known already, and its definition is
// the JSON that the API takes.
type Submission struct {
	ID        JobID
	Namespace string
	At        Time
	Body      []byte
	Reason    string // why it was refused
}

// SubmissionQuery asks for submissions of an Intake. Empty fields do not filter.
type SubmissionQuery struct {
	Refused   bool // those that were refused; else those that wait to be admitted
	Namespace string
	Shards    []int // of their jobs; nil: all
	Before    JobID // those with lower ids
	Limit     int
}

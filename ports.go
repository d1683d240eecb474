package carillon

import (
	"context"
	"time"
)

// Store is the truth. It knows no rules: it compares revisions and keeps rows. A query without a Limit returns up to
// DefaultLimit rows.
type Store interface {
	// Commit applies each change whose rows still have the revisions they carry (0: must not exist) and returns the
	// ascending indexes of those that did not. Changes are independent and applied in order; the rows of one change
	// stand or fall together. When it returns, what was applied survives a crash of process and machine.
	// After an error nothing is known: read again, then decide again.
	Commit(ctx context.Context, changes []Change) (lost []int, err error)

	// Jobs returns the definitions that exist, in no promised order. Version 0 asks for the latest.
	Jobs(ctx context.Context, ids []JobVersion) ([]Job, error)

	// Runs returns the runs that exist, in no promised order, with About filled in: unfinished, else the last of that
	// name in history, else, where history has forgotten it, the dead letter. whole adds Output.
	Runs(ctx context.Context, ids []RunID, whole bool) ([]Run, error)

	// Guards returns the guards that exist.
	Guards(ctx context.Context, q GuardQuery) ([]Guard, error)

	// Wakes returns unfinished runs by (Wake, Due, Job), without About and Output.
	Wakes(ctx context.Context, q WakeQuery) ([]Run, error)

	// FindJobs returns a page of jobs, newest first, each with the state that follows from its runs (Finished too).
	FindJobs(ctx context.Context, q JobQuery) (JobPage, error)

	// FindRuns returns a page of runs with About filled in. Of one job: latest due first. Of all jobs: first those that
	// are unfinished, earliest due first, then the finished, latest end first. Of the dead letters: latest first.
	FindRuns(ctx context.Context, q RunQuery) (RunPage, error)

	// Forget removes up to limit finished runs and dead letters that neither their own expiry nor the rule (0: for ever)
	// keeps at now, and says how many; 0 means that there is nothing left to remove. Output goes with the last record of
	// its run; a one-off job goes, with its definitions and its overlap guard, when no run, record or dead letter of it
	// is left.
	Forget(ctx context.Context, rule Retention, now Time, limit int) (int, error)
}

// Timeline is a quick copy of the near future. It may forget; the loader tells it again.
type Timeline interface {
	// Add takes runs to be woken at their Wake. The same run twice is once, the higher Rev wins. It returns the indexes
	// of those that it had no room for: room is bounded per lane, so that no lane's backlog hides another's run.
	Add(ctx context.Context, runs []Run) (refused []int, err error)
	// Due takes out up to limit runs whose Wake is not after now, earliest first, and says when the next one is (0: none).
	Due(ctx context.Context, now Time, limit int) (runs []Run, next Time, err error)
	// Remove forgets runs.
	Remove(ctx context.Context, ids []RunID) error
}

// Queue carries due runs to workers, at least once. The same run twice may come once.
type Queue interface {
	// Push returns the indexes of those that their lane had no room for; they are still in the store.
	Push(ctx context.Context, runs []Run) (refused []int, err error)
	// Pull waits for at least one run of the queues (none given: of any) and returns up to max. Higher priorities come
	// first, but every ten seconds of waiting weigh as much as one step of priority, so nothing starves.
	// Ack means claimed or refused, not finished. Waiting for the end would pin a log-based queue behind its slowest
	// run; what covers a crash is the run's Wake.
	Pull(ctx context.Context, queues []string, max int) (runs []Run, ack func(context.Context) error, err error)
}

// Bus tells whoever listens, at most once. Nothing depends on it but speed.
type Bus interface {
	Publish(ctx context.Context, events []Event) error
	// Subscribe delivers until ctx ends. A slow listener loses events and then gets one of kind Missed.
	Subscribe(ctx context.Context, filter EventFilter) (<-chan Event, error)
}

// LogStore keeps what runs print, in order. The same (run, attempt, offset) twice is once.
type LogStore interface {
	Append(ctx context.Context, chunks []Chunk) error
	Read(ctx context.Context, q LogQuery) ([]Line, error)
	Search(ctx context.Context, q LogSearch) ([]Hit, error)
	// Trim removes what is older than its chunk's Keep, or than keep where the chunk has none.
	Trim(ctx context.Context, now Time, keep time.Duration) error
}

// Coordinator says who is alive. It grants nothing.
type Coordinator interface {
	// Join makes the member visible to all until ctx ends or lost is closed.
	Join(ctx context.Context, m Member) (lost <-chan struct{}, err error)
	// Watch delivers the members now and after every change. Who is missing is gone for good: whatever it held may be
	// taken from it.
	Watch(ctx context.Context) (<-chan []Member, error)
}

// Member is one process that joined. IDs are random per start, never reused.
type Member struct {
	ID   string
	Kind string // "node" or "worker"
	Addr string
}

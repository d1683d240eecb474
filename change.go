package carillon

// Change is one decision: rows that the store writes all together or not at all. Every row carries the Rev
// that it was decided on (0: the row must not exist yet). The store compares Rev, writes the row, and raises
// Rev by one. The new state of a run says how the store writes it: it inserts or updates an unfinished run,
// and it moves an ended run from the hot table to history (and, if Failed, to the dead letters). So a run
// with Rev 0 that has ended is a record of something that never waited.
//
// The store writes a row as the change gives it, with these exceptions. It writes a job's definition only if
// its Version is not the stored one; the stored one then moves to the older versions. Namespace and Created
// of a job stay. A run keeps the Namespace, Covers, RetryOf, Seq and FlagAdditional that it is inserted with.
// Only ended runs have Until, Ended and the two expiries; only unfinished runs have Rev, Wake, Flags, Needs,
// Share, Hold and Slots.
// History keeps Expires, the dead letters keep DeadExpires. The store does not modify the rows that the
// caller gives it, and a change names no row twice.
//
// The runs of a change belong to one job, hence to one shard. Only a change that the ledger merged from
// changes that fold the same guard has runs of several jobs: see Fold. What a fold inserts are changes of
// their own, joined to it. A run is inserted only together with a row that outlives it (its job, a guard,
// or its predecessor). So when two callers decide the same thing, the second one loses, even after the
// run is history.
type Change struct {
	Job    *Job
	Runs   []Run
	Guards []Guard
	// Compared are guards that must be at their Rev, and that stay as they are. Any number of changes can
	// compare a guard that exists at the same time.
	Compared []GuardRev
	// Folds are steps of guards that the change makes. The ledger adds the guards to what it gives the store,
	// which never sees a Fold.
	Folds []Fold
	// Parts are the ends of runs in the change that are parts of workflows. The ledger turns them into folds;
	// the store never sees them.
	Parts []PartEnd
	// Hooks are jobs that follow an end of a run in the change, or a run that is late: see Hook. The ledger
	// gives them ids, and inserts them together with the change; the store never sees them.
	Hooks []*Job
	// Retried are dead letters that a new run repeats. Each must exist; the change removes it.
	Retried []RunID
	// Joined ties the change to the one before it in the same commit: the store writes both or neither. So
	// several jobs can be submitted as one. Changes that are joined name no row twice, and have no folds.
	Joined bool
}

// JoinedFrom is how many changes, from the first one on, are written all together or not at all: the first
// one and those that are joined to it.
func JoinedFrom(changes []Change) int {
	n := min(1, len(changes))
	for n < len(changes) && changes[n].Joined {
		n++
	}
	return n
}

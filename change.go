package carillon

// Change is one decision: rows that stand or fall together. Every row carries the Rev it was decided on (0: it must
// not exist yet); the store compares, writes, and raises Rev by one. What a row becomes says how it is written:
// an unfinished run is inserted or updated, an ended one leaves the hot table for history (and, if Failed, for the
// dead letters), so a run with Rev 0 that has ended is a record of something that never waited.
//
// What is written is what the row is about to be, with these exceptions. A job's definition is written only if its
// Version is not the stored one, which then moves to the older ones; Namespace and Created stay. A run keeps what it is
// born with: Namespace, Covers, RetryOf, Seq and Extra. Only ended runs have Until, Ended and the two expiries, only
// unfinished ones Rev, Wake and Flags; history keeps Expires, the dead letters DeadExpires. The rows that are given are
// not changed by the store, and none is named twice in one change.
//
// All rows of a change belong to one job, hence to one shard. A run is inserted only together with a row that outlives
// it (its job, a guard, or its predecessor), so deciding the same thing twice loses even after the run is history.
type Change struct {
	Job    *Job
	Runs   []Run
	Guards []Guard
	// Redriven are dead letters to remove; each must exist.
	Redriven []RunID
}

// Guard is a small keyed record, compared in the same change as the runs it rules.
type Guard struct {
	Namespace string
	Key       string
	Rev       int32
	Value     []byte // nil: remove it, or with Rev 0: only see that there is none
}

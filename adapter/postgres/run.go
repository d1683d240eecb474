package postgres

import (
	"github.com/carillon-run/carillon"
)

// The hot table, by primary key (shard, due, job). Each statement fails the batch unless all its rows are as
// the changes were decided on: an insert by the key, the others by a division by zero. An update does not
// write the columns that a run is born with, and changes no index unless the wake changes.
var (
	insertRun = forRows("insert_run", `shard int2 key, due int8 key, job int8 key, rev int4, wake int8,
  covers int8, claimed int8, started int8, retry_of int8, version int4, seq int4, attempt int4,
  failures int4, losses int4, crashes int4, state int2, priority int2, flags int2,
  extra bool, namespace text, queue text, worker text, reason text, needs text, share text,
  hold text, slots text`,
		`INSERT INTO carillon.run (shard, due, job, wake, covers, claimed, started, retry_of, rev, version,
  seq, attempt, failures, losses, crashes, state, priority, flags, extra, namespace, queue, worker, reason,
  needs, share, hold, slots)
SELECT shard, due, job, wake, covers, claimed, started, retry_of, rev, version, seq, attempt, failures,
  losses, crashes, state, priority, flags, extra, namespace, queue, worker, reason, needs, share, hold,
  slots FROM ROWS x`)

	updateRun = forRows("update_run", `shard int2 key, due int8 key, job int8 key, rev int4, wake int8,
  claimed int8, started int8, version int4, attempt int4, failures int4, losses int4, crashes int4,
  state int2, priority int2, flags int2, queue text, worker text, reason text, needs text,
  share text, hold text, slots text`,
		`WITH hit AS (UPDATE carillon.run r SET rev = r.rev + 1, wake = x.wake, claimed = x.claimed,
  started = x.started, version = x.version, attempt = x.attempt, failures = x.failures, losses = x.losses,
  crashes = x.crashes, state = x.state, priority = x.priority, flags = x.flags,
  queue = x.queue, worker = x.worker, reason = x.reason, needs = x.needs,
  share = x.share, hold = x.hold, slots = x.slots
  FROM ROWS x WHERE r.shard = ANY(ARRAY[x.shard]) AND r.due = x.due AND r.job = x.job
  AND r.rev = x.rev RETURNING 1)
SELECT 1 / (count(*) = COUNT)::int FROM hit`)

	deleteRun = forRows("delete_run", `shard int2 key, due int8 key, job int8 key, rev int4`,
		`WITH hit AS (DELETE FROM carillon.run r USING ROWS x
  WHERE r.shard = ANY(ARRAY[x.shard]) AND r.due = x.due AND r.job = x.job
  AND r.rev = x.rev RETURNING 1)
SELECT 1 / (count(*) = COUNT)::int FROM hit`)
)

// freeRun removes the placeholders of runs that must not exist. Only a transaction that inserts such a row
// can be sure that no other one does so meanwhile: these runs are inserted like the others, with revision 0.
var freeRun = forRows("free_run", `shard int2 key, due int8 key, job int8 key`,
	`DELETE FROM carillon.run r USING ROWS x
  WHERE r.shard = ANY(ARRAY[x.shard]) AND r.due = x.due AND r.job = x.job AND r.rev = 0`)

// seeRun returns the revisions of the runs that exist.
var seeRun = forRows("see_run", `shard int2 key, due int8 key, job int8 key`,
	`SELECT r.job, r.due, r.rev FROM ROWS x JOIN carillon.run r
  ON r.shard = ANY(ARRAY[x.shard]) AND r.due = x.due AND r.job = x.job`)

func (r *rows) runKey(id carillon.RunID) {
	r.begin()
	r.int(int64(id.Job.Shard()))
	r.int(int64(id.Due))
	r.int(int64(id.Job))
}

func (r *rows) insertRun(run *carillon.Run, rev int64) {
	r.runKey(run.ID)
	r.int(rev)
	r.int(int64(run.Wake))
	r.int(int64(run.Covers)) // always written: it says whether the next run must be planned
	r.intOrNull(int64(run.Claimed))
	r.intOrNull(int64(run.Started))
	r.intOrNull(int64(run.RetryOf))
	r.int(int64(run.Version))
	r.intOrNull(int64(run.Seq))
	r.runCounts(run)
	r.bool(run.Has(carillon.FlagAdditional))
	r.text(run.Namespace)
	r.text(run.Queue)
	r.textOrNull(run.Worker)
	r.textOrNull(run.Reason)
	r.textOrNull(run.Needs)
	r.textOrNull(run.Share)
	r.textOrNull(run.Hold)
	r.textOrNull(run.Slots)
}

func (r *rows) runCounts(run *carillon.Run) {
	r.intOrNull(int64(run.Attempt))
	r.intOrNull(int64(run.Failures))
	r.intOrNull(int64(run.Losses))
	r.intOrNull(int64(run.Crashes))
	r.int(int64(run.State))
	r.int(int64(run.Priority))
	r.intOrNull(int64(run.Flags &^ carillon.FlagAdditional))
}

func (r *rows) updateRun(run *carillon.Run) {
	r.runKey(run.ID)
	r.int(int64(run.Rev))
	r.int(int64(run.Wake))
	r.intOrNull(int64(run.Claimed))
	r.intOrNull(int64(run.Started))
	r.int(int64(run.Version))
	r.runCounts(run)
	r.text(run.Queue)
	r.textOrNull(run.Worker)
	r.textOrNull(run.Reason)
	r.textOrNull(run.Needs)
	r.textOrNull(run.Share)
	r.textOrNull(run.Hold)
	r.textOrNull(run.Slots)
}

func (r *rows) deleteRun(run *carillon.Run) {
	r.runKey(run.ID)
	r.int(int64(run.Rev))
}

// runColumns are the columns that unfinished reads.
const runColumns = `r.due, r.job, r.wake, r.covers, r.claimed, r.started, r.retry_of, r.rev, r.version,
  r.seq, r.attempt, r.failures, r.losses, r.crashes, r.state, r.priority, r.flags, r.extra, r.namespace,
  r.queue, r.worker, r.reason, r.needs, r.share, r.hold, r.slots`

// unfinished reads a row of the hot table, without About.
func (r *row) unfinished() carillon.Run {
	run := carillon.Run{
		ID:   carillon.RunID{Due: carillon.Time(r.int()), Job: carillon.JobID(r.int())},
		Wake: carillon.Time(r.int()), Covers: carillon.Time(r.int()), Claimed: carillon.Time(r.int()),
		Started: carillon.Time(r.int()),
		RetryOf: carillon.Time(r.int()),
		Rev:     int32(r.int()), Version: int32(r.int()), Seq: int32(r.int()), Attempt: int32(r.int()),
		Failures: int32(r.int()),
		Losses:   int32(r.int()), Crashes: int32(r.int()),
		State: carillon.State(r.int()), Priority: int8(r.int()), Flags: carillon.Flags(r.int()),
	}
	if r.bool() {
		run.Flags |= carillon.FlagAdditional
	}
	run.Namespace, run.Queue, run.Worker, run.Reason = r.name(), r.name(), r.name(), r.text()
	run.Needs, run.Share, run.Hold, run.Slots = r.name(), r.name(), r.name(), r.name()
	return run
}

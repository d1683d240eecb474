package postgres

import (
	"strings"

	"github.com/carillon-run/carillon"
)

// endedRow are the columns of history and dead, in the order that record writes them and ended reads them.
const (
	endedRow = `job int8 key, due int8 key, covers int8, until int8, claimed int8, started int8, ended int8,
  expires int8, retry_of int8, version int4, seq int4, attempt int4, failures int4, losses int4,
  crashes int4, state int2, priority int2, namespace text, queue text, name text, type text, owner text,
  worker text, reason text`

	endedColumns = `job, due, covers, until, claimed, started, ended, expires, retry_of, version, seq, ` +
		`attempt, failures, losses, crashes, state, priority, namespace, queue, name, type, owner, ` +
		`worker, reason`
	deadColumns = endedColumns + `, fingerprint`

	// placeNow is the first place of the present millisecond by the server's clock, and place is a place in
	// that millisecond.
	placeNow = `(SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint << 20)`
	place    = placeNow + ` | (nextval('carillon.place') & 1048575)`
)

// placeBits is how many bits of a place tell apart the records of one millisecond.
const placeBits = 20

// A record is added to history. A dead letter replaces a dead letter of the same run, by dead_run.
var (
	insertHistory = forRows("insert_history", endedRow,
		`INSERT INTO carillon.history (place, `+endedColumns+`)
SELECT `+place+`, `+endedColumns+` FROM ROWS x`)

	insertDead = forRows("insert_dead", endedRow+`, fingerprint int8`, `INSERT INTO carillon.dead (place,
  `+deadColumns+`) SELECT `+place+`, `+deadColumns+` FROM ROWS x
ON CONFLICT (job, due) DO UPDATE SET (place, bucket, `+deadColumns+`) = (SELECT excluded.place,
  excluded.bucket, excluded.`+strings.ReplaceAll(deadColumns, ", ", ", excluded.")+`)`)

	// deleteDead removes dead letters, each of which must exist; by dead_run.
	deleteDead = forRows("deleteDead", `job int8 key, due int8 key`,
		`WITH hit AS (DELETE FROM carillon.dead d USING ROWS x WHERE d.job = ANY(ARRAY[x.job]) AND d.due = x.due
  RETURNING 1)
SELECT 1 / (count(*) = COUNT)::int FROM hit`)

	// seeDead returns the dead letters that exist.
	seeDead = forRows("see_dead", `job int8 key, due int8 key`,
		`SELECT d.job, d.due FROM ROWS x CROSS JOIN LATERAL (
  SELECT d.job, d.due FROM carillon.dead d WHERE d.job = x.job AND d.due = x.due OFFSET 0) d`)
)

// record writes an ended run from memory: the store reads nothing back.
func (r *rows) record(run *carillon.Run, expires carillon.Time) {
	r.begin()
	r.int(int64(run.ID.Job))
	r.int(int64(run.ID.Due))
	r.intUnless(int64(run.ID.Due), int64(run.Covers))
	r.intOrNull(int64(run.Until))
	r.intOrNull(int64(run.Claimed))
	r.intOrNull(int64(run.Started))
	r.int(int64(run.Ended))
	r.intOrNull(int64(expires))
	r.intOrNull(int64(run.RetryOf))
	r.int(int64(run.Version))
	r.intOrNull(int64(run.Seq))
	r.int(int64(run.Attempt))
	r.intOrNull(int64(run.Failures))
	r.intOrNull(int64(run.Losses))
	r.intOrNull(int64(run.Crashes))
	r.int(int64(run.State))
	r.int(int64(run.Priority))
	r.text(run.Namespace)
	r.text(run.Queue)
	about := run.About
	if about == nil {
		about = &carillon.About{}
	}
	r.text(about.Name)
	r.text(about.Type)
	r.text(about.Owner)
	r.textOrNull(run.Worker)
	r.textOrNull(run.Reason)
}

// bury writes a dead letter.
func (r *rows) bury(run *carillon.Run) {
	r.record(run, run.DeadExpires)
	print, _ := carillon.FingerprintOf(run.Reason)
	r.int(int64(print))
}

func (r *rows) deadKey(id carillon.RunID) {
	r.begin()
	r.int(int64(id.Job))
	r.int(int64(id.Due))
}

// ended reads place and endedColumns. dead says which of the two expiries the row carries.
func (r *row) ended(dead bool) (run carillon.Run, place int64) {
	place = r.int()
	id := carillon.RunID{Job: carillon.JobID(r.int()), Due: carillon.Time(r.int())}
	run = carillon.Run{
		ID:     id,
		Covers: carillon.Time(r.intOr(int64(id.Due))), Until: carillon.Time(r.int()),
		Claimed: carillon.Time(r.int()), Started: carillon.Time(r.int()),
		Ended: carillon.Time(r.int()), Expires: carillon.Time(r.int()), RetryOf: carillon.Time(r.int()),
		Version: int32(r.int()), Seq: int32(r.int()), Attempt: int32(r.int()), Failures: int32(r.int()),
		Losses: int32(r.int()), Crashes: int32(r.int()),
		State: carillon.State(r.int()), Priority: int8(r.int()), Namespace: r.name(), Queue: r.name(),
		About:  &carillon.About{Name: r.name(), Type: r.name(), Owner: r.name()},
		Worker: r.name(), Reason: r.text(),
	}
	if dead {
		run.Expires, run.DeadExpires = 0, run.Expires
	}
	return run, place
}

// The outputs of runs, by primary key; the last value is kept.
const output = `job int8 key, due int8 key, namespace text, value bytea key`

var (
	putResult = forRows("put_result", output,
		`INSERT INTO carillon.result (job, due, namespace, value) SELECT job, due, namespace, value FROM ROWS x
ON CONFLICT (job, due) DO UPDATE SET value = excluded.value`)
	putCheckpoint = forRows("put_checkpoint", output,
		`INSERT INTO carillon.checkpoint (job, due, namespace, value) SELECT job, due, namespace, value FROM ROWS x
ON CONFLICT (job, due) DO UPDATE SET value = excluded.value`)
	putPayload = forRows("put_payload", output,
		`INSERT INTO carillon.run_payload (job, due, namespace, value) SELECT job, due, namespace, value FROM ROWS x
ON CONFLICT (job, due) DO UPDATE SET value = excluded.value`)
)

func (r *rows) output(run *carillon.Run, value []byte) {
	r.deadKey(run.ID)
	r.text(run.Namespace)
	r.bytes(value)
}

package sqlite

import (
	"github.com/carillon-run/carillon"
	"zombiezen.com/go/sqlite"
)

// The history is appended to. A dead letter replaces one of the same run: that one is found by dead_run and
// deleted before, because REPLACE would delete it without the trigger that counts it. A retry finds its
// letter by the same index.
const (
	endedColumns = `namespace, job, due, covers, until, claimed, started, ended, expires, retry_of, version,
  seq, attempt, failures, losses, crashes, state, priority, queue, name, type, owner, worker, reason`
	endedValues = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	deadValues  = `(?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

	insertHistory = `INSERT INTO history (` + endedColumns + `) VALUES ` + endedValues
	insertDead    = `INSERT INTO dead (` + endedColumns + `, fingerprint) VALUES ` + deadValues
	deleteDead    = `DELETE FROM dead WHERE job = ? AND due = ?`
)

// bury writes a dead letter.
func (w *writer) bury(run *carillon.Run) error {
	if _, err := w.removeDead(run.ID); err != nil {
		return err
	}
	print, _ := carillon.FingerprintOf(run.Reason)
	w.insertDead.int(25, int64(print))
	return w.record(&w.insertDead, run, run.DeadExpires)
}

// record writes an ended run from memory: nothing is read back.
func (w *writer) record(stmt *statement, run *carillon.Run, expires carillon.Time) error {
	stmt.text(1, run.Namespace)
	stmt.int(2, int64(run.ID.Job))
	stmt.int(3, int64(run.ID.Due))
	stmt.int(4, int64(run.Covers))
	stmt.int(5, int64(run.Until))
	stmt.int(6, int64(run.Claimed))
	stmt.int(7, int64(run.Started))
	stmt.int(8, int64(run.Ended))
	stmt.intOrNull(9, int64(expires))
	stmt.int(10, int64(run.RetryOf))
	stmt.int(11, int64(run.Version))
	stmt.int(12, int64(run.Seq))
	stmt.int(13, int64(run.Attempt))
	stmt.int(14, int64(run.Failures))
	stmt.int(15, int64(run.Losses))
	stmt.int(16, int64(run.Crashes))
	stmt.int(17, int64(run.State))
	stmt.int(18, int64(run.Priority))
	stmt.text(19, run.Queue)
	about := run.About
	if about == nil {
		about = &carillon.About{}
	}
	stmt.text(20, about.Name)
	stmt.text(21, about.Type)
	stmt.text(22, about.Owner)
	stmt.textOrNull(23, run.Worker)
	stmt.textOrNull(24, run.Reason)
	return stmt.exec()
}

func (w *writer) removeDead(id carillon.RunID) (bool, error) {
	w.deleteDead.int(1, int64(id.Job))
	w.deleteDead.int(2, int64(id.Due))
	return w.deleteDead.hits()
}

// ended reads place and endedColumns. dead says which of the run's two expiries the row carries.
func (r *reader) ended(stmt *sqlite.Stmt, dead bool) (run carillon.Run, place int64) {
	run = carillon.Run{
		Namespace: r.name(stmt, 1),
		ID: carillon.RunID{
			Job: carillon.JobID(stmt.ColumnInt64(2)), Due: carillon.Time(stmt.ColumnInt64(3)),
		},
		Covers: carillon.Time(stmt.ColumnInt64(4)), Until: carillon.Time(stmt.ColumnInt64(5)),
		Claimed: carillon.Time(stmt.ColumnInt64(6)), Started: carillon.Time(stmt.ColumnInt64(7)),
		Ended: carillon.Time(stmt.ColumnInt64(8)), Expires: carillon.Time(stmt.ColumnInt64(9)),
		RetryOf: carillon.Time(stmt.ColumnInt64(10)),
		Version: stmt.ColumnInt32(11), Seq: stmt.ColumnInt32(12), Attempt: stmt.ColumnInt32(13),
		Failures: stmt.ColumnInt32(14), Losses: stmt.ColumnInt32(15), Crashes: stmt.ColumnInt32(16),
		State: carillon.State(stmt.ColumnInt32(17)), Priority: int8(stmt.ColumnInt32(18)),
		Queue:  r.name(stmt, 19),
		About:  &carillon.About{Name: r.name(stmt, 20), Type: r.name(stmt, 21), Owner: r.name(stmt, 22)},
		Worker: r.name(stmt, 23), Reason: stmt.ColumnText(24),
	}
	if dead {
		run.Expires, run.DeadExpires = 0, run.Expires
	}
	return run, stmt.ColumnInt64(0)
}

// The output of runs, by primary key. The last value is kept.
const (
	putResult = `INSERT INTO result (due, job, namespace, value) VALUES (?, ?, ?, ?)
ON CONFLICT (due, job) DO UPDATE SET value = excluded.value`
	putCheckpoint = `INSERT INTO checkpoint (due, job, namespace, value) VALUES (?, ?, ?, ?)
ON CONFLICT (due, job) DO UPDATE SET value = excluded.value`
	putPayload = `INSERT INTO run_payload (due, job, namespace, value) VALUES (?, ?, ?, ?)
ON CONFLICT (due, job) DO UPDATE SET value = excluded.value`
)

func (w *writer) putOutput(run *carillon.Run) error {
	for _, p := range []struct {
		stmt  *statement
		value []byte
	}{
		{&w.putResult, run.Output.Result},
		{&w.putCheckpoint, run.Output.Checkpoint},
		{&w.putPayload, run.Output.Payload},
	} {
		if p.value == nil {
			continue
		}
		p.stmt.int(1, int64(run.ID.Due))
		p.stmt.int(2, int64(run.ID.Job))
		p.stmt.text(3, run.Namespace)
		p.stmt.bytes(4, p.value)
		if err := p.stmt.exec(); err != nil {
			return err
		}
	}
	if run.Output.Attempt != nil {
		return w.recordAttempt(run, run.Output.Attempt)
	}
	return nil
}

package sqlite

import (
	"github.com/carillon-run/carillon"
	"zombiezen.com/go/sqlite"
)

// The hot table, by primary key (due, job). An update does not write the columns that a run is born with. One
// of them is extra: because it never changes, an update does not touch the index run_job.
const (
	insertRun = `INSERT INTO run (due, job, wake, covers, claimed, started, retry_of, rev, version, seq,
  attempt, failures, losses, crashes, state, priority, flags, extra, namespace, queue, worker, reason, needs,
  share, hold, slots)
VALUES (?, ?, ?, ?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`

	// insertNew is insertRun for most of the runs that submits bring. Values that are the same for all of
	// them are part of the statement: a parameter costs SQLite more, even one that stays bound.
	insertNew = `INSERT INTO run (due, job, wake, covers, claimed, started, retry_of, rev, version, seq,
  attempt, failures, losses, crashes, state, priority, flags, extra, namespace, queue, needs)
VALUES (?1, ?2, ?1, ?1, 0, 0, 0, 1, ?3, 0, 0, 0, 0, 0, 1, ?4, ?5, 0, ?6, ?7, ?8) ON CONFLICT DO NOTHING`

	updateRun = `UPDATE run SET rev = rev + 1, wake = ?4, claimed = ?5, started = ?6, version = ?7,
  attempt = ?8, failures = ?9, losses = ?10, crashes = ?11, state = ?12, priority = ?13, flags = ?14,
  queue = ?15, worker = ?16, reason = ?17, needs = ?18, share = ?19, hold = ?20,
  slots = ?21
WHERE due = ?1 AND job = ?2 AND rev = ?3`

	deleteRun = `DELETE FROM run WHERE due = ? AND job = ? AND rev = ?`
	seeRun    = `SELECT rev FROM run WHERE due = ? AND job = ?`
)

// putRun writes one run to the table that it belongs to now.
func (w *writer) putRun(run *carillon.Run) (hit bool, err error) {
	switch {
	case run.State.Ended():
		hit, err = w.end(run)
	case run.Rev == 0:
		hit, err = w.insert(run)
	default:
		hit, err = w.update(run)
	}
	if !hit || err != nil || run.Output == nil {
		return hit, err
	}
	return true, w.putOutput(run)
}

func (w *writer) insert(run *carillon.Run) (bool, error) {
	if isNew(run) {
		return w.insertFirst(run)
	}
	stmt := &w.insertRun
	stmt.int(1, int64(run.ID.Due))
	stmt.int(2, int64(run.ID.Job))
	stmt.int(3, int64(run.Wake))
	stmt.int(4, int64(run.Covers))
	stmt.int(5, int64(run.Claimed))
	stmt.int(6, int64(run.Started))
	stmt.int(7, int64(run.RetryOf))
	stmt.int(8, int64(run.Version))
	stmt.int(9, int64(run.Seq))
	stmt.int(10, int64(run.Attempt))
	stmt.int(11, int64(run.Failures))
	stmt.int(12, int64(run.Losses))
	stmt.int(13, int64(run.Crashes))
	stmt.int(14, int64(run.State))
	stmt.int(15, int64(run.Priority))
	stmt.int(16, int64(run.Flags&^carillon.FlagAdditional))
	stmt.bool(17, run.Has(carillon.FlagAdditional))
	stmt.text(18, run.Namespace)
	stmt.text(19, run.Queue)
	stmt.textOrNull(20, run.Worker)
	stmt.textOrNull(21, run.Reason)
	stmt.textOrNull(22, run.Needs)
	stmt.textOrNull(23, run.Share)
	stmt.textOrNull(24, run.Hold)
	stmt.textOrNull(25, run.Slots)
	return stmt.hits()
}

// isNew says whether insertNew writes the run as it is: all that it leaves out is zero, and stays so.
func isNew(run *carillon.Run) bool {
	return *run == carillon.Run{
		ID: run.ID, Wake: run.ID.Due, Covers: run.ID.Due, State: carillon.StateWaiting,
		Namespace: run.Namespace, Queue: run.Queue, Needs: run.Needs, Version: run.Version,
		Priority: run.Priority, Flags: run.Flags &^ carillon.FlagAdditional,
		About: run.About, Output: run.Output, // which are in no column of this table
	}
}

func (w *writer) insertFirst(run *carillon.Run) (bool, error) {
	stmt := &w.insertNew
	stmt.int(1, int64(run.ID.Due))
	stmt.int(2, int64(run.ID.Job))
	stmt.int(3, int64(run.Version))
	stmt.int(4, int64(run.Priority))
	stmt.int(5, int64(run.Flags))
	stmt.text(6, run.Namespace)
	stmt.text(7, run.Queue)
	stmt.textOrNull(8, run.Needs)
	return stmt.hits()
}

func (w *writer) update(run *carillon.Run) (bool, error) {
	stmt := &w.updateRun
	stmt.int(1, int64(run.ID.Due))
	stmt.int(2, int64(run.ID.Job))
	stmt.int(3, int64(run.Rev))
	stmt.int(4, int64(run.Wake))
	stmt.int(5, int64(run.Claimed))
	stmt.int(6, int64(run.Started))
	stmt.int(7, int64(run.Version))
	stmt.int(8, int64(run.Attempt))
	stmt.int(9, int64(run.Failures))
	stmt.int(10, int64(run.Losses))
	stmt.int(11, int64(run.Crashes))
	stmt.int(12, int64(run.State))
	stmt.int(13, int64(run.Priority))
	stmt.int(14, int64(run.Flags&^carillon.FlagAdditional))
	stmt.text(15, run.Queue)
	stmt.textOrNull(16, run.Worker)
	stmt.textOrNull(17, run.Reason)
	stmt.textOrNull(18, run.Needs)
	stmt.textOrNull(19, run.Share)
	stmt.textOrNull(20, run.Hold)
	stmt.textOrNull(21, run.Slots)
	return stmt.hits()
}

// end moves a run out of the hot table. A run that never was in it (Rev 0) is only recorded.
func (w *writer) end(run *carillon.Run) (bool, error) {
	if run.Rev == 0 {
		w.seeRun.int(1, int64(run.ID.Due))
		w.seeRun.int(2, int64(run.ID.Job))
		if rev, err := w.seeRun.one(); rev != 0 || err != nil { // a record must not hide a run that waits
			return false, err
		}
	} else {
		w.deleteRun.int(1, int64(run.ID.Due))
		w.deleteRun.int(2, int64(run.ID.Job))
		w.deleteRun.int(3, int64(run.Rev))
		if hit, err := w.deleteRun.hits(); !hit || err != nil {
			return false, err
		}
	}
	if err := w.record(&w.insertHistory, run, run.Expires); err != nil {
		return false, err
	}
	if run.State != carillon.StateFailed {
		return true, nil
	}
	return true, w.bury(run)
}

// runColumns are the columns that unfinished reads.
const runColumns = `due, job, wake, covers, claimed, started, retry_of, rev, version, seq, attempt,
  failures, losses, crashes, state, priority, flags, extra, namespace, queue, worker, reason, needs, share,
  hold, slots`

// unfinished reads a row of the hot table, without About.
func (r *reader) unfinished(stmt *sqlite.Stmt) carillon.Run {
	run := carillon.Run{
		ID: carillon.RunID{
			Due: carillon.Time(stmt.ColumnInt64(0)), Job: carillon.JobID(stmt.ColumnInt64(1)),
		},
		Wake: carillon.Time(stmt.ColumnInt64(2)), Covers: carillon.Time(stmt.ColumnInt64(3)),
		Claimed: carillon.Time(stmt.ColumnInt64(4)), Started: carillon.Time(stmt.ColumnInt64(5)),
		RetryOf: carillon.Time(stmt.ColumnInt64(6)),
		Rev:     stmt.ColumnInt32(7), Version: stmt.ColumnInt32(8), Seq: stmt.ColumnInt32(9),
		Attempt:  stmt.ColumnInt32(10),
		Failures: stmt.ColumnInt32(11), Losses: stmt.ColumnInt32(12), Crashes: stmt.ColumnInt32(13),
		State: carillon.State(stmt.ColumnInt32(14)), Priority: int8(stmt.ColumnInt32(15)),
		Flags:     carillon.Flags(stmt.ColumnInt32(16)),
		Namespace: r.name(stmt, 18), Queue: r.name(stmt, 19), Worker: r.name(stmt, 20),
		Reason: stmt.ColumnText(21), Needs: r.name(stmt, 22), Share: r.name(stmt, 23), Hold: r.name(stmt, 24),
		Slots: r.name(stmt, 25),
	}
	if stmt.ColumnBool(17) {
		run.Flags |= carillon.FlagAdditional
	}
	return run
}

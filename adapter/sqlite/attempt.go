package sqlite

import (
	"cmp"
	"context"

	"github.com/carillon-run/carillon"
	"zombiezen.com/go/sqlite"
)

// The records of attempts, by primary key. The last record of an attempt is kept.
const (
	attemptColumns = `number, worker, claimed, started, ended, outcome, reason, exit, status`

	putAttempt = `INSERT OR REPLACE INTO attempt (due, job, namespace, ` + attemptColumns + `)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	attemptsAfter = `SELECT ` + attemptColumns + ` FROM attempt WHERE due = ?1 AND job = ?2 AND number > ?3
ORDER BY number LIMIT ?4`
	deleteAttempts = `DELETE FROM attempt` + unlessKept
)

// recordAttempt writes the record of an attempt of a run.
func (w *writer) recordAttempt(run *carillon.Run, a *carillon.Attempt) error {
	stmt := &w.putAttempt
	stmt.int(1, int64(run.ID.Due))
	stmt.int(2, int64(run.ID.Job))
	stmt.text(3, run.Namespace)
	stmt.int(4, int64(a.Number))
	stmt.textOrNull(5, a.Worker)
	stmt.int(6, int64(a.Claimed))
	stmt.int(7, int64(a.Started))
	stmt.int(8, int64(a.Ended))
	stmt.int(9, int64(a.Outcome))
	stmt.textOrNull(10, a.Reason)
	stmt.int(11, int64(a.Exit))
	stmt.int(12, int64(a.Status))
	return stmt.exec()
}

// Attempts implements carillon.Store.
func (s *Store) Attempts(
	ctx context.Context, run carillon.RunID, after int32, limit int,
) (found []carillon.Attempt, err error) {
	err = s.read(ctx, func(r *reader) error {
		return r.rows(attemptsAfter, func(stmt *sqlite.Stmt) {
			byKey(run)(stmt)
			stmt.BindInt64(3, int64(after))
			stmt.BindInt64(4, int64(cmp.Or(limit, carillon.DefaultLimit)))
		}, func(stmt *sqlite.Stmt) (bool, error) {
			found = append(found, carillon.Attempt{
				Run: run, Number: stmt.ColumnInt32(0), Worker: r.name(stmt, 1),
				Claimed: carillon.Time(stmt.ColumnInt64(2)), Started: carillon.Time(stmt.ColumnInt64(3)),
				Ended: carillon.Time(stmt.ColumnInt64(4)), Outcome: carillon.OutcomeKind(stmt.ColumnInt32(5)),
				Reason: stmt.ColumnText(6), Exit: uint8(stmt.ColumnInt32(7)),
				Status: uint16(stmt.ColumnInt32(8)),
			})
			return true, nil
		})
	})
	return found, err
}

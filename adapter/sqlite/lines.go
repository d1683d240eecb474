package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/carillon-run/carillon"
	"zombiezen.com/go/sqlite"
)

// lineAfter reads the line of namespace ?1 and hold ?2 after the run (?3, ?4) by run_hold, up to the time ?5.
// ?6 is Never.
const lineAfter = `SELECT ` + runColumns + ` FROM run INDEXED BY run_hold
WHERE namespace = ?1 AND hold = ?2 AND (due, job) > (?3, ?4) AND due <= ?5 AND state = 1
  AND (wake <= ?5 OR wake = ?6) ORDER BY due, job LIMIT ?7`

// Line implements carillon.Store.
func (s *Store) Line(ctx context.Context, q carillon.LineQuery) (found []carillon.Run, err error) {
	limit := cmp.Or(q.Limit, carillon.DefaultLimit)
	err = s.read(ctx, func(r *reader) error {
		for _, name := range q.Lines {
			err := r.rows(lineAfter, func(stmt *sqlite.Stmt) {
				stmt.BindText(1, name.Namespace)
				stmt.BindText(2, name.Hold)
				stmt.BindInt64(3, int64(q.After.Due))
				stmt.BindInt64(4, int64(q.After.Job))
				stmt.BindInt64(5, int64(q.Until))
				stmt.BindInt64(6, int64(carillon.Never))
				stmt.BindInt64(7, int64(limit))
			}, func(stmt *sqlite.Stmt) (bool, error) {
				found = append(found, r.unfinished(stmt))
				return true, nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return found, err
}

// nextHold finds the line after (?1, ?2) by run_hold. It passes over all runs of a line at once: no run is
// due at ?3, the highest number. SQLite begins a search for rows above some columns at the first row that is
// equal in them, so without that column it would read the whole line.
const nextHold = `SELECT namespace, hold FROM run INDEXED BY run_hold
WHERE hold IS NOT NULL AND (namespace, hold, due) > (?1, ?2, ?3) ORDER BY namespace, hold LIMIT 1`

// Holds implements carillon.Store.
func (s *Store) Holds(
	ctx context.Context, after carillon.HoldName, limit int,
) (names []carillon.HoldName, err error) {
	limit = cmp.Or(limit, carillon.DefaultLimit)
	err = s.read(ctx, func(r *reader) error {
		for found := true; found && len(names) < limit; {
			found = false
			err := r.rows(nextHold, func(stmt *sqlite.Stmt) {
				stmt.BindText(1, after.Namespace)
				stmt.BindText(2, after.Hold)
				stmt.BindInt64(3, math.MaxInt64)
			}, func(stmt *sqlite.Stmt) (bool, error) {
				after, found = carillon.HoldName{Namespace: r.name(stmt, 0), Hold: stmt.ColumnText(1)}, true
				names = append(names, after)
				return false, nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return names, err
}

// countRuns counts the runs of namespace ?1 that carillon.CountOf counts at ?2. It reads the whole table: an
// index for people who look at a queue now and then would cost every run.
var countRuns = fmt.Sprintf(
	`SELECT queue, state, iif(waits AND NOT paused AND wake = %[1]d, coalesce(hold, ''), '') AS line,
  waits AND paused AS stopped, count(*), min(due)
FROM (SELECT queue, state, hold, wake, due, state = 1 AS waits, flags & %[2]d <> 0 AS paused FROM run
  WHERE namespace = ?1)
WHERE NOT waits OR due <= ?2 AND iif(paused, wake = %[1]d, wake <= ?2 OR wake = %[1]d AND hold IS NOT NULL)
GROUP BY queue, state, line, stopped`, carillon.Never, carillon.FlagOnHold,
)

// Counts implements carillon.Store.
func (s *Store) Counts(
	ctx context.Context, namespace string, now carillon.Time,
) (counts []carillon.QueueCount, err error) {
	err = s.read(ctx, func(r *reader) error {
		return r.rows(countRuns, func(stmt *sqlite.Stmt) {
			stmt.BindText(1, namespace)
			stmt.BindInt64(2, int64(now))
		}, func(stmt *sqlite.Stmt) (bool, error) {
			counts = append(counts, carillon.QueueCount{
				Queue: r.name(stmt, 0), State: carillon.State(stmt.ColumnInt32(1)), Hold: stmt.ColumnText(2),
				Paused: stmt.ColumnBool(3), Runs: stmt.ColumnInt(4),
				Oldest: carillon.Time(stmt.ColumnInt64(5)),
			})
			return true, nil
		})
	})
	return counts, err
}

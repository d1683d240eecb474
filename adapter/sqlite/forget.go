package sqlite

import (
	"context"
	"fmt"
	"sync"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
	"zombiezen.com/go/sqlite"
)

// forgetter remembers how far Forget has searched the history.
type forgetter struct {
	// mu lets one Forget run at a time, because SQLite reuses the positions of removed records.
	mu sync.Mutex
	// passed is a position. The server's rule applies to no record up to it: the record was removed, or has
	// its own expiry.
	passed int64
}

// Forget implements carillon.Store. A reader finds the records to remove, so that the writer is held only to
// remove them.
func (s *Store) Forget(
	ctx context.Context, rule carillon.Retention, now carillon.Time, limit int,
) (forgotten int, err error) {
	if limit <= 0 {
		return 0, nil
	}
	s.forget.mu.Lock()
	defer s.forget.mu.Unlock()
	var found []sqlcommon.Past
	var guards []carillon.Guard
	passed := s.forget.passed
	err = s.read(ctx, func(r *reader) error {
		var err error
		if found, passed, err = r.overdue(rule, now, limit, passed); err == nil {
			guards, err = r.expired(now.Add(-carillon.GuardGrace), limit-len(found))
		}
		return err
	})
	if err != nil || len(found)+len(guards) == 0 {
		s.forget.passed = passed
		return 0, err
	}
	err = s.write(func(w *writer) error {
		for _, p := range found {
			if err := w.remove(p, &forgotten); err != nil {
				return err
			}
		}
		if err := w.removeGuards(guards, &forgotten); err != nil {
			return err
		}
		last, err := w.lastHistory.one()
		passed = min(passed, last)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("forget: %w", err)
	}
	s.forget.passed = passed
	return forgotten, nil
}

// Records that can go. By the server's rule: in the order of ending, from where the last search stopped. By
// their own expiry: by history_expires. Dead letters: by dead_ended and dead_expires.
const (
	historyByRule = `SELECT place, job, due, ended FROM history WHERE place > ? AND expires IS NULL
  ORDER BY place`
	historyByOwn = `SELECT place, job, due, ended FROM history INDEXED BY history_expires
WHERE expires <= ? AND expires IS NOT NULL ORDER BY expires, place`
	deadByRule = `SELECT place, job, due, ended FROM dead INDEXED BY dead_ended WHERE ended <= ?
  AND expires IS NULL ORDER BY ended, place`
	deadByOwn = `SELECT place, job, due, ended FROM dead INDEXED BY dead_expires
WHERE expires <= ? AND expires IS NOT NULL ORDER BY expires, place`
	lastHistory = `SELECT coalesce(max(place), 0) FROM history`
)

// overdue returns up to limit records that can go, and how far the search by the server's rule has come.
func (r *reader) overdue(
	rule carillon.Retention, now carillon.Time, limit int, passed int64,
) (found []sqlcommon.Past, reached int64, err error) {
	byRule := sqlcommon.ByRule{Until: now.Add(-rule.Runs.Std()), Limit: limit, Reached: passed}
	if rule.Runs != 0 {
		err = r.rows(historyByRule, func(stmt *sqlite.Stmt) { stmt.BindInt64(1, passed) },
			func(stmt *sqlite.Stmt) (bool, error) { return byRule.Add(pastOf(stmt, false)), nil })
		if err != nil {
			return nil, passed, err
		}
	}
	found, err = sqlcommon.Overdue(byRule.Found, rule, now, limit, r.pastUntil)
	if err != nil {
		return nil, passed, err
	}
	return found, byRule.Reached, nil
}

var overdueIn = map[sqlcommon.PastSource]string{
	{Table: sqlcommon.TableHistory, Own: true}: historyByOwn,
	{Table: sqlcommon.TableDead}:               deadByRule,
	{Table: sqlcommon.TableDead, Own: true}:    deadByOwn,
}

func (r *reader) pastUntil(
	from sqlcommon.PastSource, until carillon.Time, limit int,
) (found []sqlcommon.Past, err error) {
	err = r.rows(overdueIn[from], func(stmt *sqlite.Stmt) { stmt.BindInt64(1, int64(until)) },
		func(stmt *sqlite.Stmt) (bool, error) {
			found = append(found, pastOf(stmt, from.Table == sqlcommon.TableDead))
			return len(found) < limit, nil
		})
	return found, err
}

func pastOf(stmt *sqlite.Stmt, dead bool) sqlcommon.Past {
	return sqlcommon.Past{
		Place: stmt.ColumnInt64(0), ID: carillon.RunID{
			Job: carillon.JobID(stmt.ColumnInt64(1)), Due: carillon.Time(stmt.ColumnInt64(2)),
		},
		Ended: carillon.Time(stmt.ColumnInt64(3)), Dead: dead,
	}
}

// By guard_expires.
const expiredGuards = `SELECT namespace, key, rev FROM guard INDEXED BY guard_expires
WHERE expires <= ? AND expires IS NOT NULL ORDER BY expires, namespace, key`

// expired returns up to limit guards that had expired at a time, earliest first.
func (r *reader) expired(at carillon.Time, limit int) (found []carillon.Guard, err error) {
	if limit == 0 {
		return nil, nil
	}
	err = r.rows(expiredGuards, func(stmt *sqlite.Stmt) { stmt.BindInt64(1, int64(at)) },
		func(stmt *sqlite.Stmt) (bool, error) {
			found = append(found, carillon.Guard{
				Namespace: r.name(stmt, 0), Key: stmt.ColumnText(1), Rev: stmt.ColumnInt32(2),
			})
			return len(found) < limit, nil
		})
	return found, err
}

// removeGuards removes guards, unless they were written since they were found.
func (w *writer) removeGuards(guards []carillon.Guard, forgotten *int) error {
	for i := range guards {
		gone, err := w.putGuard(&guards[i])
		if err != nil {
			return err
		}
		if gone {
			*forgotten++
		}
	}
	return nil
}

// Removal, by primary keys. The output of a run goes with the run's last record, a one-off job with the last
// record of all.
const (
	deleteHistory = `DELETE FROM history WHERE place = ?1 AND job = ?2 AND due = ?3`
	deleteLetter  = `DELETE FROM dead WHERE place = ?1 AND job = ?2 AND due = ?3`

	unlessKept = ` WHERE job = ?1 AND due = ?2 AND NOT EXISTS (SELECT 1 FROM run WHERE due = ?2 AND job = ?1)
  AND NOT EXISTS (SELECT 1 FROM history WHERE job = ?1 AND due = ?2) AND NOT EXISTS (SELECT 1 FROM dead
  WHERE job = ?1 AND due = ?2)`
	deleteResult     = `DELETE FROM result` + unlessKept
	deleteCheckpoint = `DELETE FROM checkpoint` + unlessKept
	deletePayload    = `DELETE FROM run_payload` + unlessKept

	deleteJob = `DELETE FROM job WHERE id = ?1 AND due IS NOT NULL AND NOT EXISTS (SELECT 1 FROM run
  WHERE run.due = job.due AND run.job = ?1)
  AND NOT EXISTS (SELECT 1 FROM run INDEXED BY run_job WHERE job = ?1 AND extra = 1)
  AND NOT EXISTS (SELECT 1 FROM history WHERE job = ?1) AND NOT EXISTS (SELECT 1 FROM dead WHERE job = ?1)
RETURNING namespace, version, due, spec`
	deleteDefinitions = `DELETE FROM definition WHERE job = ?`
	dropGuard         = `DELETE FROM guard WHERE namespace = ? AND key = ?`
)

// remove deletes one record and the rows that were kept only for it.
func (w *writer) remove(p sqlcommon.Past, forgotten *int) error {
	record := &w.deleteHistory
	if p.Dead {
		record = &w.deleteLetter
	}
	record.int(1, p.Place)
	record.int(2, int64(p.ID.Job))
	record.int(3, int64(p.ID.Due))
	if hit, err := record.hits(); !hit || err != nil {
		return err
	}
	*forgotten++
	for _, output := range []*statement{
		&w.deleteResult, &w.deleteCheckpoint, &w.deletePayload, &w.deleteAttempts,
	} {
		output.int(1, int64(p.ID.Job))
		output.int(2, int64(p.ID.Due))
		if err := output.exec(); err != nil {
			return err
		}
	}
	return w.removeJob(p.ID.Job)
}

func (w *writer) removeJob(id carillon.JobID) error {
	w.deleteJob.int(1, int64(id))
	stmt := w.deleteJob.stmt
	gone, err := stmt.Step()
	if err != nil {
		return err
	}
	if !gone {
		return stmt.Reset()
	}
	namespace, version, due, spec := stmt.ColumnText(0), stmt.ColumnInt64(1), carillon.Time(stmt.ColumnInt64(
		2,
	)), blob(stmt, 3)
	if err := w.deleteJob.exec(); err != nil { // runs it to its end
		return err
	}
	if version > 1 {
		w.deleteDefinitions.int(1, int64(id))
		if err := w.deleteDefinitions.exec(); err != nil {
			return err
		}
	}
	w.dropGuard.text(1, namespace)
	w.dropGuard.text(2, id.OverlapKey())
	if err := w.dropGuard.exec(); err != nil {
		return err
	}
	var was carillon.Definition
	if err := sqlcommon.Decode(spec, due, &was); err != nil {
		return err
	}
	return w.unlabel(namespace, id, was.Labels)
}

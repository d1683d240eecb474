package mysql

import (
	"cmp"
	"context"
	"math"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// FindRuns implements carillon.Store.
func (s *Store) FindRuns(ctx context.Context, q carillon.RunQuery) (page carillon.RunPage, err error) {
	start, err := q.Start()
	if err != nil {
		return page, err
	}
	err = s.view(ctx, func(l *conn) (err error) {
		page, err = sqlcommon.FindRuns(&q, start, s.maxScan,
			func(from sqlcommon.RunSource, start carillon.RunPos) (sqlcommon.RunStream, error) {
				return sqlcommon.NewPagedRuns(&q, start,
					func(after carillon.RunPos, limit int) ([]sqlcommon.FoundRun, error) {
						return l.findRuns(&q, from, after, limit)
					}), nil
			})
		if err != nil {
			return err
		}
		return l.fillAbout(page.Runs)
	})
	return page, tried("find runs", err)
}

// The first ? of each query is the condition of its last column, which says whether the row is wanted: a row
// that is not wanted is only counted.
const selectEnded = `SELECT place, ` + endedColumns + `, ? `

// Runs of all jobs: unfinished runs by primary key, ended runs by primary key or those of one state by
// history_state, and the dead letters by dead_place.
const (
	allUnfinished = `SELECT ` + runColumns + `, ? FROM run FORCE INDEX (PRIMARY)
WHERE (due = ? AND job > ? OR due > ?) AND due < ? ORDER BY due, job LIMIT ?`
	allEnded = selectEnded + `FROM history FORCE INDEX (PRIMARY) WHERE place < ? ORDER BY place DESC LIMIT ?`
	allBad   = selectEnded +
		`FROM history FORCE INDEX (history_state) WHERE place < ? AND state = ? ORDER BY place DESC LIMIT ?`
	allDead = selectEnded + `FROM dead FORCE INDEX (dead_place) WHERE place < ? ORDER BY place DESC LIMIT ?`
)

// Runs of one job: unfinished runs by run_job, ended runs by history_job, and the dead letters by primary
// key; one job has few enough to sort them.
const (
	jobUnfinished = `SELECT ` + runColumns + `, ? FROM run FORCE INDEX (run_job)
WHERE job = ? AND due < ? ORDER BY due DESC LIMIT ?`
	jobEnded = selectEnded + `FROM history FORCE INDEX (history_job)
WHERE job = ? AND (due = ? AND place < ? OR due < ?) ORDER BY due DESC, place DESC LIMIT ?`
	jobDead = selectEnded +
		`FROM dead FORCE INDEX (PRIMARY) WHERE place < ? AND job = ? AND due >= ? AND due < ?
ORDER BY place DESC LIMIT ?`
)

// Dead letters with a fingerprint or a type, in the order of an index.
const (
	deadPrinted = selectEnded + `FROM dead FORCE INDEX (dead_fingerprint)
WHERE place < ? AND fingerprint = ? AND namespace = ? ORDER BY place DESC LIMIT ?`
	deadTyped = selectEnded + `FROM dead FORCE INDEX (dead_type)
WHERE place < ? AND type = ? AND namespace = ? ORDER BY place DESC LIMIT ?`
)

// runsAfter returns the query of a source and its arguments, except the first and the last.
func runsAfter(
	q *carillon.RunQuery, from sqlcommon.RunSource, after carillon.RunPos,
) (query string, args []any) {
	switch {
	case from == sqlcommon.RunSource{Table: sqlcommon.TableRun}:
		id := sqlcommon.DueAfter(q, after)
		return allUnfinished, []any{id.Due, id.Job, id.Due, cmp.Or(q.To, math.MaxInt64)}
	case from.Table == sqlcommon.TableRun:
		return jobUnfinished, []any{from.Job, after.Due}
	case from.Table == sqlcommon.TableHistory && from.Job != 0:
		return jobEnded, []any{from.Job, after.Due, after.Place, after.Due}
	case from.Table == sqlcommon.TableHistory && from.State != 0:
		return allBad, []any{after.Place, from.State}
	case from.Table == sqlcommon.TableHistory:
		return allEnded, []any{after.Place}
	case from.Job != 0:
		return jobDead, []any{
			after.Place, from.Job, int64(q.From), int64(cmp.Or(q.To, math.MaxInt64)),
		}
	case from.Fingerprint != 0:
		return deadPrinted, []any{after.Place, int64(from.Fingerprint), q.Namespace}
	case from.Type != "":
		return deadTyped, []any{after.Place, from.Type, q.Namespace}
	}
	return allDead, []any{after.Place}
}

// findRuns reads rows of a source after a position.
func (l *conn) findRuns(
	q *carillon.RunQuery, from sqlcommon.RunSource, after carillon.RunPos, limit int,
) (found []sqlcommon.FoundRun, err error) {
	const runWanted, endedWanted = 26, 25
	query, args := runsAfter(q, from, after)
	args = append(append([]any{wantedRuns(q)}, args...), limit)
	err = l.query(func(r row) error {
		next, place := sqlcommon.FoundRun{}, carillon.Unended
		if from.Table == sqlcommon.TableRun {
			next.Run, next.Wanted = r.unfinished(), r.bool(runWanted)
		} else {
			next.Run, place = r.ended(from.Table == sqlcommon.TableDead)
			next.Wanted = r.bool(endedWanted)
		}
		next.Pos = sqlcommon.PosIn(after.Part, next.Run.ID, place)
		found = append(found, next)
		return nil
	}, query, args...)
	return found, err
}

// wantedRuns writes the conditions of a query.
func wantedRuns(q *carillon.RunQuery) raw {
	var all conditions
	all.text(`namespace = ?`, q.Namespace)
	all.text(`worker = ?`, q.Worker)
	all.time(`due >= ?`, q.From)
	all.time(`due < ?`, q.To)
	if states := q.Within(); len(states) > 0 {
		all.add(`state IN (?)`, ints(states))
	}
	for _, label := range q.Labels {
		all.add("EXISTS (SELECT 1 FROM job_label l FORCE INDEX (PRIMARY) WHERE l.namespace = dead.namespace"+
			" AND l.`key` = ? AND l.value = ? AND l.job = dead.job)", label.Key, label.Value)
	}
	return all.all()
}

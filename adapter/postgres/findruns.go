package postgres

import (
	"context"
	"math"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// FindRuns implements carillon.Store.
func (s *Store) FindRuns(ctx context.Context, q carillon.RunQuery) (page carillon.RunPage, err error) {
	start, err := q.Start()
	if err != nil {
		return carillon.RunPage{}, err
	}
	err = s.view(ctx, func(ctx context.Context, v *view) (err error) {
		page, err = sqlcommon.FindRuns(&q, start, s.maxScan,
			func(from sqlcommon.RunSource, start carillon.RunPos) (sqlcommon.RunStream, error) {
				if (from == sqlcommon.RunSource{Table: sqlcommon.TableRun}) {
					return sqlcommon.NewPagedRuns(&q, start, v.unfinished(ctx, &q, start)), nil
				}
				return sqlcommon.NewPagedRuns(&q, start,
					func(after carillon.RunPos, limit int) ([]sqlcommon.FoundRun, error) {
						return v.findRuns(ctx, from, after, limit)
					}), nil
			})
		if err != nil {
			return err
		}
		return v.fillAbout(ctx, page.Runs)
	})
	if err != nil {
		return carillon.RunPage{}, err
	}
	return page, nil
}

// unfinished reads the unfinished runs of all jobs by (due, job): a merge of the shards.
func (v *view) unfinished(
	ctx context.Context, q *carillon.RunQuery, start carillon.RunPos,
) func(carillon.RunPos, int) ([]sqlcommon.FoundRun, error) {
	m := merge{by: dueInShards, read: v.read, until: math.MaxInt64, pos: byDue}
	if q.To != 0 {
		m.until = q.To - 1
	}
	for _, shard := range shardsOf(nil) {
		m.add(shard, false, carillon.WakePos{ID: sqlcommon.DueAfter(q, start)})
	}
	return func(_ carillon.RunPos, limit int) (found []sqlcommon.FoundRun, err error) {
		runs, err := m.next(ctx, limit)
		for _, run := range runs {
			pos := sqlcommon.PosIn(start.Part, run.ID, carillon.Unended)
			found = append(found, sqlcommon.FoundRun{Run: run, Pos: pos, Wanted: true})
		}
		return found, err
	}
}

func byDue(run *carillon.Run) carillon.WakePos { return carillon.WakePos{Wake: run.ID.Due, ID: run.ID} }

// Ended runs and dead letters of all jobs before a place, by the primary key; or those of one state, by
// history_bad.
var (
	allEnded = statement{
		"all_ended",
		`SELECT place, ` + endedColumns +
			` FROM carillon.history WHERE place < $1::bigint ORDER BY place DESC LIMIT $2::bigint`,
	}
	allDead = statement{
		"all_dead",
		`SELECT place, ` + endedColumns +
			` FROM carillon.dead WHERE place < $1::bigint ORDER BY place DESC LIMIT $2::bigint`,
	}
	allBad = statement{"all_bad", `SELECT place, ` + endedColumns + ` FROM carillon.history
WHERE state = $3::smallint AND state <> 4 AND place < $1::bigint ORDER BY state DESC, place DESC
  LIMIT $2::bigint`}
)

// Runs of one job before (due, place), latest first: the run of a one-off by its key and the others by
// run_job, the ended by history_job, the dead letters by dead_run. All but the ended are few enough to be
// sorted.
var (
	jobUnfinished = statement{"job_unfinished", `SELECT * FROM (
  SELECT r.* FROM carillon.job j CROSS JOIN LATERAL (
    SELECT ` + runColumns + ` FROM carillon.run r WHERE r.shard = $2::smallint AND r.due = j.due
    AND r.job = j.id AND NOT r.extra OFFSET 0) r
  WHERE j.id = $1::bigint
  UNION ALL
  SELECT ` + runColumns + ` FROM carillon.run r WHERE r.job = $1::bigint AND r.extra) r
WHERE r.due < $3::bigint ORDER BY r.due DESC LIMIT $4::bigint`}

	jobEnded = statement{"job_ended", `SELECT place, ` + endedColumns + ` FROM carillon.history
WHERE job = $1::bigint AND due <= $2::bigint AND (due, place) < ($2::bigint, $3::bigint)
  ORDER BY job DESC, due DESC, place DESC LIMIT $4::bigint`}

	jobDead = statement{"job_dead", `SELECT place, ` + endedColumns + ` FROM carillon.dead
WHERE job = $1::bigint AND place < $2::bigint ORDER BY place DESC LIMIT $3::bigint`}
)

// runsAfter returns the call that reads rows of a source after a position. Unfinished runs of all jobs are
// read by unfinished.
func runsAfter(from sqlcommon.RunSource, after carillon.RunPos, limit int) call {
	job, due, place := int8Param(int64(from.Job)), int8Param(int64(after.Due)), int8Param(after.Place)
	most := int8Param(int64(limit))
	switch {
	case from.Table == sqlcommon.TableRun:
		return call{statement: &jobUnfinished, params: [][]byte{job, int2Param(from.Job.Shard()), due, most}}
	case from.Table == sqlcommon.TableHistory && from.Job != 0:
		return call{statement: &jobEnded, params: [][]byte{job, due, place, most}}
	case from.Table == sqlcommon.TableHistory && from.State != 0:
		return call{statement: &allBad, params: [][]byte{place, most, int2Param(int(from.State))}}
	case from.Table == sqlcommon.TableHistory:
		return call{statement: &allEnded, params: [][]byte{place, most}}
	case from.Job != 0:
		return call{statement: &jobDead, params: [][]byte{job, place, most}}
	}
	return call{statement: &allDead, params: [][]byte{place, most}}
}

// findRuns reads rows of a source after a position.
func (v *view) findRuns(
	ctx context.Context, from sqlcommon.RunSource, after carillon.RunPos, limit int,
) (found []sqlcommon.FoundRun, err error) {
	ask := runsAfter(from, after, limit)
	ask.row = func(r *row) error {
		next, place := sqlcommon.FoundRun{Wanted: true}, carillon.Unended
		if from.Table == sqlcommon.TableRun {
			next.Run = r.unfinished()
		} else {
			next.Run, place = r.ended(from.Table == sqlcommon.TableDead)
		}
		next.Pos = sqlcommon.PosIn(after.Part, next.Run.ID, place)
		found = append(found, next)
		return nil
	}
	return found, v.read(ctx, ask)
}

// aboutJobs is by primary key.
var aboutJobs = statement{
	"about_jobs",
	`SELECT j.id, j.name, j.type, j.owner FROM unnest($1::bigint[]) x(id) JOIN carillon.job j
  ON j.id = ANY(ARRAY[x.id])`,
}

// fillAbout reads About of unfinished runs from their jobs: the rows of the runs do not repeat it.
func (v *view) fillAbout(ctx context.Context, runs []carillon.Run) error {
	return sqlcommon.FillAbout(runs, func(ids []carillon.JobID, about sqlcommon.AboutJobs) error {
		return v.read(ctx, call{&aboutJobs, [][]byte{int8Array(ids)}, func(r *row) error {
			id := carillon.JobID(r.int())
			about[id] = carillon.About{Name: r.name(), Type: r.name(), Owner: r.name()}
			return nil
		}})
	})
}

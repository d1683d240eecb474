package postgres

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
						return v.findRuns(ctx, &q, from, after, limit)
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

// Ended runs of all jobs before a place, by the primary key; or those of one state, by history_bad.
var (
	allEnded = statement{
		"all_ended",
		`SELECT place, ` + endedColumns +
			` FROM carillon.history WHERE place < $1::bigint ORDER BY place DESC LIMIT $2::bigint`,
	}
	allBad = statement{"all_bad", `SELECT place, ` + endedColumns + ` FROM carillon.history
WHERE state = $3::smallint AND state <> 4 AND place < $1::bigint ORDER BY state DESC, place DESC
  LIMIT $2::bigint`}
)

// Runs of one job before (due, place), latest first: the run of a one-off by its key and the others by
// run_job, the ended by history_job. The unfinished are few enough to be sorted.
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
)

// Dead letters before the place $1, $2 at most: all by the primary key, those of a job by dead_run, of a
// fingerprint by dead_fingerprint, of a type by dead_type. The last column says whether the job has the
// labels with the keys $3 and the values $4.
const selectDead = `SELECT place, ` + endedColumns + `, NOT EXISTS (
  SELECT FROM unnest($3::text[], $4::text[]) w(key, value) WHERE NOT EXISTS (
    SELECT FROM carillon.job_label l WHERE l.namespace = d.namespace AND l.key = w.key
    AND l.value = w.value AND l.job = d.job OFFSET 0))
FROM carillon.dead d WHERE place < $1::bigint `

var (
	allDead = statement{"all_dead", selectDead + `ORDER BY place DESC LIMIT $2::bigint`}
	jobDead = statement{
		"job_dead", selectDead + `AND job = $5::bigint AND due >= $6::bigint AND due < $7::bigint
  ORDER BY place DESC LIMIT $2::bigint`,
	}
	deadPrinted = statement{
		"dead_printed", selectDead + `AND namespace = $5::text AND fingerprint = $6::bigint
  ORDER BY namespace DESC, fingerprint DESC, place DESC LIMIT $2::bigint`,
	}
	deadTyped = statement{
		"dead_typed", selectDead + `AND namespace = $5::text AND type = $6::text
  ORDER BY namespace DESC, type DESC, place DESC LIMIT $2::bigint`,
	}
)

// deadAfter returns the call that reads dead letters.
func deadAfter(q *carillon.RunQuery, from sqlcommon.RunSource, after carillon.RunPos, limit int) call {
	keys, values := make([]string, len(q.Labels)), make([]string, len(q.Labels))
	for i, label := range q.Labels {
		keys[i], values[i] = label.Key, label.Value
	}
	ask := call{statement: &allDead, params: [][]byte{
		int8Param(after.Place), int8Param(int64(limit)), textArray(keys), textArray(values),
	}}
	switch {
	case from.Job != 0:
		ask.statement = &jobDead
		ask.params = append(
			ask.params, int8Param(int64(from.Job)), int8Param(int64(q.From)),
			int8Param(int64(cmp.Or(q.To, math.MaxInt64))),
		)
	case from.Fingerprint != 0:
		ask.statement = &deadPrinted
		ask.params = append(ask.params, textParam(q.Namespace), int8Param(int64(from.Fingerprint)))
	case from.Type != "":
		ask.statement = &deadTyped
		ask.params = append(ask.params, textParam(q.Namespace), textParam(from.Type))
	}
	return ask
}

// runsAfter returns the call that reads rows of a source after a position. Unfinished runs of all jobs are
// read by unfinished, dead letters by deadAfter.
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
	}
	return call{statement: &allEnded, params: [][]byte{place, most}}
}

// findRuns reads rows of a source after a position.
func (v *view) findRuns(
	ctx context.Context, q *carillon.RunQuery, from sqlcommon.RunSource, after carillon.RunPos, limit int,
) (found []sqlcommon.FoundRun, err error) {
	ask := runsAfter(from, after, limit)
	if from.Table == sqlcommon.TableDead {
		ask = deadAfter(q, from, after, limit)
	}
	ask.row = func(r *row) error {
		next, place := sqlcommon.FoundRun{Wanted: true}, carillon.Unended
		switch from.Table {
		case sqlcommon.TableRun:
			next.Run = r.unfinished()
		case sqlcommon.TableHistory:
			next.Run, place = r.ended(false)
		case sqlcommon.TableDead:
			next.Run, place = r.ended(true)
			next.Wanted = r.bool()
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

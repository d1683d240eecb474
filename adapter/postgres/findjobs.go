package postgres

import (
	"context"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// Newest first: by primary key, or, if the query has a label, by the key of job_label. A job that the plain
// columns rule out is counted but not read: only its id is returned.
const (
	jobFilter = `($3::text IS NULL OR j.namespace = $3) AND ($4::text IS NULL OR j.owner = $4)
  AND ($5::text IS NULL OR j.type = $5)
  AND ($6::text IS NULL OR j.name = $6) AND ($7::bigint = 0 OR j.created >= $7)
  AND ($8::bigint = 0 OR j.created < $8)
  AND ($9::integer = 0 OR (1 << j.state) & $9 <> 0) AS wanted`

	readWanted = `
SELECT s.id, s.wanted, ` + jobColumns + `, ` + definitionColumns + `
FROM s LEFT JOIN LATERAL (SELECT * FROM carillon.job j WHERE s.wanted AND j.id = ANY(ARRAY[s.id])) j ON true
  ORDER BY s.id DESC`
)

var (
	jobsBefore = statement{"jobs_before", `WITH s AS MATERIALIZED (SELECT j.id, ` + jobFilter + `
  FROM carillon.job j WHERE j.id < $1::bigint AND j.id >= $2::bigint ORDER BY j.id DESC
  LIMIT $10::bigint)` + readWanted}

	jobsLabeled = statement{"jobs_labeled", `WITH s AS MATERIALIZED (SELECT j.id, ` + jobFilter + `
  FROM (SELECT l.job FROM carillon.job_label l WHERE l.namespace = $3 AND l.key = $11::text
  AND l.value = $12::text AND l.job < $1::bigint AND l.job >= $2::bigint
    ORDER BY l.job DESC LIMIT $10::bigint) l JOIN carillon.job j
    ON j.id = ANY(ARRAY[l.job]))` + readWanted}
)

// FindJobs implements carillon.Store.
func (s *Store) FindJobs(ctx context.Context, q carillon.JobQuery) (page carillon.JobPage, err error) {
	err = s.view(ctx, func(ctx context.Context, v *view) error {
		var found []sqlcommon.FoundJob
		page, found, err = sqlcommon.FindJobs(q, s.maxScan,
			func(q *carillon.JobQuery, limit int) ([]sqlcommon.FoundJob, error) {
				return v.jobs(ctx, q, limit)
			})
		if err != nil || !q.WithLast {
			return err
		}
		page.Last, err = v.lastOf(ctx, found)
		return err
	})
	return page, err
}

// jobs reads the next rows of a search, each job with the state that follows from its runs.
func (v *view) jobs(
	ctx context.Context, q *carillon.JobQuery, limit int,
) (found []sqlcommon.FoundJob, err error) {
	ask := jobCall(q, limit)
	ask.row = func(r *row) (err error) {
		id := carillon.JobID(r.int())
		next := sqlcommon.FoundJob{Wanted: r.bool()}
		if next.Job.ID = id; next.Wanted {
			if next.Job, next.Due, err = r.job(); err != nil {
				return err
			}
			next.Wanted = q.Wants(&next.Job)
		}
		found = append(found, next)
		return nil
	}
	if err := v.read(ctx, ask); err != nil {
		return nil, err
	}
	unfinished, ended, err := v.runsOf(ctx, found, len(q.Latest) > 0)
	for i := range found {
		found[i].Judge(q, unfinished[found[i].Job.ID], ended[found[i].Job.ID])
	}
	return found, err
}

func jobCall(q *carillon.JobQuery, limit int) call {
	first, before := sqlcommon.IDRange(q)
	ask := call{statement: &jobsBefore, params: [][]byte{
		int8Param(int64(before)), int8Param(int64(first)), textOrNull(q.Namespace), textOrNull(q.Owner),
		textOrNull(q.Type), textOrNull(q.Name),
		int8Param(int64(q.CreatedFrom)), int8Param(int64(q.CreatedTo)),
		int4Param(int(sqlcommon.StoredStates(q.States))), int8Param(int64(limit)),
	}}
	if label, ok := q.IndexedLabel(); ok {
		ask.statement = &jobsLabeled
		ask.params = append(ask.params, textParam(label.Key), textParam(label.Value))
	}
	return ask
}

// The unfinished runs of jobs: the run of a one-off by its key, all others by run_job. And the ended run with
// the latest due time of those that had begun, by history_job; if there are several such records, the caller
// takes the last.
var (
	firstOfJobs = forRows("first_of_jobs", `shard int2 key, due int8 key, job int8 key`,
		`SELECT `+runColumns+`
FROM ROWS x JOIN carillon.run r ON r.shard = ANY(ARRAY[x.shard]) AND r.due = x.due
  AND r.job = x.job AND NOT r.extra`)

	extraOfJobs = forRows("extra_of_jobs", `job int8 key, most int8`, `SELECT r.* FROM ROWS x
  CROSS JOIN LATERAL (
  SELECT `+runColumns+` FROM carillon.run r WHERE r.job = x.job AND r.extra LIMIT x.most) r`)

	latestBegun = forRows("latest_begun", `q_job int8 key`, `SELECT h.* FROM ROWS x
CROSS JOIN LATERAL (SELECT max(l.due) AS due FROM carillon.history l WHERE l.job = x.q_job
  AND l.attempt > 0 OFFSET 0) last
CROSS JOIN LATERAL (SELECT place, `+endedColumns+` FROM carillon.history h WHERE h.job = x.q_job
  AND h.due = last.due AND h.attempt > 0 OFFSET 0) h`)
)

// lastOf returns the runs that jobs are summed up by.
func (v *view) lastOf(ctx context.Context, jobs []sqlcommon.FoundJob) ([]*carillon.Run, error) {
	unfinished, ended, err := v.runsOf(ctx, jobs, true)
	last := make([]*carillon.Run, len(jobs))
	for i := range jobs {
		last[i] = carillon.LastOf(unfinished[jobs[i].Job.ID], ended[jobs[i].Job.ID])
	}
	return last, err
}

type (
	runsByJob map[carillon.JobID][]carillon.Run
	lastByJob map[carillon.JobID]*carillon.Run
)

// runsOf reads the unfinished runs of the wanted jobs; without all, it only reads whether there is one. With
// all it also reads the ended run with the latest due time of those that had begun.
func (v *view) runsOf(ctx context.Context, some []sqlcommon.FoundJob, all bool) (
	unfinished runsByJob, ended lastByJob, err error,
) {
	first, extra, begun := newRows(firstOfJobs), newRows(extraOfJobs), newRows(latestBegun)
	for i := range some {
		if !some[i].Wanted {
			continue
		}
		if some[i].Due != 0 {
			first.runKey(carillon.RunID{Job: some[i].Job.ID, Due: some[i].Due})
		}
		extra.begin()
		extra.int(int64(some[i].Job.ID))
		if all {
			extra.null() // all of them
		} else {
			extra.int(1) // is there one?
		}
		begun.begin()
		begun.int(int64(some[i].Job.ID))
	}
	if extra.count == 0 {
		return nil, nil, nil
	}
	unfinished, ended = runsByJob{}, lastByJob{}
	take := func(r *row) error {
		run := r.unfinished()
		unfinished[run.ID.Job] = append(unfinished[run.ID.Job], run)
		return nil
	}
	calls := []call{first.call(), extra.call()}
	calls[0].row, calls[1].row = take, take
	if all {
		last := map[carillon.JobID]int64{}
		calls = append(calls, begun.call())
		calls[2].row = func(r *row) error {
			if run, place := r.ended(false); place > last[run.ID.Job] {
				ended[run.ID.Job], last[run.ID.Job] = &run, place
			}
			return nil
		}
	}
	return unfinished, ended, v.read(ctx, calls...)
}

package postgres

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
)

// maxScan is how many rows a search scans before it gives up its turn.
const maxScan = 20_000

// Newest first: by primary key, or, if the query has a label, by the key of job_label. A job that the plain
// columns rule out is counted but not read: only its id is returned.
const (
	jobFilter = `($3::text IS NULL OR j.namespace = $3) AND ($4::text IS NULL OR j.owner = $4) AND ($5::text IS NULL OR j.type = $5)
  AND ($6::text IS NULL OR j.name = $6) AND ($7::bigint = 0 OR j.created >= $7) AND ($8::bigint = 0 OR j.created < $8)
  AND ($9::integer = 0 OR (1 << j.state) & $9 <> 0) AS wanted`

	readWanted = `
SELECT s.id, s.wanted, ` + jobColumns + `, ` + definitionColumns + `
FROM s LEFT JOIN LATERAL (SELECT * FROM carillon.job j WHERE s.wanted AND j.id = s.id) j ON true ORDER BY s.id DESC`
)

var (
	jobsBefore = statement{"jobs_before", `WITH s AS MATERIALIZED (SELECT j.id, ` + jobFilter + `
  FROM carillon.job j WHERE j.id < $1::bigint AND j.id >= $2::bigint ORDER BY j.id DESC LIMIT $10::bigint)` + readWanted}

	jobsLabeled = statement{"jobs_labeled", `WITH s AS MATERIALIZED (SELECT j.id, ` + jobFilter + `
  FROM (SELECT l.job FROM carillon.job_label l WHERE l.namespace = $3 AND l.key = $11::text AND l.value = $12::text AND l.job < $1::bigint AND l.job >= $2::bigint
    ORDER BY l.job DESC LIMIT $10::bigint) l JOIN carillon.job j ON j.id = l.job)` + readWanted}
)

// foundJob is a row that a search has reached.
type foundJob struct {
	id     carillon.JobID
	wanted bool
	job    carillon.Job
	due    carillon.Time
}

// FindJobs implements carillon.Store.
func (s *Store) FindJobs(ctx context.Context, q carillon.JobQuery) (page carillon.JobPage, err error) {
	limit := cmp.Or(q.Limit, carillon.DefaultLimit)
	err = s.view(ctx, func(ctx context.Context, v *view) error {
		found, err := s.findJobs(ctx, v, q, limit, &page)
		if err != nil || !q.WithLast {
			return err
		}
		page.Last, err = v.lastOf(ctx, found)
		return err
	})
	return page, err
}

// findJobs fills the page except for Last, and returns the rows in which the jobs on it were found.
func (s *Store) findJobs(
	ctx context.Context, v *view, q carillon.JobQuery, limit int, page *carillon.JobPage,
) (found []foundJob, err error) {
	scanned := 0
	for piece := limit + 1; ; piece = min(4*piece, 5000) {
		piece = min(piece, s.maxScan-scanned)
		some, err := v.jobs(ctx, &q, piece)
		if err != nil {
			return nil, err
		}
		for i := range some {
			if some[i].wanted && len(page.Jobs) == limit {
				page.Next = page.Jobs[limit-1].ID
				return found, nil
			}
			if some[i].wanted {
				page.Jobs, found = append(page.Jobs, some[i].job), append(found, some[i])
			}
			q.Before = some[i].id
		}
		if scanned += len(some); len(some) < piece {
			return found, nil
		}
		if scanned == s.maxScan {
			page.Next = q.Before
			return found, nil
		}
	}
}

// jobs reads the next piece, each job with the state that follows from its runs.
func (v *view) jobs(ctx context.Context, q *carillon.JobQuery, piece int) (some []foundJob, err error) {
	ask := jobCall(q, piece)
	ask.row = func(r *row) (err error) {
		found := foundJob{id: carillon.JobID(r.int()), wanted: r.bool()}
		if found.wanted {
			if found.job, found.due, err = r.job(); err != nil {
				return err
			}
			found.wanted = q.Wants(&found.job)
		}
		some = append(some, found)
		return nil
	}
	if err := v.read(ctx, ask); err != nil {
		return nil, err
	}
	return some, v.judge(ctx, q, some)
}

func jobCall(q *carillon.JobQuery, piece int) call {
	first, before := idRange(q)
	stored := 0
	for _, state := range q.States {
		if state == carillon.JobFinished { // a finished job is stored as active
			state = carillon.JobActive
		}
		stored |= 1 << state
	}
	ask := call{statement: &jobsBefore, params: [][]byte{
		int8Param(int64(before)), int8Param(int64(first)), textOrNull(q.Namespace), textOrNull(q.Owner),
		textOrNull(q.Type), textOrNull(q.Name),
		int8Param(int64(q.CreatedFrom)), int8Param(int64(q.CreatedTo)), int4Param(stored),
		int8Param(int64(piece)),
	}}
	if label, ok := q.IndexedLabel(); ok {
		ask.statement = &jobsLabeled
		ask.params = append(ask.params, textParam(label.Key), textParam(label.Value))
	}
	return ask
}

// idRange returns the range of ids that jobs of the queried time can have. Ids rise with time, but after a
// clock was set back they run ahead of it; the range allows for one day of that.
func idRange(q *carillon.JobQuery) (first, before carillon.JobID) {
	const day = carillon.Time(24 * time.Hour / time.Millisecond)
	before = cmp.Or(q.Before, math.MaxInt64)
	if q.CreatedFrom != 0 {
		first = carillon.FirstID(q.CreatedFrom - day)
	}
	if q.CreatedTo != 0 {
		before = min(before, carillon.FirstID(q.CreatedTo+day))
	}
	return first, before
}

// The unfinished runs of jobs: the run of a one-off by its key, all others by run_job. And the ended run with
// the latest due time of those that had begun, by history_job; if there are several such records, the caller
// takes the last.
var (
	firstOfJobs = forRows("first_of_jobs", `shard int2 key, due int8 key, job int8 key`, `SELECT `+runColumns+`
FROM ROWS x JOIN carillon.run r ON r.shard = x.shard AND r.due = x.due AND r.job = x.job AND NOT r.extra`)

	extraOfJobs = forRows("extra_of_jobs", `job int8 key, most int8`, `SELECT r.* FROM ROWS x CROSS JOIN LATERAL (
  SELECT `+runColumns+` FROM carillon.run r WHERE r.job = x.job AND r.extra LIMIT x.most) r`)

	latestBegun = forRows("latest_begun", `q_job int8 key`, `SELECT h.* FROM ROWS x
CROSS JOIN LATERAL (SELECT max(l.due) AS due FROM carillon.history l WHERE l.job = x.q_job AND l.attempt > 0 OFFSET 0) last
CROSS JOIN LATERAL (SELECT place, `+endedColumns+` FROM carillon.history h WHERE h.job = x.q_job AND h.due = last.due AND h.attempt > 0 OFFSET 0) h`)
)

// lastOf returns the runs that jobs are summed up by.
func (v *view) lastOf(ctx context.Context, jobs []foundJob) ([]*carillon.Run, error) {
	unfinished, ended, err := v.runsOf(ctx, jobs, true)
	last := make([]*carillon.Run, len(jobs))
	for i := range jobs {
		last[i] = carillon.LastOf(unfinished[jobs[i].id], ended[jobs[i].id])
	}
	return last, err
}

// judge fills in the state of the jobs that are still wanted, and drops those that this state rules out.
func (v *view) judge(ctx context.Context, q *carillon.JobQuery, some []foundJob) error {
	unfinished, ended, err := v.runsOf(ctx, some, len(q.Latest) > 0)
	if err != nil {
		return err
	}
	for i := range some {
		f := &some[i]
		f.job.State = f.job.StateOf(unfinished[f.id])
		f.wanted = f.wanted && (len(q.States) == 0 || slices.Contains(q.States, f.job.State)) &&
			(len(q.Latest) == 0 ||
				slices.Contains(q.Latest, carillon.LatestOf(unfinished[f.id], ended[f.id])))
	}
	return nil
}

type (
	runsByJob map[carillon.JobID][]carillon.Run
	lastByJob map[carillon.JobID]*carillon.Run
)

// runsOf reads the unfinished runs of the wanted jobs; without all, it only reads whether there is one. With
// all it also reads the ended run with the latest due time of those that had begun.
func (v *view) runsOf(ctx context.Context, some []foundJob, all bool) (
	unfinished runsByJob, ended lastByJob, err error,
) {
	first, extra, begun := newRows(firstOfJobs), newRows(extraOfJobs), newRows(latestBegun)
	for i := range some {
		if !some[i].wanted {
			continue
		}
		if some[i].due != 0 {
			first.runKey(carillon.RunID{Job: some[i].id, Due: some[i].due})
		}
		extra.begin()
		extra.int(int64(some[i].id))
		if all {
			extra.null() // all of them
		} else {
			extra.int(1) // is there one?
		}
		begun.begin()
		begun.int(int64(some[i].id))
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

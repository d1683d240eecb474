package sqlite

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
	"zombiezen.com/go/sqlite"
)

// maxScan is after how many rows a search returns the page that it has; the caller continues with the next
// page.
const maxScan = 20_000

// Newest first: by primary key or, for a query with a label, by the key of job_label. The last column says
// whether the plain columns of the row match the query; of a row that does not match, nothing else is read.
const (
	jobFilter = `, (?2 IS NULL OR j.namespace = ?2) AND (?3 IS NULL OR j.owner = ?3) AND (?4 IS NULL OR j.type = ?4) AND (?5 IS NULL OR j.name = ?5)
  AND (?6 = 0 OR j.created >= ?6) AND (?7 = 0 OR j.created < ?7) AND (?8 = 0 OR (1 << j.state) & ?8)`

	jobsBefore = `SELECT ` + jobColumns + `, j.version, j.name, j.type, j.owner, j.spec, j.payload` + jobFilter + `
FROM job j WHERE j.id < ?1 AND j.id >= ?9 ORDER BY j.id DESC`

	jobsLabeled = `SELECT ` + jobColumns + `, j.version, j.name, j.type, j.owner, j.spec, j.payload` + jobFilter + `
FROM job_label l CROSS JOIN job j ON j.id = l.job
WHERE l.namespace = ?2 AND l.key = ?10 AND l.value = ?11 AND l.job < ?1 AND l.job >= ?9 ORDER BY l.job DESC`

	jobWanted = 13
)

// FindJobs implements carillon.Store.
func (s *Store) FindJobs(ctx context.Context, q carillon.JobQuery) (page carillon.JobPage, err error) {
	limit := cmp.Or(q.Limit, carillon.DefaultLimit)
	scanned := 0
	err = s.read(ctx, func(r *reader) error {
		query := jobsBefore
		label, labeled := q.IndexedLabel()
		if labeled {
			query = jobsLabeled
		}
		return r.rows(query, bindJobQuery(&q, label), func(stmt *sqlite.Stmt) (bool, error) {
			job, wanted, err := r.wanted(&q, stmt)
			if err != nil {
				return false, err
			}
			if wanted && len(page.Jobs) == limit {
				page.Next = page.Jobs[limit-1].ID
				return false, nil
			}
			if wanted {
				page.Jobs = append(page.Jobs, job)
			}
			if wanted && q.WithLast {
				last, err := r.lastOf(job.ID, carillon.Time(stmt.ColumnInt64(6)))
				if err != nil {
					return false, err
				}
				page.Last = append(page.Last, last)
			}
			if scanned++; scanned == s.maxScan {
				page.Next = carillon.JobID(stmt.ColumnInt64(0))
				return false, nil
			}
			return true, nil
		})
	})
	return page, err
}

func bindJobQuery(q *carillon.JobQuery, label carillon.Label) func(*sqlite.Stmt) {
	return func(stmt *sqlite.Stmt) {
		first, before := idRange(q)
		stmt.BindInt64(1, int64(before))
		bindText(stmt, 2, q.Namespace)
		bindText(stmt, 3, q.Owner)
		bindText(stmt, 4, q.Type)
		bindText(stmt, 5, q.Name)
		stmt.BindInt64(6, int64(q.CreatedFrom))
		stmt.BindInt64(7, int64(q.CreatedTo))
		stored := int64(0)
		for _, state := range q.States {
			if state == carillon.JobFinished { // stored as active
				state = carillon.JobActive
			}
			stored |= 1 << state
		}
		stmt.BindInt64(8, stored)
		stmt.BindInt64(9, int64(first))
		if label.Key != "" {
			stmt.BindText(10, label.Key)
			stmt.BindText(11, label.Value)
		}
	}
}

// idRange returns the range of ids in which jobs of the queried time can be. Ids rise with time, but after a
// clock was set back they run ahead of it. The range allows for one day of that.
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

// wanted reads a job, with the state that follows from its runs, and says whether the query wants it.
func (r *reader) wanted(q *carillon.JobQuery, stmt *sqlite.Stmt) (job carillon.Job, wanted bool, err error) {
	if !stmt.ColumnBool(jobWanted) {
		return job, false, nil
	}
	if job, err = r.job(stmt); err != nil || !q.Wants(&job) {
		return job, false, err
	}
	due := carillon.Time(stmt.ColumnInt64(6))
	unfinished, err := r.unfinishedOf(job.ID, due, len(q.Latest) > 0)
	if err != nil {
		return job, false, err
	}
	job.State = job.StateOf(unfinished)
	if len(q.States) > 0 && !slices.Contains(q.States, job.State) {
		return job, false, nil
	}
	if len(q.Latest) == 0 {
		return job, true, nil
	}
	ended, err := r.lastBegun(job.ID)
	if err != nil {
		return job, false, err
	}
	return job, slices.Contains(q.Latest, carillon.LatestOf(unfinished, ended)), nil
}

// The unfinished runs of a job: the first run of a one-off by its key, all others by run_job. And, by
// history_job, the ended run with the latest due time among those that had begun.
const (
	firstOfJob  = `SELECT ` + runColumns + ` FROM run WHERE due = ? AND job = ? AND extra = 0`
	extraOfJob  = `SELECT ` + runColumns + ` FROM run INDEXED BY run_job WHERE job = ? AND extra = 1`
	latestBegun = `SELECT place, ` + endedColumns +
		` FROM history WHERE job = ? AND attempt > 0 ORDER BY due DESC, place DESC LIMIT 1`
)

// unfinishedOf returns the unfinished runs of a job; without all, only one of them, if there is any.
func (r *reader) unfinishedOf(
	id carillon.JobID, due carillon.Time, all bool,
) (runs []carillon.Run, err error) {
	take := func(stmt *sqlite.Stmt) (bool, error) {
		runs = append(runs, r.unfinished(stmt))
		return all, nil
	}
	if due != 0 {
		if err := r.rows(firstOfJob, byKey(carillon.RunID{Job: id, Due: due}), take); err != nil {
			return nil, err
		}
	}
	if len(runs) > 0 && !all {
		return runs, nil
	}
	err = r.rows(extraOfJob, func(stmt *sqlite.Stmt) { stmt.BindInt64(1, int64(id)) }, take)
	return runs, err
}

func (r *reader) lastBegun(id carillon.JobID) (last *carillon.Run, err error) {
	err = r.rows(latestBegun, func(stmt *sqlite.Stmt) { stmt.BindInt64(1, int64(id)) },
		func(stmt *sqlite.Stmt) (bool, error) {
			run, _ := r.ended(stmt, false)
			last = &run
			return false, nil
		})
	return last, err
}

// lastOf returns the run that sums up a job, see carillon.LastOf. due is the due time of a one-off.
func (r *reader) lastOf(id carillon.JobID, due carillon.Time) (*carillon.Run, error) {
	unfinished, err := r.unfinishedOf(id, due, true)
	if err != nil {
		return nil, err
	}
	ended, err := r.lastBegun(id)
	return carillon.LastOf(unfinished, ended), err
}

package sqlite

import (
	"context"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
	"zombiezen.com/go/sqlite"
)

// Newest first: by primary key or, for a query with a label, by the key of job_label. The last column says
// whether the plain columns of the row match the query; of a row that does not match, nothing else is read.
const (
	jobFilter = `, (?2 IS NULL OR j.namespace = ?2) AND (?3 IS NULL OR j.owner = ?3)
  AND (?4 IS NULL OR j.type = ?4) AND (?5 IS NULL OR j.name = ?5)
  AND (?6 = 0 OR j.created >= ?6) AND (?7 = 0 OR j.created < ?7) AND (?8 = 0 OR (1 << j.state) & ?8)`

	jobsBefore = `SELECT ` + jobColumns + `, j.version, j.name, j.type, j.owner,
  j.spec, j.payload` + jobFilter + `
FROM job j WHERE j.id < ?1 AND j.id >= ?9 ORDER BY j.id DESC`

	jobsLabeled = `SELECT ` + jobColumns + `, j.version, j.name, j.type, j.owner,
  j.spec, j.payload` + jobFilter + `
FROM job_label l CROSS JOIN job j ON j.id = l.job
WHERE l.namespace = ?2 AND l.key = ?10 AND l.value = ?11 AND l.job < ?1 AND l.job >= ?9 ORDER BY l.job DESC`

	jobWanted = 13
)

// FindJobs implements carillon.Store.
func (s *Store) FindJobs(ctx context.Context, q carillon.JobQuery) (page carillon.JobPage, err error) {
	err = s.read(ctx, func(r *reader) error {
		var found []sqlcommon.FoundJob
		if page, found, err = sqlcommon.FindJobs(q, s.maxScan, r.jobs); err != nil || !q.WithLast {
			return err
		}
		for i := range found {
			last, err := r.lastOf(found[i].Job.ID, found[i].Due)
			if err != nil {
				return err
			}
			page.Last = append(page.Last, last)
		}
		return nil
	})
	return page, err
}

// jobs reads the next rows of a search.
func (r *reader) jobs(q *carillon.JobQuery, limit int) (found []sqlcommon.FoundJob, err error) {
	query := jobsBefore
	label, labeled := q.IndexedLabel()
	if labeled {
		query = jobsLabeled
	}
	err = r.rows(query, bindJobQuery(q, label), func(stmt *sqlite.Stmt) (bool, error) {
		row, err := r.foundJob(q, stmt)
		found = append(found, row)
		return len(found) < limit, err
	})
	return found, err
}

func bindJobQuery(q *carillon.JobQuery, label carillon.Label) func(*sqlite.Stmt) {
	return func(stmt *sqlite.Stmt) {
		first, before := sqlcommon.IDRange(q)
		stmt.BindInt64(1, int64(before))
		bindText(stmt, 2, q.Namespace)
		bindText(stmt, 3, q.Owner)
		bindText(stmt, 4, q.Type)
		bindText(stmt, 5, q.Name)
		stmt.BindInt64(6, int64(q.CreatedFrom))
		stmt.BindInt64(7, int64(q.CreatedTo))
		stmt.BindInt64(8, sqlcommon.StoredStates(q.States))
		stmt.BindInt64(9, int64(first))
		if label.Key != "" {
			stmt.BindText(10, label.Key)
			stmt.BindText(11, label.Value)
		}
	}
}

// foundJob reads a row, unless its plain columns rule it out.
func (r *reader) foundJob(q *carillon.JobQuery, stmt *sqlite.Stmt) (found sqlcommon.FoundJob, err error) {
	found.Job.ID, found.Due = carillon.JobID(stmt.ColumnInt64(0)), carillon.Time(stmt.ColumnInt64(6))
	if !stmt.ColumnBool(jobWanted) {
		return found, nil
	}
	if found.Job, err = r.job(stmt); err != nil || !q.Wants(&found.Job) {
		return found, err
	}
	found.Wanted = true
	unfinished, err := r.unfinishedOf(found.Job.ID, found.Due, len(q.Latest) > 0)
	if err != nil {
		return found, err
	}
	var ended *carillon.Run
	if len(q.Latest) > 0 {
		if ended, err = r.lastBegun(found.Job.ID); err != nil {
			return found, err
		}
	}
	found.Judge(q, unfinished, ended)
	return found, nil
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

package mysql

import (
	"context"
	"slices"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// Newest first: by primary key or, for a query with a label, by the key of job_label. The last two columns
// say whether the row is wanted and whether the job has an unfinished run. If the row is not wanted, its
// large columns are not sent.
const (
	jobOrNone = jobColumns + `, j.version, j.name, j.type, j.owner, IF(?, j.spec, NULL),
  IF(?, j.payload, NULL), ?,
  EXISTS (SELECT 1 FROM run u FORCE INDEX (run_job) WHERE u.job = j.id)`

	jobsBefore = `SELECT ` + jobOrNone + `
FROM job j FORCE INDEX (PRIMARY) WHERE j.id < ? AND j.id >= ? ORDER BY j.id DESC LIMIT ?`

	jobsLabeled = `SELECT ` + jobOrNone + `
FROM job_label l FORCE INDEX (PRIMARY) STRAIGHT_JOIN job j FORCE INDEX (PRIMARY) ON j.id = l.job
WHERE l.job < ? AND l.job >= ?` +
		" AND l.namespace = ? AND l.`key` = ? AND l.value = ? ORDER BY l.job DESC LIMIT ?"

	jobWanted        = 13
	jobUnfinishedRun = 14
)

// FindJobs implements carillon.Store.
func (s *Store) FindJobs(ctx context.Context, q carillon.JobQuery) (page carillon.JobPage, err error) {
	wanted := wantedJobs(&q)
	err = s.view(ctx, func(l *conn) error {
		var found []sqlcommon.FoundJob
		page, found, err = sqlcommon.FindJobs(q, s.maxScan,
			func(q *carillon.JobQuery, limit int) ([]sqlcommon.FoundJob, error) {
				return l.foundJobs(q, wanted, limit)
			})
		if err != nil || !q.WithLast {
			return err
		}
		return l.eachWithRuns(found, func(_ *sqlcommon.FoundJob, unfinished runs, ended *carillon.Run) {
			page.Last = append(page.Last, carillon.LastOf(unfinished, ended))
		})
	})
	return page, tried("find jobs", err)
}

// foundJobs reads the next rows of a search.
func (l *conn) foundJobs(
	q *carillon.JobQuery, wanted raw, limit int,
) (found []sqlcommon.FoundJob, err error) {
	first, before := sqlcommon.IDRange(q)
	query, args := jobsBefore, []any{wanted, wanted, wanted, before, first}
	if label, ok := q.IndexedLabel(); ok {
		query, args = jobsLabeled, append(args, q.Namespace, label.Key, label.Value)
	}
	err = l.query(func(r row) (err error) {
		next := sqlcommon.FoundJob{Wanted: r.bool(jobWanted)}
		if next.Job.ID = carillon.JobID(r.int(0)); next.Wanted {
			next.Job, err = r.job()
			next.Wanted = q.Wants(&next.Job) // no column says that a job is a part of a workflow
		}
		if next.Job.State == carillon.JobActive && !r.bool(jobUnfinishedRun) {
			next.Job.State = carillon.JobFinished
		}
		found = append(found, next)
		return err
	}, query, append(args, limit)...)
	if err != nil || len(q.Latest) == 0 {
		return found, err
	}
	return found, l.eachWithRuns(found, func(f *sqlcommon.FoundJob, unfinished runs, ended *carillon.Run) {
		f.Judge(q, unfinished, ended)
	})
}

// wantedJobs writes the conditions of a query, except Latest.
func wantedJobs(q *carillon.JobQuery) raw {
	var all conditions
	all.text(`j.namespace = ?`, q.Namespace)
	all.text(`j.owner = ?`, q.Owner)
	all.text(`j.type = ?`, q.Type)
	all.text(`j.name = ?`, q.Name)
	all.time(`j.created >= ?`, q.CreatedFrom)
	all.time(`j.created < ?`, q.CreatedTo)
	for _, l := range q.Labels {
		all.add(
			"EXISTS (SELECT 1 FROM job_label a FORCE INDEX (job_label_job) WHERE a.job = j.id AND a.`key` "+
				"= ? AND a.value = ?)",
			l.Key, l.Value,
		)
	}
	if len(q.States) > 0 {
		all.add(`(?)`, raw(strings.Join(wantedStates(q.States), ` OR `)))
	}
	return all.all()
}

// wantedStates writes a condition for each state. A finished job is an active one without an unfinished run.
func wantedStates(states []carillon.JobState) (any []string) {
	const unfinished = `EXISTS (SELECT 1 FROM run w FORCE INDEX (run_job) WHERE w.job = j.id)`
	for _, state := range states {
		stored, also := state, ``
		switch state {
		case carillon.JobActive:
			also = ` AND ` + unfinished
		case carillon.JobFinished:
			stored, also = carillon.JobActive, ` AND NOT `+unfinished
		}
		any = append(any, string(appendSQL(nil, `j.state = ?`, stored))+also)
	}
	return any
}

// conditions are parts of a WHERE clause. All of them must hold.
type conditions []string

func (c *conditions) add(condition string, args ...any) {
	*c = append(*c, string(appendSQL(nil, condition, args...)))
}

func (c *conditions) text(condition, value string) {
	if value != "" {
		c.add(condition, value)
	}
}

func (c *conditions) time(condition string, value carillon.Time) {
	if value != 0 {
		c.add(condition, value)
	}
}

func (c *conditions) all() raw {
	if len(*c) == 0 {
		return `1`
	}
	return raw(strings.Join(*c, ` AND `))
}

// The unfinished runs of jobs, by run_job, and for each job, by history_job, the ended run with the latest
// due time among those that had begun.
const (
	unfinishedOf = `SELECT ` + runColumns + ` FROM run FORCE INDEX (run_job) WHERE job IN (?)`
	lastBegunOf  = `(SELECT place, ` + endedColumns + ` FROM history FORCE INDEX (history_job) WHERE job = ?
  AND attempt > 0
ORDER BY due DESC, place DESC LIMIT 1)`
)

// atOnce is for how many jobs the runs are read together: each job adds a query.
const atOnce = 100

type runs = []carillon.Run

// eachWithRuns calls a function for each wanted job, with its runs.
func (l *conn) eachWithRuns(
	found []sqlcommon.FoundJob, each func(f *sqlcommon.FoundJob, unfinished runs, ended *carillon.Run),
) error {
	var wanted []*sqlcommon.FoundJob
	for i := range found {
		if found[i].Wanted {
			wanted = append(wanted, &found[i])
		}
	}
	for some := range slices.Chunk(wanted, atOnce) {
		ids := make([]carillon.JobID, len(some))
		for i := range some {
			ids[i] = some[i].Job.ID
		}
		unfinished, ended, err := l.runsOf(ids)
		if err != nil {
			return err
		}
		for _, f := range some {
			each(f, unfinished[f.Job.ID], ended[f.Job.ID])
		}
	}
	return nil
}

// runsOf reads the unfinished runs of some jobs and, for each job, the ended run with the latest due time
// among those that had begun.
func (l *conn) runsOf(ids []carillon.JobID) (
	unfinished map[carillon.JobID]runs, ended map[carillon.JobID]*carillon.Run, err error,
) {
	unfinished, ended = map[carillon.JobID]runs{}, map[carillon.JobID]*carillon.Run{}
	err = l.query(func(r row) error {
		run := r.unfinished()
		unfinished[run.ID.Job] = append(unfinished[run.ID.Job], run)
		return nil
	}, unfinishedOf, ints(ids))
	if err != nil {
		return nil, nil, err
	}
	queries := make([]string, len(ids))
	for i, id := range ids {
		queries[i] = string(appendSQL(nil, lastBegunOf, id))
	}
	err = l.query(func(r row) error {
		run, _ := r.ended(false)
		ended[run.ID.Job] = &run
		return nil
	}, strings.Join(queries, ` UNION ALL `))
	return unfinished, ended, err
}

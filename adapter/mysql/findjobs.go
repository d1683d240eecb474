package mysql

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
)

// maxScan is after how many rows a search returns the page that it has; the caller continues with the next
// page.
const maxScan = 20_000

// Newest first: by primary key or, for a query with a label, by the key of job_label. The last two columns
// say whether the row is wanted and whether the job has an unfinished run. If the row is not wanted, its
// large columns are not sent.
const (
	jobOrNone = jobColumns + `, j.version, j.name, j.type, j.owner, IF(?, j.spec, NULL), IF(?, j.payload, NULL), ?,
  EXISTS (SELECT 1 FROM run u FORCE INDEX (run_job) WHERE u.job = j.id)`

	jobsBefore = `SELECT ` + jobOrNone + `
FROM job j FORCE INDEX (PRIMARY) WHERE j.id < ? AND j.id >= ? ORDER BY j.id DESC LIMIT ?`

	jobsLabeled = `SELECT ` + jobOrNone + `
FROM job_label l FORCE INDEX (PRIMARY) STRAIGHT_JOIN job j FORCE INDEX (PRIMARY) ON j.id = l.job
WHERE l.job < ? AND l.job >= ?` + " AND l.namespace = ? AND l.`key` = ? AND l.value = ? ORDER BY l.job DESC LIMIT ?"

	jobWanted     = 13
	jobUnfinished = 14
)

// FindJobs implements carillon.Store.
func (s *Store) FindJobs(ctx context.Context, q carillon.JobQuery) (page carillon.JobPage, err error) {
	var f jobFinder
	err = s.view(ctx, func(l *conn) error {
		f = jobFinder{q: &q, limit: cmp.Or(q.Limit, carillon.DefaultLimit), wanted: wantedJobs(&q)}
		f.first, f.before = idRange(&q)
		// Pages grow: most searches find what they want among the first rows.
		for size := f.limit + 1; ; size = min(2*size, most) {
			done, err := f.scan(l, min(size, s.maxScan-f.scanned))
			if err != nil {
				return err
			}
			if !done && f.scanned == s.maxScan {
				f.page.Next, done = f.before, true
			}
			if done {
				return f.addLast(l)
			}
		}
	})
	return f.page, tried("find jobs", err)
}

// jobFinder fills a page.
type jobFinder struct {
	q             *carillon.JobQuery
	limit         int
	wanted        raw
	first, before carillon.JobID // the range of ids still to search
	page          carillon.JobPage
	scanned       int
}

// candidate is a job whose own row matches the query.
type candidate struct {
	carillon.Job
	unfinished bool
}

// scan reads some rows. done: the page is complete.
func (f *jobFinder) scan(l *conn, size int) (done bool, err error) {
	query, args := jobsBefore, []any{f.wanted, f.wanted, f.wanted, f.before, f.first}
	if label, ok := f.q.IndexedLabel(); ok {
		query, args = jobsLabeled, append(args, f.q.Namespace, label.Key, label.Value)
	}
	var candidates []candidate
	scanned := 0
	err = l.query(func(r row) error {
		scanned++
		f.before = carillon.JobID(r.int(0))
		if !r.bool(jobWanted) {
			return nil
		}
		job, err := r.job()
		candidates = append(candidates, candidate{job, r.bool(jobUnfinished)})
		return err
	}, query, append(args, size)...)
	if err != nil {
		return false, err
	}
	f.scanned += scanned
	if len(f.q.Latest) > 0 {
		if candidates, err = l.withLatest(candidates, f.q.Latest); err != nil {
			return false, err
		}
	}
	for _, c := range candidates {
		if len(f.page.Jobs) == f.limit {
			f.page.Next = f.page.Jobs[f.limit-1].ID
			return true, nil
		}
		if c.State == carillon.JobActive && !c.unfinished {
			c.State = carillon.JobFinished
		}
		f.page.Jobs = append(f.page.Jobs, c.Job)
	}
	return scanned < size, nil
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
			"EXISTS (SELECT 1 FROM job_label a FORCE INDEX (job_label_job) WHERE a.job = j.id AND a.`key` = ? AND a.value = ?)",
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
	lastBegunOf  = `(SELECT place, ` + endedColumns + ` FROM history FORCE INDEX (history_job) WHERE job = ? AND attempt > 0
ORDER BY due DESC, place DESC LIMIT 1)`
)

// atOnce is for how many jobs the runs are read together: each job adds a query.
const atOnce = 100

// withLatest keeps the jobs whose latest run has one of the wanted states.
func (l *conn) withLatest(jobs []candidate, latest []carillon.LatestState) (left []candidate, err error) {
	for some := range slices.Chunk(jobs, atOnce) {
		ids := make([]carillon.JobID, len(some))
		for i := range some {
			ids[i] = some[i].ID
		}
		unfinished, ended, err := l.runsOf(ids)
		if err != nil {
			return nil, err
		}
		for _, c := range some {
			if slices.Contains(latest, carillon.LatestOf(unfinished[c.ID], ended[c.ID])) {
				left = append(left, c)
			}
		}
	}
	return left, nil
}

// addLast adds to a complete page the run that sums up each job, if the query wants it.
func (f *jobFinder) addLast(l *conn) error {
	if !f.q.WithLast {
		return nil
	}
	for some := range slices.Chunk(f.page.Jobs, atOnce) {
		ids := make([]carillon.JobID, len(some))
		for i := range some {
			ids[i] = some[i].ID
		}
		unfinished, ended, err := l.runsOf(ids)
		if err != nil {
			return err
		}
		for _, id := range ids {
			f.page.Last = append(f.page.Last, carillon.LastOf(unfinished[id], ended[id]))
		}
	}
	return nil
}

// runsOf reads the unfinished runs of some jobs and, for each job, the ended run with the latest due time
// among those that had begun.
func (l *conn) runsOf(ids []carillon.JobID) (
	unfinished map[carillon.JobID][]carillon.Run, ended map[carillon.JobID]*carillon.Run, err error,
) {
	unfinished, ended = map[carillon.JobID][]carillon.Run{}, map[carillon.JobID]*carillon.Run{}
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

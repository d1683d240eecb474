package mysql

import (
	"slices"

	"github.com/carillon-run/carillon"
)

// storedJob is what a batch has to know about a job that it edits.
type storedJob struct {
	rev       int32
	version   int32
	namespace string
	due       carillon.Time // 0: recurring
}

type guardKey struct{ namespace, key string }

// revisions has the stored rows that some changes compare. Rows that do not exist are left out.
type revisions struct {
	jobs   map[carillon.JobID]storedJob
	runs   map[carillon.RunID]int32
	guards map[guardKey]int32
	dead   map[carillon.RunID]bool
}

// compare locks every row that the changes compare, in the order of their keys, and returns the indexes of
// the changes that have lost. After that, of the compared rows only those that do not exist can still appear.
func (l *conn) compare(p *batch, changes []carillon.Change) (lost []int, err error) {
	now, err := l.lock(changes)
	if err != nil {
		return nil, err
	}
	p.jobs = map[carillon.JobID]storedJob{}
	for id, job := range now.jobs {
		p.jobs[id] = job
	}
	for i := range changes {
		if now.stands(&changes[i]) {
			now.apply(&changes[i])
		} else {
			lost = append(lost, i)
		}
	}
	return lost, nil
}

func (r *revisions) stands(c *carillon.Change) bool {
	if c.Job != nil && r.jobs[c.Job.ID].rev != c.Job.Rev {
		return false
	}
	for i := range c.Runs {
		if r.runs[c.Runs[i].ID] != c.Runs[i].Rev {
			return false
		}
	}
	for _, g := range c.Guards {
		if r.guards[guardKey{g.Namespace, g.Key}] != g.Rev || g.Rev == 0 && g.Value == nil {
			return false
		}
	}
	for _, g := range c.Compared {
		if r.guards[guardKey{g.Namespace, g.Key}] != g.Rev {
			return false
		}
	}
	for _, id := range c.Redriven {
		if !r.dead[id] {
			return false
		}
	}
	return true
}

func (r *revisions) apply(c *carillon.Change) {
	if c.Job != nil {
		r.jobs[c.Job.ID] = storedJob{rev: c.Job.Rev + 1}
	}
	for i := range c.Runs {
		run := &c.Runs[i]
		if run.State.Ended() {
			delete(r.runs, run.ID)
			r.dead[run.ID] = r.dead[run.ID] || run.State == carillon.StateFailed
		} else {
			r.runs[run.ID] = run.Rev + 1
		}
	}
	for _, g := range c.Guards {
		if g.Value == nil {
			delete(r.guards, guardKey{g.Namespace, g.Key})
		} else {
			r.guards[guardKey{g.Namespace, g.Key}] = g.Rev + 1
		}
	}
	for _, id := range c.Redriven {
		delete(r.dead, id)
	}
}

// By primary key.
const (
	lockRuns   = `SELECT due, job, rev FROM run FORCE INDEX (PRIMARY) WHERE (due, job) IN (?) FOR UPDATE`
	lockGuards = "SELECT namespace, `key`, rev FROM guard FORCE INDEX (PRIMARY) WHERE (namespace, `key`) IN (?) FOR UPDATE"
	lockDead   = `SELECT job, due FROM dead FORCE INDEX (PRIMARY) WHERE (job, due) IN (?) FOR UPDATE`
)

func (l *conn) lock(changes []carillon.Change) (now revisions, err error) {
	var jobs []carillon.JobID
	var runs, dead []carillon.RunID
	var guards []guardKey
	for i := range changes {
		c := &changes[i]
		if c.Job != nil {
			jobs = append(jobs, c.Job.ID)
		}
		for i := range c.Runs {
			runs = append(runs, c.Runs[i].ID)
		}
		for _, g := range c.Guards {
			guards = append(guards, guardKey{g.Namespace, g.Key})
		}
		for _, g := range c.Compared {
			guards = append(guards, guardKey{g.Namespace, g.Key})
		}
		dead = append(dead, c.Redriven...)
	}
	now = revisions{
		runs: map[carillon.RunID]int32{}, guards: map[guardKey]int32{}, dead: map[carillon.RunID]bool{},
	}
	if now.jobs, err = l.lockJobs(jobs); err != nil {
		return now, err
	}
	for some := range slices.Chunk(runs, most) {
		err := l.query(func(r row) error {
			now.runs[carillon.RunID{Due: carillon.Time(r.int(0)), Job: carillon.JobID(r.int(1))}] = int32(
				r.int(2),
			)
			return nil
		}, lockRuns, list(some, dueJob))
		if err != nil {
			return now, err
		}
	}
	for some := range slices.Chunk(guards, most) {
		err := l.query(func(r row) error {
			now.guards[guardKey{r.text(0), r.text(1)}] = int32(r.int(2))
			return nil
		}, lockGuards, list(some, appendGuardKey))
		if err != nil {
			return now, err
		}
	}
	for some := range slices.Chunk(dead, most) {
		err := l.query(func(r row) error {
			now.dead[carillon.RunID{Job: carillon.JobID(r.int(0)), Due: carillon.Time(r.int(1))}] = true
			return nil
		}, lockDead, list(some, jobDue))
		if err != nil {
			return now, err
		}
	}
	return now, nil
}

func appendGuardKey(b []byte, k guardKey) []byte { return appendSQL(b, `(?,?)`, k.namespace, k.key) }

// lockJobs is by primary key.
const lockJobs = `SELECT id, rev, version, namespace, due FROM job FORCE INDEX (PRIMARY) WHERE id IN (?) FOR UPDATE`

func (l *conn) lockJobs(ids []carillon.JobID) (map[carillon.JobID]storedJob, error) {
	found := map[carillon.JobID]storedJob{}
	for some := range slices.Chunk(ids, most) {
		err := l.query(func(r row) error {
			found[carillon.JobID(r.int(0))] = storedJob{
				int32(r.int(1)), int32(r.int(2)), r.text(3), carillon.Time(r.int(4)),
			}
			return nil
		}, lockJobs, ints(some))
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

package mysql

import (
	"slices"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// storedJob is what a batch has to know about a job that it edits.
type storedJob struct {
	rev       int32
	version   int32
	namespace string
	due       carillon.Time // 0: recurring
}

// compare locks every row that the changes compare, in the order of their keys, and returns the indexes of
// the changes that have lost. After that, of the compared rows only those that do not exist can still appear.
func (l *conn) compare(p *batch, changes []carillon.Change) (lost []int, err error) {
	now, err := l.lock(p, changes)
	if err != nil {
		return nil, err
	}
	for at := 0; at < len(changes); {
		end := at + carillon.JoinedFrom(changes[at:])
		stand := now.Stand(changes[at:end])
		for ; at < end; at++ {
			if stand {
				now.Apply(&changes[at])
			} else {
				lost = append(lost, at)
			}
		}
	}
	return lost, nil
}

// By primary key.
const (
	lockRuns   = `SELECT due, job, rev FROM run FORCE INDEX (PRIMARY) WHERE (due, job) IN (?) FOR UPDATE`
	lockGuards = "SELECT namespace, `key`, rev FROM guard FORCE INDEX (PRIMARY) WHERE (namespace, `key`) " +
		"IN (?) FOR UPDATE"
	lockDead = `SELECT job, due FROM dead FORCE INDEX (PRIMARY) WHERE (job, due) IN (?) FOR UPDATE`
)

func (l *conn) lock(p *batch, changes []carillon.Change) (now *sqlcommon.Revisions, err error) {
	var jobs []carillon.JobID
	var runs, dead []carillon.RunID
	var guards []sqlcommon.GuardKey
	for i := range changes {
		c := &changes[i]
		if c.Job != nil {
			jobs = append(jobs, c.Job.ID)
		}
		for i := range c.Runs {
			runs = append(runs, c.Runs[i].ID)
		}
		for _, g := range c.Guards {
			guards = append(guards, sqlcommon.GuardKey{Namespace: g.Namespace, Key: g.Key})
		}
		for _, g := range c.Compared {
			guards = append(guards, sqlcommon.GuardKey{Namespace: g.Namespace, Key: g.Key})
		}
		dead = append(dead, c.Retried...)
	}
	if p.jobs, err = l.lockJobs(jobs); err != nil {
		return nil, err
	}
	now = sqlcommon.NewRevisions()
	for id, job := range p.jobs {
		now.Jobs[id] = job.rev
	}
	for some := range slices.Chunk(runs, most) {
		err := l.query(func(r row) error {
			now.Runs[carillon.RunID{Due: carillon.Time(r.int(0)), Job: carillon.JobID(r.int(1))}] = int32(
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
			now.Guards[sqlcommon.GuardKey{Namespace: r.text(0), Key: r.text(1)}] = int32(r.int(2))
			return nil
		}, lockGuards, list(some, appendGuardKey))
		if err != nil {
			return now, err
		}
	}
	for some := range slices.Chunk(dead, most) {
		err := l.query(func(r row) error {
			now.Dead[carillon.RunID{Job: carillon.JobID(r.int(0)), Due: carillon.Time(r.int(1))}] = true
			return nil
		}, lockDead, list(some, jobDue))
		if err != nil {
			return now, err
		}
	}
	return now, nil
}

func appendGuardKey(b []byte, k sqlcommon.GuardKey) []byte {
	return appendSQL(b, `(?,?)`, k.Namespace, k.Key)
}

// lockJobs is by primary key.
const lockJobs = `SELECT id, rev, version, namespace, due FROM job FORCE INDEX (PRIMARY) WHERE id IN (?)
  FOR UPDATE`

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

package postgres

import (
	"slices"

	"github.com/carillon-run/carillon"
)

// locks are the revisions of all rows that some changes compare, and that are locked now.
type locks struct {
	jobs   map[carillon.JobID]int32
	runs   map[carillon.RunID]int32
	guards map[guardKey]int32
	dead   map[carillon.RunID]bool
}

func newLocks() *locks {
	return &locks{
		jobs: map[carillon.JobID]int32{}, runs: map[carillon.RunID]int32{}, guards: map[guardKey]int32{}, dead: map[carillon.RunID]bool{},
	}
}

// calls lock and read the rows, in the order in which a batch writes them.
func (l *locks) calls(changes []carillon.Change) []call {
	jobs, runs, guards, dead := newRows(lockJob), newRows(lockRun), newRows(lockGuard), newRows(lockDead)
	var allRuns []*carillon.Run
	for i := range changes {
		c := &changes[i]
		if c.Job != nil {
			jobs.begin()
			jobs.int(int64(c.Job.ID))
		}
		for j := range c.Runs {
			allRuns = append(allRuns, &c.Runs[j])
		}
		for j := range c.Guards {
			guards.guard(&c.Guards[j])
		}
		for _, id := range c.Redriven {
			dead.deadKey(id)
		}
	}
	slices.SortFunc(allRuns, byID)
	for _, run := range allRuns {
		runs.runKey(run.ID)
	}
	var calls []call
	for _, lock := range []struct {
		rows *rows
		read func(r *row) error
	}{
		{&jobs, func(r *row) error { l.jobs[carillon.JobID(r.int())] = int32(r.int()); return nil }},
		{&runs, func(r *row) error { l.runs[r.runID()] = int32(r.int()); return nil }},
		{&guards, func(r *row) error { l.guards[guardKey{r.text(), r.text()}] = int32(r.int()); return nil }},
		{&dead, func(r *row) error { l.dead[r.runID()] = true; return nil }},
	} {
		if lock.rows.count > 0 {
			ask := lock.rows.call()
			ask.row = lock.read
			calls = append(calls, ask)
		}
	}
	return calls
}

// runID reads job and due.
func (r *row) runID() carillon.RunID {
	return carillon.RunID{Job: carillon.JobID(r.int()), Due: carillon.Time(r.int())}
}

// stand says that all rows of a change are as it was decided on.
func (l *locks) stand(c *carillon.Change) bool {
	if c.Job != nil && l.jobs[c.Job.ID] != c.Job.Rev {
		return false
	}
	for i := range c.Runs {
		if l.runs[c.Runs[i].ID] != c.Runs[i].Rev {
			return false
		}
	}
	for i := range c.Guards {
		g := &c.Guards[i]
		if l.guards[guardKey{clean(g.Namespace), clean(g.Key)}] != g.Rev {
			return false
		}
	}
	for _, id := range c.Redriven {
		if !l.dead[id] {
			return false
		}
	}
	return true
}

package postgres

import (
	"context"

	"github.com/carillon-run/carillon"
)

// revisions are the present revisions of all rows that some changes compare.
type revisions struct {
	jobs   map[carillon.JobID]int32
	runs   map[carillon.RunID]int32
	guards map[guardKey]int32
	dead   map[carillon.RunID]bool
}

func newRevisions() *revisions {
	return &revisions{
		jobs: map[carillon.JobID]int32{}, runs: map[carillon.RunID]int32{}, guards: map[guardKey]int32{},
		dead: map[carillon.RunID]bool{},
	}
}

// compare reads the rows that the changes compare and returns the indexes of those that lost.
func compare(ctx context.Context, c *conn, changes []carillon.Change) (indexes []int, err error) {
	now := newRevisions()
	if err := c.do(ctx, transaction{}, now.calls(changes)...); err != nil {
		return nil, err
	}
	for i := range changes {
		if !now.stands(&changes[i]) {
			indexes = append(indexes, i)
		}
	}
	return indexes, nil
}

// calls returns the calls that read the rows.
func (v *revisions) calls(changes []carillon.Change) []call {
	jobs, runs, guards, dead := newRows(seeJob), newRows(seeRun), newRows(seeGuard), newRows(seeDead)
	for i := range changes {
		c := &changes[i]
		if c.Job != nil {
			jobs.begin()
			jobs.int(int64(c.Job.ID))
		}
		for j := range c.Runs {
			runs.runKey(c.Runs[j].ID)
		}
		for j := range c.Guards {
			guards.guardRev(c.Guards[j].Compare())
		}
		for j := range c.Compared {
			guards.guardRev(c.Compared[j])
		}
		for _, id := range c.Redriven {
			dead.deadKey(id)
		}
	}
	var calls []call
	for _, see := range []struct {
		rows *rows
		read func(r *row) error
	}{
		{&jobs, func(r *row) error { v.jobs[carillon.JobID(r.int())] = int32(r.int()); return nil }},
		{&runs, func(r *row) error { v.runs[r.runID()] = int32(r.int()); return nil }},
		{&guards, func(r *row) error { v.guards[guardKey{r.text(), r.text()}] = int32(r.int()); return nil }},
		{&dead, func(r *row) error { v.dead[r.runID()] = true; return nil }},
	} {
		if see.rows.count > 0 {
			ask := see.rows.call()
			ask.row = see.read
			calls = append(calls, ask)
		}
	}
	return calls
}

// runID reads job and due.
func (r *row) runID() carillon.RunID {
	return carillon.RunID{Job: carillon.JobID(r.int()), Due: carillon.Time(r.int())}
}

// stands says that all rows of a change are as the change was decided on.
func (v *revisions) stands(c *carillon.Change) bool {
	if c.Job != nil && v.jobs[c.Job.ID] != c.Job.Rev {
		return false
	}
	for i := range c.Runs {
		if v.runs[c.Runs[i].ID] != c.Runs[i].Rev {
			return false
		}
	}
	for i := range c.Guards {
		g := &c.Guards[i]
		if v.guards[guardKey{clean(g.Namespace), clean(g.Key)}] != g.Rev || g.Rev == 0 && g.Value == nil {
			return false
		}
	}
	for _, g := range c.Compared {
		if v.guards[guardKey{clean(g.Namespace), clean(g.Key)}] != g.Rev {
			return false
		}
	}
	for _, id := range c.Redriven {
		if !v.dead[id] {
			return false
		}
	}
	return true
}

package postgres

import (
	"context"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// compare reads the rows that the changes compare and returns the indexes of those that lost.
func compare(ctx context.Context, c *conn, changes []carillon.Change) (indexes []int, err error) {
	now := sqlcommon.NewRevisions()
	now.Name = clean
	if err := c.do(ctx, transaction{}, seeCalls(now, changes)...); err != nil {
		return nil, err
	}
	for at := 0; at < len(changes); {
		end := at + carillon.JoinedFrom(changes[at:])
		stand := now.Stand(changes[at:end])
		for ; at < end; at++ {
			if !stand {
				indexes = append(indexes, at)
			}
		}
	}
	return indexes, nil
}

// seeCalls returns the calls that read the rows.
func seeCalls(now *sqlcommon.Revisions, changes []carillon.Change) []call {
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
		for _, id := range c.Retried {
			dead.deadKey(id)
		}
	}
	var calls []call
	for _, see := range []struct {
		rows *rows
		read func(r *row) error
	}{
		{&jobs, func(r *row) error { now.Jobs[carillon.JobID(r.int())] = int32(r.int()); return nil }},
		{&runs, func(r *row) error { now.Runs[r.runID()] = int32(r.int()); return nil }},
		{&guards, func(r *row) error {
			now.Guards[sqlcommon.GuardKey{Namespace: r.text(), Key: r.text()}] = int32(r.int())
			return nil
		}},
		{&dead, func(r *row) error { now.Dead[r.runID()] = true; return nil }},
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

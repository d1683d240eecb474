package mysql

import (
	"slices"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// batch is what a commit sends to the server.
type batch struct {
	statements statements
	jobs       map[carillon.JobID]storedJob // existing jobs that are edited
	lined      bool                         // see lines.go
	group
}

// group is a sequence of changes none of which touches a row of another: their rows are written kind by
// kind, by one statement each.
type group struct {
	newJobs []*carillon.Job
	edited  []*carillon.Job
	newRuns []*carillon.Run
	updated []*carillon.Run
	left    []*carillon.Run // runs that leave the hot table
	ended   []*carillon.Run // in the order of the changes
	failed  []*carillon.Run
	outputs []*carillon.Run

	newGuards []*carillon.Guard
	guards    []*carillon.Guard
	gone      []*carillon.Guard
	compared  []*carillon.GuardRev
	retried   []carillon.RunID
}

// write plans all changes except the lost ones.
func (p *batch) write(changes []carillon.Change, lost []int) error {
	p.group = group{}
	rows := sqlcommon.NewTouched(len(changes))
	for i := range changes {
		if len(lost) > 0 && lost[0] == i {
			lost = lost[1:]
			continue
		}
		c := &changes[i]
		if !rows.Add(c) {
			if err := p.flush(); err != nil {
				return err
			}
			p.group, rows = group{}, sqlcommon.NewTouched(0) // there can be many groups
			rows.Add(c)
		}
		p.take(c)
	}
	return p.flush()
}

func (g *group) take(c *carillon.Change) {
	if c.Job != nil {
		if c.Job.Rev == 0 {
			g.newJobs = append(g.newJobs, c.Job)
		} else {
			g.edited = append(g.edited, c.Job)
		}
	}
	g.retried = append(g.retried, c.Retried...)
	for i := range c.Runs {
		run := &c.Runs[i]
		g.takeRun(run, slices.Contains(c.Retried, run.ID))
	}
	for i := range c.Guards {
		g.takeGuard(&c.Guards[i])
	}
	for i := range c.Compared {
		g.takeCompared(&c.Compared[i])
	}
}

// takeRun puts a run where it belongs. A record of a run that never waited is inserted and deleted again: a
// commit that inserts the same run at the same time waits for this one, and this one for it.
func (g *group) takeRun(run *carillon.Run, retried bool) {
	if run.Rev == 0 {
		g.newRuns = append(g.newRuns, run)
	}
	switch {
	case run.State.Ended():
		g.left = append(g.left, run)
		g.ended = append(g.ended, run)
		if run.State == carillon.StateFailed && !retried {
			g.failed = append(g.failed, run)
		}
	case run.Rev != 0:
		g.updated = append(g.updated, run)
	}
	if run.Output != nil {
		g.outputs = append(g.outputs, run)
	}
}

func (g *group) takeGuard(guard *carillon.Guard) {
	switch {
	case guard.Value == nil:
		g.gone = append(g.gone, guard)
	case guard.Rev == 0:
		g.newGuards = append(g.newGuards, guard)
	default:
		g.guards = append(g.guards, guard)
	}
}

// takeCompared does with a guard that must not exist what takeRun does with such a run.
func (g *group) takeCompared(guard *carillon.GuardRev) {
	if guard.Rev != 0 {
		g.compared = append(g.compared, guard)
		return
	}
	none := &carillon.Guard{Namespace: guard.Namespace, Key: guard.Key, Rev: 1}
	g.newGuards, g.gone = append(g.newGuards, none), append(g.gone, none)
}

// flush writes the group. All commits go through the tables in this order.
func (p *batch) flush() error {
	if err := p.putJobs(); err != nil {
		return err
	}
	p.putRuns()
	p.putGuards()
	p.putEnded()
	p.putOutputs()
	p.putAttempts()
	return nil
}

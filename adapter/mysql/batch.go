package mysql

import (
	"slices"

	"github.com/carillon-run/carillon"
)

// batch is what a commit sends to the server.
type batch struct {
	statements statements
	jobs       map[carillon.JobID]storedJob // existing jobs that are edited
	group
}

// group is a sequence of changes none of which touches a row of another: their rows are written kind by
// kind, by one statement each.
type group struct {
	touchedJobs   map[carillon.JobID]bool
	touchedRuns   map[carillon.RunID]bool
	touchedGuards map[guardKey]bool // true: the changes only compare it

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
	redriven  []carillon.RunID
}

// write plans all changes except the lost ones.
func (p *batch) write(changes []carillon.Change, lost []int) error {
	p.group = newGroup(len(changes))
	for i := range changes {
		if len(lost) > 0 && lost[0] == i {
			lost = lost[1:]
			continue
		}
		c := &changes[i]
		if p.touches(c) {
			if err := p.flush(); err != nil {
				return err
			}
			p.group = newGroup(0) // there can be many groups
		}
		p.take(c)
	}
	return p.flush()
}

func newGroup(size int) group {
	return group{
		touchedJobs:   map[carillon.JobID]bool{},
		touchedRuns:   make(map[carillon.RunID]bool, size),
		touchedGuards: map[guardKey]bool{},
	}
}

// touches says that the change has a row that an earlier change of the group has too.
func (g *group) touches(c *carillon.Change) bool {
	if c.Job != nil && g.touchedJobs[c.Job.ID] {
		return true
	}
	for i := range c.Runs {
		if g.touchedRuns[c.Runs[i].ID] {
			return true
		}
	}
	for i := range c.Guards {
		if _, touched := g.touchedGuards[guardKey{c.Guards[i].Namespace, c.Guards[i].Key}]; touched {
			return true
		}
	}
	for _, compared := range c.Compared {
		shared, touched := g.touchedGuards[guardKey{compared.Namespace, compared.Key}]
		if touched && (!shared || compared.Rev == 0) {
			return true
		}
	}
	return slices.ContainsFunc(c.Redriven, func(id carillon.RunID) bool { return g.touchedRuns[id] })
}

func (g *group) take(c *carillon.Change) {
	if c.Job != nil {
		g.touchedJobs[c.Job.ID] = true
		if c.Job.Rev == 0 {
			g.newJobs = append(g.newJobs, c.Job)
		} else {
			g.edited = append(g.edited, c.Job)
		}
	}
	for _, id := range c.Redriven {
		g.touchedRuns[id] = true
		g.redriven = append(g.redriven, id)
	}
	for i := range c.Runs {
		run := &c.Runs[i]
		g.touchedRuns[run.ID] = true
		g.takeRun(run, slices.Contains(c.Redriven, run.ID))
	}
	for i := range c.Guards {
		guard := &c.Guards[i]
		g.touchedGuards[guardKey{guard.Namespace, guard.Key}] = false
		g.takeGuard(guard)
	}
	for i := range c.Compared {
		guard := &c.Compared[i]
		g.touchedGuards[guardKey{guard.Namespace, guard.Key}] = guard.Rev != 0
		g.takeCompared(guard)
	}
}

// takeRun puts a run where it belongs. A record of a run that never waited is inserted and deleted again: a
// commit that inserts the same run at the same time waits for this one, and this one for it.
func (g *group) takeRun(run *carillon.Run, redriven bool) {
	if run.Rev == 0 {
		g.newRuns = append(g.newRuns, run)
	}
	switch {
	case run.State.Ended():
		g.left = append(g.left, run)
		g.ended = append(g.ended, run)
		if run.State == carillon.StateFailed && !redriven {
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
	return nil
}

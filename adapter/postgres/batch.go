package postgres

import (
	"cmp"
	"slices"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// batch collects the rows of many changes by the statement that writes them. It keeps its buffers from one
// batch to the next.
type batch struct {
	insertJob, keepDefinition, dropLabels, addLabel, updateJob, insertLabel rows
	insertRun, freeRun, updateRun, deleteRun                                rows
	insertHistory, insertDead, deleteDead                                   rows
	putResult, putCheckpoint, putPayload, putAttempt                        rows
	insertGuard, freeGuard, compareGuard, lockGuard                         rows
	updateGuard, deleteGuard                                                rows

	jobs   []*carillon.Job
	runs   []*carillon.Run
	guards []*carillon.Guard
	calls  []call
	rows   sqlcommon.Touched

	compared []*carillon.GuardRev
}

func newBatch() *batch {
	f := &batch{rows: sqlcommon.NewTouched(0)}
	for _, p := range f.statements() {
		*p.rows = newRows(p.of)
	}
	return f
}

type gathered struct {
	rows *rows
	of   *rowStatement
}

// statements returns the statements in the order in which they run. Every batch locks rows in this order, and
// by key within one statement, so that two batches seldom deadlock.
func (f *batch) statements() []gathered {
	return []gathered{
		{&f.insertJob, insertJob},
		{&f.insertLabel, insertLabel},
		{&f.keepDefinition, keepDefinition},
		{&f.dropLabels, dropLabels},
		{&f.addLabel, addLabel},
		{&f.updateJob, updateJob},
		{&f.insertRun, insertRun},
		{&f.freeRun, freeRun},
		{&f.updateRun, updateRun},
		{&f.deleteRun, deleteRun},
		{&f.insertGuard, insertGuard},
		{&f.freeGuard, freeGuard},
		{&f.compareGuard, compareGuard},
		{&f.lockGuard, lockGuard},
		{&f.updateGuard, updateGuard},
		{&f.deleteGuard, deleteGuard},
		{&f.deleteDead, deleteDead},
		{&f.insertHistory, insertHistory},
		{&f.insertDead, insertDead},
		{&f.putResult, putResult},
		{&f.putCheckpoint, putCheckpoint},
		{&f.putPayload, putPayload},
		{&f.putAttempt, putAttempt},
	}
}

// maxWeight is how many bytes of payloads and the like one batch carries: thousands of the largest payloads
// would not fit into one message.
const maxWeight = 32 << 20

// group is how many of the changes can be written at once: up to the first change that names a row which an
// earlier change also names. It must see what the earlier change wrote. Joined changes stay together.
func (f *batch) group(changes []carillon.Change) int {
	f.rows.Clear()
	total, first := 0, 0 // of the changes that are joined to the present one
	for i := range changes {
		if !changes[i].Joined {
			first = i
		}
		total += weight(&changes[i])
		if (!f.rows.Add(&changes[i]) || total > maxWeight) && first > 0 {
			return first
		}
	}
	return len(changes)
}

func weight(c *carillon.Change) (bytes int) {
	if c.Job != nil {
		bytes += c.Job.Weight() + sizes(c.Job.Labels)
	}
	for i := range c.Runs {
		bytes += len(c.Runs[i].Reason)
		if out := c.Runs[i].Output; out != nil {
			bytes += len(out.Result) + len(out.Checkpoint) + len(out.Payload)
			if out.Attempt != nil {
				bytes += len(out.Attempt.Reason)
			}
		}
	}
	for i := range c.Guards {
		bytes += len(c.Guards[i].Value)
	}
	return bytes
}

func sizes(texts map[string]string) (bytes int) {
	for key, value := range texts {
		bytes += len(key) + len(value)
	}
	return bytes
}

// gather takes the rows of the changes except the lost ones. lost is ascending.
func (f *batch) gather(changes []carillon.Change, lost []int) error {
	for _, p := range f.statements() {
		p.rows.reset()
	}
	f.jobs, f.runs, f.guards, f.compared = f.jobs[:0], f.runs[:0], f.guards[:0], f.compared[:0]
	for i := range changes {
		if len(lost) > 0 && lost[0] == i {
			lost = lost[1:]
			continue
		}
		c := &changes[i]
		if c.Job != nil {
			f.jobs = append(f.jobs, c.Job)
		}
		for j := range c.Runs {
			f.runs = append(f.runs, &c.Runs[j])
			f.end(&c.Runs[j])
		}
		for j := range c.Guards {
			f.guards = append(f.guards, &c.Guards[j])
		}
		for j := range c.Compared {
			f.compared = append(f.compared, &c.Compared[j])
		}
		for _, id := range c.Retried {
			f.deleteDead.deadKey(id)
		}
	}
	return f.sort()
}

// sort sorts the rows that other nodes can write too by their keys.
func (f *batch) sort() error {
	slices.SortFunc(f.jobs, func(a, b *carillon.Job) int { return cmp.Compare(a.ID, b.ID) })
	for _, job := range f.jobs {
		if err := f.job(job); err != nil {
			return err
		}
	}
	slices.SortFunc(f.runs, func(a, b *carillon.Run) int {
		return cmp.Or(cmp.Compare(a.ID.Due, b.ID.Due), cmp.Compare(a.ID.Job, b.ID.Job))
	})
	for _, run := range f.runs {
		f.run(run)
	}
	slices.SortFunc(f.guards, func(a, b *carillon.Guard) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Key, b.Key))
	})
	for _, g := range f.guards {
		f.guard(g)
	}
	slices.SortFunc(f.compared, func(a, b *carillon.GuardRev) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Key, b.Key))
	})
	compare := &f.compareGuard
	if slices.ContainsFunc(f.guards, func(g *carillon.Guard) bool { return g.Rev != 0 }) {
		compare = &f.lockGuard
	}
	for _, g := range f.compared {
		f.compare(g, compare)
	}
	if f.lockGuard.count > 0 {
		for _, g := range f.guards {
			if g.Rev != 0 {
				f.lockGuard.guardRev(g.Compare())
			}
		}
	}
	return nil
}

func (f *batch) job(job *carillon.Job) error {
	if job.Rev == 0 {
		f.insertLabel.insertLabels(job)
		return f.insertJob.insertJob(job)
	}
	f.keepDefinition.jobVersion(job)
	f.dropLabels.jobVersion(job)
	f.addLabel.addLabels(job)
	return f.updateJob.updateJob(job)
}

// end adds the record and the outputs of a run. They need no order but that of the changes.
func (f *batch) end(run *carillon.Run) {
	if run.State.Ended() {
		f.insertHistory.record(run, run.Expires)
		if run.State == carillon.StateFailed {
			f.insertDead.bury(run)
		}
	}
	if run.Output == nil {
		return
	}
	if run.Output.Result != nil {
		f.putResult.output(run, run.Output.Result)
	}
	if run.Output.Checkpoint != nil {
		f.putCheckpoint.output(run, run.Output.Checkpoint)
	}
	if run.Output.Payload != nil {
		f.putPayload.output(run, run.Output.Payload)
	}
	if run.Output.Attempt != nil {
		f.putAttempt.attempt(run, run.Output.Attempt)
	}
}

// run adds a run to the statement that writes it.
func (f *batch) run(run *carillon.Run) {
	switch {
	case run.State.Ended() && run.Rev == 0:
		f.insertRun.insertRun(run, 0)
		f.freeRun.runKey(run.ID)
	case run.State.Ended():
		f.deleteRun.deleteRun(run)
	case run.Rev == 0:
		f.insertRun.insertRun(run, 1)
	default:
		f.updateRun.updateRun(run)
	}
}

func (f *batch) guard(g *carillon.Guard) {
	switch {
	case g.Value == nil:
		f.deleteGuard.guardRev(g.Compare())
	case g.Rev == 0:
		f.insertGuard.insertGuard(g)
	default:
		f.updateGuard.guard(g)
	}
}

// compare compares a guard without writing it. The place of one that must not exist is taken for a moment, so
// that a commit which makes it at the same time waits for this one.
func (f *batch) compare(g *carillon.GuardRev, with *rows) {
	if g.Rev != 0 {
		with.guardRev(*g)
		return
	}
	f.insertGuard.guard(&carillon.Guard{Namespace: g.Namespace, Key: g.Key, Value: []byte{}})
	f.freeGuard.guardRev(*g)
}

// toCalls returns the gathered rows as calls.
func (f *batch) toCalls() []call {
	f.calls = f.calls[:0]
	for _, p := range f.statements() {
		if p.rows.count > 0 {
			f.calls = append(f.calls, p.rows.call())
		}
	}
	return f.calls
}

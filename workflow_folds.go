package carillon

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// flow is a run of a workflow, with the definition of its version: what its folds need.
type flow struct {
	job *Job
	id  RunID
}

func (f flow) workflow() *Workflow { return f.job.Target.Workflow }

// fold is a step of the progress of the run, and what the step inserts. false: the progress does not allow
// it. A progress that is gone, because retention was over, allows nothing.
func (f flow) fold(step func(p *Progress, now Time) bool) Fold {
	return Fold{
		Namespace: f.job.Namespace, Key: f.id.WorkflowKey(),
		Step: func(g Guard, now Time) (Guard, bool) {
			p := f.progress(&g)
			if p == nil || !step(p, now) {
				return g, false
			}
			g.Value = p.Value()
			return g, true
		},
		Insert: func(was, is *Guard, now Time) []Change {
			return f.inserted(f.progress(was), f.progress(is), now)
		},
	}
}

// progress reads a guard; nil: there is none.
func (f flow) progress(g *Guard) *Progress {
	p, err := ProgressOf(g.Value)
	if err != nil || p.Nodes() != len(f.workflow().Nodes) {
		return nil
	}
	return p
}

// EndOf is the fold for the end of a part: it marks the node, and inserts the runs of the nodes that can
// begin because of it. workflow is the job of the version that the part names. If the progress is gone,
// nothing follows.
func (e *PartEnd) EndOf(workflow *Job) Fold {
	f := flow{workflow, e.Run}
	fold := f.fold(func(p *Progress, _ Time) bool {
		if !p.counts(e.Part, e.Job) {
			return true // a caller skipped the node meanwhile, or its list was read again
		}
		if m := p.Map(e.Node); m != nil {
			p.endItem(f.workflow(), m, e.State)
		} else {
			p.end(f.workflow(), e.Node, e.State)
		}
		return true
	})
	step := fold.Step
	fold.Step = func(g Guard, now Time) (Guard, bool) {
		g, _ = step(g, now) // the end itself must not be lost
		return g, true
	}
	return fold
}

// StartOf is the fold for the start of a run of a workflow: it makes the progress, or takes the one that a
// caller prepared, and inserts the runs of the first nodes. base is the first of a block of ids, one for each
// node.
func StartOf(workflow *Job, run *Run, base JobID) Fold {
	f := flow{workflow, run.ID}
	payload := len(workflow.Payload) > 0 || run.Has(FlagOwnPayload)
	fold := f.fold(func(p *Progress, now Time) bool {
		if p.Start != 0 {
			return false
		}
		p.Payload = payload
		p.begin(f.workflow(), now)
		return true
	})
	step, insert := fold.Step, fold.Insert
	first := func(g Guard) Guard {
		// A caller may have edited the workflow since it prepared the progress.
		if p := f.progress(&g); p == nil || p.Version != workflow.Version {
			p = NewProgress(len(f.workflow().Nodes), base)
			p.Version = workflow.Version
			g.Value = p.Value()
		}
		g.Expires = 0
		return g
	}
	fold.Step = func(g Guard, now Time) (Guard, bool) { return step(first(g), now) }
	fold.Insert = func(was, is *Guard, now Time) []Change {
		from := first(*was)
		return insert(&from, is, now)
	}
	return fold
}

// StopOf is the fold that stops a run of a workflow: nodes that have not begun end, the others are to be
// stopped by the caller.
func StopOf(workflow *Job, id RunID, why Stop) Fold {
	return flow{workflow, id}.fold(func(p *Progress, _ Time) bool {
		if p.Stop == StopNone {
			p.stop(why)
		}
		return true
	})
}

// RetryOf is the fold that begins a node once more.
func RetryOf(workflow *Job, id RunID, node int) Fold {
	f := flow{workflow, id}
	return f.fold(func(p *Progress, _ Time) bool {
		if state := p.State(node); !p.goesOn() || state != NodeFailed && state != NodeCanceled {
			return false
		}
		p.retry(f.workflow(), node)
		return true
	})
}

// AgainOf is the fold for a caller's retry of the run of a part: its node goes on. The caller inserts the
// run.
func (part Part) AgainOf(workflow *Job, job JobID) Fold {
	f := flow{workflow, part.Run}
	fold := f.fold(func(p *Progress, _ Time) bool {
		state := p.State(part.Node)
		bad := state == NodeFailed || state == NodeCanceled
		m := p.Map(part.Node)
		switch {
		case !p.goesOn():
			return false
		case part.Item >= 0 && m != nil && m.Bad > 0 && (bad || state == NodeActive) &&
			m.Base.Nth(part.Item) == job:
			p.retryItem(f.workflow(), m)
			return true
		case part.Item < 0 && bad && m == nil && f.workflow().Nodes[part.Node].Map == "":
			p.retry(f.workflow(), part.Node)
			return true
		}
		return false
	})
	insert := fold.Insert
	fold.Insert = func(was, is *Guard, now Time) []Change {
		// Only the runs of other nodes: those that are skipped no longer.
		changes := insert(was, is, now)
		own, _ := f.progress(is).JobOf(part.Node)
		return slices.DeleteFunc(changes, func(c Change) bool { return c.Runs[0].ID.Job == own })
	}
	return fold
}

// LoseOf is the fold for a node whose job is gone, so that no run of it can end any more.
func LoseOf(workflow *Job, id RunID, node int) Fold {
	f := flow{workflow, id}
	return f.fold(func(p *Progress, _ Time) bool {
		if p.State(node) != NodeActive {
			return false
		}
		p.end(f.workflow(), node, NodeCanceled)
		return true
	})
}

// PassOf is the fold that lets those that follow a node go on as if it had succeeded.
func PassOf(workflow *Job, id RunID, node int) Fold {
	f := flow{workflow, id}
	return f.fold(func(p *Progress, _ Time) bool {
		switch p.State(node) {
		case NodeActive, NodeSucceeded, NodePassed:
			return false
		}
		if !p.goesOn() {
			return false
		}
		p.pass(f.workflow(), node)
		return true
	})
}

// ExpandOf is the fold that gives a node the items of the list that it maps over. base is the first of a
// block of ids, one for each item.
func ExpandOf(workflow *Job, id RunID, node int, items []json.RawMessage, base JobID) Fold {
	f := flow{workflow, id}
	fold := f.fold(func(p *Progress, now Time) bool {
		if p.State(node) != NodeExpanding {
			return false
		}
		p.expand(f.workflow(), node, MapProgress{Base: base, Due: now, Items: len(items)})
		return true
	})
	insert := fold.Insert
	fold.Insert = func(was, is *Guard, now Time) []Change {
		changes := insert(was, is, now)
		for i := range items {
			changes = append(changes, f.insertItem(node, i, items[i], base.Nth(i), now))
		}
		return changes
	}
	return fold
}

// The bounds of what the lists of a run add to the store.
const (
	maxItems     = 100_000  // of all lists of a run
	maxItemBytes = 16 << 20 // of the payloads of one list
)

// TooMany says why the items of a node cannot be inserted: a small definition must not become gigabytes.
func (p *Progress) TooMany(node *WorkflowNode, items []json.RawMessage) error {
	total, size, values := len(items), 0, max(node.values(), 1)
	for _, m := range p.Maps {
		total += m.Items
	}
	for _, item := range items {
		size += len(node.Payload) + node.Target.weight() + values*len(item)
	}
	switch {
	case total > maxItems:
		return fmt.Errorf("map: the lists of the workflow have more than %d items", maxItems)
	case size > maxItemBytes:
		return fmt.Errorf("map: the payloads of %d items would have %d MiB: at most 16", len(items), size>>20)
	}
	return nil
}

// FailOf is the fold that fails a node whose list cannot be read, with the reason.
func FailOf(workflow *Job, id RunID, node int, reason string) Fold {
	f := flow{workflow, id}
	fold := f.fold(func(p *Progress, _ Time) bool {
		if p.State(node) != NodeExpanding {
			return false
		}
		p.end(f.workflow(), node, NodeFailed)
		return true
	})
	insert := fold.Insert
	fold.Insert = func(was, is *Guard, now Time) []Change {
		changes := insert(was, is, now)
		for i := range changes {
			for k := range changes[i].Runs {
				if run := &changes[i].Runs[k]; run.State == StateFailed {
					run.Reason = reason
				}
			}
		}
		return changes
	}
	return fold
}

// inserted are the jobs and runs of a step: the runs of nodes that begin, and records of nodes that end
// without having had a run.
func (f flow) inserted(was, is *Progress, now Time) (changes []Change) {
	if was == nil || is == nil {
		return nil
	}
	for i := range is.nodes {
		if was.nodes[i] == is.nodes[i] {
			continue
		}
		before, after := was.State(i), is.State(i)
		switch {
		case begins(before, after):
			changes = append(changes, f.insert(was, is, i, func(run *Run, _ *Job) {}, now))
		case is.endsUnheld(i, before, after):
			changes = append(changes, f.insert(was, is, i, func(run *Run, job *Job) {
				*run = run.ended(job, recordStates[after], f.whyUnheld(is, i), now)
			}, now))
		}
	}
	return changes
}

// recordStates are the states of the records of nodes that had no run.
var recordStates = map[NodeState]State{
	NodeSucceeded: StateSucceeded, NodeFailed: StateFailed, NodeCanceled: StateCanceled,
	NodeSkipped: StateSkipped, NodePassed: StateSkipped,
}

func (f flow) whyUnheld(p *Progress, node int) string {
	m := p.Map(node)
	switch state := p.State(node); {
	case state == NodeSkipped:
		return "workflow: the nodes before it did not end as it needs"
	case state == NodePassed:
		return "workflow: skipped by request"
	case state == NodeCanceled && p.Stop == StopDeadline:
		return "workflow: the deadline had passed"
	case state == NodeCanceled && p.Stop == StopCanceled:
		return "workflow: canceled"
	case m != nil && m.Bad > 0:
		return fmt.Sprintf("%d of %s did not succeed", m.Bad, plural(m.Items, "item"))
	}
	return ""
}

// insert is the change that inserts a run of a node, with its job if that does not exist yet.
func (f flow) insert(was, is *Progress, node int, as func(*Run, *Job), now Time) Change {
	job := f.nodeJob(is, node, -1, now)
	job.ID, _ = is.JobOf(node)
	run := NewRun(job, job.Schedule.At)
	run.Covers = run.ID.Due
	run.Flags |= FlagPart
	if was.hasOwnJob(node) {
		run.Covers, run.Flags = 0, run.Flags|FlagAdditional
		as(&run, job)
		return Change{Runs: []Run{run}}
	}
	as(&run, job)
	return Change{Job: job, Runs: []Run{run}}
}

// insertItem is the change that inserts one item of a node.
func (f flow) insertItem(node, item int, value json.RawMessage, id JobID, now Time) Change {
	job := f.nodeJob(nil, node, item, now)
	job.ID = id
	if job.Payload == nil {
		job.Payload = must(marshal(escaped(json.RawMessage(value))))
	}
	_ = job.Fill(&Values{Item: value, Index: item}) // what is too large fails when it is handed out
	run := NewRun(job, job.Schedule.At)
	run.Covers = run.ID.Due
	run.Flags |= FlagPart
	return Change{Job: job, Runs: []Run{run}}
}

// nodeJob is the job of a node, or of one item of it: a one-off that is due now, or when its wait is over.
func (f flow) nodeJob(p *Progress, node, item int, now Time) *Job {
	of := &f.workflow().Nodes[node]
	job := &Job{
		Namespace: f.job.Namespace, Version: 1, State: JobActive, Created: now, Updated: now,
		Definition: of.Definition,
	}
	job.Owner, job.Retention = f.job.Owner, f.job.Retention
	job.Labels = make(map[string]string, len(of.Labels)+2)
	maps.Copy(job.Labels, of.Labels)
	job.Labels[WorkflowLabel] = f.id.String()
	job.Labels[partLabel] = Part{Run: f.id, Version: f.job.Version, Node: node, Item: item}.label()
	job.Schedule.At = now
	if of.Target.Wait != nil {
		job.Schedule.At = now.Add(of.Target.Wait.For.Std())
	}
	if item >= 0 {
		job.Name = fmt.Sprintf("%s[%d]", of.Name, item)
	} else if job.Payload == nil && p != nil && p.Payload && of.Map == "" {
		job.Payload = json.RawMessage(`"${payload}"`)
	}
	return job
}

// ExpireOf is the fold that lets the progress of a run expire: its record is kept as long.
func ExpireOf(workflow *Job, id RunID, expires Time) Fold {
	return Fold{
		Namespace: workflow.Namespace, Key: id.WorkflowKey(),
		Step: func(g Guard, _ Time) (Guard, bool) {
			if len(g.Value) == 0 {
				return g, false
			}
			g.Expires = expires
			return g, true
		},
	}
}

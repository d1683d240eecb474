package carillon

import (
	"strconv"
	"strings"
)

// The labels by which the job of a node says of which run of a workflow it is a part. Callers find the
// jobs of a run by the first one.
const (
	reservedLabel = "carillon/"
	// WorkflowLabel is the run of the workflow.
	WorkflowLabel = reservedLabel + "workflow"
	partLabel     = reservedLabel + "part"
)

// admitReserved refuses labels that only Carillon sets, but for those that the job had before an edit.
func (d *Definition) admitReserved(was map[string]string) *FieldError {
	for key, value := range d.Labels {
		if before, had := was[key]; strings.HasPrefix(key, reservedLabel) && (!had || before != value) {
			return invalid("labels", key,
				"a key that does not begin with %s; Carillon sets such labels itself", reservedLabel)
		}
	}
	return nil
}

// Part says of which node of which run of a workflow a job is a part.
type Part struct {
	Run     RunID // of the workflow
	Version int32 // of the workflow's definition
	Node    int
	Item    int // of a node that maps over a list; -1: the node itself
}

// Part returns what the job is a part of; false: it is no part of a workflow.
func (d *Definition) Part() (Part, bool) {
	text, is := d.Labels[partLabel]
	if !is {
		return Part{}, false
	}
	run, err := ParseRunID(d.Labels[WorkflowLabel])
	fields := strings.Split(text, ".")
	if err != nil || len(fields) < 2 {
		return Part{}, false
	}
	n := [3]int{2: -1}
	for i, field := range fields[:min(len(fields), 3)] {
		if n[i], err = strconv.Atoi(field); err != nil {
			return Part{}, false
		}
	}
	return Part{Run: run, Version: int32(n[0]), Node: n[1], Item: n[2]}, true
}

func (p Part) label() string {
	text := strconv.Itoa(int(p.Version)) + "." + strconv.Itoa(p.Node)
	if p.Item >= 0 {
		text += "." + strconv.Itoa(p.Item)
	}
	return text
}

// PartEnd is the end of a run of a part. The ledger turns it into a fold of the workflow's progress: it knows
// the definition of the workflow.
type PartEnd struct {
	Part
	Namespace string
	Job       JobID // whose run ended: the list of a node can have been read again since
	State     NodeState
}

// WorkflowKey is the key of the guard with the progress of a run of a workflow.
func (id RunID) WorkflowKey() string { return string(GuardWorkflow) + "/" + id.String() }

// WorkflowRun is the run of a workflow whose progress the guard has; false: it is another guard.
func (g *Guard) WorkflowRun() (RunID, bool) {
	text, is := strings.CutPrefix(g.Key, string(GuardWorkflow)+"/")
	if !is {
		return RunID{}, false
	}
	id, err := ParseRunID(text)
	return id, err == nil
}

// settle adds what the end of runs sets off, beside what the caller does: the job's unique key is free, a
// node of a workflow has ended, and the job's hooks follow. Every change that ends runs needs it.
func (c *Change) settle(job *Job) {
	c.endParts(job)
	c.hookEnds(job)
	c.freeKey(job)
}

// endParts notes the ends of runs that are parts of a workflow.
func (c *Change) endParts(job *Job) {
	for i := range c.Runs {
		run := &c.Runs[i]
		if !run.Has(FlagPart) || !run.State.Ended() {
			continue
		}
		part, is := job.Part()
		if !is {
			continue
		}
		state := NodeFailed
		switch run.State {
		case StateSucceeded:
			state = NodeSucceeded
		case StateCanceled, StateSkipped: // dropped by a gate
			state = NodeCanceled
		}
		c.Parts = append(c.Parts, PartEnd{part, job.Namespace, job.ID, state})
	}
}

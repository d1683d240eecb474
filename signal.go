package carillon

import (
	"encoding/json"
	"fmt"
	"strings"
)

// SignalKey is the key of the guard of a signal that is sent to a run of a workflow.
func (id RunID) SignalKey(name string) string {
	return string(GuardSignal) + "/" + id.String() + "/" + name
}

// SignaledRun is the run of a workflow to which a signal was sent; false: it is another guard.
func (g *Guard) SignaledRun() (RunID, bool) {
	text, is := strings.CutPrefix(g.Key, string(GuardSignal)+"/")
	if !is {
		return RunID{}, false
	}
	run, _, _ := strings.Cut(text, "/")
	id, err := ParseRunID(run)
	return id, err == nil
}

// SendSignal is the change that sends a signal to a run of a workflow. A signal that comes before its node
// waits is kept until it does. workflow is the job of the version of the run.
func SendSignal(
	workflow *Job, run *Run, name string, payload json.RawMessage, now Time,
) (Change, error) {
	var names []string
	known := false
	for i := range workflow.Target.Workflow.Nodes {
		if wait := workflow.Target.Workflow.Nodes[i].Target.Wait; wait != nil && wait.Signal != "" {
			names = append(names, wait.Signal)
			known = known || wait.Signal == name
		}
	}
	switch {
	case len(names) == 0:
		return Change{}, fmt.Errorf("%w: no node of %s waits for a signal", ErrConflict, workflow.Name)
	case !known:
		return Change{}, invalid("name", name, "the name of a signal that a node waits for: %s",
			strings.Join(names, ", "))
	case run.State.Ended():
		return Change{}, fmt.Errorf("%w: %s has ended already", ErrConflict, run.ID)
	case len(payload) > MaxResult:
		return Change{}, invalid("payload", byteCount(len(payload)), "at most 64 KiB of JSON").
			because("it has %s", byteCount(len(payload)))
	case len(payload) > 0 && !json.Valid(payload):
		return Change{}, invalid("payload", cut(string(payload)), "valid JSON")
	}
	if len(payload) == 0 {
		payload = json.RawMessage("null")
	}
	guard := Guard{
		Namespace: run.Namespace, Key: run.ID.SignalKey(name), Value: payload,
		Expires: now.Add(2 * unusedProgress), // the end of the run removes it, if the run ever begins
	}
	return Change{Guards: []Guard{guard}, Runs: []Run{*run}}, nil
}

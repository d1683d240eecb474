package carillon

import (
	"slices"
	"strings"
)

// needs is what a worker must have to perform runs of the job: the job's type, if its target is a handler,
// else the kind of its target behind a colon. No type begins with a colon. It is one text, and for a handler
// no new one, because every run carries it.
func (j *Job) needs() string {
	switch kind := j.Target.Kind(); kind {
	case "command":
		return ":command"
	case "http":
		return ":http"
	case "handler":
		return j.Type
	default:
		return ":" + kind
	}
}

// Lane is the lane of the job's runs.
func (j *Job) Lane() Lane { return Lane{j.Namespace, j.Queue, j.needs(), j.share(), int8(j.Priority)} }

// Want says which runs a worker takes. An empty list means any.
type Want struct {
	Namespaces []string `json:"namespaces,omitempty"`
	Queues     []string `json:"queues,omitempty"`
	Kinds      []string `json:"kinds,omitempty"` // of targets that it has executors for, see Target.Kind
	Types      []string `json:"types,omitempty"` // of jobs that it has handlers for
	// Labels say more about a worker, such as its zone, for people: no run can ask for one yet.
	Labels map[string]string `json:"labels,omitempty"`
}

// Takes says whether the worker takes the runs of a lane.
func (w *Want) Takes(lane Lane) bool {
	return within(w.Namespaces, lane.Namespace) && within(w.Queues, lane.Queue) && w.performs(lane.Needs)
}

// TakesSame says whether both take the same runs.
func (w Want) TakesSame(o Want) bool {
	return slices.Equal(w.Namespaces, o.Namespaces) && slices.Equal(w.Queues, o.Queues) &&
		slices.Equal(w.Kinds, o.Kinds) && slices.Equal(w.Types, o.Types)
}

// performs says whether the worker has what a run needs. A run that was written before runs knew their needs
// needs nothing that is known; a worker that cannot perform it hands it back.
func (w *Want) performs(needs string) bool {
	switch kind, other := strings.CutPrefix(needs, ":"); {
	case needs == "":
		return true
	case other:
		return within(w.Kinds, kind)
	}
	return within(w.Kinds, "handler") && within(w.Types, needs)
}

func within(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }

package carillon

import (
	"maps"
	"slices"
	"strings"
)

// The limits of the labels that a job needs. MySQL keeps what a run needs in 255 bytes: up to 64 for its
// type, and the labels.
const (
	maxNeeds      = 8
	maxNeedsBytes = 190 // of all keys and values, with two more for each label
)

// MaxWorkerLabels is how many labels a worker can have.
const MaxWorkerLabels = 64

// labelMark stands before each label in the text of what a run needs. It is not printable, so neither a type
// nor a label has it.
const labelMark = "\t"

// needs is what a worker must have to perform runs of the job: the job's type, if its target is a handler,
// else the kind of its target behind a colon, and then the labels that the job needs, sorted. No type begins
// with a colon. It is one text, and for a handler without labels no new one, because every run carries it.
func (j *Job) needs() string {
	base := ""
	switch kind := j.Target.Kind(); kind {
	case "command":
		base = ":command"
	case "http":
		base = ":http"
	case "handler":
		base = j.Type
	default:
		base = ":" + kind
	}
	if len(j.Needs) == 0 {
		return base
	}
	return withLabels(base, j.Needs)
}

func withLabels(base string, labels map[string]string) string {
	text := strings.Builder{}
	text.WriteString(base)
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		text.WriteString(labelMark + key + "=" + labels[key])
	}
	return text.String()
}

// admitNeeds checks the labels that a job needs.
func (d *Definition) admitNeeds() *FieldError {
	if err := checkLabels("needs", d.Needs, maxNeeds); err != nil {
		return err
	}
	bytes := 0
	for key, value := range d.Needs {
		bytes += len(key) + len(value) + 2
	}
	if bytes > maxNeedsBytes {
		return invalid(
			"needs", byteCount(bytes), "at most %d bytes of keys and values, with two more for each label",
			maxNeedsBytes,
		).because("it has %s", byteCount(bytes))
	}
	return nil
}

// CheckLabels checks the labels of a job or a worker, at most so many. field is their name in the error.
func CheckLabels(field string, labels map[string]string, most int) error {
	if err := checkLabels(field, labels, most); err != nil {
		return err
	}
	return nil
}

func checkLabels(field string, labels map[string]string, most int) *FieldError {
	if len(labels) > most {
		return invalid(field, len(labels), "at most %d labels", most).
			because("%d labels are given", len(labels))
	}
	for key, value := range labels {
		if !word(key, 64) {
			return invalid(field, key, "keys of 1 to 64 characters of a-z A-Z 0-9 . _ - / @")
		}
		if value != "" && !printable(value, 128) {
			return invalid(field+"."+key, value, "at most 128 printable characters")
		}
	}
	return nil
}

// Lane is the lane of the job's runs.
func (j *Job) Lane() Lane { return Lane{j.Namespace, j.Queue, j.needs(), j.share(), int8(j.Priority)} }

// Labels returns the labels that the runs of the lane need, sorted by key.
func (l Lane) Labels() (labels []Label) {
	for rest := labelsIn(l.Needs); rest != ""; {
		var one Label
		one, rest = cutLabel(rest)
		labels = append(labels, one)
	}
	return labels
}

// Unattended says that no worker performs the runs of the lane: those of workflows, and of nodes that wait.
func (l Lane) Unattended() bool {
	return l.Needs == ":"+KindWorkflow || l.Needs == ":"+KindWait
}

// WithoutLabels is the lane of runs that are the same, but need no labels.
func (l Lane) WithoutLabels() Lane {
	l.Needs = l.Needs[:len(l.Needs)-len(labelsIn(l.Needs))]
	return l
}

// labelsIn is the part of a text of needs that has the labels, each behind its mark.
func labelsIn(needs string) string {
	if i := strings.IndexByte(needs, labelMark[0]); i >= 0 {
		return needs[i:]
	}
	return ""
}

// cutLabel reads the first of the labels that labelsIn returns.
func cutLabel(labels string) (first Label, rest string) {
	text, rest := labels[len(labelMark):], ""
	if i := strings.IndexByte(text, labelMark[0]); i >= 0 {
		text, rest = text[:i], text[i:]
	}
	first.Key, first.Value, _ = strings.Cut(text, "=")
	return first, rest
}

// Want says which runs a worker takes. An empty list means any.
type Want struct {
	Namespaces []string `json:"namespaces,omitempty"`
	Queues     []string `json:"queues,omitempty"`
	Kinds      []string `json:"kinds,omitempty"` // of targets that it has executors for, see Target.Kind
	Types      []string `json:"types,omitempty"` // of jobs that it has handlers for
	// Labels are those of the worker. It takes runs that need only labels which it has, with their values.
	Labels map[string]string `json:"labels,omitempty"`
}

// Takes says whether the worker takes the runs of a lane.
func (w *Want) Takes(lane Lane) bool {
	return within(w.Namespaces, lane.Namespace) && within(w.Queues, lane.Queue) && w.performs(lane.Needs)
}

// Has says whether the worker has a label.
func (w *Want) Has(l Label) bool {
	value, labeled := w.Labels[l.Key]
	return labeled && value == l.Value
}

// TakesSame says whether both take the same runs.
func (w Want) TakesSame(o Want) bool {
	return slices.Equal(w.Namespaces, o.Namespaces) && slices.Equal(w.Queues, o.Queues) &&
		slices.Equal(w.Kinds, o.Kinds) && slices.Equal(w.Types, o.Types) && maps.Equal(w.Labels, o.Labels)
}

// performs says whether the worker has what a run needs. A run that was written before runs knew their needs
// needs nothing that is known; a worker that cannot perform it hands it back.
func (w *Want) performs(needs string) bool {
	switch kind, other := strings.CutPrefix(needs, ":"); {
	case needs == "":
		return true
	case other && slices.Contains(w.Kinds, kind): // no name has labels in it, so there are none
		return true
	case !other && slices.Contains(w.Types, needs):
		return within(w.Kinds, "handler")
	}
	return w.performsLabeled(needs)
}

// performsLabeled is performs for a run that may need labels, or a worker that performs anything.
func (w *Want) performsLabeled(needs string) bool {
	if labels := labelsIn(needs); labels != "" {
		if !w.hasAll(labels) {
			return false
		}
		needs = needs[:len(needs)-len(labels)]
	}
	if kind, other := strings.CutPrefix(needs, ":"); other {
		// A worker that names no kinds performs all that workers can perform.
		return within(w.Kinds, kind) && kind != KindWorkflow && kind != KindWait
	}
	return within(w.Kinds, "handler") && within(w.Types, needs)
}

// hasAll says whether the worker has all labels that labelsIn returned.
func (w *Want) hasAll(labels string) bool {
	for labels != "" {
		var one Label
		if one, labels = cutLabel(labels); !w.Has(one) {
			return false
		}
	}
	return true
}

func within(list []string, name string) bool { return len(list) == 0 || slices.Contains(list, name) }

package carillon

import (
	"maps"
	"slices"
	"strings"
)

// JobFilter chooses the jobs of an operation. A job must match every field that is given. In Type and Name a
// star stands for any characters, also for none.
type JobFilter struct {
	// All chooses all jobs: a filter that is empty by mistake must not stop everything.
	All    bool              `json:"all,omitempty"`
	Type   string            `json:"type,omitempty"`
	Name   string            `json:"name,omitempty"`
	Owner  string            `json:"owner,omitempty"`
	Queue  string            `json:"queue,omitempty"`
	Labels map[string]string `json:"labels,omitempty"` // exactly these values
	// States chooses jobs in one of these states. Default: those to which the operation applies.
	States []JobState `json:"states,omitzero"`
}

func (f *JobFilter) admit() *FieldError {
	for _, given := range []struct {
		field, value string
		most         int
	}{
		{"type", f.Type, 64}, {"name", f.Name, 200}, {"owner", f.Owner, 64}, {"queue", f.Queue, 64},
	} {
		if given.value != "" && !printable(given.value, given.most) {
			return invalid(given.field, given.value, "1 to %d printable characters", given.most)
		}
	}
	if err := checkLabels("labels", f.Labels, maxLabels); err != nil {
		return err
	}
	if f.Labels != nil && len(f.Labels) == 0 {
		return invalid("labels", "", "at least one label; leave the field out for none")
	}
	narrow := f.narrow()
	switch {
	case !narrow && !f.All:
		return invalid("", "", `type, name, owner, queue or labels; "all": true chooses all jobs`).
			because("it chooses no jobs")
	case narrow && f.All:
		return invalid("all", "true", "only states beside it").because("the filter has other fields")
	}
	return nil
}

func (f *JobFilter) narrow() bool {
	return f.Type != "" || f.Name != "" || f.Owner != "" || f.Queue != "" || len(f.Labels) > 0
}

func (f *JobFilter) empty() bool {
	return !f.narrow() && !f.All && f.Labels == nil && f.States == nil
}

// Query is a page of the jobs that the filter can choose among those that were created up to a time. The
// caller asks Chooses about each of them: a store cannot search for everything that a filter can say. Jobs of
// nodes of workflows are chosen only by the label WorkflowLabel: "pause all jobs of a type" must not stop
// workflows in the middle.
func (f *JobFilter) Query(namespace string, created Time) JobQuery {
	q := JobQuery{Namespace: namespace, Owner: f.Owner, States: f.States, CreatedTo: created + 1}
	if !strings.Contains(f.Type, "*") {
		q.Type = f.Type
	}
	if !strings.Contains(f.Name, "*") {
		q.Name = f.Name
	}
	for _, key := range slices.Sorted(maps.Keys(f.Labels)) {
		q.Labels = append(q.Labels, Label{key, f.Labels[key]})
	}
	return q
}

// Chooses says whether the filter chooses a job that its query has found.
func (f *JobFilter) Chooses(j *Job) bool {
	return (f.Type == "" || glob(f.Type, j.Type)) && (f.Name == "" || glob(f.Name, j.Name)) &&
		(f.Queue == "" || f.Queue == j.Queue)
}

// glob says whether a text matches a pattern in which each star stands for any characters.
func glob(pattern, text string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == text
	}
	text, begins := strings.CutPrefix(text, first)
	if !begins {
		return false
	}
	for {
		part, more, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(text, part)
		}
		// The earliest place leaves the most text to the parts behind it.
		_, behind, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text, rest = behind, more
	}
}

package carillon

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// DeadFilter chooses dead letters: runs that failed for good. A letter must match every field that is given.
// In Type a star stands for any characters, also for none.
type DeadFilter struct {
	// All chooses all dead letters: a filter that is empty by mistake must not retry everything.
	All    bool              `json:"all,omitempty"`
	Job    JobID             `json:"job_id,omitzero"`
	Type   string            `json:"type,omitempty"`
	Owner  string            `json:"owner,omitempty"`
	Queue  string            `json:"queue,omitempty"`
	Labels map[string]string `json:"labels,omitempty"` // of the job as it is now, exactly these values
	// Error is a part of the reason. Upper and lower case are the same.
	Error       string      `json:"error,omitempty"`
	Fingerprint Fingerprint `json:"fingerprint,omitzero"` // of the reason, see FingerprintOf
	From        Time        `json:"from,omitzero"`        // ended at or after
	To          Time        `json:"to,omitzero"`          // ended before
}

// maxErrorPart is how many characters of a reason a caller can search for.
const maxErrorPart = 200

// narrow says that the filter does not choose all dead letters.
func (f *DeadFilter) narrow() bool {
	return f.Job != 0 || f.Type != "" || f.Owner != "" || f.Queue != "" || len(f.Labels) > 0 ||
		f.Error != "" || f.Fingerprint != 0 || f.From != 0 || f.To != 0
}

// Admit checks what a caller asks for in a list: a filter without fields chooses all.
func (f *DeadFilter) Admit() error {
	if err := f.admit(); err != nil {
		return err
	}
	return nil
}

func (f *DeadFilter) admit() *FieldError {
	for _, given := range []struct {
		field, value string
		most         int
	}{
		{"type", f.Type, 64},
		{"owner", f.Owner, 64},
		{"queue", f.Queue, 64},
		{"error", f.Error, maxErrorPart},
	} {
		if given.value != "" && !printable(given.value, given.most) {
			return invalid(given.field, given.value, "1 to %d printable characters", given.most)
		}
	}
	if err := checkLabels("labels", f.Labels, maxLabels); err != nil {
		return err
	}
	if f.To != 0 && f.To <= f.From {
		return invalid("to", f.To.String(), "a time after from, %s", f.From)
	}
	return nil
}

// admitAction is admit for a filter that chooses what to act on.
func (f *DeadFilter) admitAction() *FieldError {
	if err := f.admit(); err != nil {
		return err
	}
	const fields = "job_id, type, owner, queue, labels, error, fingerprint, from or to"
	switch {
	case f.Labels != nil && len(f.Labels) == 0:
		return invalid("labels", "", "at least one label; leave the field out for none")
	case !f.narrow() && !f.All:
		return invalid("", "", `%s; "all": true chooses all dead letters`, fields).
			because("it chooses no dead letters")
	case f.narrow() && f.All:
		return invalid("all", "true", "no field beside it").because("the filter has other fields")
	}
	return nil
}

// Query is a page of the dead letters that the filter chooses.
func (f *DeadFilter) Query(namespace string) RunQuery {
	q := RunQuery{
		Namespace: namespace, Dead: true, Job: f.Job, Type: f.Type, Owner: f.Owner, Queue: f.Queue,
		Error: f.Error, Fingerprint: f.Fingerprint, EndedFrom: f.From, EndedTo: f.To,
	}
	for _, key := range slices.Sorted(maps.Keys(f.Labels)) {
		q.Labels = append(q.Labels, Label{key, f.Labels[key]})
	}
	return q
}

// QueryUntil is Query for letters that had died at a time.
func (f *DeadFilter) QueryUntil(namespace string, until Time) RunQuery {
	q := f.Query(namespace)
	q.EndedTo = min(cmp.Or(q.EndedTo, Never), until+1)
	return q
}

// wantsDead is the part of Wants that is only for dead letters. The store checks Labels.
func (q *RunQuery) wantsDead(r *Run) bool {
	about := r.About
	if about == nil {
		about = &About{}
	}
	return (q.Type == "" || glob(q.Type, about.Type)) &&
		(q.Owner == "" || q.Owner == about.Owner) &&
		(q.Queue == "" || q.Queue == r.Queue) &&
		(q.EndedFrom == 0 || r.Ended >= q.EndedFrom) &&
		(q.EndedTo == 0 || r.Ended < q.EndedTo) &&
		(q.Error == "" || strings.Contains(strings.ToLower(r.Reason), strings.ToLower(q.Error))) &&
		(q.Fingerprint == 0 || q.Fingerprint == r.fingerprint())
}

func (r *Run) fingerprint() Fingerprint {
	f, _ := FingerprintOf(r.Reason)
	return f
}

// WantedType is the type of the dead letters that a store can find by an index: it has no star. Empty: there
// is none.
func (q *RunQuery) WantedType() string {
	if strings.Contains(q.Type, "*") {
		return ""
	}
	return q.Type
}

// DeadGroupQuery asks for the groups of the dead letters of a namespace.
type DeadGroupQuery struct {
	Namespace string
	Type      string // only letters of exactly this type
	Limit     int
}

// DeadGroup is the dead letters of a namespace whose reasons have the same fingerprint.
type DeadGroup struct {
	Fingerprint Fingerprint `json:"fingerprint"`
	Error       string      `json:"error"`  // what the reasons have in common, see FingerprintOf
	Sample      string      `json:"sample"` // the reason of its latest letter
	Count       int         `json:"count"`
	// First and Last are when its first and its last letter ended, about: a letter that was retried or
	// forgotten can still count for them.
	First Time `json:"first_at"`
	Last  Time `json:"last_at"`
	// Types are the types of its letters, the most frequent first, at most MaxGroupTypes; see FrequentTypes.
	Types []string `json:"types"`
}

// MaxGroupTypes is how many types of a group are listed.
const MaxGroupTypes = 10

// FrequentTypes are the types of a group, given how many letters each has: see DeadGroup.Types.
func FrequentTypes(letters map[string]int) []string {
	types := slices.SortedFunc(maps.Keys(letters), func(a, b string) int {
		return cmp.Or(cmp.Compare(letters[b], letters[a]), cmp.Compare(a, b))
	})
	return types[:min(len(types), MaxGroupTypes)]
}

// DeadExpiry is when a dead letter is forgotten by its own expiry or by the server's rule; 0: never.
func (r *Run) DeadExpiry(server Duration) Time {
	if r.DeadExpires != 0 || server == 0 {
		return r.DeadExpires
	}
	return r.Ended.Add(time.Duration(server))
}

// Redrive is Retry of a dead letter. If the caller gives a payload, the new run gets that one; the JSON null
// means no payload at all. The old run and its payload stay in history.
func (w JobSnapshot) Redrive(letter Run, payload json.RawMessage, now Time) (Change, Run, error) {
	if err := admitPayload(payload); err != nil {
		return Change{}, Run{}, err
	}
	if payload != nil {
		letter.Output = &Output{Payload: payload}
	}
	return w.Retry(letter, true, now)
}

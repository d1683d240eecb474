package carillon

import (
	"slices"
	"strings"
)

// Attempt is the record of one attempt: one claim of a run. The change that ends an attempt writes it, unless
// it was the first attempt and succeeded: what is to say about that one is in the run itself, so that a run
// without trouble costs nothing more. See Run.Attempts.
type Attempt struct {
	Run     RunID       `json:"run_id"`
	Number  int32       `json:"attempt"` // from 1
	Worker  string      `json:"worker_id"`
	Claimed Time        `json:"claimed_at"`
	Started Time        `json:"started_at"`        // none: it ended, or was lost, before the executor began
	Ended   Time        `json:"ended_at"`          // none: it goes on
	Outcome OutcomeKind `json:"outcome,omitempty"` // none: it goes on
	Reason  string      `json:"reason,omitempty"`  // why it did not succeed
	Exit    uint8       `json:"exit,omitempty"`    // of a command that failed; none: 0
	Status  uint16      `json:"status,omitempty"`  // that an http target answered as it failed; none: 0
}

// outcomeWords are what people and the API call the outcomes.
var outcomeWords = []string{"", "success", "retriable", "fatal", "stopped", "lost", "crashed"}

func (k OutcomeKind) String() string {
	if int(k) >= len(outcomeWords) {
		return "unknown" // of a newer version
	}
	return outcomeWords[k]
}

func (k OutcomeKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads what MarshalText writes.
func (k *OutcomeKind) UnmarshalText(b []byte) error {
	i := slices.Index(outcomeWords[1:], string(b))
	if i < 0 {
		return invalid("outcome", string(b), "one of %s", strings.Join(outcomeWords[1:], ", "))
	}
	*k = OutcomeKind(i + 1)
	return nil
}

// record puts the record of the attempt that o ends beside the run. The output of the outcome can be shared
// with the caller, so it is not changed.
func (r *Run) record(o *Outcome, now Time) {
	var out Output
	if r.Output != nil {
		out = *r.Output
	}
	out.Attempt = &Attempt{
		Run: r.ID, Number: r.Attempt, Worker: r.Worker, Claimed: r.Claimed, Started: r.Started, Ended: now,
		Outcome: o.Kind, Reason: o.Reason, Exit: o.Exit, Status: o.Status,
	}
	r.Output = &out
}

// Attempts are the attempts of the run after a number: the records that the store has of them, and the last
// attempt, which need not have one, if more says that the store has no more records behind these. The store
// reads records and run one after the other, so a record can be newer than the run, and a run of the same
// name that history has forgotten in part can have left one: these are left out. An attempt that ended while
// the nodes had a version without records has none.
func (r *Run) Attempts(records []Attempt, after int32, more bool) []Attempt {
	last, derived := r.lastAttempt()
	all := slices.DeleteFunc(slices.Clone(records), func(a Attempt) bool {
		return a.Number > r.Attempt || a.Number == r.Attempt && derived && a.Claimed != last.Claimed
	})
	recorded := len(all) > 0 && all[len(all)-1].Number == r.Attempt
	if derived && !more && !recorded && r.Attempt > after {
		all = append(all, last)
	}
	return all
}

// lastAttempt is the last attempt of a run that a worker holds or that has succeeded, as the run itself tells
// it.
func (r *Run) lastAttempt() (Attempt, bool) {
	a := Attempt{Run: r.ID, Number: r.Attempt, Worker: r.Worker, Claimed: r.Claimed, Started: r.Started}
	switch {
	case r.Attempt == 0:
		return a, false
	case r.State.Held():
		return a, true
	case r.State == StateSucceeded:
		a.Ended, a.Outcome = r.Ended, OutcomeSuccess
		return a, true
	}
	return a, false
}

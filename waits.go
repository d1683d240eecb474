package carillon

import (
	"fmt"
	"slices"
	"strings"
)

// WaitKind is the kind of thing that a waiting run waits for.
type WaitKind string

const (
	WaitTime    WaitKind = "time"    // its due time or its next attempt
	WaitResume  WaitKind = "resume"  // its job is paused
	WaitTurn    WaitKind = "turn"    // another run of its job
	WaitWorker  WaitKind = "worker"  // a worker that serves its queue and can perform it: there is none
	WaitSlot    WaitKind = "slot"    // a free slot: all are taken
	WaitClaim   WaitKind = "claim"   // a worker that could take it has not done so yet
	WaitUnknown WaitKind = "unknown" // a worker; the list of workers cannot be read now
)

// Wait says what a waiting run waits for. It is computed when a person asks, and stored nowhere.
type Wait struct {
	Kind  WaitKind `json:"kind"`
	Text  string   `json:"text"`              // a sentence for people
	Until Time     `json:"until_at,omitzero"` // WaitTime
	Run   RunID    `json:"run_id,omitzero"`   // WaitTurn: the run that has the turn, or the next in line
	// Ahead is how many runs come before it: for WaitTurn unfinished runs of its job, else due runs of its
	// namespace, queue and needs, up to MaxAhead.
	Ahead *int `json:"ahead,omitempty"`
}

// MaxAhead bounds how many runs are counted before a waiting run: this many means this many or more.
const MaxAhead = 1000

// Surroundings is what is known about the surroundings of a waiting run.
type Surroundings struct {
	Guards  Guards   // of a guarded run
	Members []Member // live members, with what they hold
	Blind   bool     // Members could not be read
	Ahead   int      // due runs that come before it, up to MaxAhead
}

// WaitsFor says what a waiting run waits for at now; nil if it does not wait.
func (r *Run) WaitsFor(a Surroundings, now Time) *Wait {
	if r.State != StateWaiting {
		return nil
	}
	if r.Has(FlagOnHold) {
		return &Wait{Kind: WaitResume, Text: "its job is paused: it waits until the job is resumed"}
	}
	if t := a.Guards.turns(); r.Has(FlagGuarded) && t.has(r.ID.Due) && !t.free(r.ID.Due) {
		return r.waitsItsTurn(t)
	}
	if r.Wake > now && !r.next(a.Guards, now) {
		what := "it is due at "
		if r.Attempt > 0 {
			what = "its next attempt is at "
		}
		return &Wait{Kind: WaitTime, Until: r.Wake, Text: what + r.Wake.String()}
	}
	return r.waitsForWorker(a)
}

// waitsItsTurn is for a run that has a place in the line of its job.
func (r *Run) waitsItsTurn(t turns) *Wait {
	queued := slices.Index(t.Queue, r.ID.Due) // -1: it has begun, beside the run whose turn it is
	ahead, place := len(t.Beside)+queued, queued
	if t.Holder != 0 { // without a holder, the first in line is the run that it is behind
		ahead, place = ahead+1, place+1
	}
	first := RunID{r.ID.Job, t.first()}
	w := &Wait{
		Kind: WaitTurn, Run: first, Ahead: &ahead,
		Text: fmt.Sprintf("it waits its turn behind %s of the same job", first),
	}
	if place > 0 {
		w.Text += fmt.Sprintf(", as number %d in line", place)
	}
	return w
}

// next says that a run waited in line and its turn has come. Its wake is still that of a run in line; the
// claim corrects it.
func (r *Run) next(guards Guards, now Time) bool {
	t := guards.turns()
	return r.Has(FlagGuarded) && r.Attempt == 0 && t.has(r.ID.Due) && t.free(r.ID.Due) && r.ready(now) <= now
}

// waitsForWorker is for a run that is due, and whose turn it is.
func (r *Run) waitsForWorker(a Surroundings) *Wait {
	if a.Blind {
		return &Wait{Kind: WaitUnknown, Text: "it is due; the list of live workers cannot be read now"}
	}
	if text, none := Unserved(r.Lane(), a.Members); none {
		return &Wait{Kind: WaitWorker, Text: text}
	}
	workers, slots, free, told := 0, 0, 0, true
	for i := range a.Members {
		m := &a.Members[i]
		if m.Kind != MemberWorker || !m.Takes(r.Lane()) {
			continue
		}
		told = told && m.Slots > 0
		workers, slots, free = workers+1, slots+m.Slots, free+max(0, m.Slots-len(m.Holds))
	}
	w := &Wait{Kind: WaitClaim, Ahead: &a.Ahead}
	serve := fmt.Sprintf("%s the queue %q", serves(workers), r.Queue)
	switch {
	case told && free == 0:
		w.Kind = WaitSlot
		w.Text = fmt.Sprintf("%s, and %s taken", serve, slotsAre(slots))
	case told:
		// A slot that was taken after the last beat still counts as free here, so the sentence names its
		// source.
		w.Text = fmt.Sprintf("%s, with %d of %d slots free by %s", serve, free, slots, beats(workers))
		if a.Ahead == 0 {
			w.Text += ": it starts in a moment"
		}
	default:
		w.Text = serve
	}
	switch {
	case a.Ahead >= MaxAhead:
		w.Text += fmt.Sprintf("; %d or more due runs come before it", MaxAhead)
	case a.Ahead == 1:
		w.Text += "; 1 due run comes before it"
	case a.Ahead > 1:
		w.Text += fmt.Sprintf("; %d due runs come before it", a.Ahead)
	case w.Kind == WaitSlot:
		w.Text += "; it is the next of its queue"
	}
	return w
}

func serves(workers int) string {
	if workers == 1 {
		return "1 worker serves"
	}
	return fmt.Sprintf("%d workers serve", workers)
}

func beats(workers int) string {
	if workers == 1 {
		return "its last beat"
	}
	return "their last beats"
}

func slotsAre(n int) string {
	if n == 1 {
		return "its 1 slot is"
	}
	return fmt.Sprintf("all %d slots are", n)
}

// maxServed is how many queues a sentence names.
const maxServed = 10

// Unserved says whether no member takes the runs of a lane, with a sentence that says why.
func Unserved(lane Lane, members []Member) (text string, none bool) {
	workers, serving := 0, 0
	for i := range members {
		m := &members[i]
		if m.Kind != MemberWorker {
			continue
		}
		if m.Takes(lane) {
			return "", false
		}
		workers++
		if m.serves(lane) {
			serving++
		}
	}
	switch {
	case workers == 0:
		return fmt.Sprintf("no worker is alive to serve the queue %q", lane.Queue), true
	case serving > 0:
		return fmt.Sprintf("no live worker that serves the queue %q %s", lane.Queue, lacks(lane.Needs)), true
	}
	return notServed(lane, members), true
}

// lacks says what workers do not have that a run needs.
func lacks(needs string) string {
	if kind, other := strings.CutPrefix(needs, ":"); other {
		return fmt.Sprintf("can perform %s targets", kind)
	}
	return fmt.Sprintf("has a handler for the type %q", needs)
}

// notServed names the queues that are served in place of the lane's.
func notServed(lane Lane, members []Member) string {
	var served []string
	for i := range members {
		if m := &members[i]; m.Kind == MemberWorker && within(m.Namespaces, lane.Namespace) {
			for _, name := range m.Queues {
				served = append(served, queueName(name))
			}
		}
	}
	if len(served) == 0 {
		return fmt.Sprintf("no live worker serves the namespace %q", lane.Namespace)
	}
	slices.Sort(served)
	served = slices.Compact(served)
	more := ""
	if len(served) > maxServed {
		more = fmt.Sprintf(" and %d more", len(served)-maxServed)
		served = served[:maxServed]
	}
	return fmt.Sprintf(
		"no live worker serves the queue %q; those that are alive serve %s%s", lane.Queue,
		strings.Join(served, ", "), more,
	)
}

// Before says whether workers take this due run before the other one: see Queue.Pull.
func (r *Run) Before(o *Run) bool {
	if a, b := r.rank(), o.rank(); a != b {
		return a < b
	}
	return r.WakePos().Less(o.WakePos())
}

func (r *Run) rank() int64 { return int64(r.Wake) - int64(r.Priority)*AgeStep.Milliseconds() }

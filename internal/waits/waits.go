// Package waits says in a sentence what a waiting run waits for.
package waits

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

// Surroundings is what is known about the surroundings of a waiting run.
type Surroundings struct {
	Guards  carillon.Guards   // of a guarded run
	Members []carillon.Member // live members, with what they hold
	Blind   bool              // Members could not be read
	Ahead   int               // due runs that come before it, up to wire.MaxAhead
	Held    string            // what a parked run waits for, in words
}

// For says what a waiting run waits for at now; nil if it does not wait.
func For(r *carillon.Run, a Surroundings, now carillon.Time) *wire.Wait {
	if r.State != carillon.StateWaiting {
		return nil
	}
	if r.Has(carillon.FlagOnHold) {
		return &wire.Wait{Kind: wire.WaitResume, Text: "its job is paused: it waits until the job is resumed"}
	}
	if r.Parked() {
		return held(a)
	}
	if first, ahead, place := r.InLine(a.Guards); !first.IsZero() {
		return itsTurn(first, ahead, place)
	}
	if r.Wake > now && !r.TurnCame(a.Guards, now) {
		what := "it is due at "
		if r.Attempt > 0 {
			what = "its next attempt is at "
		}
		return &wire.Wait{Kind: wire.WaitTime, Until: r.Wake, Text: what + r.Wake.String()}
	}
	return forWorker(r, a)
}

// held is for a run that is parked.
func held(a Surroundings) *wire.Wait {
	w := &wire.Wait{Kind: wire.WaitHold, Ahead: &a.Ahead, Text: "it waits for " + a.Held}
	switch {
	case a.Ahead >= wire.MaxAhead:
		w.Text += fmt.Sprintf("; %d or more runs wait before it", wire.MaxAhead)
	case a.Ahead == 1:
		w.Text += "; 1 run waits before it"
	case a.Ahead > 1:
		w.Text += fmt.Sprintf("; %d runs wait before it", a.Ahead)
	default:
		w.Text += "; it is the next"
	}
	return w
}

// itsTurn is for a run that has a place in the line of its job, behind the run first.
func itsTurn(first carillon.RunID, ahead, place int) *wire.Wait {
	w := &wire.Wait{
		Kind: wire.WaitTurn, Run: first, Ahead: &ahead,
		Text: fmt.Sprintf("it waits its turn behind %s of the same job", first),
	}
	if place > 0 {
		w.Text += fmt.Sprintf(", as number %d in line", place)
	}
	return w
}

// Due says whether a run waits only for a worker, as far as the run itself tells. One that waits its turn has
// a later wake.
func Due(r *carillon.Run, now carillon.Time) bool {
	return r.State == carillon.StateWaiting && !r.Has(carillon.FlagOnHold) && r.Wake <= now
}

// forWorker is for a run that is due, and whose turn it is.
func forWorker(r *carillon.Run, a Surroundings) *wire.Wait {
	if a.Blind {
		return &wire.Wait{Kind: wire.WaitUnknown, Text: "it is due; the list of live workers cannot be " +
			"read now"}
	}
	if r.Lane().Unattended() {
		return &wire.Wait{Kind: wire.WaitClaim, Text: "it is due, and needs no worker: it starts in a moment"}
	}
	if text, none := Unserved(r.Lane(), a.Members); none {
		return &wire.Wait{Kind: wire.WaitWorker, Text: text}
	}
	workers, slots, free, told := 0, 0, 0, true
	for i := range a.Members {
		m := &a.Members[i]
		if m.Kind != carillon.MemberWorker || !m.Takes(r.Lane()) {
			continue
		}
		told = told && m.Slots > 0
		workers, slots, free = workers+1, slots+m.Slots, free+max(0, m.Slots-len(m.Holds))
	}
	w := &wire.Wait{Kind: wire.WaitClaim, Ahead: &a.Ahead}
	serve := fmt.Sprintf("%s the queue %q", serves(workers), r.Queue)
	switch {
	case told && free == 0:
		w.Kind = wire.WaitSlot
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
	case a.Ahead >= wire.MaxAhead:
		w.Text += fmt.Sprintf("; %d or more due runs come before it", wire.MaxAhead)
	case a.Ahead == 1:
		w.Text += "; 1 due run comes before it"
	case a.Ahead > 1:
		w.Text += fmt.Sprintf("; %d due runs come before it", a.Ahead)
	case w.Kind == wire.WaitSlot:
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
func Unserved(lane carillon.Lane, members []carillon.Member) (text string, none bool) {
	if lane.Unattended() {
		return "", false
	}
	workers, serving := 0, 0
	plain := lane.WithoutLabels()
	var able []*carillon.Member // they take such runs, but for their labels
	for i := range members {
		m := &members[i]
		switch {
		case m.Kind != carillon.MemberWorker:
			continue
		case m.Takes(lane):
			return "", false
		case m.Takes(plain):
			able = append(able, m)
		}
		workers++
		if m.Serves(lane) {
			serving++
		}
	}
	switch {
	case workers == 0:
		return fmt.Sprintf("no worker is alive to serve the queue %q", lane.Queue), true
	case len(able) > 0:
		return fmt.Sprintf(
			"no live worker that serves the queue %q has %s; %s it", lane.Queue,
			missing(lane.Labels(), able), serves(len(able)),
		), true
	case serving > 0:
		return fmt.Sprintf("no live worker that serves the queue %q %s", lane.Queue, lacks(plain.Needs)), true
	}
	return notServed(lane, members), true
}

// lacks says what workers do not have that a run needs, beside labels.
func lacks(needs string) string {
	if kind, other := strings.CutPrefix(needs, ":"); other {
		return fmt.Sprintf("can perform %s targets", kind)
	}
	return fmt.Sprintf("has a handler for the type %q", needs)
}

// missing names the labels that none of the workers has. If each label is that of some worker, it names all
// of them.
func missing(needed []carillon.Label, workers []*carillon.Member) string {
	var names, all []string
	for _, label := range needed {
		name := label.Key + "=" + label.Value
		all = append(all, name)
		if !slices.ContainsFunc(workers, func(m *carillon.Member) bool { return m.Has(label) }) {
			names = append(names, name)
		}
	}
	switch {
	case len(names) == 0:
		return "all of the labels " + strings.Join(all, ", ")
	case len(names) == 1:
		return "the label " + names[0]
	}
	return "the labels " + strings.Join(names, ", ")
}

// Reason is the reason of a due run that no live worker takes: text is what Unserved says. The run can have
// the reason of its last attempt.
func Reason(r *carillon.Run, text string) string {
	if r.Reason == "" {
		return text
	}
	return text + "; its last attempt: " + r.Reason
}

// notServed names the queues that are served in place of the lane's.
func notServed(lane carillon.Lane, members []carillon.Member) string {
	var served []string
	for i := range members {
		if m := &members[i]; m.Kind == carillon.MemberWorker &&
			(len(m.Namespaces) == 0 || slices.Contains(m.Namespaces, lane.Namespace)) {
			for _, name := range m.Queues {
				name, _, _ = strings.Cut(name, "=") // from its weight
				served = append(served, name)
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

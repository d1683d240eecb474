package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
)

// event is one line of a story.
type event struct {
	at   time.Duration
	text string
}

const (
	around     = time.Second // faults so long before the first and after the last event belong to a story
	mostEvents = 60
)

// story tells everything about a run in order of time: lines of its body, writes, commands, answers of nodes
// and the faults around. Without a due time it tells about the whole job.
func (j *judge) story(v *view, run carillon.RunID) string {
	var events []event
	of := func(id carillon.RunID) bool { return run.Due == 0 || id == run }
	for _, l := range v.lines {
		if l.Kind != KindAlive && of(l.Run) {
			events = append(events, event{l.Mono, fmt.Sprintf(
				"%s %s attempt %d fence %d version %d in process %d, at %s", l.Kind, l.Run, l.Attempt,
				l.Fence, l.Version, l.Process, l.At,
			)})
		}
	}
	for _, w := range v.writes {
		if of(w.Run) {
			events = append(events, event{w.Mono, fmt.Sprintf(
				"write %s attempt %d fence %d accepted %t", w.Run, w.Attempt, w.Fence, w.Accepted,
			)})
		}
	}
	for _, c := range v.commands {
		events = append(events,
			event{c.Invoked.Mono, fmt.Sprintf("%s invoked, at %s", c.Verb, c.Invoked.Wall)},
			event{c.Answered.Mono, fmt.Sprintf(
				"%s %s %s, at %s", c.Verb, c.Answer, names(c.Run), c.Answered.Wall,
			)},
		)
	}
	for i := range v.looks {
		if l := &v.looks[i]; l.ofJob() || of(l.Run) {
			events = append(events, event{l.Answered, fmt.Sprintf(
				"%s, asked %s before, said %s", l.Node, l.Answered-l.Asked, l,
			)})
		}
	}
	if len(events) > 0 {
		byTime(events)
		first, last := events[0].at-around, events[len(events)-1].at+around
		for _, f := range j.Faults {
			if f.From <= last && f.end() >= first {
				what := fmt.Sprintf("%s of %s %s (process %d)", f.Name, f.Part, f.Victim, f.Process)
				events = append(events, event{f.From, what + " begins"})
				if f.To != 0 {
					events = append(events, event{f.To, what + " is over"})
				}
			}
		}
		byTime(events)
	}
	return tell(v, run, events)
}

func names(run carillon.RunID) string {
	if run.IsZero() {
		return ""
	}
	return run.String()
}

func byTime(events []event) {
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.at, b.at) })
}

func tell(v *view, run carillon.RunID, events []event) string {
	var b strings.Builder
	if v.job != nil {
		fmt.Fprintf(&b, "  job: %+v\n", *v.job)
	}
	for _, r := range v.records {
		if run.Due == 0 || r.ID == run {
			fmt.Fprintf(&b, "  record: %s %+v\n", r.ID, r)
		}
	}
	for i, e := range events {
		if i == mostEvents {
			fmt.Fprintf(&b, "  and %d more\n", len(events)-i)
			break
		}
		fmt.Fprintf(&b, "  %+9.3fs %s\n", (e.at - events[0].at).Seconds(), e.text)
	}
	return b.String()
}

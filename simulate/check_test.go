package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
)

// verdict is what the check of a world found.
type verdict struct {
	broken   []string // promises
	attempts int
	runs     int
	frozen   int // overlaps with a body that stood still in a freeze, and went on for a moment after it
}

func (v *verdict) breaks(format string, args ...any) {
	v.broken = append(v.broken, fmt.Sprintf(format, args...))
}

// afterThaw is how long a body may go on after its process was frozen past its lease: the worker checks its
// lease every 200 ms, and a body notices within a step that it is to stop. The rest is for their order.
const afterThaw = 250*time.Millisecond + bodyStep

func (w *world) unfinished(ctx context.Context) []carillon.Run {
	page, err := w.store.FindRuns(ctx, carillon.RunQuery{
		Namespace: carillon.DefaultNamespace, Limit: 100,
		States: []carillon.State{carillon.StateWaiting, carillon.StateClaimed, carillon.StateRunning},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return page.Runs
}

func (w *world) check(ctx context.Context, settled bool) (v verdict) {
	if !settled {
		for _, run := range w.unfinished(ctx) {
			v.breaks("lost: has not ended: %s", row(run))
		}
	}
	w.checkAttempts(&v)
	w.checkProbes(&v)
	for _, o := range w.orders {
		w.checkOrder(ctx, o, &v)
	}
	return v
}

// checkAttempts checks what witnesses saw: no start is early, no two attempts of a run, or of a job whose
// runs wait for each other, are at work at once, and fences rise.
func (w *world) checkAttempts(v *verdict) {
	last := map[carillon.RunID]attempt{}
	for _, a := range w.journal.byStart() {
		v.attempts++
		if a.start.Add(w.ahead).Before(a.run.Due.Std()) {
			v.breaks("early: %s began %s before its due time", a.run, a.run.Due.Std().Sub(a.start))
		}
		key := a.run
		if a.guarded {
			key.Due = 0 // one key for all runs of the job
		}
		if b, any := last[key]; any && (b.end.IsZero() || a.start.Before(b.end)) {
			if b.thawed.After(a.start) && !b.end.IsZero() && b.end.Sub(b.thawed) <= afterThaw {
				v.frozen++
			} else {
				v.breaks("concurrent:\n%s\n%s", b, a)
			}
		}
		if b, any := last[a.run]; any && (b.fence >= a.fence || b.number >= a.number) {
			v.breaks("stale: fences or attempts do not rise:\n%s\n%s", b, a)
		}
		last[key], last[a.run] = a, a
	}
}

func (a attempt) String() string {
	return fmt.Sprintf(
		"    %s attempt %d fence %d at %s: %s to %s, thawed %s, by itself %v", a.run, a.number, a.fence,
		a.process.name, a.start.UTC().Format("05.000"), a.end.UTC().Format("05.000"),
		a.thawed.UTC().Format("05.000"), a.ended,
	)
}

// checkOrder checks what became of a job.
func (w *world) checkOrder(ctx context.Context, o *order, v *verdict) {
	if o.job == 0 {
		return // not answered: it may be there or not
	}
	page, err := w.store.FindRuns(ctx, carillon.RunQuery{
		Namespace: carillon.DefaultNamespace, Job: o.job, Limit: 1000,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	v.runs += len(page.Runs)
	runs := map[carillon.RunID]carillon.Run{}
	ended := map[carillon.RunID]bool{}
	for _, run := range page.Runs {
		runs[run.ID] = run
	}
	for _, a := range w.journal.byStart() {
		if a.run.Job != o.job {
			continue
		}
		ended[a.run] = ended[a.run] || a.ended
		if run, known := runs[a.run]; !known || a.number > run.Attempt {
			v.breaks("unaccounted: a witness saw\n%s\n    of %s", a, row(run))
		}
		held := carillon.Held{Fence: a.fence} // its time is that of a node's clock
		if !w.clocksSet && o.canceled != 0 && held.Claimed() > o.canceled {
			v.breaks("claimed after the cancel was answered at %s:\n%s", o.canceled, a)
		}
	}
	done := 0
	for id, run := range runs {
		switch run.State {
		case carillon.StateSucceeded, carillon.StateFailed:
			done++
			if !ended[id] {
				v.breaks("lost: no witness saw it end: %s", row(run))
			}
			if want := wantState(o); run.State != want {
				v.breaks("wrong: it should have %s: %s", want, row(run))
			}
			last := int32(1)
			if run.State == carillon.StateFailed {
				last = 0
			}
			if run.Attempt != run.Losses+run.Failures+last {
				v.breaks("wrong: losses and failures do not explain the attempts: %s", row(run))
			}
		case carillon.StateSkipped:
			if why := unexplainedSkip(o, run, runs); why != "" {
				v.breaks("wrong: %s: %s", why, row(run))
			}
		case carillon.StateCanceled:
			if !o.asked {
				v.breaks("wrong: it was not asked to be canceled: %s", row(run))
			}
		}
	}
	if want := max(o.def.Schedule.MaxRuns, 1); !o.asked && done != want {
		v.breaks("lost: %s of %s was accepted and ran %d times, want %d", o.job, o.def.Name, done, want)
	}
}

// wantState is how the runs of a job end that are not canceled.
func wantState(o *order) carillon.State {
	if o.work.Fails >= 3 {
		return carillon.StateFailed
	}
	return carillon.StateSucceeded
}

func unexplainedSkip(o *order, run carillon.Run, runs map[carillon.RunID]carillon.Run) string {
	if !o.def.Schedule.Recurring() {
		return "a one-off was skipped"
	}
	kind, rest, _ := strings.Cut(run.Reason, ": ")
	name, what, _ := strings.Cut(rest, " ")
	other, err := carillon.ParseRunID(name)
	if _, exists := runs[other]; err != nil || !exists {
		return "skipped for the sake of a run that the job does not have"
	}
	policy, earlier := o.def.Overlap, other.Due < run.ID.Due
	switch because := kind + ": " + what; {
	case because == "overlap: has not ended" && policy == carillon.OverlapSkip && earlier:
	case because == "overlap: waits already" && policy == carillon.OverlapQueue && earlier:
	case because == "missed: runs in its place" && other.Due > run.ID.Due:
	default:
		return "skipped for a reason that its job does not give"
	}
	return ""
}

func row(run carillon.Run) string {
	b, _ := json.Marshal(run)
	return string(b)
}

// maxLate is how late a run starts at most when nothing is broken and a slot is free.
const maxLate = time.Second

// checkProbes checks that the jobs which were submitted when everything was healed started on time.
func (w *world) checkProbes(v *verdict) {
	began := map[carillon.JobID]time.Time{}
	for _, a := range w.journal.byStart() {
		if began[a.run.Job].IsZero() {
			began[a.run.Job] = a.start
		}
	}
	for _, p := range w.probes {
		if late := began[p.job].Sub(p.due); began[p.job].IsZero() || late > maxLate {
			v.breaks("late: %s, due at %s, began %s after that", p.job, p.due.UTC().Format("05.000"), late)
		}
	}
}

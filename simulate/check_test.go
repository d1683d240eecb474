package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
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

func (w *world) unfinished(ctx context.Context) (runs []carillon.Run) {
	for _, tenant := range w.tenants {
		runs = append(runs, w.find(ctx, carillon.RunQuery{
			Namespace: tenant, Limit: 100,
			States: []carillon.State{carillon.StateWaiting, carillon.StateClaimed, carillon.StateRunning},
		})...)
	}
	return runs
}

func (w *world) find(ctx context.Context, q carillon.RunQuery) []carillon.Run {
	page, err := w.store.FindRuns(ctx, q)
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
	w.checkTakeover(&v)
	w.checkTenants(ctx, &v)
	w.checkLimits(ctx, settled, &v)
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

// moment is how far ahead the time of a claim can be, in milliseconds.
const moment = 10

// checkOrder checks what became of a job.
func (w *world) checkOrder(ctx context.Context, o *order, v *verdict) {
	if o.job == 0 {
		return // not answered: it may be there or not
	}
	all := w.find(ctx, carillon.RunQuery{Namespace: o.tenant, Job: o.job, Limit: 1000})
	v.runs += len(all)
	runs := map[carillon.RunID]carillon.Run{}
	ended := map[carillon.RunID]bool{}
	for _, run := range all {
		runs[run.ID] = run
	}
	for _, a := range w.journal.byStart() {
		if a.run.Job != o.job {
			continue
		}
		ended[a.run] = ended[a.run] || a.ended
		if o.def.Needs != nil && a.process.inside() != o.def.Needs["inside"] {
			v.breaks("needs: a worker without the label performed\n%s", a)
		}
		if run, known := runs[a.run]; !known || a.number > run.Attempt {
			v.breaks("unaccounted: a witness saw\n%s\n    of %s", a, row(run))
		}
		// Its time is that of a node's clock, and a little ahead if there was another claim in that moment.
		claimed := carillon.Held{Fence: a.fence}.Claimed() - moment
		if !w.clocksSet && o.canceled != 0 && claimed > o.canceled {
			v.breaks("claimed after the cancel was answered at %s:\n%s", o.canceled, a)
		}
		if !w.clocksSet && o.edited != 0 && a.number == 1 && claimed > o.edited && !a.edited {
			v.breaks("claimed with the old definition after the edit was answered at %s:\n%s", o.edited, a)
		}
		if !w.clocksSet && o.paused != 0 && claimed > o.paused &&
			(o.resumed == 0 || claimed+moment < o.resumed) {
			v.breaks("claimed while its job was paused, from %s to %s:\n%s", o.paused, o.resumed, a)
		}
	}
	done, manual, skipped, replaced := 0, 0, 0, 0
	for id, run := range runs {
		if !run.ByClock() {
			manual++
		}
		switch run.State {
		case carillon.StateSucceeded, carillon.StateFailed:
			if run.ByClock() {
				done++
			}
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
			skipped++
			if why := unexplainedSkip(o, run, runs); why != "" {
				v.breaks("wrong: %s: %s", why, row(run))
			}
		case carillon.StateCanceled:
			if o.def.Overlap == carillon.OverlapReplace && strings.Contains(run.Reason, "replaced by run_") {
				if run.ByClock() && run.Attempt > 0 { // one that had not begun does not count for max_runs
					replaced++
				}
			} else if !o.asked {
				v.breaks("wrong: it was not asked to be canceled: %s", row(run))
			}
		}
	}
	for _, id := range o.manual {
		if _, exists := runs[id]; !exists {
			v.breaks("lost: %s was asked for and accepted", id)
		}
	}
	if most := len(o.manual) + o.unheard; manual > most {
		v.breaks("wrong: %d runs of %s are of no schedule, %d were asked for", manual, o.job, most)
	}
	want := max(o.def.Schedule.MaxRuns, 1)
	if !o.def.Schedule.Recurring() && skipped == 1 {
		want = 0 // it was due while a run that was asked for had not ended
	}
	// A run that was asked for and replaces the last one of an edited schedule leaves no room for another.
	short := o.edits && manual > 0 && o.def.Overlap == carillon.OverlapReplace && done+replaced == want-1
	if !o.asked && done+replaced != want && !short {
		v.breaks("lost: %s of %s was accepted and ran %d times, want %d:", o.job, o.def.Name, done, want)
		for _, run := range all {
			v.breaks("    %s", row(run))
		}
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
	switch {
	case !run.ByClock() && o.def.Overlap != carillon.OverlapReplace:
		return "a run that was asked for was skipped"
	case !o.def.Schedule.Recurring() && len(o.manual)+o.unheard == 0:
		return "a one-off was skipped"
	case o.pauses && run.Reason == "the job was paused":
		return ""
	}
	kind, rest, _ := strings.Cut(run.Reason, ": ")
	name, what, _ := strings.Cut(rest, " ")
	by, replaced := strings.CutPrefix(run.Reason, "replaced by ")
	if replaced {
		name = by
	}
	other, err := carillon.ParseRunID(name)
	first, exists := runs[other]
	if err != nil || !exists {
		return "skipped for the sake of a run that the job does not have"
	}
	policy := cmp.Or(o.def.Overlap, carillon.OverlapSkip)
	earlier := other.Due < run.ID.Due || !first.ByClock() // a run that was asked for may come first
	switch because := kind + ": " + what; {
	case because == "overlap: has not ended" && policy == carillon.OverlapSkip && earlier:
	case because == "overlap: waits already" && policy == carillon.OverlapQueue && earlier:
	case replaced && policy == carillon.OverlapReplace:
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

// takeover is how soon a run of a worker that is gone starts again.
const takeover = 10 * time.Second

// checkTakeover checks that what was at work in a process which healCore froze or cut off began again in
// time. A run of a job that was paused or canceled meanwhile need not, and one with limits waits for a slot.
func (w *world) checkTakeover(v *verdict) {
	commanded := map[carillon.JobID]bool{}
	for _, o := range w.orders {
		commanded[o.job] = o.asked || o.pauses
	}
	all := w.journal.byStart()
	for _, a := range all {
		if w.broken.IsZero() || a.start.After(w.broken) || a.end.Before(w.broken) && !a.end.IsZero() ||
			commanded[a.run.Job] || len(a.limits) > 0 || !w.isBroken(a.process) {
			continue
		}
		again := slices.IndexFunc(all, func(b attempt) bool { return b.run == a.run && b.number > a.number })
		since := w.broken
		if due := a.run.Due.Std(); due.After(since) {
			since = due // the clock of a node was ahead, and the run began early
		}
		// After a clock was ahead, a retry waits until its time has come by the others' clocks.
		if again >= 0 && all[again].start.Sub(since) > takeover+w.ahead {
			v.breaks("late: taken over %s after\n%s\n%s", all[again].start.Sub(since), a, all[again])
		}
	}
}

func (w *world) isBroken(p *process) bool {
	return slices.ContainsFunc(w.rest, func(n *node) bool { return n.process == p }) ||
		slices.ContainsFunc(w.workers, func(r *remoteWorker) bool { return r.process == p })
}

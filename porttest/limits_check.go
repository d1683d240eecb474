package porttest

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
)

// check compares what guards count with what runs have taken, and with what the claims of these runs took by
// the definitions of their jobs then. It also checks that the guard of each run that is parked says so: else
// no node would look at its line.
func (w *limitsWorld) check() {
	w.t.Helper()
	used, took := carillon.Used{}, map[string]int{}
	for _, run := range w.runs(carillon.StateClaimed, carillon.StateRunning) {
		used.Add(&run)
		if w.took[run.Worker] == nil {
			w.t.Fatalf("%s was claimed by %s, who never asked for it", run.ID, run.Worker)
		}
		for key, weight := range w.took[run.Worker] {
			if took[key] += weight; key == "burst" && !w.starts[run.Worker] {
				w.starts[run.Worker] = true
			}
		}
	}
	guards := map[string]carillon.Guard{}
	for _, limit := range limitKeys {
		g := w.guard(limit)
		guards[limit.Hold()] = g
		if g.UsedSlots() != took[limit.Key] || used.Of(&g) != took[limit.Key] {
			w.t.Fatalf("%s counts %s; by their rows runs have taken %d, by their claims %d", g.Key, g.Value,
				used.Of(&g), took[limit.Key])
		}
		if took[limit.Key] > limit.Concurrency {
			w.t.Fatalf("%d slots of %s are taken, it has %d", took[limit.Key], limit.Key, limit.Concurrency)
		}
		if g.Expires != 0 { // no audit has been here
			w.t.Fatalf("%s is %s, and expires at %s", g.Key, g.Value, g.Expires)
		}
	}
	started := 0
	for worker := range w.starts {
		started += w.took[worker]["burst"]
	}
	if started > limitBurst {
		w.t.Fatalf("%d starts, the rate and its burst allow %d", started, limitBurst)
	}
	for _, run := range w.runs(carillon.StateWaiting) {
		g := guards[run.Hold]
		switch {
		case run.Slots != "":
			w.t.Fatalf("%s waits, and has slots: %q", run.ID, run.Slots)
		case run.Wake == carillon.Never && run.Hold == "" && !run.Has(carillon.FlagOnHold):
			w.t.Fatalf("%s waits for nothing, for ever", run.ID)
		case run.Parked() && !run.Has(carillon.FlagOnHold) && !g.HasLine():
			w.t.Fatalf("%s is in the line of %s, which is %s: no node looks there", run.ID, run.Hold, g.Value)
		}
	}
}

// lined says of each key that has a line how many runs have ever lined up there.
func (w *limitsWorld) lined() map[string]int64 {
	lines := map[string]int64{}
	for _, limit := range limitKeys {
		if g := w.guard(limit); g.HasLine() {
			lined, err := strconv.ParseInt(strings.Fields(string(g.Value))[2], 10, 64)
			w.must(err)
			lines[limit.Key] = lined
		}
	}
	return lines
}

// checkFresh checks that no run which came fresh took a slot while others waited in the line: before and
// after the last step, and meanwhile.
func (w *limitsWorld) checkFresh(before map[string]int64) {
	w.t.Helper()
	after := w.lined()
	for _, run := range w.runs(carillon.StateClaimed, carillon.StateRunning) {
		for key := range w.took[run.Worker] {
			if lined, had := before[key]; had && w.fresh[run.Worker] && after[key] == lined {
				w.t.Fatalf("%s went before the line of %s", run.ID, key)
			}
		}
		delete(w.fresh, run.Worker) // it was judged when it began
	}
}

func (w *limitsWorld) guard(limit carillon.Limit) carillon.Guard {
	guards, err := w.truth.Guards(context.Background(), carillon.GuardQuery{
		Namespace: carillon.DefaultNamespace, Keys: []string{limit.Hold()},
	})
	w.must(err)
	if len(guards) == 0 {
		return carillon.Guard{Namespace: carillon.DefaultNamespace, Key: limit.Hold()}
	}
	return guards[0]
}

// drain lets every run come to its end while nothing fails, and checks that nothing is left of the limits.
func (w *limitsWorld) drain() {
	w.t.Helper()
	w.heal = true
	ctx, l := context.Background(), w.nodes[0]
	for _, c := range w.pending { // they come late, and what they were decided on has changed or not
		w.commit(c)
		w.check()
	}
	for _, id := range w.jobs {
		_, err := l.ResumeJob(ctx, carillon.DefaultNamespace, id)
		w.may(err)
	}
	for end := time.Now().Add(10 * time.Second); ; {
		w.endAll()
		w.endStarved()
		if len(w.runs(unfinishedStates...)) == 0 {
			break
		}
		if time.Now().After(end) {
			for _, run := range w.runs(unfinishedStates...) {
				w.t.Errorf("it does not end: %+v", run)
			}
			w.t.FailNow()
		}
		for _, limit := range limitKeys {
			w.commit(limitsCommit{0, w.look(0, limit)})
		}
		for _, run := range w.runs(carillon.StateWaiting) { // as the scheduler does when a wake has come
			if run.Wake <= carillon.Now() {
				w.commit(limitsCommit{0, w.claimRuns(0, []carillon.Run{run})})
			}
		}
		w.commit(limitsCommit{0, w.decideAgain(0)})
		w.check()
	}
	for _, limit := range limitKeys {
		w.commit(limitsCommit{0, w.look(0, limit)})
		if g := w.guard(limit); g.UsedSlots() != 0 || g.HasLine() {
			w.t.Fatalf("all runs have ended, and %s is %s", g.Key, g.Value)
		}
	}
	w.check()
}

var unfinishedStates = []carillon.State{
	carillon.StateWaiting, carillon.StateClaimed, carillon.StateRunning,
}

// endAll lets all attempts succeed.
func (w *limitsWorld) endAll() {
	for _, run := range w.runs(carillon.StateClaimed, carillon.StateRunning) {
		o := carillon.Outcome{Kind: carillon.OutcomeSuccess}
		w.commit(limitsCommit{0, w.endOf(0, run, o)})
	}
}

// endStarved cancels the jobs that the rate may keep from starting.
func (w *limitsWorld) endStarved() {
	for _, run := range w.runs(carillon.StateWaiting) {
		jobs, err := w.truth.Jobs(context.Background(), []carillon.JobVersion{run.Definition()})
		w.must(err)
		for _, l := range jobs[0].Limits {
			if l.Key == "burst" {
				_, err := w.nodes[0].CancelJob(
					context.Background(), carillon.DefaultNamespace, run.ID.Job, false,
				)
				w.may(err)
			}
		}
	}
}

package scheduler_test

import (
	"context"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// decideFor decides about a due run as another process would, and commits it: no scheduler here is told.
func (h *house) decideFor(worker string, id carillon.RunID) carillon.Run {
	h.t.Helper()
	runs, err := h.truth.Runs(context.Background(), []carillon.RunID{id}, false)
	if err != nil || len(runs) != 1 {
		h.t.Fatalf("%d runs, %v", len(runs), err)
	}
	return h.claimFor(worker, runs[0])
}

func TestARunThatWaitedItsTurnIsTakenOverWithinTenSeconds(t *testing.T) {
	for _, overlap := range []carillon.Overlap{carillon.OverlapQueue, carillon.OverlapQueueAll, carillon.OverlapReplace} {
		for _, wait := range []time.Duration{0, 3 * time.Second, 7 * time.Second} { // until the worker dies: sweeps have a phase
			t.Run(string(overlap)+" after "+wait.String(), func(t *testing.T) {
				in(t, nil, func(h *house) {
					h.join("worker_x")
					first := h.claimFor("worker_x", h.unheard(func(d *carillon.Definition) {
						d.Schedule.Every, d.Schedule.StartsAt, d.Overlap = carillon.Duration(2*time.Second), carillon.Now(), overlap
						d.Schedule.MaxRuns = 2
					}))
					time.Sleep(2 * time.Second)
					second := carillon.RunID{Job: first.ID.Job, Due: first.ID.Due.Add(2 * time.Second)}
					if run := h.decideFor("worker_x", second); run.State != carillon.Waiting || run.Wake <= carillon.Now() {
						h.t.Fatalf("the second run is %s and wakes at %s", run.State, run.Wake)
					}
					h.finishFor(first.ID, carillon.Outcome{Kind: carillon.Success})
					run := h.decideFor("worker_x", second)
					if run.State != carillon.Claimed {
						h.t.Fatalf("the second run is %s", run.State)
					}
					die := h.hold("worker_x", []carillon.Run{run})
					time.Sleep(wait)
					died := carillon.Now()
					die()
					time.Sleep(time.Minute)
					got := h.runs(second.Job)[0]
					if got.ID != second || got.State != carillon.Succeeded || got.Crashes != 1 {
						h.t.Fatalf("%s is %s after %d crashes", got.ID, got.State, got.Crashes)
					}
					if late := got.Claimed.Sub(died); late > 10*time.Second {
						h.t.Errorf("it starts again %s after its worker died", late)
					}
				})
			})
		}
	}
}

// finishFor writes the end of an attempt as another process would.
func (h *house) finishFor(id carillon.RunID, outcome carillon.Outcome) {
	h.t.Helper()
	runs, err := h.truth.Runs(context.Background(), []carillon.RunID{id}, false)
	if err != nil || len(runs) != 1 {
		h.t.Fatalf("%d runs, %v", len(runs), err)
	}
	dues, err := h.nodes[0].ledger.Dues(context.Background(), runs, "")
	if err != nil || len(dues) != 1 {
		h.t.Fatalf("%d dues, %v", len(dues), err)
	}
	c := carillon.Settle(runs[0].Finish(dues[0].Job, outcome, carillon.Now(), 0), dues[0].Guard)
	if lost, err := h.truth.Commit(context.Background(), []carillon.Change{c}); err != nil || len(lost) > 0 {
		h.t.Fatalf("lost %v, %v", lost, err)
	}
}

package scheduler_test

import (
	"context"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// lateAfter is a definition whose late hook has a handler of its own type.
func lateAfter(d time.Duration) func(*carillon.Definition) {
	return func(def *carillon.Definition) {
		def.Late = &carillon.Hook{After: carillon.Duration(d), Job: &carillon.HookJob{
			Type: "tell", Target: carillon.Target{Handler: &carillon.Handler{}},
		}}
	}
}

// expectTold checks that as many jobs have been told to be late, each once.
func (h *house) expectTold(jobs []carillon.Job, want int) {
	h.t.Helper()
	told := 0
	for i := range jobs {
		for _, run := range h.runs(jobs[i].ID) {
			found, err := h.truth.FindJobs(context.Background(), carillon.JobQuery{
				Namespace: "default", Limit: 10,
				Labels: []carillon.Label{{Key: carillon.HookLabel, Value: run.ID.String()}},
			})
			if err != nil || len(found.Jobs) > 1 {
				h.t.Errorf("%s was told to be late %d times, %v", run.ID, len(found.Jobs), err)
			}
			told += len(found.Jobs)
		}
	}
	if told != want {
		h.t.Errorf("%d runs were told to be late, want %d", told, want)
	}
}

func TestTwoOwnersOfEveryShardTellOfALateRunOnce(t *testing.T) {
	in(t, func(h *house) { h.both, h.operated = true, true }, func(h *house) {
		h.live()
		time.Sleep(5 * time.Second)
		h.closeGate(h.nodes[0], carillon.Gate{ID: "g", Match: ofType("test"), Mode: carillon.GateHold})
		time.Sleep(time.Second)
		jobs := h.submit(50, lateAfter(time.Minute))
		later := h.submitBy(h.nodes[1], 50, func(d *carillon.Definition) {
			lateAfter(time.Minute)(d)
			after(10 * time.Minute)(d)
		})
		time.Sleep(55 * time.Second)
		h.expectTold(jobs, 0)
		time.Sleep(10 * time.Second)
		h.expectTold(jobs, 50)
		h.expectTold(later, 0)
		time.Sleep(15 * time.Minute)
		h.expectTold(later, 50)
		h.openGate(h.nodes[0], "g", carillon.Rate{})
		time.Sleep(time.Minute)
		h.expectAll(jobs, 1)
		h.expectAll(later, 1)
		h.expectTold(jobs, 50)
		h.expectTold(later, 50)
	})
}

func TestTheNodesThatAreLeftTellOfRunsThatWaitAtAGate(t *testing.T) {
	in(t, func(h *house) { h.operated = true }, func(h *house) {
		h.live()
		time.Sleep(5 * time.Second)
		h.closeGate(h.nodes[0], carillon.Gate{ID: "g", Match: ofType("test"), Mode: carillon.GateHold})
		time.Sleep(time.Second)
		jobs := h.submit(50, lateAfter(10*time.Minute))
		time.Sleep(time.Minute)
		h.expectHeld("g", 50)
		h.leave() // it committed them, and watches them
		time.Sleep(8 * time.Minute)
		h.expectTold(jobs, 0)
		time.Sleep(2 * time.Minute)
		h.expectTold(jobs, 50)
		h.openGate(h.nodes[1], "g", carillon.Rate{})
		time.Sleep(time.Minute)
		h.expectAll(jobs, 1)
		h.expectTold(jobs, 50)
	})
}

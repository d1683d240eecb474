package scheduler_test

import (
	"context"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

func TestNodesShareTheShards(t *testing.T) { playTwo(t, false) }

func TestTwoOwnersOfEveryShardAreHarmless(t *testing.T) { playTwo(t, true) }

func playTwo(t *testing.T, both bool) {
	in(t, func(h *house) { h.both, h.handle, h.concurrency = both, slow(3*time.Second), 100 },
		func(h *house) {
			h.live()
			time.Sleep(5 * time.Second)
			jobs := mixed(h, 2*time.Minute)
			time.Sleep(time.Hour)
			for runs, of := range jobs {
				h.expectAll(of, runs)
				h.expectLate(of, time.Second)
			}
			by := map[string]int{}
			for _, a := range h.attempts() {
				by[a.run.Worker]++
				if a.run.Attempt > 1 {
					h.t.Errorf("%s needed %d attempts", a.run.ID, a.run.Attempt)
				}
			}
			// Two owners compete for every run, and one of them may win all.
			if !both && (by[h.nodes[0].worker.ID()] == 0 || by[h.nodes[1].worker.ID()] == 0) {
				h.t.Errorf("attempts by worker: %v", by)
			}
		})
}

func TestWhatOneNodeStartsTheOtherSteers(t *testing.T) {
	in(t, nil, func(h *house) {
		other := h.live().ledger
		time.Sleep(time.Second)
		ctx := context.Background()
		canceled := h.submit(1, after(10*time.Second))[0]
		paused := h.submit(1, after(10*time.Second))[0]
		edited := h.submit(1, after(10*time.Second))[0]
		if _, err := other.CancelJob(ctx, "default", canceled.ID, false); err != nil {
			h.t.Fatal(err)
		}
		if _, err := other.PauseJob(ctx, "default", paused.ID); err != nil {
			h.t.Fatal(err)
		}
		if _, err := other.EditJob(ctx, "default", edited.ID, func(d *carillon.Definition) error {
			d.Schedule = carillon.Schedule{After: carillon.Duration(30 * time.Minute)}
			return d.Admit(h.clock.Now())
		}); err != nil {
			h.t.Fatal(err)
		}
		time.Sleep(20 * time.Minute)
		if n := len(h.attempts()); n != 0 {
			h.t.Fatalf("%d attempts of jobs that were canceled, paused or moved", n)
		}
		if _, err := other.ResumeJob(ctx, "default", paused.ID); err != nil {
			h.t.Fatal(err)
		}
		time.Sleep(20 * time.Minute)
		h.expectAll([]carillon.Job{paused}, 1)
		if runs := h.runs(edited.ID); runs[0].State != carillon.StateSucceeded || runs[0].Version != 2 {
			h.t.Errorf("%s, version %d", runs[0].State, runs[0].Version)
		}
		if runs := h.runs(canceled.ID); len(runs) != 1 || runs[0].State != carillon.StateCanceled {
			h.t.Errorf("%+v", runs)
		}
	})
}

func TestANodeThatLeavesHandsItsWorkToTheOther(t *testing.T) {
	in(t, func(h *house) { h.concurrency = 2; h.handle = slow(time.Minute) }, func(h *house) {
		h.live()
		time.Sleep(time.Second)
		jobs := h.submit(8, after(0))
		time.Sleep(time.Second)
		h.stop[0]() // it drains for ten seconds, then hands back the runs that still run
		h.stop = h.stop[1:]
		time.Sleep(time.Hour)
		h.expectAll(jobs, 1)
	})
}

func TestWhatALaneHasNoRoomForOfAnotherNodesShardIsNotLate(t *testing.T) {
	in(t, func(h *house) { h.lane, h.concurrency = 100, 8 }, func(h *house) {
		h.live()
		time.Sleep(time.Second)
		jobs := h.submit(3000, after(20*time.Second)) // to the first node, half of them in the other's shards
		time.Sleep(10 * time.Minute)
		h.expectAll(jobs, 1)
		h.expectLate(jobs, 10*time.Second)
	})
}

package scheduler_test

import (
	"context"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// decideFor decides about a due run as another process would, and commits the decision: no scheduler here is
// told.
func (h *house) decideFor(worker string, id carillon.RunID) carillon.Run {
	h.t.Helper()
	runs, err := h.truth.Runs(context.Background(), []carillon.RunID{id}, false)
	if err != nil || len(runs) != 1 {
		h.t.Fatalf("%d runs, %v", len(runs), err)
	}
	return h.claimFor(worker, runs[0])
}

func TestARunThatWaitedItsTurnIsTakenOverWithinTenSeconds(t *testing.T) {
	for _, overlap := range []carillon.Overlap{
		carillon.OverlapQueue, carillon.OverlapQueueAll, carillon.OverlapReplace,
	} {
		// wait is how long the worker lives: it varies because sweeps have a phase.
		for _, wait := range []time.Duration{0, 3 * time.Second, 7 * time.Second} {
			t.Run(string(overlap)+" after "+wait.String(), func(t *testing.T) {
				in(t, nil, func(h *house) {
					h.join("worker_x")
					first := h.claimFor("worker_x", h.unheard(func(d *carillon.Definition) {
						d.Schedule.Every, d.Schedule.StartsAt, d.Overlap = carillon.Duration(
							2*time.Second,
						), h.clock.Now(), overlap
						d.Schedule.MaxRuns = 2
					}))
					time.Sleep(2 * time.Second)
					second := carillon.RunID{Job: first.ID.Job, Due: first.ID.Due.Add(2 * time.Second)}
					if run := h.decideFor("worker_x", second); run.State != carillon.StateWaiting ||
						run.Wake <= h.clock.Now() {
						h.t.Fatalf("the second run is %s and wakes at %s", run.State, run.Wake)
					}
					h.finishFor(first.ID, carillon.Outcome{Kind: carillon.OutcomeSuccess})
					run := h.decideFor("worker_x", second)
					if run.State != carillon.StateClaimed {
						h.t.Fatalf("the second run is %s", run.State)
					}
					die := h.hold("worker_x", []carillon.Run{run})
					time.Sleep(wait)
					died := h.clock.Now()
					die()
					time.Sleep(time.Minute)
					got := h.runs(second.Job)[0]
					if got.ID != second || got.State != carillon.StateSucceeded || got.Crashes != 1 {
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
	candidates, err := h.nodes[0].ledger.Candidates(context.Background(), runs, "")
	if err != nil || len(candidates) != 1 {
		h.t.Fatalf("%d dues, %v", len(candidates), err)
	}
	c := carillon.EndChange(
		candidates[0].Job, runs[0].Finish(candidates[0].Job, outcome, h.clock.Now(), 0), candidates[0].Guards,
	)
	if lost, err := h.truth.Commit(context.Background(), []carillon.Change{c}); err != nil || len(lost) > 0 {
		h.t.Fatalf("lost %v, %v", lost, err)
	}
}

// claimAt writes a claim as a node with a different clock would.
func (h *house) claimAt(worker string, run carillon.Run, at carillon.Time) carillon.Run {
	h.t.Helper()
	run = run.Claim(worker, h.clock.Now())
	run.Claimed = at
	if lost, err := h.truth.Commit(context.Background(), []carillon.Change{
		{Runs: []carillon.Run{run}},
	}); err != nil ||
		len(lost) > 0 {
		h.t.Fatalf("lost %v, %v", lost, err)
	}
	return run
}

func TestAClaimIsJudgedByNoClockButThatOfTheNodeThatJudges(t *testing.T) {
	for _, off := range []time.Duration{-time.Hour, -6 * time.Second, 0, 3 * time.Second, time.Hour} {
		t.Run("a claim of a node whose clock is off by "+off.String(), func(t *testing.T) {
			in(t, nil, func(h *house) {
				h.join("worker_x")
				h.join("worker_y")
				stop := h.hold("worker_x", nil)
				time.Sleep(4500 * time.Millisecond) // half way between two beats
				run := h.claimAt("worker_x", h.unheard(nil), h.clock.Now().Add(off))
				h.lose("worker_y") // watch checks all held runs, before the worker's next beat
				time.Sleep(600 * time.Millisecond)
				stop()
				h.hold("worker_x", []carillon.Run{run})
				time.Sleep(time.Minute)
				if got := h.runs(run.ID.Job)[0]; got.State != carillon.StateClaimed || got.Losses != 0 {
					h.t.Errorf(
						"the run that its worker lists is %s, %d losses: %s", got.State, got.Losses,
						got.Reason,
					)
				}
				begin := h.clock.Now()
				lost := h.claimAt("worker_x", h.unheard(nil), begin.Add(off)) // its worker never hears of it
				time.Sleep(5 * time.Second)
				if got := h.runs(lost.ID.Job)[0]; got.State != carillon.StateClaimed {
					h.t.Errorf("the run that its worker does not list is %s after 5s", got.State)
				}
				time.Sleep(time.Minute)
				got := h.runs(lost.ID.Job)[0]
				if got.State != carillon.StateSucceeded || got.Losses != 1 {
					h.t.Errorf(
						"the run that its worker does not list is %s, %d losses", got.State, got.Losses,
					)
				} else if late := got.Ended.Sub(begin); late > 16*time.Second {
					h.t.Errorf("it is taken back after %s", late)
				}
			})
		})
	}
}

func TestAnAnswerThatComesLateAndABeatThatComesLateTakeNothingBack(t *testing.T) {
	in(t, nil, func(h *house) {
		h.join("worker_x")
		h.join("worker_y")
		die := h.hold("worker_x", nil)
		time.Sleep(4500 * time.Millisecond)
		run := h.claimAt("worker_x", h.unheard(nil), h.clock.Now().Add(-time.Hour))
		h.lose("worker_y")                  // watch checks all held runs
		time.Sleep(2900 * time.Millisecond) // the answer comes, and with it a beat that was sent before
		die()
		time.Sleep(1900 * time.Millisecond)
		ctx := context.Background()
		last, _, err := h.coordinator.Members(ctx, carillon.MemberQuery{IDs: []string{"worker_x"}})
		if err != nil || len(last) != 1 {
			h.t.Fatal(last, err)
		}
		if _, err := h.coordinator.Beat(ctx, []carillon.Beat{
			{ID: "worker_x", Number: time.Now().UnixMilli(), Heard: last[0].Number},
		}); err != nil {
			h.t.Fatal(err)
		}
		time.Sleep(1900 * time.Millisecond)
		h.hold("worker_x", []carillon.Run{run})
		time.Sleep(time.Minute)
		if got := h.runs(run.ID.Job)[0]; got.State != carillon.StateClaimed || got.Losses != 0 {
			h.t.Errorf("%s, %d losses: %s", got.State, got.Losses, got.Reason)
		}
	})
}

func TestADeadWorkersRunsAreTakenOverThoughTheClockWasSetBack(t *testing.T) {
	for name, guarded := range map[string]bool{"without a guard": false, "with a guard": true} {
		t.Run(name, func(t *testing.T) {
			in(t, nil, func(h *house) {
				h.clock.SetAhead(time.Hour)
				time.Sleep(time.Second)
				h.join("worker_x")
				run := h.claimFor("worker_x", h.unheard(func(d *carillon.Definition) {
					if guarded {
						d.Schedule = carillon.Schedule{
							Every: carillon.Duration(2 * time.Hour), StartsAt: h.clock.Now(),
						}
					}
				}))
				die := h.hold("worker_x", []carillon.Run{run})
				time.Sleep(20 * time.Second)
				h.clock.SetAhead(0)
				time.Sleep(3 * time.Second)
				die()
				time.Sleep(15 * time.Second)
				for _, got := range h.runs(run.ID.Job) {
					if got.ID == run.ID && (got.State != carillon.StateSucceeded || got.Crashes != 1) {
						h.t.Errorf("15 s after its worker died it is %s, %d crashes", got.State, got.Crashes)
					}
				}
			})
		})
	}
}

// blind is a coordinator that cannot say which runs members hold.
type blind struct{ carillon.Coordinator }

func (b blind) Members(
	ctx context.Context, q carillon.MemberQuery,
) ([]carillon.Member, carillon.Time, error) {
	if q.Holds {
		return nil, 0, errAway
	}
	return b.Coordinator.Members(ctx, q)
}

func TestADeadWorkersRunsAreTakenOverThoughItIsNotKnownWhatTheLivingHold(t *testing.T) {
	in(t, func(h *house) { h.members = blind{h.coordinator} }, func(h *house) {
		h.join("worker_x")
		h.join("worker_y")
		dead, alive := h.claimFor("worker_x", h.unheard(nil)), h.claimFor("worker_y", h.unheard(nil))
		die := h.hold("worker_x", []carillon.Run{dead})
		h.hold("worker_y", []carillon.Run{alive})
		time.Sleep(5 * time.Second)
		die()
		time.Sleep(15 * time.Second)
		if got := h.runs(dead.ID.Job)[0]; got.State != carillon.StateSucceeded || got.Crashes != 1 {
			h.t.Errorf("the run of the dead worker is %s, %d crashes", got.State, got.Crashes)
		}
		if got := h.runs(alive.ID.Job)[0]; got.State != carillon.StateClaimed {
			h.t.Errorf("the run of the living worker is %s", got.State)
		}
		h.lose("worker_y")
	})
}

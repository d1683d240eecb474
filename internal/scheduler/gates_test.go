package scheduler_test

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/internal/catalog"
)

// gatedHouse builds a house whose nodes have catalogs.
func gatedHouse(h *house) { h.operated = true }

// closeGate closes a gate through a node.
func (h *house) closeGate(by *node, g carillon.Gate) {
	h.t.Helper()
	g.Namespace, g.By, g.At = "default", "ann", h.clock.Now()
	if err := g.Admit(h.clock.Now()); err != nil {
		h.t.Fatal(err)
	}
	name := catalog.Name{Namespace: "default", Name: g.ID}
	if err := put(by, catalog.Gates, name, g); err != nil {
		h.t.Fatal(err)
	}
}

// openGate opens a gate through a node.
func (h *house) openGate(by *node, id string, rate carillon.Rate) {
	h.t.Helper()
	name := catalog.Name{Namespace: "default", Name: id}
	_, err := catalog.Gates.Write(context.Background(), by.catalog, name, "bob", func(
		was, next *catalog.Record[carillon.Gate], beside *carillon.Change,
	) (remove bool, err error) {
		g := catalog.GateIn(was)
		how := catalog.Opening{By: "bob", Rate: rate, At: h.clock.Now()}
		err = by.catalog.OpenGate(context.Background(), g, how, beside)
		next.Value = *g
		return false, err
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

func ofType(pattern string) carillon.GateMatch { return carillon.GateMatch{Type: pattern} }

func typed(name string, edit func(*carillon.Definition)) func(*carillon.Definition) {
	return func(d *carillon.Definition) { edit(d); d.Type = name }
}

// held is how many runs wait for a gate.
func (h *house) held(id string) int {
	h.t.Helper()
	runs, err := h.truth.Line(context.Background(), carillon.LineQuery{
		Lines: []carillon.HoldName{{Namespace: "default", Hold: "gate/" + id}}, Until: carillon.Never,
		Limit: 100_000,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return len(runs)
}

func (h *house) expectHeld(id string, want int) {
	h.t.Helper()
	if n := h.held(id); n != want {
		h.t.Errorf("%d runs wait for gate %s, want %d", n, id, want)
	}
}

// startsOf are the attempts of jobs, by their start.
func (h *house) startsOf(jobs []carillon.Job) (seen []attempt) {
	of := map[carillon.JobID]bool{}
	for _, job := range jobs {
		of[job.ID] = true
	}
	for _, a := range h.attempts() {
		if of[a.run.ID.Job] {
			seen = append(seen, a)
		}
	}
	slices.SortStableFunc(seen, func(a, b attempt) int { return cmp.Compare(a.start, b.start) })
	return seen
}

func (h *house) expectDueOrder(jobs []carillon.Job) {
	h.t.Helper()
	seen := h.startsOf(jobs)
	for i := 1; i < len(seen); i++ {
		if seen[i-1].start < seen[i].start && seen[i-1].run.ID.Due > seen[i].run.ID.Due {
			h.t.Errorf("%s started before %s", seen[i-1].run.ID, seen[i].run.ID)
			return
		}
	}
}

// expectGone checks that nothing is left of gates.
func (h *house) expectGone() {
	h.t.Helper()
	if gates := h.nodes[0].catalog.AllGates(); len(gates) > 0 {
		h.t.Errorf("there are gates: %+v", *gates[0])
	}
	names, err := h.truth.Holds(context.Background(), carillon.HoldName{}, 10)
	if err != nil || len(names) > 0 {
		h.t.Errorf("runs wait for %v (%v)", names, err)
	}
}

func TestAGateHoldsRunsThatLeaveInTheOrderOfTheirDueTimes(t *testing.T) {
	in(t, gatedHouse, func(h *house) {
		h.closeGate(h.nodes[0], carillon.Gate{ID: "g", Match: ofType("report.*"), Reason: "maintenance"})
		var jobs []carillon.Job
		for i := range 100 {
			due := after(time.Duration(i*37%100) * 10 * time.Millisecond)
			jobs = append(jobs, h.submit(1, typed("report.daily", due))...)
		}
		others := h.submit(10, typed("mail", after(0)))
		time.Sleep(5 * time.Second)
		h.expectAll(others, 1)
		h.expectLate(others, 50*time.Millisecond)
		h.expectHeld("g", 100)
		if n := len(h.startsOf(jobs)); n != 0 {
			t.Errorf("%d runs started", n)
		}
		h.openGate(h.nodes[0], "g", carillon.Rate{Starts: 10, Per: time.Second})
		time.Sleep(20 * time.Second)
		h.expectAll(jobs, 1)
		h.expectDueOrder(jobs)
		h.expectGone()
	})
}

func TestRunsLeaveAGateAtAGivenRate(t *testing.T) {
	for _, rate := range []carillon.Rate{
		{Starts: 5000, Per: time.Second}, {Starts: 300, Per: time.Second}, {Starts: 120, Per: time.Minute},
	} {
		t.Run(rate.String(), func(t *testing.T) {
			in(t, func(h *house) { gatedHouse(h); h.concurrency = 1000 }, func(h *house) {
				h.closeGate(h.nodes[0], carillon.Gate{ID: "g", Match: carillon.GateMatch{All: true}})
				n := 5 * int(float64(rate.Starts)/rate.Per.Seconds())
				jobs := h.submit(n, after(0))
				time.Sleep(2 * time.Second)
				h.expectHeld("g", n)
				h.openGate(h.nodes[0], "g", rate)
				time.Sleep(30 * time.Second)
				h.expectAll(jobs, 1)
				seen := h.startsOf(jobs)
				took := seen[n-1].start.Sub(seen[0].start)
				if want := 5 * time.Second; took < want*9/10-time.Second/2 || took > want*11/10 {
					t.Errorf("%d runs left in %s, want %s", n, took, want)
				}
				var longest time.Duration
				for i := 1; i < n; i++ {
					longest = max(longest, seen[i].start.Sub(seen[i-1].start))
				}
				apart := time.Duration(float64(time.Second) / (float64(n) / 5))
				if longest > 2*max(apart, 50*time.Millisecond) {
					t.Errorf("no run left for %s", longest)
				}
				h.expectGone()
			})
		})
	}
}

func TestAGateDropsRunsAndSchedulesGoOn(t *testing.T) {
	in(t, gatedHouse, func(h *house) {
		ticks := h.submit(1, every(time.Second, carillon.OverlapSkip, 0))
		beside := h.submit(1, every(time.Second, carillon.OverlapAllow, 0))
		time.Sleep(5*time.Second + 500*time.Millisecond)
		h.closeGate(h.nodes[0], carillon.Gate{
			ID: "g", Mode: carillon.GateDrop, Match: ofType("test"), Reason: "broken",
		})
		once := h.submit(3, after(0))
		time.Sleep(5 * time.Second)
		h.openGate(h.nodes[0], "g", carillon.Rate{})
		time.Sleep(5 * time.Second)
		for _, job := range append(ticks, beside...) {
			states := map[carillon.State]int{}
			for _, run := range h.runs(job.ID) {
				states[run.State]++
				if run.State == carillon.StateSkipped && run.Reason != "gate g: broken" {
					t.Errorf("%s: %q", run.ID, run.Reason)
				}
			}
			if states[carillon.StateSkipped] != 5 || states[carillon.StateSucceeded] < 9 {
				t.Errorf("%v", states)
			}
		}
		for _, job := range once {
			run := h.runs(job.ID)[0]
			if run.State != carillon.StateSkipped || run.Reason != "gate g: broken" {
				t.Errorf("%s: %s %s", run.ID, run.State, run.Reason)
			}
		}
		h.expectGone()
	})
}

func TestAHeldScheduleKeepsOneRunAndTheMisfirePolicyDecidesTheRest(t *testing.T) {
	for _, policy := range []carillon.MisfirePolicy{
		carillon.MisfireOnce, carillon.MisfireSkip, carillon.MisfireAll,
	} {
		t.Run(string(policy), func(t *testing.T) {
			in(t, gatedHouse, func(h *house) {
				h.closeGate(h.nodes[0], carillon.Gate{ID: "g", Match: carillon.GateMatch{All: true}})
				tick := h.submit(1, func(d *carillon.Definition) {
					every(10*time.Second, carillon.OverlapQueueAll, 0)(d)
					d.Misfire.Policy = policy
				})
				time.Sleep(65 * time.Second)
				h.expectHeld("g", 1)
				h.openGate(h.nodes[0], "g", carillon.Rate{})
				time.Sleep(30 * time.Second)
				runs := h.runs(tick[0].ID)
				first := runs[len(runs)-1]
				if first.State != carillon.StateSucceeded {
					t.Errorf("the run that waited is %s: %s", first.State, first.Reason)
				}
				ran := 0
				for _, run := range runs {
					if run.State == carillon.StateSucceeded {
						ran++
					}
				}
				want := map[carillon.MisfirePolicy]int{"once": 5, "skip": 4, "all": 9}[policy]
				if ran < want-1 || ran > want+1 {
					t.Errorf("%d runs succeeded, want about %d", ran, want)
				}
				h.expectGone()
			})
		})
	}
}

func TestAGateThatExpiresOpens(t *testing.T) {
	in(t, gatedHouse, func(h *house) {
		h.live()
		time.Sleep(5 * time.Second)
		until := h.clock.Now().Add(10 * time.Second)
		h.closeGate(h.nodes[0], carillon.Gate{ID: "g", Match: carillon.GateMatch{All: true}, Expires: until})
		time.Sleep(time.Second)
		jobs := h.submit(20, after(0))
		time.Sleep(8 * time.Second)
		h.expectHeld("g", 20)
		time.Sleep(4 * time.Second)
		h.expectAll(jobs, 1)
		for _, a := range h.startsOf(jobs) {
			if a.start < until || a.start > until.Add(1500*time.Millisecond) {
				t.Errorf("%s started at %s, and the gate opened at %s", a.run.ID, a.start, until)
			}
		}
		time.Sleep(3 * time.Second)
		h.expectGone()
	})
}

func TestAGateSurvivesTheNodesAndIsClosedOnAllOfThemWithinASecond(t *testing.T) {
	in(t, gatedHouse, func(h *house) {
		h.live()
		time.Sleep(5 * time.Second)
		h.closeGate(h.nodes[1], carillon.Gate{ID: "g", Match: carillon.GateMatch{Queue: "default"}})
		time.Sleep(time.Second)
		jobs := append(h.submitBy(h.nodes[0], 10, after(0)), h.submitBy(h.nodes[1], 10, after(0))...)
		time.Sleep(time.Second)
		h.expectHeld("g", 20)
		h.stop[0]()
		h.stop[1]()
		h.stop = nil
		h.live() // a node that starts knows of the gate before it claims
		time.Sleep(10 * time.Second)
		more := h.submitBy(h.nodes[2], 5, after(0))
		time.Sleep(10 * time.Second)
		h.expectHeld("g", 25)
		h.openGate(h.nodes[2], "g", carillon.Rate{})
		time.Sleep(5 * time.Second)
		h.expectAll(append(jobs, more...), 1)
		if gates := h.nodes[2].catalog.AllGates(); len(gates) > 0 {
			t.Errorf("%+v", *gates[0])
		}
	})
}

// A node that dies during a release: another one goes on.
func TestAReleaseGoesOnAfterItsNodeHasStopped(t *testing.T) {
	in(t, gatedHouse, func(h *house) {
		h.live()
		time.Sleep(5 * time.Second)
		h.closeGate(h.nodes[0], carillon.Gate{ID: "g", Match: carillon.GateMatch{All: true}})
		time.Sleep(time.Second)
		jobs := h.submit(100, after(0))
		time.Sleep(2 * time.Second)
		h.expectHeld("g", 100)
		h.openGate(h.nodes[0], "g", carillon.Rate{Starts: 10, Per: time.Second})
		time.Sleep(5 * time.Second)
		if n := h.held("g"); n < 50 || n > 70 {
			t.Errorf("after 5 seconds %d runs wait", n)
		}
		h.stop[0]()
		h.stop = h.stop[1:]
		time.Sleep(30 * time.Second)
		h.expectAll(jobs, 1)
		if n := h.held("g"); n != 0 || len(h.nodes[1].catalog.AllGates()) != 0 {
			t.Errorf("%d runs wait", n)
		}
	})
}

func TestRetriesManualRunsAndPausedJobsPassTheSameGate(t *testing.T) {
	ctx := context.Background()
	in(t, func(h *house) {
		gatedHouse(h)
		h.outcome = func(task executor.Task) carillon.Outcome {
			if task.Run.Attempt == 1 {
				return carillon.Outcome{Kind: carillon.OutcomeRetriable, Reason: "not yet"}
			}
			return carillon.Outcome{Kind: carillon.OutcomeSuccess}
		}
	}, func(h *house) {
		l := h.nodes[0].ledger
		retried := h.submit(3, after(0)) // it fails before the gate closes, and is tried again behind it
		time.Sleep(100 * time.Millisecond)
		done := h.submit(1, typed("done", after(0)))
		time.Sleep(5 * time.Second)
		h.expectAll(done, 1)
		retried = append(retried, h.submit(3, after(0))...)
		time.Sleep(50 * time.Millisecond)
		h.closeGate(h.nodes[0], carillon.Gate{ID: "g", Match: carillon.GateMatch{All: true}, Reason: "no"})
		closed := h.clock.Now()
		if _, err := l.RunNow(ctx, "default", done[0].ID, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := l.RetryRun(ctx, "default", h.runs(done[0].ID)[1].ID); err != nil {
			t.Fatal(err)
		}
		paused := h.submit(2, after(0))
		time.Sleep(5 * time.Second)
		if _, err := l.PauseJob(ctx, "default", paused[0].ID); err != nil {
			t.Fatal(err)
		}
		h.expectHeld("g", 3+1+1) // the second run of the job waits for the first one
		if _, err := l.ResumeJob(ctx, "default", paused[0].ID); err != nil {
			t.Fatal(err)
		}
		// a try now of a run between two attempts
		if _, err := l.RetryRun(ctx, "default", h.runs(retried[4].ID)[0].ID); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		h.expectHeld("g", 3+1+2)
		for _, a := range h.attempts() {
			if a.start > closed {
				t.Errorf("%s started", a.run.ID)
			}
		}
		h.openGate(h.nodes[0], "g", carillon.Rate{})
		time.Sleep(20 * time.Second)
		h.expectAll(append(retried, paused...), 1)
		h.expectAll(done, 3)
		h.expectGone()
	})
}

func TestAGateBeforeALimitAndAnotherGateBehindIt(t *testing.T) {
	in(t, func(h *house) { gatedHouse(h); h.handle = slow(100 * time.Millisecond) }, func(h *house) {
		jobs := h.submit(20, limited(after(0), slots("k", 1)))
		time.Sleep(250 * time.Millisecond)
		h.closeGate(h.nodes[0], carillon.Gate{ID: "a", Match: carillon.GateMatch{Queue: "default"}})
		time.Sleep(2 * time.Second)
		began := len(h.attempts())
		if began > 4 {
			t.Errorf("%d runs of the line started", began)
		}
		h.closeGate(h.nodes[0], carillon.Gate{ID: "b", Match: ofType("test")})
		h.openGate(h.nodes[0], "a", carillon.Rate{})
		time.Sleep(15 * time.Second)
		if n := len(h.attempts()); n != began {
			t.Errorf("%d runs started behind gate b", n-began)
		}
		h.openGate(h.nodes[0], "b", carillon.Rate{})
		time.Sleep(30 * time.Second)
		h.expectAll(jobs, 1)
		h.expectAtMost(1, 1, jobs)
		h.expectDueOrder(jobs)
		h.expectGone()
	})
}

func TestAGateStopsRunningRuns(t *testing.T) {
	in(t, func(h *house) {
		gatedHouse(h)
		h.handle = slow(time.Minute)
		h.outcome = func(executor.Task) carillon.Outcome {
			return carillon.Outcome{Kind: carillon.OutcomeStopped, Reason: "stopped"}
		}
	}, func(h *house) {
		h.live()
		time.Sleep(5 * time.Second)
		jobs := append(h.submitBy(h.nodes[0], 3, after(0)), h.submitBy(h.nodes[1], 3, after(0))...)
		kept := h.submit(1, typed("other", after(0)))
		time.Sleep(time.Second)
		h.closeGate(h.nodes[0], carillon.Gate{
			ID: "g", Match: ofType("test"), Running: carillon.GateStop, Reason: "broken",
		})
		time.Sleep(2 * time.Second)
		for _, job := range jobs {
			if run := h.runs(job.ID)[0]; !run.Has(carillon.FlagStop) || run.Reason != "gate g: broken" {
				t.Errorf("%s was not asked to stop: %q", run.ID, run.Reason)
			}
		}
		if run := h.runs(kept[0].ID)[0]; run.Has(carillon.FlagStop) {
			t.Errorf("%s was asked to stop", run.ID)
		}
		time.Sleep(2 * time.Second)
		if g := h.nodes[1].catalog.GateOf("default", "g"); g == nil || !g.Stopped {
			t.Errorf("it goes on: %+v", g)
		}
		time.Sleep(time.Minute)
	})
}

// Without a worker runs come to the gate by the sweep.
func TestRunsWithoutAWorkerComeToAClosedGate(t *testing.T) {
	in(t, func(h *house) { gatedHouse(h); h.queues = []string{"other"} }, func(h *house) {
		held := h.submit(5, after(0))
		h.submit(5, func(d *carillon.Definition) { d.Queue = "free" })
		time.Sleep(time.Second)
		match := carillon.GateMatch{Queue: "default"}
		h.closeGate(h.nodes[0], carillon.Gate{ID: "g", Match: match, Reason: "x"})
		time.Sleep(40 * time.Second)
		h.expectHeld("g", 5)
		candidates, err := h.nodes[0].ledger.Candidates(context.Background(), h.runs(held[0].ID), "")
		if err != nil || len(candidates) != 1 {
			t.Fatal(candidates, err)
		}
		words := candidates[0].HeldBy(h.clock.Now())
		if !strings.HasPrefix(words, "gate g: x, closed by ann at 2000-") {
			t.Error(words)
		}
	})
}

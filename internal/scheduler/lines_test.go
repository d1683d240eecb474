package scheduler_test

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/porttest"
)

func limited(
	edit func(*carillon.Definition), limits ...carillon.Limit,
) func(*carillon.Definition) {
	return func(d *carillon.Definition) {
		edit(d)
		d.Limits = slices.Clone(limits)
	}
}

func slots(key string, n int) carillon.Limit { return carillon.Limit{Key: key, Concurrency: n} }

// expectAtMost checks that attempts of the jobs never took more than so many slots together.
func (h *house) expectAtMost(most int, weight int, jobs ...[]carillon.Job) (peak int) {
	h.t.Helper()
	of := map[carillon.JobID]bool{}
	for _, job := range slices.Concat(jobs...) {
		of[job.ID] = true
	}
	type edge struct {
		at  carillon.Time
		add int
	}
	var edges []edge
	for _, a := range h.attempts() {
		if of[a.run.ID.Job] {
			edges = append(edges, edge{a.start, weight}, edge{a.end, -weight})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.add, b.add))
	})
	used := 0
	for _, e := range edges {
		used += e.add
		peak = max(peak, used)
	}
	if peak > most {
		h.t.Errorf("%d slots were taken at once, want at most %d", peak, most)
	}
	return peak
}

// expectIdle checks that nothing is left of a limit: no slot is taken, and no run waits.
func (h *house) expectIdle(key string) {
	h.t.Helper()
	time.Sleep(2 * time.Minute) // an audit lets the guard expire
	guards, err := h.truth.Guards(context.Background(), carillon.GuardQuery{
		Namespace: "default", Keys: []string{"limit/key/" + key},
	})
	if err != nil || len(guards) != 1 || guards[0].Expires == 0 {
		h.t.Errorf("the guard of %s is %+v (%v), want one that expires", key, guards, err)
	}
	names, err := h.truth.Holds(context.Background(), carillon.HoldName{}, 10)
	if err != nil || len(names) > 0 {
		h.t.Errorf("runs wait for %v (%v)", names, err)
	}
}

func TestALimitIsNeverExceededAndBlocksNobodyBehindIt(t *testing.T) {
	in(t, func(h *house) { h.handle = slow(100 * time.Millisecond) }, func(h *house) {
		limited := h.submit(60, limited(after(0), slots("customer-42", 3)))
		others := h.submit(5, after(10*time.Millisecond))
		time.Sleep(time.Second)
		h.expectLate(others, 110*time.Millisecond) // slots are free for them: 3 of 8 are taken
		time.Sleep(10 * time.Second)
		h.expectAll(limited, 1)
		if peak := h.expectAtMost(3, 1, limited); peak != 3 {
			t.Errorf("at most %d ran at the same time, want 3", peak)
		}
		h.expectLate(limited, 2100*time.Millisecond) // twenty rounds: no time is lost between them
		h.expectIdle("customer-42")
	})
}

func TestWeightedSlots(t *testing.T) {
	in(t, func(h *house) { h.handle = slow(100 * time.Millisecond) }, func(h *house) {
		heavy := slots("k", 7)
		heavy.Weight = 3
		jobs := h.submit(20, limited(after(0), heavy))
		time.Sleep(10 * time.Second)
		h.expectAll(jobs, 1)
		if peak := h.expectAtMost(7, 3, jobs); peak != 6 {
			t.Errorf("%d slots were taken, want 6 of 7", peak)
		}
		h.expectIdle("k")
	})
}

// Two nodes: each gets every other job, in an order of its own.
func TestASingleSlotStartsRunsInTheOrderOfTheirDueTimes(t *testing.T) {
	in(t, func(h *house) { h.handle = slow(20 * time.Millisecond) }, func(h *house) {
		h.live()
		time.Sleep(5 * time.Second)
		var jobs []carillon.Job
		random := rand.New(rand.NewPCG(uint64(porttest.Seed(t)), 3))
		for _, i := range random.Perm(100) {
			due := after(time.Second + time.Duration(i)*5*time.Millisecond)
			jobs = append(jobs, h.submitBy(h.nodes[i%2], 1, limited(due, slots("order", 1)))...)
		}
		time.Sleep(20 * time.Second)
		h.expectAll(jobs, 1)
		h.expectAtMost(1, 1, jobs)
		seen := h.attempts()
		slices.SortStableFunc(seen, func(a, b attempt) int { return cmp.Compare(a.start, b.start) })
		for i := range seen[1:] {
			if seen[i].run.ID.Due > seen[i+1].run.ID.Due {
				t.Errorf("%s started before %s", seen[i].run.ID, seen[i+1].run.ID)
			}
		}
		h.expectLate(jobs, 2200*time.Millisecond)
		h.expectIdle("order")
	})
}

func TestARate(t *testing.T) {
	in(t, nil, func(h *house) {
		rate := carillon.Limit{Key: "api", Rate: carillon.Rate{Starts: 10, Per: time.Second}, Burst: 5}
		jobs := h.submit(55, limited(after(0), rate))
		time.Sleep(10 * time.Second)
		h.expectAll(jobs, 1)
		seen := h.attempts()
		slices.SortStableFunc(seen, func(a, b attempt) int { return cmp.Compare(a.start, b.start) })
		for i := range seen { // in any time there are at most its starts and a burst
			for k := i; k < len(seen); k++ {
				if in := seen[k].start.Sub(seen[i].start); k-i+1 > 5+int(in*10/time.Second) {
					t.Fatalf("%d starts in %s", k-i+1, in)
				}
			}
		}
		if took := seen[54].start.Sub(seen[0].start); took < 5*time.Second || took > 5200*time.Millisecond {
			t.Errorf("55 starts took %s, want 5s", took)
		}
		h.expectIdle("api")
	})
}

// A retry passes the same rules, and gives its slot to others while it waits.
func TestARetryGivesItsSlotBack(t *testing.T) {
	in(t, func(h *house) {
		h.handle = slow(100 * time.Millisecond)
		h.outcome = func(task executor.Task) carillon.Outcome {
			if task.Run.Attempt == 1 {
				return carillon.Outcome{Kind: carillon.OutcomeRetriable, Reason: "not yet"}
			}
			return carillon.Outcome{Kind: carillon.OutcomeSuccess}
		}
	}, func(h *house) {
		jobs := h.submit(10, limited(after(0), slots("k", 1)))
		time.Sleep(30 * time.Second)
		h.expectAll(jobs, 1)
		h.expectAtMost(1, 1, jobs)
		h.expectLate(jobs, 2*time.Second) // all first attempts; the first retry comes after a second
		h.expectIdle("k")
	})
}

// A run waits for the slots of two keys, and takes none while it waits.
func TestTwoLimitsOfOneJob(t *testing.T) {
	in(t, func(h *house) { h.handle = slow(50 * time.Millisecond) }, func(h *house) {
		a := h.submit(20, limited(after(0), slots("a", 2)))
		both := h.submit(20, limited(after(0), slots("a", 2), slots("b", 3)))
		b := h.submit(20, limited(after(0), slots("b", 3)))
		time.Sleep(30 * time.Second)
		for _, jobs := range [][]carillon.Job{a, both, b} {
			h.expectAll(jobs, 1)
		}
		h.expectAtMost(2, 1, a, both)
		h.expectAtMost(3, 1, b, both)
		h.expectIdle("a")
		h.expectIdle("b")
	})
}

func TestRunsThatWaitInALineCanBeCanceledPausedAndEdited(t *testing.T) {
	ctx := context.Background()
	in(t, func(h *house) { h.handle = slow(time.Second) }, func(h *house) {
		l := h.nodes[0].ledger
		jobs := h.submit(5, limited(after(0), slots("k", 1)))
		time.Sleep(500 * time.Millisecond)
		for i, job := range jobs[1:] {
			if run := h.runs(job.ID)[0]; !run.Parked() || run.Shown(h.clock.Now()) != "held" {
				t.Errorf("run %d is %s: %+v", i+1, run.Shown(h.clock.Now()), run)
			}
		}
		if _, err := l.CancelJob(ctx, "default", jobs[1].ID, false); err != nil {
			t.Error(err)
		}
		if _, err := l.PauseJob(ctx, "default", jobs[2].ID); err != nil {
			t.Error(err)
		}
		free := func(d *carillon.Definition) error { d.Limits = nil; return nil }
		if _, err := l.EditJob(ctx, "default", jobs[4].ID, free); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Second) // the line goes on without the paused one
		h.expectAll([]carillon.Job{jobs[0], jobs[3], jobs[4]}, 1)
		h.expectLate(jobs[4:], 600*time.Millisecond)
		h.expectLate(jobs[3:4], 1100*time.Millisecond)
		if _, err := l.ResumeJob(ctx, "default", jobs[2].ID); err != nil {
			t.Error(err)
		}
		time.Sleep(5 * time.Second)
		h.expectAll(jobs[2:3], 1)
		if run := h.runs(jobs[1].ID)[0]; run.State != carillon.StateCanceled || run.Hold != "" {
			t.Errorf("the canceled run is %+v", run)
		}
		h.expectIdle("k")
	})
}

// The runs of a recurring job whose line is long are not replaced by later ones, which would wait again.
func TestARecurringJobComesToItsTurnInALongLine(t *testing.T) {
	in(t, func(h *house) { h.handle = slow(time.Second) }, func(h *house) {
		h.submit(40, limited(after(0), slots("k", 1)))
		tick := h.submit(1, limited(every(2*time.Second, carillon.OverlapSkip, 0), slots("k", 1)))
		time.Sleep(60 * time.Second)
		ran := 0
		for _, run := range h.runs(tick[0].ID) {
			if run.State == carillon.StateSucceeded {
				ran++
			}
		}
		if ran < 5 {
			t.Errorf("it ran %d times in 60 s: %+v", ran, h.runs(tick[0].ID))
		}
	})
}

// Workers die with slots taken; the slots come back with the runs.
func TestTheSlotsOfADeadNodeComeBack(t *testing.T) {
	in(t, func(h *house) { h.handle = slow(20 * time.Second) }, func(h *house) {
		h.live()
		time.Sleep(5 * time.Second)
		jobs := h.submitBy(h.nodes[1], 12, limited(after(0), slots("k", 6)))
		time.Sleep(time.Second)
		h.stop[1]() // a stop hands runs back; its slots are free at once
		time.Sleep(5 * time.Minute)
		h.expectAll(jobs, 1)
		h.expectAtMost(6, 1, jobs)
		h.expectIdle("k")
	})
}

// Stores fail, queues and timelines lose runs: the limits hold, and every run starts.
func TestLimitsHoldWhileEverythingFails(t *testing.T) {
	seed := porttest.Seed(t)
	for round := range 4 {
		random := rand.New(rand.NewPCG(uint64(seed), uint64(round)))
		var store *switched
		in(t, func(h *house) {
			store = &switched{Store: h.truth, faulty: porttest.Lossy(h.truth, random, 0.1)}
			h.store = store
			h.queue = func(q carillon.Queue) carillon.Queue { return lossyQueue{q, &nth{n: 7}, &nth{n: 31}} }
			h.timeline = func(l carillon.Timeline) carillon.Timeline {
				return lossyTimeline{l, &nth{n: 5}, &nth{n: 37}}
			}
			h.handle = slow(time.Duration(10+round*60) * time.Millisecond)
		}, func(h *house) {
			h.live()
			time.Sleep(5 * time.Second)
			caps := map[string]int{"a": 1, "b": 2, "c": 5}
			of := map[string][]carillon.Job{}
			var all []carillon.Job
			for i := range 120 {
				var limits []carillon.Limit
				for key, n := range caps {
					if random.IntN(2) == 0 {
						limits = append(limits, slots(key, n))
					}
				}
				def := limited(after(time.Duration(random.IntN(5000))*time.Millisecond), limits...)
				jobs := h.submitBy(h.nodes[i%2], 1, def)
				all = append(all, jobs...)
				for _, l := range limits {
					of[l.Key] = append(of[l.Key], jobs...)
				}
			}
			store.turn(true)
			time.Sleep(20 * time.Minute)
			store.turn(false)
			time.Sleep(20 * time.Minute)
			h.expectAll(all, 1)
			for key, jobs := range of {
				h.expectAtMost(caps[key], 1, jobs)
			}
			if names, err := h.truth.Holds(context.Background(), carillon.HoldName{}, 10); len(names) > 0 {
				t.Errorf("runs wait for %v (%v)", names, err)
			}
			guards, _ := h.truth.Guards(context.Background(), carillon.GuardQuery{
				Namespace: "default", Prefix: "limit/",
			})
			for _, g := range guards {
				if g.Expires == 0 {
					t.Errorf("%s is %s", g.Key, g.Value)
				}
			}
		})
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
	}
}

// A count that is wrong, whatever made it so, is found and corrected.
func TestAnAuditCorrectsALimitThatCountsWrongly(t *testing.T) {
	ctx := context.Background()
	in(t, func(h *house) { h.handle = slow(10 * time.Minute) }, func(h *house) {
		jobs := h.submit(3, limited(after(0), slots("k", 2)))
		time.Sleep(5 * time.Minute)
		if n := h.nodes[0].scheduler.LimitDifferences(); n != 0 {
			t.Errorf("%d differences, want none", n)
		}
		guards, err := h.truth.Guards(ctx, carillon.GuardQuery{
			Namespace: "default", Keys: []string{"limit/key/k"},
		})
		if err != nil || len(guards) != 1 {
			t.Fatal(guards, err)
		}
		guards[0].Value = []byte("5 1 1 2 0")
		lost, err := h.truth.Commit(ctx, []carillon.Change{{Guards: guards}})
		if err != nil || len(lost) > 0 {
			t.Fatal(lost, err)
		}
		time.Sleep(2 * time.Minute)
		if n := h.nodes[0].scheduler.LimitDifferences(); n != 1 {
			t.Errorf("%d differences, want 1", n)
		}
		time.Sleep(time.Hour)
		h.expectAll(jobs, 1)
		h.expectAtMost(2, 1, jobs)
		h.expectIdle("k")
	})
}

// Runs whose queue has no worker any more wait in the line, and hold up no others.
func TestRunsThatNoWorkerTakesHoldUpNoOthersOfTheirLine(t *testing.T) {
	in(t, func(h *house) {
		h.queues, h.handle = []string{"default"}, slow(100*time.Millisecond)
	}, func(h *house) {
		other := func(d *carillon.Definition) {
			d.Queue = "other"
			d.Limits = []carillon.Limit{slots("k", 2)}
		}
		gone := h.submit(4, other)
		parked := make([]carillon.Change, len(gone))
		for i := range gone { // as they are once workers of that queue found no room, and went
			parked[i] = h.runs(gone[i].ID)[0].Park("limit/key/k")
			parked[i].Runs[0].About = nil
		}
		if lost, err := h.nodes[0].ledger.Commit(context.Background(), parked); err != nil || len(lost) > 0 {
			t.Fatal(lost, err)
		}
		jobs := h.submit(20, limited(after(0), slots("k", 2)))
		time.Sleep(20 * time.Second)
		h.expectAll(jobs, 1)
		h.expectAtMost(2, 1, jobs)
	})
}

// A retry waits for a second limit; the line that it comes from goes on.
func TestARetryGoesFromLineToLine(t *testing.T) {
	in(t, func(h *house) {
		h.handle = func(task executor.Task) {
			if task.Job.Name == "long" {
				time.Sleep(5 * time.Minute)
			}
			time.Sleep(100 * time.Millisecond)
		}
		h.outcome = func(task executor.Task) carillon.Outcome {
			if task.Job.Name == "both" && task.Run.Attempt == 1 {
				return carillon.Outcome{Kind: carillon.OutcomeRetriable, Reason: "not yet"}
			}
			return carillon.Outcome{Kind: carillon.OutcomeSuccess}
		}
	}, func(h *house) {
		named := func(name string, edit func(*carillon.Definition)) func(*carillon.Definition) {
			return func(d *carillon.Definition) { edit(d); d.Name = name }
		}
		both := h.submit(1, named("both", limited(after(0), slots("a", 1), slots("b", 1))))
		time.Sleep(500 * time.Millisecond)
		h.submit(1, named("long", limited(after(0), slots("b", 1)))) // while the retry waits for its time
		time.Sleep(2 * time.Second)
		rest := h.submit(5, limited(after(0), slots("a", 1)))
		time.Sleep(20 * time.Second)
		h.expectAll(rest, 1)
		time.Sleep(10 * time.Minute)
		h.expectAll(both, 1)
	})
}

// The run at the head of a line is canceled after it was passed on: the next one does not wait for a sweep.
func TestALineGoesOnWhenItsFirstRunIsCanceled(t *testing.T) {
	in(t, func(h *house) {
		h.concurrency = 1
		h.handle = slow(4 * time.Second)
	}, func(h *house) {
		busy := h.submit(1, after(0)) // the only slot of the worker
		jobs := h.submit(2, limited(after(0), slots("k", 1)))
		time.Sleep(time.Second)
		_, err := h.nodes[0].ledger.CancelJob(context.Background(), "default", jobs[0].ID, false)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		h.expectAll(busy, 1)
		h.expectAll(jobs[1:], 1)
		h.expectLate(jobs[1:], 5100*time.Millisecond) // when the worker is free, or a second later
	})
}

// A node died between the commit that made room and its look at the line: a sweep of another node finds it.
func TestASweepFindsALineThatNoNodeLooksAt(t *testing.T) {
	var jobs []carillon.Job
	in(t, func(h *house) {
		jobs = h.put(1, limited(after(0), slots("k", 2)))
		run := h.runs(jobs[0].ID)[0].Park("limit/key/k").Runs[0]
		lost, err := h.truth.Commit(context.Background(), []carillon.Change{{
			Runs: []carillon.Run{run},
			Guards: []carillon.Guard{{
				Namespace: "default", Key: "limit/key/k", Value: []byte("0 1 1 0 0"),
			}},
		}})
		if err != nil || len(lost) > 0 {
			t.Fatal(lost, err)
		}
	}, func(h *house) {
		time.Sleep(15 * time.Second)
		h.expectAll(jobs, 1)
	})
}

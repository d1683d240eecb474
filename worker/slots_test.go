package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

func TestNoMoreRunsGoOnAtOnceThanThereAreSlots(t *testing.T) {
	for _, concurrency := range []int{1, 2, 7} {
		t.Run(fmt.Sprintf("%d slots", concurrency), func(t *testing.T) {
			in(t, func(h *house) { h.concurrency, h.handle = concurrency, slow(50*time.Millisecond) },
				func(h *house) {
					var submits sync.WaitGroup
					for i := range 20 {
						submits.Go(func() {
							for k := range 10 {
								if _, err := h.trySubmit(
									1+k%3, after(time.Duration(i*k%4)*30*time.Millisecond),
								); err != nil {
									t.Error(err)
								}
								time.Sleep(time.Duration(i) * time.Millisecond)
							}
						})
					}
					submits.Wait()
					time.Sleep(5 * time.Minute)
					page, err := h.store.FindRuns(context.Background(), carillon.RunQuery{
						Namespace: carillon.DefaultNamespace, Limit: 1000,
					})
					if err != nil || len(page.Runs) != 20*(4*1+3*2+3*3) {
						t.Fatalf("%d runs, %v", len(page.Runs), err)
					}
					for _, run := range page.Runs {
						h.expect(run, carillon.StateSucceeded, 1, 0)
					}
					if h.most != concurrency {
						t.Errorf("%d runs at once, want %d", h.most, concurrency)
					}
					h.expectSlots()
				})
		})
	}
}

// started is the order in which jobs began.
func (h *house) started() (jobs []carillon.JobID) {
	for _, a := range h.attempts() {
		jobs = append(jobs, a.run.ID.Job)
	}
	return jobs
}

func TestAWorkerTakesNoMoreThanItCanRun(t *testing.T) {
	priority := func(p int, d time.Duration) func(*carillon.Definition) {
		return func(def *carillon.Definition) { def.Priority, def.Schedule.After = p, carillon.Duration(d) }
	}
	for name, wait := range map[string]time.Duration{"pulled": time.Second, "the first ones fused": 0} {
		t.Run(name, func(t *testing.T) {
			in(t, func(h *house) { h.concurrency, h.handle = 2, slow(5*time.Second) }, func(h *house) {
				for p := range 10 {
					h.submit(1, priority(p%8, wait))
				}
				time.Sleep(wait + time.Second)
				urgent := h.submit(1, priority(9, 0))[0].ID
				time.Sleep(5 * time.Minute)
				got := h.started()
				// Two run; at most two more were on their way to a slot when the urgent job came.
				if at := slices.Index(got, urgent); len(got) != 11 || at > 4 {
					t.Errorf("the urgent job %s is number %d to begin: %v", urgent, at+1, got)
				}
			})
		})
	}
}

// takeAway writes that no worker holds the run, as a sweep would.
func (h *house) takeAway(job carillon.JobID) {
	h.t.Helper()
	snapshot, err := h.ledger.Snapshot(context.Background(), carillon.DefaultNamespace, job)
	if err != nil {
		h.t.Fatal(err)
	}
	run := snapshot.Runs[0].Finish(
		&snapshot.Job, carillon.Outcome{Kind: carillon.OutcomeLost, Reason: "taken away"}, carillon.Now(), 0,
	)
	if lost, err := h.ledger.Commit(context.Background(), []carillon.Change{
		{Runs: []carillon.Run{run}},
	}); err != nil ||
		len(lost) > 0 {
		h.t.Fatal(lost, err)
	}
}

func TestAnAttemptWhoseRunWasTakenAwayIsStoppedAndItsResultRefused(t *testing.T) {
	in(t, func(h *house) {
		h.handle = func(ctx context.Context, task executor.Task) error {
			if task.Run.Attempt == 1 {
				<-ctx.Done()
				time.Sleep(7 * time.Second) // slow to stop; then it claims to have done its work
			}
			return task.SetResult(fmt.Appendf(nil, "attempt %d", task.Run.Attempt))
		}
	}, func(h *house) {
		job := h.submit(1, nil)[0].ID
		time.Sleep(3 * time.Second)
		h.takeAway(job)
		time.Sleep(time.Minute)
		h.expect(h.run(job), carillon.StateSucceeded, 2, 1)
		a := h.attempts()
		if len(a) != 2 || !errors.Is(a[0].cause, executor.ErrLeaseOver) || a[1].start < a[0].end {
			t.Fatalf("attempts: %+v", a)
		}
		runs, err := h.store.Runs(context.Background(), []carillon.RunID{h.run(job).ID}, true)
		if err != nil || runs[0].Output == nil || string(runs[0].Output.Result) != "attempt 2" {
			t.Errorf("output %+v, %v", runs[0].Output, err)
		}
		h.expectSlots()
	})
}

func TestDrain(t *testing.T) {
	stopped := func(h *house) (took time.Duration) {
		begin := time.Now()
		h.cancel()
		if err := <-h.ended; err != nil {
			t.Errorf("the worker ended with %v", err)
		}
		return time.Since(begin)
	}
	t.Run("runs that end in time finish, and nothing new begins", func(t *testing.T) {
		in(t, func(h *house) { h.drain, h.handle = 10*time.Second, slow(8*time.Second) }, func(h *house) {
			jobs := h.submit(6, nil) // four run, two wait
			time.Sleep(time.Second)
			if took := stopped(h); took != 7*time.Second {
				t.Errorf("it took %s", took)
			}
			states := map[carillon.State]int{}
			for _, job := range jobs {
				run := h.run(job.ID)
				h.expect(run, run.State, int32(len(h.attempts(job.ID))), 0)
				states[run.State]++
			}
			if states[carillon.StateSucceeded] != 4 || states[carillon.StateWaiting] != 2 {
				t.Errorf("%v", states)
			}
		})
	})
	t.Run("runs that do not are handed back as a loss", func(t *testing.T) {
		in(t, func(h *house) { h.drain, h.handle = 10*time.Second, untilStopped }, func(h *house) {
			job := h.submit(1, nil)[0].ID
			time.Sleep(time.Second)
			if took := stopped(h); took != 10*time.Second {
				t.Errorf("it took %s", took)
			}
			run := h.run(job)
			h.expect(run, carillon.StateWaiting, 1, 1)
			if run.Failures != 0 || run.Reason != executor.ErrShutdown.Error() {
				t.Errorf("%d failures, %q", run.Failures, run.Reason)
			}
		})
	})
	t.Run("a handler that does not listen does not hold up the stop for ever", func(t *testing.T) {
		in(t, func(h *house) { h.drain, h.handle = 10*time.Second, slow(time.Hour) }, func(h *house) {
			job := h.submit(1, nil)[0].ID
			time.Sleep(time.Second)
			if took := stopped(h); took != 25*time.Second {
				t.Errorf("it took %s", took)
			}
			if run := h.run(job); !run.State.Held() {
				t.Errorf("it is %s while its handler goes on", run.State)
			}
		})
	})
}

func TestAWorkerWhoseSessionIsLostLetsGoOfItsRunsAndOpensANewOne(t *testing.T) {
	in(t, func(h *house) {
		h.handle = func(ctx context.Context, task executor.Task) error {
			if task.Run.Attempt == 1 {
				return untilStopped(ctx, task)
			}
			return nil
		}
	}, func(h *house) {
		// After that the coordinator no longer takes an unknown worker for one from before its own start.
		time.Sleep(carillon.SessionTime)
		job := h.submit(1, nil)[0].ID
		time.Sleep(time.Second)
		before := h.worker.ID()
		if err := h.coordinator.Leave(context.Background(), []string{before}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		// A pull of the lost session that still waits can be given the run once more, before the worker hears
		// that the session is over.
		a := h.attempts()
		if len(a) < 2 || !errors.Is(a[0].cause, executor.ErrLeaseOver) {
			t.Errorf("attempts: %+v", a)
		}
		for i := 1; i < len(a); i++ {
			if a[i].start < a[i-1].end {
				t.Errorf("two attempts at the same time: %+v", a)
			}
		}
		if run := h.run(job); run.State != carillon.StateSucceeded || run.Failures != 0 {
			t.Errorf("%s, %d failures: %s", run.State, run.Failures, run.Reason)
		}
		if h.worker.ID() == before {
			t.Error("the worker goes on with a session that was ended")
		}
		h.expectSlots()
	})
}

func TestAHandlerThatEndsItsGoroutineIsTriedAgainAndLosesNoSlot(t *testing.T) {
	in(t, nil, func(h *house) {
		h.handle = func(_ context.Context, task executor.Task) error {
			if task.Run.Attempt == 1 {
				runtime.Goexit()
			}
			return nil
		}
		jobs := h.submit(3, nil)
		time.Sleep(time.Second / 2) // the next attempt comes after a second
		run := h.run(jobs[0].ID)
		if h.expect(run, carillon.StateWaiting, 1, 0); run.Failures != 1 ||
			run.Reason != "the handler ended its goroutine (runtime.Goexit)" {
			t.Errorf("%d failures, %q", run.Failures, run.Reason)
		}
		time.Sleep(10 * time.Minute)
		for _, job := range jobs {
			h.expect(h.run(job.ID), carillon.StateSucceeded, 2, 0)
		}
		h.expectSlots()
	})
}

func TestAHandlerThatEndsItsGoroutineWhenToldToStopLosesNoAttempt(t *testing.T) {
	in(t, func(h *house) { h.drain = time.Second }, func(h *house) {
		h.handle = func(ctx context.Context, _ executor.Task) error {
			<-ctx.Done()
			runtime.Goexit()
			return nil
		}
		job := h.submit(1, func(d *carillon.Definition) { d.Retry.MaxAttempts = 1 })[0]
		time.Sleep(time.Second)
		h.cancel()
		h.parts.Wait()
		h.door.Wait()
		if run := h.run(job.ID); run.State != carillon.StateWaiting || run.Losses != 1 || run.Failures != 0 {
			t.Errorf(
				"%s after %d losses and %d failures: %s", run.State, run.Losses, run.Failures, run.Reason,
			)
		}
	})
}

// A worker with kept slots at a server that does not know them uses all its slots for all runs.
func TestAnOlderServerHasAllSlotsOfAWorkerThatKeepsSome(t *testing.T) {
	in(t, func(h *house) {
		h.keep, h.between, h.handle = 2, &wire{older: true}, slow(time.Hour)
	}, func(h *house) {
		h.submit(8, after(0))
		time.Sleep(time.Minute)
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.most != 4 {
			t.Errorf("%d runs at once, want 4", h.most)
		}
	})
}

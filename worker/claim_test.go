package worker_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

// lostClaim submits a job whose claim is committed, but answered with an error. The job is pulled or
// preclaimed.
func (h *house) lostClaim(fused bool) carillon.JobID {
	h.t.Helper()
	h.store.set(nil, once(isClaim))
	if !fused {
		job := h.submit(1, after(time.Second))[0].ID
		time.Sleep(1500 * time.Millisecond)
		return job
	}
	if _, err := h.trySubmit(1, nil); !errors.Is(err, errInjected) {
		h.t.Fatalf("submit: %v", err)
	}
	page, err := h.store.FindRuns(context.Background(), carillon.RunQuery{
		Namespace: carillon.DefaultNamespace, Limit: 10,
	})
	if err != nil || len(page.Runs) != 1 {
		h.t.Fatal(page.Runs, err)
	}
	return page.Runs[0].ID.Job
}

func TestAClaimWhoseAnswerIsLostBeginsNothing(t *testing.T) {
	for name, fused := range map[string]bool{"pulled": false, "fused with the submit": true} {
		t.Run(name+", and is taken back as a loss", func(t *testing.T) {
			in(t, nil, func(h *house) {
				job := h.lostClaim(fused)
				h.expect(h.run(job), carillon.StateClaimed, 1, 0)
				if n := len(h.attempts()); n != 0 {
					t.Fatalf("%d attempts have begun", n)
				}
				time.Sleep(30 * time.Second)
				h.expect(h.run(job), carillon.StateSucceeded, 2, 1)
				if n := len(h.attempts()); n != 1 {
					t.Errorf("%d attempts, want the second only", n)
				}
				h.expectSlots()
			})
		})
		t.Run(name+", and neither does a cancel of it", func(t *testing.T) {
			in(t, nil, func(h *house) {
				job := h.lostClaim(fused)
				if _, err := h.ledger.CancelJob(
					context.Background(), carillon.DefaultNamespace, job, false,
				); err != nil {
					t.Fatal(err)
				}
				time.Sleep(30 * time.Second)
				h.expect(h.run(job), carillon.StateCanceled, 1, 1)
				if n := len(h.attempts()); n != 0 {
					t.Errorf("%d attempts of a canceled job", n)
				}
				h.expectSlots()
			})
		})
	}
}

func TestAClaimThatIsRefusedGivesItsSlotBack(t *testing.T) {
	in(t, nil, func(h *house) {
		h.store.set(once(isClaim), nil)
		job := h.submit(1, after(time.Second))[0].ID
		time.Sleep(time.Minute)
		h.expect(h.run(job), carillon.StateSucceeded, 1, 0)
		h.store.set(once(isClaim), nil)
		if _, err := h.trySubmit(3, nil); !errors.Is(err, errInjected) {
			t.Fatalf("submit: %v", err)
		}
		h.expectSlots()
	})
}

func TestACancelWhoseAnswerIsLostStopsTheRunWithinASweep(t *testing.T) {
	in(t, func(h *house) { h.handle = untilStopped }, func(h *house) {
		job := h.submit(1, nil)[0].ID
		time.Sleep(20 * time.Second)
		h.store.set(nil, once(isStop))
		if _, err := h.ledger.CancelJob(
			context.Background(), carillon.DefaultNamespace, job, false,
		); !errors.Is(err, errInjected) {
			t.Fatalf("cancel: %v", err)
		}
		time.Sleep(10*time.Second + 100*time.Millisecond)
		h.expect(h.run(job), carillon.StateCanceled, 1, 0)
		if a := h.attempts(); len(a) != 1 || !errors.Is(a[0].cause, executor.ErrStopped) {
			t.Errorf("attempts: %+v", a)
		}
		if _, err := h.ledger.CancelJob(
			context.Background(), carillon.DefaultNamespace, job, false,
		); err != nil {
			t.Errorf("second cancel: %v", err)
		}
		h.expectSlots()
	})
}

func TestASecondCancelStopsAtOnceWhatTheFirstDidNotTell(t *testing.T) {
	in(t, func(h *house) { h.handle = untilStopped }, func(h *house) {
		job := h.submit(1, nil)[0].ID
		time.Sleep(time.Second)
		h.store.set(nil, once(isStop))
		for i, want := range []error{errInjected, nil} {
			if _, err := h.ledger.CancelJob(
				context.Background(), carillon.DefaultNamespace, job, false,
			); !errors.Is(err, want) {
				t.Fatalf("cancel %d: %v, want %v", i+1, err, want)
			}
		}
		time.Sleep(100 * time.Millisecond)
		h.expect(h.run(job), carillon.StateCanceled, 1, 0)
		h.expectSlots()
	})
}

func TestAnEndWhoseAnswerIsLostIsRecordedOnce(t *testing.T) {
	in(t, nil, func(h *house) {
		h.store.set(nil, once(func(run carillon.Run) bool { return run.State.Ended() }))
		job := h.submit(1, nil)[0].ID
		time.Sleep(time.Minute)
		h.expect(h.run(job), carillon.StateSucceeded, 1, 0)
		if held, _ := h.worker.Running(); held != 0 {
			t.Errorf("the worker still holds %d runs", held)
		}
		h.expectSlots()
	})
}

package worker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
)

// A scheduler that read the first claim of a worker before it knew the worker took the worker for dead, and
// the run began twice.
func TestAJobRunsOnceHoweverEarlyItIsSubmitted(t *testing.T) {
	const rounds = 40
	for name, start := range map[string]func(h *house, submit func()){
		"while the parts start": func(h *house, submit func()) {
			h.join()
			h.runLedger()
			go submit()
			h.runScheduler()
			h.runWorker()
		},
		"when all parts have just started": func(h *house, submit func()) {
			h.live()
			submit()
		},
		"a moment before": func(h *house, submit func()) {
			h.join()
			h.runLedger()
			submit()
			h.runScheduler()
			h.runWorker()
		},
		"between the scheduler and the worker": func(h *house, submit func()) {
			h.join()
			h.runLedger()
			h.runScheduler()
			submit()
			h.runWorker()
		},
		"an hour before the scheduler and the worker run": func(h *house, submit func()) {
			h.join()
			h.runLedger()
			submit()
			time.Sleep(time.Hour)
			h.runScheduler()
			h.runWorker()
		},
		"an hour before anything runs": anHourBefore,
	} {
		t.Run(name, func(t *testing.T) {
			for range rounds {
				synctest.Test(t, func(t *testing.T) { playStart(t, 0, start) })
			}
		})
	}
}

func anHourBefore(h *house, submit func()) {
	go submit() // waits in the ledger
	time.Sleep(time.Hour)
	h.live()
}

// The claim is as old as the submit. So a loop that reads it between its commit and the answer finds a claim
// of long ago that its worker does not know of.
func TestAJobThatWaitedForTheLedgerRunsOnceThoughItsCommitIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { playStart(t, 20*time.Millisecond, anHourBefore) })
}

func TestAClaimThatWaitsForASlowStoreRunsOnce(t *testing.T) {
	in(t, func(h *house) { h.handle = slow(20 * time.Second) }, func(h *house) {
		h.store.mu.Lock()
		h.store.delay = 3 * time.Second
		h.store.mu.Unlock()
		var jobs []carillon.Job
		for range 4 {
			jobs = append(jobs, h.submit(1, after(7*time.Second))...)
		}
		time.Sleep(5 * time.Minute)
		for _, job := range jobs {
			h.expect(h.run(job.ID), carillon.StateSucceeded, 1, 0)
		}
	})
}

func playStart(t *testing.T, delay time.Duration, start func(h *house, submit func())) {
	h := newHouse(t, func(h *house) { h.handle, h.store.delay = slow(200*time.Millisecond), delay })
	got := make(chan []carillon.Job, 1)
	start(h, func() { got <- h.submit(3, nil) })
	jobs := <-got
	time.Sleep(time.Minute)
	h.stop()
	for _, job := range jobs {
		h.expect(h.run(job.ID), carillon.StateSucceeded, 1, 0)
		if n := len(h.attempts(job.ID)); n != 1 {
			t.Errorf("%d attempts, want 1", n)
		}
	}
}

func TestAJobOfAnEarlierProcessRunsOnce(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			first := newHouse(t, nil)
			first.join()
			first.runLedger()
			jobs := first.submit(20, after(time.Minute))
			first.stop()
			time.Sleep(time.Hour)
			h := newHouse(t, func(h *house) { h.store, h.handle = first.store, slow(time.Second) })
			h.live()
			time.Sleep(time.Minute)
			h.stop()
			for _, job := range jobs {
				h.expect(h.run(job.ID), carillon.StateSucceeded, 1, 0)
			}
			if n := len(h.attempts()); n != len(jobs) {
				t.Errorf("%d attempts of %d jobs", n, len(jobs))
			}
		})
	}
}

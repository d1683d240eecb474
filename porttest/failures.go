package porttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

// failures are scenarios about runs that fail: what is known about their attempts, and what follows.
var failures = []scenario{
	{"every attempt of a run that did not succeed at once has a record", func(h *House) {
		h.Handle = func(_ context.Context, task executor.Task) error {
			if task.Run.Attempt < 3 {
				return fmt.Errorf("luck %d", task.Run.Attempt)
			}
			return nil
		}
		job := h.Submit(nil)
		time.Sleep(time.Minute)
		h.expect(job.ID, "succeeded 3")
		h.expectAttempts(job.ID, "1 retriable luck 1", "2 retriable luck 2", "3 success ")
	}},
	{"a run that succeeds at once has no record of its attempt, and tells it itself", func(h *House) {
		job := h.Submit(nil)
		time.Sleep(time.Minute)
		h.expectAttempts(job.ID, "1 success ")
		records, err := h.Store.Attempts(context.Background(), h.Runs(job.ID)[0].ID, 0, 10)
		if err != nil || len(records) > 0 {
			h.T.Errorf("records %+v, %v", records, err)
		}
	}},
	{"an attempt that is stopped, and one whose worker shuts down, have records", func(h *House) {
		h.Handle = untilStopped
		job := h.Submit(nil)
		time.Sleep(time.Minute)
		h.Down(time.Minute)
		time.Sleep(time.Minute)
		run := h.Runs(job.ID)[0].ID
		if _, err := h.Ledger.CancelRun(context.Background(), "default", run); err != nil {
			h.T.Fatal(err)
		}
		time.Sleep(time.Minute)
		h.expectAttempts(
			job.ID, "1 lost the worker was shutting down",
			"2 stopped stopped on request: canceled by request",
		)
	}},
	{"a retry rule decides by the reason whether and when a run is tried again", func(h *House) {
		h.Handle = func(_ context.Context, task executor.Task) error {
			if task.Run.Attempt < 3 {
				return executor.Fatal(errors.New("the table is locked"))
			}
			return errors.New("the table is gone")
		}
		job := h.Submit(func(d *carillon.Definition) {
			d.Retry.Jitter = carillon.Zero
			d.Retry.Rules = &carillon.RetryRules{
				{Match: "locked", After: carillon.Duration(5 * time.Minute)}, {Match: "gone$", Fatal: true},
			}
		})
		time.Sleep(20 * time.Minute)
		h.expect(job.ID, "failed 3 the table is gone")
		h.expectPauses(5*time.Minute, 5*time.Minute)
		h.expectAttempts(
			job.ID, "1 retriable the table is locked", "2 retriable the table is locked",
			"3 fatal the table is gone",
		)
	}},
	{"a job is paused after some failed runs in a row, and goes on when it is resumed", func(h *House) {
		var fail atomic.Bool
		fail.Store(true)
		h.Handle = func(context.Context, executor.Task) error {
			if fail.Load() {
				return executor.Fatal(errors.New("no luck"))
			}
			return nil
		}
		job := h.Submit(func(d *carillon.Definition) {
			d.Schedule.Every, d.PauseAfter = carillon.Duration(time.Minute), 3
		})
		time.Sleep(10 * time.Minute)
		h.expectPaused(job, "its last 3 runs failed, the last one: no luck")
		if n := len(h.Seen()); n != 3 {
			h.T.Errorf("%d runs have started, want 3", n)
		}
		if _, err := h.Ledger.ResumeJob(context.Background(), "default", job.ID); err != nil {
			h.T.Fatal(err)
		}
		time.Sleep(2*time.Minute + 10*time.Second) // two more failures, then a success
		h.expectPaused(job, "")
		fail.Store(false)
		time.Sleep(time.Minute)
		fail.Store(true)
		time.Sleep(2 * time.Minute)
		h.expectPaused(job, "")
		time.Sleep(5 * time.Minute)
		h.expectPaused(job, "its last 3 runs failed, the last one: no luck")
		if n := len(h.Seen()); n != 9 {
			h.T.Errorf("%d runs have started, want 9", n)
		}
	}},
}

// expectAttempts compares the attempts of the job's only run: number, outcome and reason of each.
func (h *House) expectAttempts(job carillon.JobID, want ...string) {
	h.T.Helper()
	run := h.Runs(job)[0]
	records, err := h.Store.Attempts(context.Background(), run.ID, 0, 100)
	if err != nil {
		h.T.Fatal(err)
	}
	var got []string
	for _, a := range run.Attempts(records, 0, false) {
		got = append(got, fmt.Sprintf("%d %s %s", a.Number, a.Outcome, a.Reason))
		if a.Worker == "" || a.Claimed == 0 || a.Started < a.Claimed || a.Ended < a.Started {
			h.T.Errorf("attempt %+v", a)
		}
	}
	if !slices.Equal(got, want) {
		h.T.Errorf("attempts\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// expectPaused compares whether Carillon has paused a job, and why; an empty reason: it has not.
func (h *House) expectPaused(job carillon.Job, reason string) {
	h.T.Helper()
	snapshot, err := h.Ledger.Snapshot(context.Background(), job.Namespace, job.ID)
	if err != nil {
		h.T.Fatal(err)
	}
	got := snapshot.Job.PauseReason(snapshot.Guards)
	if paused := snapshot.Job.State == carillon.JobPaused; paused != (reason != "") || got != reason {
		h.T.Errorf("the job is %s because %q, want %q", snapshot.Job.State, got, reason)
	}
}

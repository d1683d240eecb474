package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

func TestHandlersThatPanicOrNeverReturnHarmNoNeighborAndEndWithTheirReason(t *testing.T) {
	in(t, func(h *house) {
		h.concurrency = 3
		h.handle = func(ctx context.Context, task executor.Task) error {
			switch task.Job.Type {
			case "panics":
				panic("poison")
			case "never.returns":
				return untilStopped(ctx, task)
			}
			return nil
		}
	}, func(h *house) {
		poison := func(kind string) carillon.JobID {
			return h.submit(1, func(d *carillon.Definition) {
				d.Type, d.Timeout = kind, carillon.Duration(time.Minute)
				d.Retry.MaxAttempts = 3
			})[0].ID
		}
		panics, never := poison("panics"), poison("never.returns")
		var neighbors []carillon.JobID
		for range 20 {
			neighbors = append(neighbors, h.submit(1, nil)[0].ID)
			time.Sleep(10 * time.Second)
		}
		for _, a := range h.attempts(neighbors...) {
			if late := a.start.Sub(a.run.ID.Due); late > 100*time.Millisecond {
				t.Errorf("a neighbor started %s late", late)
			}
		}
		for _, job := range neighbors {
			h.expect(h.run(job), carillon.StateSucceeded, 1, 0)
		}
		time.Sleep(time.Hour)
		for job, reason := range map[carillon.JobID]string{
			panics: "panic: poison", never: "timed out after 1m",
		} {
			run := h.run(job)
			h.expect(run, carillon.StateFailed, 3, 0)
			if run.Reason != reason {
				t.Errorf("it failed with %q, want %q", run.Reason, reason)
			}
		}
		h.expectSlots()
	})
}

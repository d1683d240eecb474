package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// A run from before runs knew what they need can still come to the wrong worker: once.
func TestARunThatItsWorkerCannotPerformIsHandedBackAsALoss(t *testing.T) {
	in(t, nil, func(h *house) {
		job := h.submit(1, func(d *carillon.Definition) {
			d.Target = carillon.Target{Command: &carillon.Command{Argv: []string{"true"}}}
		})[0]
		time.Sleep(time.Second)
		run := h.run(job.ID)
		if run.Attempt != 0 {
			t.Fatalf("attempt %d of a worker without commands", run.Attempt)
		}
		run.Needs, run.Wake = "", carillon.Now().Add(time.Second)
		change := carillon.Change{Runs: []carillon.Run{run}}
		lost, err := h.ledger.Commit(context.Background(), []carillon.Change{change})
		if err != nil || lost != nil {
			t.Fatal(lost, err)
		}
		time.Sleep(time.Hour)
		run = h.run(job.ID)
		if run.State != carillon.StateWaiting || run.Attempt != 1 || run.Losses != 1 ||
			run.Needs != ":command" ||
			run.Reason != "this worker has no executor for command targets" {
			t.Errorf("the run is %+v", run)
		}
	})
}

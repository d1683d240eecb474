package dispatch

import (
	"context"
	"slices"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/worker/protocol"
)

// lies says whether the store may keep something beside a run that its attempt needs: what an earlier attempt
// has saved, or the run's own payload.
func lies(t protocol.Task) bool { return t.Run.Attempt > 1 || t.Run.Has(carillon.FlagOwnPayload) }

// withOutputs adds what the store keeps beside the runs. It leaves out runs whose data it cannot read now: no
// worker lists them, so the watch loop takes them back. Without the data an attempt would do something else
// than the user asked for.
func (d *Dispatcher) withOutputs(ctx context.Context, tasks []protocol.Task) []protocol.Task {
	var ids []carillon.RunID
	for i := range tasks {
		if lies(tasks[i]) {
			ids = append(ids, tasks[i].Run.ID)
		}
	}
	if len(ids) == 0 {
		return tasks
	}
	runs, err := d.cfg.Store.Runs(ctx, ids, true)
	if err != nil {
		d.cfg.Logger.Error("read checkpoints and payloads", "error", err, "runs", len(ids))
		return slices.DeleteFunc(tasks, lies)
	}
	saved := make(map[carillon.RunID]*carillon.Output, len(runs))
	for i := range runs {
		saved[runs[i].ID] = runs[i].Output
	}
	for i := range tasks {
		if out := saved[tasks[i].Run.ID]; out != nil {
			tasks[i].Checkpoint = out.Checkpoint
			tasks[i].Job = with(tasks[i].Job, out.Payload)
		}
	}
	return slices.DeleteFunc(tasks, func(t protocol.Task) bool {
		out := saved[t.Run.ID]
		return t.Run.Has(carillon.FlagOwnPayload) && (out == nil || out.Payload == nil)
	})
}

// with is the job with another payload. It copies the job, because the dispatcher and the ledger remember the
// original.
func with(job *carillon.Job, payload []byte) *carillon.Job {
	if payload == nil {
		return job
	}
	own := *job
	own.Payload = payload
	if string(payload) == "null" {
		own.Payload = nil
	}
	return &own
}

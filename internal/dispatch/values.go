package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/worker/protocol"
)

// withValues fills the placeholders of runs that are nodes of workflows. Runs whose values it cannot read now
// are lost, and wait for a moment. A run whose values are no good, for example too large, fails.
func (d *Dispatcher) withValues(
	ctx context.Context, tasks []protocol.Task, worker string,
) []protocol.Task {
	if d.cfg.Fill == nil {
		return tasks
	}
	var parts []int
	var jobs []*carillon.Job
	for i := range tasks {
		if _, is := tasks[i].Job.Part(); is { // also a run that was added beside the workflow
			parts, jobs = append(parts, i), append(jobs, tasks[i].Job)
		}
	}
	if len(parts) == 0 {
		return tasks
	}
	filled, bad, err := d.cfg.Fill(ctx, jobs)
	if err != nil {
		d.cfg.Logger.Error("read the values of nodes", "error", err, "runs", len(parts))
		filled, bad = jobs, map[int]error{}
		for k := range parts {
			bad[k] = err
		}
	}
	var failed []protocol.Report
	left := map[carillon.RunID]bool{}
	for k, i := range parts {
		tasks[i].Job = filled[k]
		if bad[k] != nil {
			left[tasks[i].Run.ID] = true
			end := &carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: bad[k].Error()}
			if err != nil { // the store does not answer now: it is no fault of the run
				end.Kind, end.RetryAfter = carillon.OutcomeLost, time.Second
			}
			failed = append(failed, protocol.Report{Held: tasks[i].Held(), End: end})
		}
	}
	if len(failed) > 0 {
		go d.recordLost(worker, failed)
	}
	return slices.DeleteFunc(tasks, func(t protocol.Task) bool { return left[t.Run.ID] })
}

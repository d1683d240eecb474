package dispatch

import (
	"context"
	"slices"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/worker/protocol"
)

// withValues fills the placeholders of runs that are nodes of workflows. It leaves out runs whose values
// it cannot read now: no worker lists them, so the watch loop takes them back. A run whose values are no
// good, for example too large, fails.
func (d *Dispatcher) withValues(
	ctx context.Context, tasks []protocol.Task, worker string,
) []protocol.Task {
	isPart := func(t protocol.Task) bool { return t.Run.Has(carillon.FlagPart) }
	if d.cfg.Fill == nil || !slices.ContainsFunc(tasks, isPart) {
		return tasks
	}
	var failed []protocol.Report
	unread := map[carillon.RunID]bool{}
	for i := range tasks {
		if !isPart(tasks[i]) {
			continue
		}
		job, bad, err := d.cfg.Fill(ctx, tasks[i].Job)
		switch {
		case err != nil:
			d.cfg.Logger.Error("read the values of a node", "error", err, "run", tasks[i].Run.ID)
			unread[tasks[i].Run.ID] = true
		case bad != nil:
			unread[tasks[i].Run.ID] = true
			failed = append(failed, protocol.Report{
				Held: tasks[i].Held(),
				End:  &carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: bad.Error()},
			})
		default:
			tasks[i].Job = job
		}
	}
	if len(failed) > 0 {
		go d.recordLost(worker, failed)
	}
	return slices.DeleteFunc(tasks, func(t protocol.Task) bool { return unread[t.Run.ID] })
}

package carillon_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// epoch is 2027-01-15T08:00:00Z, a Friday: when things happen in these tests.
const epoch carillon.Time = 1_800_000_000_000

const worker = "worker_1"

// define is an admitted definition.
func define(t *testing.T, edit func(*carillon.Definition)) carillon.Definition {
	t.Helper()
	def := carillon.NewDefinition()
	def.Type, def.Target.Handler = "test", &carillon.Handler{}
	if edit != nil {
		edit(&def)
	}
	if err := def.Admit(epoch); err != nil {
		t.Fatal(err)
	}
	return def
}

// newJob is an active job as it is read back.
func newJob(t *testing.T, edit func(*carillon.Definition)) *carillon.Job {
	t.Helper()
	return &carillon.Job{
		Namespace: carillon.DefaultNamespace, ID: 4711, Rev: 3, Version: 1, State: carillon.Active, Created: epoch, Updated: epoch,
		Definition: define(t, edit),
	}
}

// minutely is due at every full minute after the epoch.
func minutely(overlap carillon.Overlap) func(*carillon.Definition) {
	return func(d *carillon.Definition) {
		d.Schedule.Every, d.Overlap = carillon.Duration(time.Minute), overlap
	}
}

// minute is the n-th due time of a minutely job.
func minute(n int) carillon.Time { return epoch.Add(time.Duration(n) * time.Minute) }

// planned is the job's run by the clock at a due time, as it is read back.
func planned(job *carillon.Job, due carillon.Time) carillon.Run {
	run := carillon.NewRun(job, due)
	run.Covers, run.Rev = due, 5
	return run
}

// manual is a run of the job that somebody asked for.
func manual(job *carillon.Job, due carillon.Time) carillon.Run {
	run := carillon.NewRun(job, due)
	run.Flags |= carillon.Extra
	if job.Overlap != carillon.OverlapAllow {
		run.Flags |= carillon.Guarded
	}
	run.Rev = 5
	return run
}

// claimed is a run that a worker has; it has planned its successor.
func claimed(run carillon.Run) carillon.Run {
	run = run.Claim("worker_0", run.ID.Due)
	run.Flags |= carillon.Planned
	return run
}

// retrying is a run between two attempts.
func retrying(run carillon.Run, wake carillon.Time) carillon.Run {
	run = claimed(run)
	run.State, run.Worker, run.Wake, run.Failures = carillon.Waiting, "", wake, 1
	return run
}

// line is the job's guard: whose turn it is, and who waits.
func line(job *carillon.Job, holder carillon.Time, queue ...carillon.Time) *carillon.Guard {
	guard := carillon.NewOverlapGuard(job)
	guard.Rev = 9
	value := map[string]any{}
	if holder != 0 {
		value["holder"] = holder
	}
	if len(queue) > 0 {
		value["queue"] = queue
	}
	guard.Value, _ = json.Marshal(value)
	return &guard
}

// withFlags is for comparing: a run, its flags added to.
func withFlags(run carillon.Run, flags carillon.Flags) carillon.Run {
	run.Flags |= flags
	return run
}

func id(job *carillon.Job, due carillon.Time) carillon.RunID { return carillon.RunID{Job: job.ID, Due: due} }

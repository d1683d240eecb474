package carillon_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// epoch is 2027-01-15T08:00:00Z, a Friday: the time at which these tests happen.
const epoch carillon.Time = 1_800_000_000_000

const worker = "worker_1"

// define is an admitted definition.
func define(t *testing.T, edit func(*carillon.Definition)) carillon.Definition {
	t.Helper()
	def := carillon.Definition{}
	def.Type, def.Target.Handler = "test", &carillon.Handler{}
	if edit != nil {
		edit(&def)
	}
	if err := def.Admit(epoch); err != nil {
		t.Fatal(err)
	}
	return def
}

// newJob is an active job as a store returns it.
func newJob(t *testing.T, edit func(*carillon.Definition)) *carillon.Job {
	t.Helper()
	return &carillon.Job{
		Namespace: carillon.DefaultNamespace, ID: 4711, Rev: 3, Version: 1, State: carillon.JobActive,
		Created: epoch, Updated: epoch,
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

// planned is the job's run by the clock at a due time, as a store returns it.
func planned(job *carillon.Job, due carillon.Time) carillon.Run {
	run := carillon.NewRun(job, due)
	run.Covers, run.Rev = due, 5
	return run
}

// manual is a run of the job that a caller asked for.
func manual(job *carillon.Job, due carillon.Time) carillon.Run {
	run := carillon.NewRun(job, due)
	run.Flags |= carillon.FlagAdditional
	if job.Overlap != carillon.OverlapAllow {
		run.Flags |= carillon.FlagGuarded
	}
	run.Rev = 5
	return run
}

// claimed is a run that a worker holds; its successor is planned.
func claimed(run carillon.Run) carillon.Run {
	run = run.Claim("worker_0", run.ID.Due)
	run.Flags |= carillon.FlagPlanned
	return run
}

// retrying is a run between two attempts.
func retrying(run carillon.Run, wake carillon.Time) carillon.Run {
	run = claimed(run)
	run.State, run.Worker, run.Wake, run.Failures = carillon.StateWaiting, "", wake, 1
	return run
}

// line is the job's guard: the run that has the turn, and the runs that wait.
func line(job *carillon.Job, holder carillon.Time, queue ...carillon.Time) carillon.Guards {
	guard := job.OverlapGuard()
	guard.Rev = 9
	value := map[string]any{}
	if holder != 0 {
		value["holder"] = holder
	}
	if len(queue) > 0 {
		value["queue"] = queue
	}
	guard.Value, _ = json.Marshal(value)
	return carillon.Guards{guard}
}

func runID(job *carillon.Job, due carillon.Time) string {
	return carillon.RunID{Job: job.ID, Due: due}.String()
}

// tell puts a change into words, one line for each row: for a run its due time, state and whatever else is
// true of it, for a guard the runs in it. Times are since the epoch.
func tell(c carillon.Change) []string {
	var lines []string
	if c.Job != nil {
		lines = append(lines, fmt.Sprintf("job v%d %s", c.Job.Version, c.Job.State))
	}
	for i := range c.Runs {
		lines = append(lines, tellRun(&c.Runs[i]))
	}
	for _, guard := range c.Guards {
		holder, beside, queue := turns(carillon.Guards{guard})
		text := fmt.Sprintf("turn r%d", guard.Rev)
		if holder != 0 {
			text += " of " + since(holder)
		}
		for _, due := range beside {
			text += " beside " + since(due)
		}
		for _, due := range queue {
			text += " then " + since(due)
		}
		lines = append(lines, text)
	}
	for _, guard := range c.Compared {
		lines = append(lines, fmt.Sprintf("turn r%d stays", guard.Rev))
	}
	for _, retried := range c.Retried {
		lines = append(lines, "no dead letter "+since(retried.Due))
	}
	return lines
}

func tellRun(run *carillon.Run) string {
	text := fmt.Sprintf("%s r%d v%d %s", since(run.ID.Due), run.Rev, run.Version, run.State)
	for _, f := range []struct {
		flag carillon.Flags
		name string
	}{
		{carillon.FlagGuarded, "guarded"},
		{carillon.FlagPlanned, "planned"},
		{carillon.FlagOnHold, "on-hold"},
		{carillon.FlagStop, "stop"},
		{carillon.FlagNoRetry, "last"},
	} {
		if run.Has(f.flag) {
			text += " " + f.name
		}
	}
	if run.Attempt > 0 {
		text += fmt.Sprintf(" #%d", run.Attempt)
	}
	if run.Covers != run.ID.Due && run.Covers != 0 {
		text += " covers " + since(run.Covers)
	}
	if run.Until != 0 {
		text += " until " + since(run.Until)
	}
	if run.Seq > 0 {
		text += fmt.Sprintf(" seq %d", run.Seq)
	}
	if run.Wake != run.ID.Due && !run.State.Ended() {
		text += " wakes " + since(run.Wake)
	}
	if run.RetryOf != 0 {
		text += " retries " + since(run.RetryOf)
	}
	if run.Reason != "" {
		text += ": " + run.Reason
	}
	return text
}

func since(at carillon.Time) string {
	if at == carillon.Never {
		return "never"
	}
	return carillon.Duration(at.Sub(epoch)).String()
}

// expectChange compares a change with the words that tell finds for it.
func expectChange(t *testing.T, c carillon.Change, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, tell(c), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the change (-want +got):\n%s", diff)
	}
}

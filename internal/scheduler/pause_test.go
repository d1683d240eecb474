package scheduler_test

import (
	"context"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/porttest"
)

// failedJob is a recurring job with pause_after whose last runs have failed, in a store that no node has
// looked at since. Its next run is due in an hour.
func failedJob(h *house, failed int, after int32) carillon.Job {
	h.t.Helper()
	def := carillon.Definition{Type: "test", PauseAfter: after, Target: carillon.Target{Handler: &carillon.Handler{}}}
	def.Schedule.Every = carillon.Duration(time.Hour)
	now := carillon.Now()
	if err := def.Admit(now); err != nil {
		h.t.Fatal(err)
	}
	job := carillon.Job{ID: carillon.JobID(1000 + failed), Namespace: "default", Definition: def}
	changes := []carillon.Change{carillon.Submit(&job, now)}
	for i := range failed {
		run := carillon.NewRun(&job, now+carillon.Time(i+1)).Claim("worker_gone", now)
		changes[0].Runs = append(changes[0].Runs, run.Finish(
			&job, carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: "no luck"}, now+carillon.Time(i+2), 0,
		))
	}
	if lost, err := h.truth.Commit(context.Background(), changes); err != nil || len(lost) > 0 {
		h.t.Fatal(lost, err)
	}
	return job
}

func (h *house) jobState(id carillon.JobID) carillon.JobState {
	h.t.Helper()
	jobs, err := h.truth.Jobs(context.Background(), []carillon.JobVersion{{Job: id}})
	if err != nil || len(jobs) != 1 {
		h.t.Fatal(jobs, err)
	}
	return jobs[0].State
}

func TestANodeThatStartsPausesJobsWhoseFailuresNoNodeHasLookedAt(t *testing.T) {
	var failing, less carillon.Job
	in(t, func(h *house) {
		failing, less = failedJob(h, 3, 3), failedJob(h, 2, 3)
		// The loop has to try again until the store answers.
		h.store = porttest.Failing(h.truth, "FindRuns", 1, 2, 3)
	}, func(h *house) {
		time.Sleep(10 * time.Second)
		if got := h.jobState(failing.ID); got != carillon.JobPaused {
			t.Errorf("the job is %s", got)
		}
		if got := h.jobState(less.ID); got != carillon.JobActive {
			t.Errorf("the job with too few failures is %s", got)
		}
	})
}

func TestAFailureIsCountedAlthoughTheStoreIsAwayForAWhile(t *testing.T) {
	in(t, func(h *house) {
		h.outcome = func(executor.Task) carillon.Outcome {
			return carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: "no luck"}
		}
		h.store = porttest.Failing(h.truth, "Guards", 1, 2, 3, 4)
	}, func(h *house) {
		job := failedJob(h, 1, 2)
		h.nodes[0].scheduler.Route([]carillon.Change{{Runs: []carillon.Run{{
			ID: carillon.RunID{Job: job.ID}, Namespace: "default", State: carillon.StateFailed,
			Flags: carillon.FlagPauseAfter,
		}}}})
		time.Sleep(time.Minute)
		if got := h.jobState(job.ID); got != carillon.JobActive {
			t.Errorf("after one failure the job is %s", got)
		}
		time.Sleep(time.Hour)
		if got := h.jobState(job.ID); got != carillon.JobPaused {
			t.Errorf("after two failures the job is %s", got)
		}
	})
}

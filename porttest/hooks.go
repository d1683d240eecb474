package porttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

// hooks are scenarios in which jobs follow the ends of runs, or runs that are late.
var hooks = []scenario{
	{"on_failure: one job follows the last failure of a run, with its facts", func(h *House) {
		h.hooked(func(context.Context, executor.Task) error { return errors.New("no luck") })
		job := h.Submit(func(d *carillon.Definition) {
			d.Name, d.Retry.MaxAttempts = "nightly", 2
			d.OnFailure, d.OnSuccess = told(), told()
		})
		time.Sleep(5 * time.Minute)
		h.expect(job.ID, "failed 2 no luck")
		run := h.Runs(job.ID)[0]
		h.expectTold(fmt.Sprintf("run.failed of %s, nightly: failed after 2 at %s", run.ID, run.Ended))
		h.expectHooks(run.ID, "succeeded 1")
	}},
	{"on_success: one job follows the success of a run, and none of a hook's own run", func(h *House) {
		h.hooked(nil)
		job := h.Submit(func(d *carillon.Definition) { d.OnFailure, d.OnSuccess = told(), told() })
		time.Sleep(5 * time.Minute)
		run := h.Runs(job.ID)[0]
		h.expectTold(fmt.Sprintf("run.succeeded of %s, test: succeeded after 1 at %s", run.ID, run.Ended))
	}},
	{"on_failure: a hook's job that fails is a dead letter, and has no hook", func(h *House) {
		h.Handle = func(context.Context, executor.Task) error { return executor.Fatal(errors.New("never")) }
		job := h.Submit(func(d *carillon.Definition) { d.OnFailure = told() })
		time.Sleep(5 * time.Minute)
		h.expectHooks(h.Runs(job.ID)[0].ID, "failed 1 never")
		if n := len(h.Seen()); n != 2 {
			h.T.Errorf("%d attempts, want that of the run and that of its hook", n)
		}
	}},
	{"on_failure: a run that is canceled or skipped has no hook", func(h *House) {
		h.hooked(sleeping(25 * time.Second))
		h.Submit(func(d *carillon.Definition) {
			every10s(carillon.OverlapSkip, 1)(d)
			d.OnFailure = told()
		})
		job := h.Submit(func(d *carillon.Definition) { d.OnFailure, d.OnSuccess = told(), told() })
		time.Sleep(time.Second)
		if _, err := h.Ledger.CancelJob(context.Background(), "default", job.ID, false); err != nil {
			h.T.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		h.expectLike(job.ID, "canceled the job was canceled")
		h.expectTold()
	}},
	{"late: a run that finds no worker is told of once, when it is late", func(h *House) {
		h.hooked(sleeping(10 * time.Minute))
		for range 8 {
			h.Submit(nil)
		}
		time.Sleep(time.Second)
		job := h.Submit(func(d *carillon.Definition) { d.Late, d.Priority = lateAfter(time.Minute), 9 })
		late := job.Schedule.At.Add(time.Minute)
		time.Sleep(30 * time.Minute)
		h.expectTold(fmt.Sprintf("run.late of %s, test: waiting after 0 at %s",
			h.Runs(job.ID)[0].ID, late))
	}},
	{"late: a run that starts in time is not told of, however long it takes", func(h *House) {
		h.hooked(sleeping(10 * time.Minute))
		h.Submit(func(d *carillon.Definition) { d.Late = lateAfter(time.Minute) })
		h.Submit(func(d *carillon.Definition) {
			d.Late, d.Schedule.After = lateAfter(time.Minute), carillon.Duration(20*time.Minute)
		})
		time.Sleep(time.Hour)
		h.expectTold()
	}},
	{"late: a run that waits for its turn, or in the line of a limit, is told of", func(h *House) {
		h.hooked(sleeping(45 * time.Second))
		limit := []carillon.Limit{{Key: "one", Concurrency: 1}}
		h.Submit(func(d *carillon.Definition) { d.Limits = limit })
		lined := h.Submit(func(d *carillon.Definition) {
			d.Limits, d.Late = limit, lateAfter(20*time.Second)
		})
		turns := h.Submit(func(d *carillon.Definition) {
			every10s(carillon.OverlapQueue, 2)(d)
			d.Late = lateAfter(20 * time.Second)
		})
		time.Sleep(30 * time.Minute)
		line, turn := h.Runs(lined.ID)[0].ID, h.waited(turns.ID)
		h.expectTold(
			fmt.Sprintf("run.late of %s, test: waiting after 0 at %s", line, line.Due.Add(20*time.Second)),
			fmt.Sprintf("run.late of %s, test: waiting after 0 at %s", turn, turn.Due.Add(20*time.Second)),
		)
	}},
	{"late: after a restart a run in the line of a limit is told of", func(h *House) {
		h.hooked(sleeping(20 * time.Minute))
		limit := []carillon.Limit{{Key: "one", Concurrency: 1}}
		h.Submit(func(d *carillon.Definition) { d.Limits = limit })
		time.Sleep(time.Second)
		job := h.Submit(func(d *carillon.Definition) { d.Limits, d.Late = limit, lateAfter(10*time.Minute) })
		time.Sleep(time.Second)
		if run := h.Runs(job.ID)[0]; !run.Parked() {
			h.T.Errorf("the run is %s, and not in the line", run.State)
		}
		h.stop()
		h.Number = 2 // in a bubble ids do not depend on the time
		h.Live(8)
		time.Sleep(5 * time.Minute)
		h.expectTold()
		time.Sleep(10 * time.Minute)
		h.expectTold(fmt.Sprintf("run.late of %s, test: waiting after 0 at %s", h.Runs(job.ID)[0].ID,
			job.Schedule.At.Add(10*time.Minute)))
		time.Sleep(time.Hour)
	}},
	{"late: a run that starts late after a downtime is told of once", func(h *House) {
		h.hooked(nil)
		job := h.Submit(func(d *carillon.Definition) {
			d.Late, d.Schedule.After = lateAfter(time.Minute), carillon.Duration(5*time.Minute)
		})
		h.Down(time.Hour)
		time.Sleep(5 * time.Minute)
		h.expect(job.ID, "succeeded 1")
		h.expectHooks(h.Runs(job.ID)[0].ID, "succeeded 1")
	}},
	{"late: a run that is late when it is submitted is told of, although a slot is free", func(h *House) {
		h.hooked(nil)
		job := h.Submit(func(d *carillon.Definition) {
			d.Late, d.Schedule.At = lateAfter(time.Minute), carillon.Now().Add(-time.Hour)
		})
		time.Sleep(time.Minute)
		h.expect(job.ID, "succeeded 1")
		h.expectHooks(h.Runs(job.ID)[0].ID, "succeeded 1")
	}},
	{"late: a paused job is not late, and resumed it is not late either", func(h *House) {
		h.hooked(nil)
		job := h.Submit(func(d *carillon.Definition) {
			d.Late, d.Schedule.After = lateAfter(time.Minute), carillon.Duration(5*time.Minute)
		})
		if _, err := h.Ledger.PauseJob(context.Background(), "default", job.ID); err != nil {
			h.T.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, err := h.Ledger.ResumeJob(context.Background(), "default", job.ID); err != nil {
			h.T.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		h.expect(job.ID, "succeeded 1")
		h.expectTold()
	}},
}

const hookType = "tell"

// told is a hook whose job goes to the house's handler.
func told() *carillon.Hook {
	return &carillon.Hook{Job: &carillon.HookJob{
		Type: hookType, Priority: 9, Target: carillon.Target{Handler: &carillon.Handler{}},
	}}
}

func lateAfter(d time.Duration) *carillon.Hook {
	hook := told()
	hook.After = carillon.Duration(d)
	return hook
}

// sleeping performs runs that take a while, unless they are asked to stop.
func sleeping(d time.Duration) executor.Handler {
	return func(ctx context.Context, _ executor.Task) error {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		return ctx.Err()
	}
}

// hooked lets the house perform runs, and write down what hooks are told. nil: runs succeed at once.
func (h *House) hooked(perform executor.Handler) {
	h.told = &texts{}
	h.Handle = func(ctx context.Context, task executor.Task) error {
		if task.Job.Type != hookType {
			if perform == nil {
				return nil
			}
			return perform(ctx, task)
		}
		var said struct {
			Type string
			At   carillon.Time `json:"timestamp"`
			Data struct{ Run carillon.Run }
		}
		if err := json.Unmarshal(task.Job.Payload, &said); err != nil {
			return executor.Fatal(err)
		}
		run := &said.Data.Run
		h.told.add(fmt.Sprintf("%s of %s, %s: %s after %d at %s", said.Type, run.ID, run.About.Name,
			run.State, run.Attempt, said.At))
		return nil
	}
}

// expectTold compares what hooks were told, in any order.
func (h *House) expectTold(want ...string) {
	h.T.Helper()
	got := h.told.all()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		h.T.Errorf("hooks were told\n  %q, want\n  %q", got, want)
	}
}

// expectHooks compares the runs of the jobs of a run's hooks.
func (h *House) expectHooks(of carillon.RunID, want ...string) {
	h.T.Helper()
	jobs, err := h.Store.FindJobs(context.Background(), carillon.JobQuery{
		Namespace: carillon.DefaultNamespace, Limit: 10,
		Labels: []carillon.Label{{Key: carillon.HookLabel, Value: of.String()}},
	})
	if err != nil || len(jobs.Jobs) != 1 {
		h.T.Errorf("hooks of %s: %d jobs, %v; want one", of, len(jobs.Jobs), err)
		return
	}
	h.expect(jobs.Jobs[0].ID, want...)
}

// waited is the run of a job that started after its due time.
func (h *House) waited(job carillon.JobID) carillon.RunID {
	for _, run := range h.Runs(job) {
		if run.Started > run.ID.Due {
			return run.ID
		}
	}
	h.T.Errorf("no run of %s has waited", job)
	return carillon.RunID{}
}

var storeHooks = []storeCase{
	{"hooks: of several ends of a run one wins, and its hook's job with it", func(t *storeTest) {
		const runs, ends = 20, 4
		changes := make([]carillon.Change, 0, runs*ends)
		claimed := make([]carillon.Run, runs)
		for i := range runs {
			job, run := t.submit(func(j *carillon.Job) {
				j.OnFailure = told()
				if i%2 == 0 { // folds beside the hook
					j.Limits = []carillon.Limit{{Key: "k", Concurrency: 100}}
				}
			})
			claimed[i] = t.claim(run, "worker_1")
			claimed[i].Slots = ""
			failed := claimed[i].Finish(&job, carillon.Outcome{Kind: carillon.OutcomeFatal}, t.now, 0)
			for range ends {
				c := carillon.EndChange(&job, failed, nil)
				if i%2 == 0 {
					c.Folds = []carillon.Fold{fold("limit", 1, runs*ends)}
				}
				changes = append(changes, c)
			}
		}
		won := t.fold(len(changes), func(i int) carillon.Change { return changes[i] })
		for i := range runs {
			n := 0
			for _, is := range won[i*ends : (i+1)*ends] {
				if is {
					n++
				}
			}
			t.equal("ends that won", n, 1)
			jobs := t.findJobs(carillon.JobQuery{Labels: []carillon.Label{
				{Key: carillon.HookLabel, Value: claimed[i].ID.String()},
			}})
			if len(jobs) != 1 {
				t.Fatalf("%d jobs follow %s, want 1", len(jobs), claimed[i].ID)
			}
			follows := t.findRuns(carillon.RunQuery{Job: jobs[0].ID})
			if len(follows) != 1 || follows[0].State != carillon.StateWaiting {
				t.Errorf("the hook of %s has the runs %v", claimed[i].ID, follows)
			}
		}
	}},
}

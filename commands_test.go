package carillon_test

import (
	"errors"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// whole is a snapshot of a job with its unfinished runs.
func whole(job *carillon.Job, guard carillon.Guards, runs ...carillon.Run) carillon.JobSnapshot {
	return carillon.JobSnapshot{Job: *job, Runs: runs, Guards: guard}
}

// behind is a run that waits for its turn.
func behind(run carillon.Run) carillon.Run {
	run.Flags |= carillon.FlagPlanned
	run.Wake = run.ID.Due.Add(30 * time.Second)
	return run
}

func expectConflict(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, carillon.ErrConflict) {
		t.Errorf("%v, want a conflict", err)
	}
}

func TestSubmit(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*carillon.Definition)
		now  carillon.Time
		want []string
	}{
		"a one-off needs no guard": {
			func(d *carillon.Definition) { d.Schedule.At = minute(3) }, epoch, []string{"3m r0 v1 waiting"},
		},
		"a recurring job has one": {
			minutely(carillon.OverlapSkip), epoch, []string{"1m r0 v1 waiting guarded", "turn r0"},
		},
		"unless overlap is allowed": {minutely(carillon.OverlapAllow), epoch, []string{"1m r0 v1 waiting"}},
		"the first time after now": {
			minutely(carillon.OverlapAllow), minute(7), []string{"8m r0 v1 waiting"},
		},
		"it ended while on its way":  {ending(minute(2)), minute(3), []string{"2m r0 v1 waiting"}},
		"it ends at this very time":  {ending(minute(2)), minute(2), []string{"2m r0 v1 waiting"}},
		"the last time is yet ahead": {ending(minute(2)), minute(2) - 1, []string{"2m r0 v1 waiting"}},
	} {
		t.Run(name, func(t *testing.T) {
			job := &carillon.Job{Namespace: "default", ID: 4711, Definition: define(t, c.edit)}
			change := carillon.Submit(job, c.now)
			expectChange(t, change, append([]string{"job v1 active"}, c.want...)...)
			if job.Created != c.now || job.Updated != c.now ||
				change.Runs[0].Covers != change.Runs[0].ID.Due {
				t.Errorf(
					"created %s, updated %s, covers %s", since(job.Created), since(job.Updated),
					since(change.Runs[0].Covers),
				)
			}
		})
	}
}

func ending(at carillon.Time) func(*carillon.Definition) {
	return func(d *carillon.Definition) {
		minutely(carillon.OverlapAllow)(d)
		d.Schedule.EndsAt = at
	}
}

func TestCancelEndsWhatWaitsAndStopsWhatRuns(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapQueueAll))
	w := whole(job, line(job, minute(1), minute(2)),
		planned(job, minute(9)), behind(planned(job, minute(2))), claimed(planned(job, minute(1))))
	c, err := w.Cancel(false, minute(3))
	if err != nil {
		t.Fatal(err)
	}
	expectChange(t, c, "job v1 canceled", "9m r5 v1 canceled guarded: the job was canceled",
		"2m r5 v1 canceled guarded planned: the job was canceled",
		"1m r5 v1 claimed guarded planned stop last #1: the job was canceled", "turn r9 of 1m")

	c, err = w.Cancel(true, minute(3))
	if err != nil {
		t.Fatal(err)
	}
	expectChange(t, c, "job v1 canceled", "9m r5 v1 canceled guarded: the job was canceled",
		"2m r5 v1 canceled guarded planned: the job was canceled", "1m r5 v1 claimed guarded planned last #1",
		"turn r9 of 1m")

	w.Job.State, w.Runs = carillon.JobCanceled, w.Runs[len(w.Runs)-1:]
	c, err = w.Cancel(false, minute(3))
	if err != nil {
		t.Fatal(err)
	}
	expectChange(
		t, c, "job v1 canceled", "1m r5 v1 claimed guarded planned stop last #1: the job was canceled",
		"turn r9 of 1m then 2m",
	)
}

func TestACanceledJobAccountsForTheTimesThatHaveCome(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapAllow))
	c, err := whole(job, nil, planned(job, minute(1))).Cancel(false, minute(5)+1)
	if err != nil {
		t.Fatal(err)
	}
	expectChange(t, c, "job v1 canceled", "1m r5 v1 canceled until 5m: the job was canceled")
	// A retry that waits stands for its own time only.
	c, _ = whole(
		job, nil, planned(job, minute(6)), retrying(planned(job, minute(1)), minute(9)),
	).Cancel(false, minute(5)+1)
	expectChange(
		t, c, "job v1 canceled", "6m r5 v1 canceled: the job was canceled",
		"1m r5 v1 canceled planned #1: the job was canceled",
	)
}

func TestPauseHoldsAndResumeLetsGo(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapQueueAll))
	guard := line(job, minute(1), minute(2))
	c, err := whole(
		job, guard, planned(job, minute(9)), behind(planned(job, minute(2))),
		claimed(planned(job, minute(1))),
	).Pause(minute(3))
	if err != nil {
		t.Fatal(err)
	}
	expectChange(t, c, "job v1 paused", "9m r5 v1 waiting guarded on-hold wakes never",
		"2m r5 v1 waiting guarded planned on-hold wakes never", "1m r5 v1 claimed guarded planned on-hold #1")

	w := carillon.JobSnapshot{Job: *c.Job, Runs: c.Runs, Guards: guard}
	_, err = w.Pause(minute(4))
	expectConflict(t, err)
	c, err = w.Resume(minute(4))
	if err != nil {
		t.Fatal(err)
	}
	expectChange(
		t, c, "job v1 active", "9m r5 v1 waiting guarded", "2m r5 v1 waiting guarded planned wakes 4m",
		"1m r5 v1 claimed guarded planned #1",
	)

	w.Job.State = carillon.JobActive
	_, err = w.Resume(minute(4))
	expectConflict(t, err)
	w.Job.State = carillon.JobCanceled
	_, err = w.Resume(minute(4))
	expectConflict(t, err)
	_, err = w.Pause(minute(4))
	expectConflict(t, err)
}

func TestTimesThatPassedDuringAPauseAreSkipped(t *testing.T) {
	paused := func(
		edit func(*carillon.Definition), run func(*carillon.Job) carillon.Run,
	) carillon.JobSnapshot {
		job := newJob(t, edit)
		c, err := whole(job, nil, run(job)).Pause(minute(0))
		if err != nil {
			t.Fatal(err)
		}
		return carillon.JobSnapshot{Job: *c.Job, Runs: c.Runs}
	}
	first := func(job *carillon.Job) carillon.Run { return planned(job, minute(1)) }
	for name, c := range map[string]struct {
		w    carillon.JobSnapshot
		now  carillon.Time
		want []string
	}{
		"none has passed": {
			paused(minutely(carillon.OverlapAllow), first), minute(1) - 1, []string{"1m r5 v1 waiting"},
		},
		"one has passed": {paused(minutely(carillon.OverlapAllow), first), minute(1), []string{
			"1m r5 v1 skipped: the job was paused", "2m r0 v1 waiting",
		}},
		"many have passed": {paused(minutely(carillon.OverlapAllow), first), minute(7) + 1, []string{
			"1m r5 v1 skipped until 7m: the job was paused", "8m r0 v1 waiting",
		}},
		"the schedule is over": {
			paused(ending(minute(4)), first), minute(7),
			[]string{"1m r5 v1 skipped until 4m: the job was paused"},
		},
		"a one-off runs now": {
			paused(func(d *carillon.Definition) { d.Schedule.At = minute(1) }, first),
			minute(7),
			[]string{
				"1m r5 v1 waiting wakes 7m",
			},
		},
		"a manual run does too": {paused(minutely(carillon.OverlapAllow), func(j *carillon.Job) carillon.Run {
			return manual(j, minute(0)-5)
		}), minute(7), []string{"-5ms r5 v1 waiting wakes 7m"}},
	} {
		t.Run(name, func(t *testing.T) {
			change, err := c.w.Resume(c.now)
			if err != nil {
				t.Fatal(err)
			}
			expectChange(t, change, append([]string{"job v1 active"}, c.want...)...)
		})
	}
}

func TestAPauseDoesNotShortenTheWaitForARetry(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapAllow))
	for name, c := range map[string]struct{ wake, resumed, want carillon.Time }{
		"resumed before the retry is due": {minute(9), minute(5), minute(9)},
		"resumed after it was due":        {minute(9), minute(20), minute(9)},
		"paused when it was due already":  {minute(3), minute(20), minute(20)},
	} {
		t.Run(name, func(t *testing.T) {
			paused, err := whole(job, nil, retrying(planned(job, minute(1)), c.wake)).Pause(minute(4))
			if err != nil || !paused.Runs[0].Has(carillon.FlagOnHold) {
				t.Fatal(paused.Runs[0], err)
			}
			resumed, err := carillon.JobSnapshot{Job: *paused.Job, Runs: paused.Runs}.Resume(c.resumed)
			if err != nil || resumed.Runs[0].Wake != c.want || resumed.Runs[0].Has(carillon.FlagOnHold) {
				t.Errorf("wakes at %s, want %s; %v", since(resumed.Runs[0].Wake), since(c.want), err)
			}
		})
	}
}

func TestCancelRunEndsAWaitingOneAndPlansTheNext(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapQueueAll))
	run := planned(job, minute(5))
	run.Seq = 3
	w := whole(
		job, line(job, minute(3), minute(4)), run, behind(planned(job, minute(4))),
		retrying(planned(job, minute(3)), minute(8)),
	)
	for name, c := range map[string]struct {
		due  carillon.Time
		want []string
	}{
		"the planned one does not count for max_runs": {minute(5), []string{
			"5m r5 v1 canceled guarded planned seq 3: canceled by request", "6m r0 v1 waiting guarded seq 3",
			"turn r9 stays",
		}},
		"one in line leaves it": {
			minute(4), []string{"4m r5 v1 canceled guarded planned: canceled by request", "turn r9 of 3m"},
		},
		"one between two attempts gives up its turn": {minute(3), []string{
			"3m r5 v1 canceled guarded planned #1: canceled by request", "turn r9 then 4m",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			change, err := w.CancelRun(carillon.RunID{Job: job.ID, Due: c.due}, minute(4)+1)
			if err != nil {
				t.Fatal(err)
			}
			expectChange(t, change, c.want...)
		})
	}
	_, err := w.CancelRun(carillon.RunID{Job: job.ID, Due: minute(2)}, minute(4))
	expectConflict(t, err)
}

func TestCancelRunAsksAHeldOneToStop(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapSkip))
	run := claimed(planned(job, minute(1)))
	c, err := whole(job, line(job, minute(1)), run).CancelRun(run.ID, minute(2))
	if err != nil {
		t.Fatal(err)
	}
	expectChange(t, c, "1m r5 v1 claimed guarded planned stop #1: canceled by request")
}

func TestCancelRunOfAPausedJobPlansTheNextOnHold(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapAllow))
	job.State = carillon.JobPaused
	run := planned(job, minute(1))
	run.Flags |= carillon.FlagOnHold
	c, err := whole(job, nil, run).CancelRun(run.ID, minute(0))
	if err != nil {
		t.Fatal(err)
	}
	expectChange(
		t, c, "1m r5 v1 canceled planned: canceled by request", "2m r0 v1 waiting on-hold wakes never",
	)
}

func TestCancelRunOfALateOneLeavesTheTimesAfterItToTheNext(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapAllow))
	run := planned(job, minute(1))
	c, err := whole(job, nil, run).CancelRun(run.ID, minute(9))
	if err != nil {
		t.Fatal(err)
	}
	expectChange(t, c, "1m r5 v1 canceled planned: canceled by request", "2m r0 v1 waiting")
}

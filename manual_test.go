package carillon_test

import (
	"errors"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

func TestRunNowAddsARunThatStandsForNoTime(t *testing.T) {
	for name, c := range map[string]struct {
		w    func(*carillon.Job) carillon.JobSnapshot
		edit func(*carillon.Definition)
		want []string
	}{
		"beside the planned one, under the same guard": {
			func(j *carillon.Job) carillon.JobSnapshot {
				return whole(j, line(j, minute(1)), planned(j, minute(3)))
			},
			minutely(carillon.OverlapQueue),
			[]string{
				"job v1 active", "2m0.005s r0 v1 waiting guarded wakes 2m30.005s",
				"turn r9 of 1m then 2m0.005s",
			},
		},
		"overlap is allowed": {
			func(j *carillon.Job) carillon.JobSnapshot { return whole(j, nil, planned(j, minute(3))) },
			minutely(carillon.OverlapAllow),
			[]string{"job v1 active", "2m0.005s r0 v1 waiting", "turn r0"},
		},
		"the first run of a one-off waits: both get a guard": {
			func(j *carillon.Job) carillon.JobSnapshot { return whole(j, nil, planned(j, minute(9))) },
			once(minute(9)),
			[]string{
				"job v1 active", "9m r5 v1 waiting guarded", "2m0.005s r0 v1 waiting guarded",
				"turn r0 then 2m0.005s",
			},
		},
		"the first run of a one-off is claimed: it has the turn": {
			func(j *carillon.Job) carillon.JobSnapshot {
				return whole(j, nil, planned(j, minute(1)).Claim(worker, minute(1)))
			},
			queued(once(minute(1))),
			[]string{
				"job v1 active", "1m r5 v1 claimed guarded #1",
				"2m0.005s r0 v1 waiting guarded wakes 2m30.005s", "turn r0 of 1m then 2m0.005s",
			},
		},
		"the first run of a one-off waits for a retry: it has the turn": {
			func(j *carillon.Job) carillon.JobSnapshot {
				run := planned(j, minute(1)).Claim(worker, minute(1))
				return whole(
					j, nil,
					run.Finish(
						&carillon.Job{Definition: j.Definition}, carillon.Outcome{Kind: carillon.OutcomeLost},
						minute(1), 0,
					),
				)
			},
			queued(once(minute(1))),
			[]string{
				"job v1 active", "1m r5 v1 waiting guarded #1",
				"2m0.005s r0 v1 waiting guarded wakes 2m30.005s", "turn r0 of 1m then 2m0.005s",
			},
		},
		"the first run of a one-off has ended": {
			func(j *carillon.Job) carillon.JobSnapshot { return whole(j, nil) },
			once(minute(1)),
			[]string{"job v1 active", "2m0.005s r0 v1 waiting guarded", "turn r0 then 2m0.005s"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := newJob(t, c.edit)
			change, run, err := c.w(job).RunNow(nil, minute(2)+5)
			if err != nil {
				t.Fatal(err)
			}
			expectChange(t, change, c.want...)
			if run.ID.Due != minute(2)+5 || run.Covers != 0 || run.RetryOf != 0 || run.ByClock() ||
				!run.Has(carillon.FlagAdditional) {
				t.Errorf("%+v", run)
			}
		})
	}
}

func queued(edit func(*carillon.Definition)) func(*carillon.Definition) {
	return func(d *carillon.Definition) { edit(d); d.Overlap = carillon.OverlapQueue }
}

func beside(edit func(*carillon.Definition)) func(*carillon.Definition) {
	return func(d *carillon.Definition) { edit(d); d.Overlap = carillon.OverlapAllow }
}

func once(at carillon.Time) func(*carillon.Definition) {
	return func(d *carillon.Definition) { d.Schedule.At = at }
}

func TestAManualRunHasANameOfItsOwn(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapQueueAll))
	for name, c := range map[string]struct{ now, updated, want carillon.Time }{
		"not that of a time by the clock":               {minute(2), epoch, minute(2) + 1},
		"not that of an unfinished run":                 {minute(2) + 5, epoch, minute(2) + 7},
		"not that of one that was added just now":       {minute(2) + 20, minute(2) + 20, minute(2) + 21},
		"nor of several":                                {minute(2) + 20, minute(2) + 29, minute(2) + 30},
		"nor of one by the clock after those":           {minute(3) - 2, minute(3) - 1, minute(3) + 1},
		"and a clock that was set back is no excuse":    {minute(2) + 20, minute(99), minute(99) + 1},
		"and one that was set back a little is no harm": {minute(2) + 20, minute(2) + 520, minute(2) + 521},
	} {
		t.Run(name, func(t *testing.T) {
			w := whole(job, line(job, 0), manual(job, minute(2)+5), manual(job, minute(2)+6))
			w.Job.Updated = c.updated
			change, run, err := w.RunNow(nil, c.now)
			if err != nil || run.ID.Due != c.want || change.Job.Updated != c.updated {
				t.Errorf(
					"due %s, want %s; the job was updated %s; %v", since(run.ID.Due), since(c.want),
					since(change.Job.Updated), err,
				)
			}
			w.Guards, w.Runs = change.Guards, nil // it has ended
			if _, again, err := w.RunNow(nil, c.now); err != nil || again.ID.Due <= run.ID.Due {
				t.Errorf("the next one is due %s, %v", since(again.ID.Due), err)
			}
		})
	}
}

func TestNoTwoRunsOfAJobHaveOneName(t *testing.T) {
	job := newJob(t, beside(once(epoch)))
	w := whole(job, nil)
	seen := map[carillon.RunID]bool{{Job: job.ID, Due: epoch}: true} // the first run has ended
	for i, act := range []func() (carillon.Change, error){
		func() (carillon.Change, error) { c, _, err := w.RunNow(nil, epoch); return c, err },
		func() (carillon.Change, error) { c, _, err := w.RunNow(nil, epoch); return c, err },
		func() (carillon.Change, error) { return w.Edit(define(t, beside(once(epoch-5))), epoch) },
		func() (carillon.Change, error) { return w.Edit(define(t, beside(once(epoch+2))), epoch) },
		func() (carillon.Change, error) { c, _, err := w.RunNow(nil, epoch+1); return c, err },
		func() (carillon.Change, error) { return w.Edit(define(t, beside(once(epoch+3))), epoch+2) },
		func() (carillon.Change, error) { return w.Pause(epoch + 2) },
		func() (carillon.Change, error) { return w.Resume(epoch + 2) },
		func() (carillon.Change, error) { c, _, err := w.RunNow(nil, epoch+2); return c, err },
		func() (carillon.Change, error) { return w.Edit(define(t, beside(once(minute(1)))), epoch+5) },
		func() (carillon.Change, error) { return w.Edit(define(t, beside(once(epoch+4))), epoch+6) },
	} {
		c, err := act()
		if err != nil {
			t.Fatal(err)
		}
		w.Job = *c.Job
		if len(c.Guards) > 0 {
			w.Guards = c.Guards
		}
		for _, run := range c.Runs {
			if run.State != carillon.StateWaiting {
				continue
			}
			if seen[run.ID] {
				t.Errorf("act %d: %s is a second one", i, since(run.ID.Due))
			}
			seen[run.ID] = true // and it runs, and ends, before the next act
		}
	}
}

func TestRetryRepeatsAFinishedRun(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapSkip))
	job.Version = 4
	for state, dead := range map[carillon.State]bool{
		carillon.StateSucceeded: false, carillon.StateFailed: true, carillon.StateCanceled: false,
		carillon.StateSkipped: false,
	} {
		of := planned(job, minute(1)).End(state, "whatever", minute(2))
		of.Version, of.Seq, of.Until = 2, 9, minute(3)
		c, run, err := whole(job, line(job, 0)).Retry(of, dead, minute(5)+7)
		if err != nil {
			t.Fatal(err)
		}
		want := []string{
			"job v4 active", "5m0.007s r0 v4 waiting guarded covers 1m retries 1m", "turn r9 then 5m0.007s",
		}
		if dead {
			want = append(want, "no dead letter 1m")
		}
		expectChange(t, c, want...)
		if run.ByClock() || run.Seq != 0 || run.Until != 0 || run.Attempt != 0 {
			t.Errorf("%+v", run)
		}
	}
}

func TestARepetitionNeitherPlansNorCountsNorIsMissed(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapAllow))
	_, run, err := whole(job, nil).Retry(
		planned(job, minute(1)).End(carillon.StateFailed, "", minute(2)), false, minute(50)+7,
	)
	if err != nil {
		t.Fatal(err)
	}
	verdict, c := carillon.Candidate{Job: job, Run: run, Worker: worker}.Decide(minute(90))
	if verdict != carillon.VerdictClaim {
		t.Errorf("verdict %d", verdict)
	}
	expectChange(t, c, "50m0.007s r0 v1 claimed #1 covers 1m retries 1m")
	if !run.NeedsNoDecision(minute(90)) {
		t.Errorf("it needs no decision")
	}
}

func TestRepetitionsOfRepetitionsSayWhatTheyRepeat(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapAllow))
	_, first, _ := whole(job, nil).Retry(
		planned(job, minute(1)).End(carillon.StateFailed, "", minute(2)), true, minute(5)+1,
	)
	_, second, err := whole(job, nil).Retry(first.End(carillon.StateFailed, "", minute(6)), true, minute(7)+1)
	if err != nil || second.RetryOf != first.ID.Due || second.Covers != minute(1) || second.ByClock() {
		t.Errorf("retries %s, covers %s, %v", since(second.RetryOf), since(second.Covers), err)
	}
	_, third, _ := whole(job, nil).RunNow(nil, minute(8)+1)
	_, fourth, _ := whole(job, nil).Retry(third.End(carillon.StateFailed, "", minute(9)), false, minute(9)+1)
	if fourth.RetryOf != third.ID.Due || fourth.Covers != 0 || fourth.ByClock() {
		t.Errorf("of a manual one: retries %s, covers %s", since(fourth.RetryOf), fourth.Covers)
	}
}

func TestWhatCannotBeRunOrRetried(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapSkip))
	_, _, err := whole(job, nil).Retry(claimed(planned(job, minute(1))), false, minute(2))
	expectConflict(t, err)
	ended := planned(job, minute(1)).End(carillon.StateFailed, "", minute(1))
	job.State = carillon.JobCanceled
	_, _, err = whole(job, nil).Retry(ended, true, minute(2))
	expectConflict(t, err)
	_, _, err = whole(job, nil).RunNow(nil, minute(2))
	expectConflict(t, err)
	_, err = whole(job, nil).Edit(job.Definition, minute(2))
	if !errors.Is(err, carillon.ErrConflict) {
		t.Errorf("edit: %v", err)
	}
}

func TestWhilePausedNewRunsAreOnHold(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapAllow))
	job.State = carillon.JobPaused
	w := whole(job, nil)
	c, _, err := w.RunNow(nil, minute(2)+1)
	if err != nil {
		t.Fatal(err)
	}
	expectChange(t, c, "job v1 paused", "2m0.001s r0 v1 waiting on-hold wakes never", "turn r0")
	c, run, err := w.Retry(
		planned(job, minute(1)).End(carillon.StateFailed, "", minute(1)), true, minute(2)+1,
	)
	if err != nil {
		t.Fatal(err)
	}
	expectChange(
		t, c, "job v1 paused", "2m0.001s r0 v1 waiting on-hold covers 1m wakes never retries 1m", "turn r0",
		"no dead letter 1m",
	)

	resumed, err := carillon.JobSnapshot{
		Job: *c.Job, Runs: []carillon.Run{run},
	}.Resume(minute(2).Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	expectChange(t, resumed, "job v1 active", "2m0.001s r0 v1 waiting covers 1m wakes 1h2m retries 1m")
}

func TestTheTurnOfARunComesWhenNoOtherHasIt(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapQueue))
	run := planned(job, minute(2))
	run.Flags |= carillon.FlagPlanned
	run.Wake = minute(3) // the wake of a run in line
	guards := line(job, 0, minute(2))
	if first, _, _ := run.InLine(guards); !first.IsZero() || !run.TurnCame(guards, minute(2)+1) {
		t.Errorf("it waits behind %s", first)
	}
	guards = line(job, minute(1), minute(2))
	first, ahead, place := run.InLine(guards)
	if first.Due != minute(1) || ahead != 1 || place != 1 || run.TurnCame(guards, minute(2)+1) {
		t.Errorf("while another has the turn: behind %s, %d ahead, number %d", first, ahead, place)
	}
}

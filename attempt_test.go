package carillon_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/google/go-cmp/cmp"
)

var kinds = map[carillon.OutcomeKind]string{
	carillon.OutcomeSuccess: "success", carillon.OutcomeRetriable: "retriable",
	carillon.OutcomeFatal: "fatal", carillon.OutcomeStopped: "stopped",
	carillon.OutcomeLost: "lost", carillon.OutcomeCrashed: "crashed",
}

func TestWhatEveryOutcomeMakesOfEveryRun(t *testing.T) {
	const (
		waiting, succeeded = carillon.StateWaiting, carillon.StateSucceeded
		failed, canceled   = carillon.StateFailed, carillon.StateCanceled
	)
	type states = map[carillon.OutcomeKind]carillon.State
	for name, c := range map[string]struct {
		flags            carillon.Flags
		failures, losses int32 // before; crashes are half of the losses
		want             states
	}{
		"the first attempt": {
			0, 0, 0, states{1: succeeded, 2: waiting, 3: failed, 4: canceled, 5: waiting, 6: waiting},
		},
		"the last failure": {
			0, 2, 0, states{1: succeeded, 2: failed, 3: failed, 4: canceled, 5: waiting, 6: waiting},
		},
		"the last crash": {
			0, 0, 2, states{1: succeeded, 2: waiting, 3: failed, 4: canceled, 5: waiting, 6: failed},
		},
		"many losses": {
			0, 0, 3, states{1: succeeded, 2: waiting, 3: failed, 4: canceled, 5: waiting, 6: failed},
		},
		"asked to stop": {
			carillon.FlagStop, 0, 0,
			states{1: succeeded, 2: canceled, 3: canceled, 4: canceled, 5: canceled, 6: canceled},
		},
		"asked to stop, the last failure": {
			carillon.FlagStop, 2, 2,
			states{1: succeeded, 2: canceled, 3: canceled, 4: canceled, 5: canceled, 6: canceled},
		},
		"no further attempt": {
			carillon.FlagNoRetry, 0, 0,
			states{1: succeeded, 2: canceled, 3: failed, 4: canceled, 5: canceled, 6: canceled},
		},
		"no further attempt, the last failure": {
			carillon.FlagNoRetry, 2, 2,
			states{1: succeeded, 2: failed, 3: failed, 4: canceled, 5: canceled, 6: failed},
		},
		"on hold": {
			carillon.FlagOnHold, 0, 0,
			states{1: succeeded, 2: waiting, 3: failed, 4: canceled, 5: waiting, 6: waiting},
		},
		"on hold, stop and last": {
			carillon.FlagOnHold | carillon.FlagStop | carillon.FlagNoRetry, 0, 0,
			states{1: succeeded, 2: canceled, 3: canceled, 4: canceled, 5: canceled, 6: canceled},
		},
	} {
		for kind, want := range c.want {
			for _, running := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, %s, running %v", name, kinds[kind], running), func(t *testing.T) {
					job := newJob(t, func(d *carillon.Definition) { d.Retry.MaxCrashes = 2 })
					run := claimed(planned(job, minute(1)))
					run.Flags |= c.flags
					run.Failures, run.Losses, run.Crashes = c.failures, c.losses, c.losses/2
					if running {
						run = run.Begin(minute(1)+3, minute(1)+3)
					}
					checkFinish(t, job, run, kind, want)
				})
			}
		}
	}
}

func checkFinish(
	t *testing.T, job *carillon.Job, run carillon.Run, kind carillon.OutcomeKind, want carillon.State,
) {
	t.Helper()
	now := minute(2)
	outcome := carillon.Outcome{Kind: kind, Reason: "why", Started: minute(1) + 3}
	got := run.Finish(job, outcome, now, 0.5)
	if got.State != want {
		t.Fatalf("%s, want %s", got.State, want)
	}
	counts := func(r carillon.Run) [4]int32 { return [4]int32{r.Attempt, r.Failures, r.Losses, r.Crashes} }
	expected := counts(run)
	switch kind {
	case carillon.OutcomeRetriable, carillon.OutcomeFatal:
		expected[1]++
	case carillon.OutcomeLost:
		expected[2]++
	case carillon.OutcomeCrashed:
		expected[2]++
		expected[3]++
	}
	if counts(got) != expected {
		t.Errorf("attempt, failures, losses, crashes: %v, want %v", counts(got), expected)
	}
	if got.ID != run.ID || got.Rev != run.Rev || got.Version != run.Version || got.Claimed != run.Claimed ||
		got.Started != minute(1)+3 {
		t.Errorf("changed what it should not: %+v", got)
	}
	if got.State.Ended() {
		if got.Ended != now || got.Wake != 0 || got.Has(carillon.FlagOnHold) || got.Has(carillon.FlagStop) ||
			got.Worker != run.Worker || got.About == nil {
			t.Errorf("the record: %+v", got)
		}
		return
	}
	if got.Ended != 0 || got.Worker != "" || got.Flags != run.Flags {
		t.Errorf("the waiting run: %+v", got)
	}
	switch retry := kind == carillon.OutcomeRetriable; {
	case retry && (got.Wake < now.Add(time.Second) || got.Wake > now.Add(5*time.Second)):
		t.Errorf("tried again at %s", since(got.Wake))
	case !retry && !run.Has(carillon.FlagOnHold) && got.Wake > now:
		t.Errorf("a loss waits until %s", since(got.Wake))
	case !retry && run.Has(carillon.FlagOnHold) && got.Wake != carillon.Never:
		t.Errorf("on hold, and wakes at %s", since(got.Wake))
	}
}

func TestReasonsOfAnEnd(t *testing.T) {
	job := newJob(t, nil)
	run := claimed(planned(job, minute(1)))
	last := run
	last.Flags |= carillon.FlagNoRetry
	crashed := run
	crashed.Crashes = 4
	for want, got := range map[string]carillon.Run{
		"": run.Finish(
			job, carillon.Outcome{Kind: carillon.OutcomeSuccess, Reason: "noise"}, minute(2), 0,
		),
		"no luck": run.Finish(
			job, carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: "no luck"}, minute(2), 0,
		),
		"later": run.Finish(
			job, carillon.Outcome{Kind: carillon.OutcomeRetriable, Reason: "later"}, minute(2), 0,
		),
		"the job was canceled: no": last.Finish(
			job, carillon.Outcome{Kind: carillon.OutcomeRetriable, Reason: "no"}, minute(2), 0,
		),
		"quarantined: its worker died 5 times while it ran": crashed.Finish(
			job, carillon.Outcome{Kind: carillon.OutcomeCrashed}, minute(2), 0,
		),
	} {
		if got.Reason != want {
			t.Errorf("%s: %q, want %q", got.State, got.Reason, want)
		}
	}
}

func TestATargetThatAsksForAPauseGetsAtLeastThat(t *testing.T) {
	job := newJob(t, func(d *carillon.Definition) {
		d.Retry.Delay, d.Retry.Jitter = carillon.Duration(time.Minute), carillon.Zero
	})
	run := claimed(planned(job, minute(1)))
	for asked, want := range map[time.Duration]time.Duration{
		0: time.Minute, time.Second: time.Minute, time.Hour: time.Hour,
		time.Hour + 1: time.Hour + time.Millisecond,
	} {
		got := run.Finish(
			job, carillon.Outcome{Kind: carillon.OutcomeRetriable, RetryAfter: asked}, minute(2), 0,
		)
		if got.Wake != minute(2).Add(want) {
			t.Errorf("asked for %s, waits %s", asked, got.Wake.Sub(minute(2)))
		}
	}
	got := run.Finish(
		job, carillon.Outcome{Kind: carillon.OutcomeRetriable, RetryAfter: math.MaxInt64}, minute(2), 0,
	)
	if got.Wake < minute(2).Add(time.Minute) {
		t.Errorf("asked for ever, wakes at %s", got.Wake)
	}
}

func TestARetryOfAPausedJobKeepsItsPause(t *testing.T) {
	job := newJob(t, func(d *carillon.Definition) {
		d.Retry.Delay, d.Retry.Jitter = carillon.Duration(time.Minute), carillon.Zero
	})
	run := claimed(planned(job, minute(1)))
	run.Flags |= carillon.FlagOnHold
	if got := run.Finish(
		job, carillon.Outcome{Kind: carillon.OutcomeRetriable}, minute(2), 0,
	); got.Wake != minute(3) ||
		!got.Has(carillon.FlagOnHold) {
		t.Errorf("wakes at %s, on hold %v", since(got.Wake), got.Has(carillon.FlagOnHold))
	}
}

func TestEndsExpireByTheRuleOfTheirDefinition(t *testing.T) {
	const day = carillon.Duration(24 * time.Hour)
	job := newJob(t, func(d *carillon.Definition) {
		d.Retention = carillon.Retention{Runs: day, DeadLetters: 3 * day}
	})
	run := claimed(planned(job, minute(1)))
	ok := run.Finish(job, carillon.Outcome{Kind: carillon.OutcomeSuccess}, minute(2), 0)
	dead := run.Finish(job, carillon.Outcome{Kind: carillon.OutcomeFatal}, minute(2), 0)
	again := run.Finish(job, carillon.Outcome{Kind: carillon.OutcomeLost}, minute(2), 0)
	got := [6]carillon.Time{
		ok.Expires, ok.DeadExpires, dead.Expires, dead.DeadExpires, again.Expires, again.DeadExpires,
	}
	a, b := minute(2).Add(day.Std()), minute(2).Add(3*day.Std())
	if want := [6]carillon.Time{a, 0, a, b, 0, 0}; got != want {
		t.Errorf("%v, want %v", got, want)
	}
	none := newJob(t, nil)
	if got := run.Finish(
		none, carillon.Outcome{Kind: carillon.OutcomeFatal}, minute(2), 0,
	); got.Expires != 0 ||
		got.DeadExpires != 0 {
		t.Errorf("the server's rule is written down: %s, %s", got.Expires, got.DeadExpires)
	}
}

func TestAnEndTellsOfTheJobAsItsDefinitionSays(t *testing.T) {
	job := newJob(t, nil)
	run := claimed(planned(job, minute(1)))
	renamed := *job
	renamed.Name = "renamed"
	for _, job := range []*carillon.Job{job, &renamed} {
		got := run.Finish(job, carillon.Outcome{Kind: carillon.OutcomeSuccess}, minute(2), 0)
		want := carillon.About{Name: job.Name, Type: job.Type, Owner: job.Owner}
		if *got.About != want {
			t.Errorf("%+v, want %+v", *got.About, want)
		}
	}
	if run.About.Name != job.Name {
		t.Errorf("the end has changed what the run before it tells: %+v", *run.About)
	}
}

func TestAnOutputIsKeptIfThereIsOne(t *testing.T) {
	job := newJob(t, nil)
	run := claimed(planned(job, minute(1)))
	run.Output = &carillon.Output{Checkpoint: []byte("3")}
	got := run.Finish(job, carillon.Outcome{Kind: carillon.OutcomeLost}, minute(2), 0)
	if diff := cmp.Diff(run.Output.Checkpoint, got.Output.Checkpoint); diff != "" {
		t.Error(diff)
	}
	result := &carillon.Output{Result: []byte("7")}
	if got := run.Finish(
		job, carillon.Outcome{Kind: carillon.OutcomeSuccess, Output: result}, minute(2), 0,
	); got.Output != result {
		t.Errorf("%+v", got.Output)
	}
}

func TestAnEndGivesUpTheTurn(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapQueueAll))
	run := claimed(planned(job, minute(1)))
	guard := line(job, minute(1), minute(2), minute(3))
	c := carillon.EndChange(job, run.End(carillon.StateSucceeded, "", minute(4)), guard)
	expectChange(t, c, "1m r5 v1 succeeded guarded planned #1", "turn r9 then 2m then 3m")
	if heir := carillon.Guards(
		c.Guards,
	).NextInLine(job.ID); heir != (carillon.RunID{Job: job.ID, Due: minute(2)}) {
		t.Errorf("the heir is %s", heir)
	}
	// A retry keeps the turn, and a run that is not guarded has none.
	expectChange(
		t, carillon.EndChange(job, retrying(run, minute(4)), guard),
		"1m r5 v1 waiting guarded planned #2 wakes 4m",
	)
	free := run
	free.Flags &^= carillon.FlagGuarded
	expectChange(
		t, carillon.EndChange(job, free.End(carillon.StateFailed, "x", minute(4)), nil),
		"1m r5 v1 failed planned #1: x",
	)
	if guard.Holder(job.ID).Due != minute(1) || !guard.NextInLine(job.ID).IsZero() {
		t.Errorf("holder %s, heir %s", guard.Holder(job.ID), guard.NextInLine(job.ID))
	}
}

func TestAHeldRunIsLookedAtFromItsClaimOn(t *testing.T) {
	now := minute(3)
	for name, job := range map[string]*carillon.Job{
		"queue":     newJob(t, minutely(carillon.OverlapQueue)),
		"queue_all": newJob(t, minutely(carillon.OverlapQueueAll)),
		"replace":   newJob(t, minutely(carillon.OverlapReplace)),
	} {
		t.Run(name, func(t *testing.T) {
			first, second := claimed(planned(job, minute(1))), planned(job, minute(2))
			candidate := carillon.Candidate{
				Job: job, Run: second, Guards: line(job, minute(1)), Others: []carillon.Run{first},
			}
			_, behind := candidate.Decide(minute(2))
			waits := behind.Runs[0]
			if waits.State != carillon.StateWaiting || waits.Wake <= minute(2) {
				t.Fatalf("%s, wake %s", waits.State, waits.Wake)
			}
			free := carillon.EndChange(
				job, first.Finish(job, carillon.Outcome{Kind: carillon.OutcomeSuccess}, minute(2)+1, 0),
				behind.Guards,
			).Guards[0]
			verdict, c := carillon.Candidate{
				Job: job, Run: waits, Guards: carillon.Guards{free}, Worker: worker,
			}.Decide(minute(2) + 2)
			if got := c.Runs[0]; verdict != carillon.VerdictClaim || got.State != carillon.StateClaimed ||
				got.Wake != minute(2)+2 {
				t.Errorf("%s, wake %s after a claim at %s", got.State, got.Wake, minute(2)+2)
			}
		})
	}
	plain := planned(newJob(t, nil), minute(1))
	if got := plain.Claim(worker, now); got.Wake != plain.Wake {
		t.Errorf("the claim of a plain run moves its wake from %s to %s", plain.Wake, got.Wake)
	}
}

func TestFencesRiseOverAllClaimsOfAJobWhateverTheClocksSay(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapSkip))
	guard := job.OverlapGuard()
	last := int64(0)
	claim := func(run carillon.Run, now carillon.Time) carillon.Run {
		t.Helper()
		verdict, c := carillon.Candidate{
			Job: job, Run: run, Guards: carillon.Guards{guard}, Worker: worker,
		}.Decide(now)
		if verdict != carillon.VerdictClaim {
			t.Fatalf("verdict %d", verdict)
		}
		if len(c.Guards) > 0 {
			guard = c.Guards[0]
		}
		if got := c.Runs[0].Fence(); got <= last {
			t.Fatalf("%s, attempt %d: fence %d after %d", run.ID, c.Runs[0].Attempt, got, last)
		}
		last = c.Runs[0].Fence()
		return c.Runs[0]
	}
	for _, n := range []int{3, 1, 4, 2} { // claimed in any order
		run := planned(job, minute(n))
		run.Flags &^= carillon.FlagMisfirePolicy
		for k := range 3 {
			now := minute(5) - carillon.Time(1000*k+n) // by nodes whose clocks are behind
			run = claim(run, now)
			run = run.Finish(job, carillon.Outcome{Kind: carillon.OutcomeLost}, now, 0)
		}
		run = claim(run, minute(5))
		if n == 1 { // it is canceled between two attempts
			run = run.Finish(job, carillon.Outcome{Kind: carillon.OutcomeLost}, minute(5), 0)
			c, err := whole(job, carillon.Guards{guard}, run).CancelRun(run.ID, minute(5))
			if err != nil {
				t.Fatal(err)
			}
			guard = c.Guards[0]
			continue
		}
		if c := carillon.EndChange(
			job, run.Finish(job, carillon.Outcome{Kind: carillon.OutcomeSuccess}, minute(5), 0),
			carillon.Guards{guard},
		); len(c.Guards) > 0 {
			guard = c.Guards[0]
		}
	}
}

func TestFencesOfARunRiseAlsoIfTheClockIsSetBack(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapAllow))
	run := planned(job, minute(1))
	last := int64(0)
	for k := range 3 {
		now := minute(5) - carillon.Time(1000*k)
		if run = run.Claim(worker, now); run.Fence() <= last {
			t.Errorf("attempt %d: fence %d after %d", run.Attempt, run.Fence(), last)
		}
		last = run.Fence()
		run = run.Finish(job, carillon.Outcome{Kind: carillon.OutcomeLost}, now, 0)
	}
}

func TestAnAttemptIsNamedByItsRunAndItsFence(t *testing.T) {
	run := planned(newJob(t, nil), minute(1)).Claim(worker, minute(2))
	if held := run.Held(); held.Run != run.ID || held.Fence != run.Fence() || held.Attempt() != 1 ||
		held.Claimed() != minute(2) {
		t.Errorf("%+v", held)
	}
}

func TestAWorkersClockMovesNoStartOutOfItsAttempt(t *testing.T) {
	job := newJob(t, nil)
	claimed, now := minute(3), minute(5)
	run := carillon.Run{State: carillon.StateClaimed, Claimed: claimed}
	for said, want := range map[carillon.Time]carillon.Time{
		minute(1): claimed, minute(4): minute(4), minute(9): now, carillon.Never: now, 0: 0,
	} {
		if got := run.Begin(said, now).Started; got != want {
			t.Errorf("begun at %s: recorded as %s, want %s", said, got, want)
		}
		end := carillon.Outcome{Kind: carillon.OutcomeSuccess, Started: said}
		if got := run.Finish(job, end, now, 0).Started; got != want {
			t.Errorf("ended, started at %s: recorded as %s, want %s", said, got, want)
		}
	}
}

func TestARunThatFailedBeforeItCouldBeStoppedSaysWhyItWasStopped(t *testing.T) {
	run := carillon.Run{
		ID: carillon.RunID{Job: 1, Due: 1000}, State: carillon.StateRunning, Attempt: 1, Worker: "w",
		Flags: carillon.FlagStop, Reason: "replaced by run_2",
	}
	failed := carillon.Outcome{Kind: carillon.OutcomeRetriable, Reason: "exit code 1"}
	got := run.Finish(&carillon.Job{}, failed, 2000, 0)
	if got.State != carillon.StateCanceled || got.Reason != "replaced by run_2: exit code 1" {
		t.Errorf("%s: %q", got.State, got.Reason)
	}
	if !got.Records(run.Held(), &failed) {
		t.Error("the same report again is taken for another one")
	}
}

package carillon_test

import (
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

func hour(n int) carillon.Time { return epoch.Add(time.Duration(n) * time.Hour) }

func hourly(policy carillon.MisfirePolicy, edit ...func(*carillon.Definition)) func(*carillon.Definition) {
	return func(d *carillon.Definition) {
		d.Schedule.Every, d.Overlap = carillon.Duration(time.Hour), carillon.OverlapAllow
		d.Misfire = carillon.Misfire{Policy: policy, Max: 3, Window: carillon.Duration(24 * time.Hour)}
		for _, e := range edit {
			e(d)
		}
	}
}

const noWorker = "missed: no worker could run it at its time"

func TestWhatBecomesOfMissedTimes(t *testing.T) {
	inPlace := func(n int) string {
		return "missed: " + runID(&carillon.Job{ID: 4711}, hour(n)) + " runs in its place"
	}
	type edit = func(*carillon.Definition)
	for _, c := range []struct {
		name string
		edit edit
		late time.Duration // after hour 5; the run is that of hour 1
		want []string
	}{
		{"once: the last runs for all", hourly(carillon.MisfireOnce), 50 * time.Minute, []string{
			"1h r5 v1 skipped until 4h seq 2: " + inPlace(5), "5h r0 v1 waiting seq 2",
		}},
		{"skip: the last runs if it is merely late", hourly(carillon.MisfireSkip), time.Minute, []string{
			"1h r5 v1 skipped until 4h seq 2: " + inPlace(5), "5h r0 v1 waiting seq 2",
		}},
		{"skip: otherwise none does", hourly(carillon.MisfireSkip), time.Minute + time.Millisecond, []string{
			"1h r5 v1 skipped until 5h seq 2: " + noWorker, "6h r0 v1 waiting seq 2",
		}},
		{"all: the latest, as many as it says", hourly(carillon.MisfireAll), 50 * time.Minute, []string{
			"1h r5 v1 skipped until 2h seq 2: " + inPlace(3), "3h r0 v1 waiting seq 2",
		}},
		{
			"all: none older than the window", hourly(carillon.MisfireAll, func(d *carillon.Definition) {
				d.Misfire.Window = carillon.Duration(110 * time.Minute)
			}), 50 * time.Minute,
			[]string{"1h r5 v1 skipped until 3h seq 2: " + inPlace(4), "4h r0 v1 waiting seq 2"},
		},
		{
			"all: exactly as old as the window", hourly(carillon.MisfireAll, func(d *carillon.Definition) {
				d.Misfire.Window = carillon.Duration(110 * time.Minute)
			}), 50*time.Minute + time.Millisecond,
			[]string{"1h r5 v1 skipped until 4h seq 2: " + inPlace(5), "5h r0 v1 waiting seq 2"},
		},
		{
			"all: all are older than the window", hourly(carillon.MisfireAll, func(d *carillon.Definition) {
				d.Misfire.Window = carillon.Duration(10 * time.Minute)
			}), 50 * time.Minute,
			[]string{"1h r5 v1 skipped until 5h seq 2: " + noWorker, "6h r0 v1 waiting seq 2"},
		},
		{
			"all: up to a minute is merely late, however short the window", hourly(carillon.MisfireAll,
				func(d *carillon.Definition) {
					d.Misfire.Window = carillon.Duration(time.Millisecond)
				}), time.Minute,
			[]string{"1h r5 v1 skipped until 4h seq 2: " + inPlace(5), "5h r0 v1 waiting seq 2"},
		},
		{"the schedule is over", hourly(carillon.MisfireSkip, func(d *carillon.Definition) {
			d.Schedule.EndsAt = hour(4)
		}), 0, []string{"1h r5 v1 skipped until 4h seq 2: " + noWorker}},
		{"the schedule is over, its last runs late", hourly(carillon.MisfireOnce,
			func(d *carillon.Definition) {
				d.Schedule.EndsAt = hour(4)
			}), 0, []string{"1h r5 v1 skipped until 3h seq 2: " + inPlace(4), "4h r0 v1 waiting seq 2"}},
		{"a skipped time does not count for max_runs", hourly(carillon.MisfireOnce,
			func(d *carillon.Definition) {
				d.Schedule.MaxRuns = 3
			}), 0, []string{"1h r5 v1 skipped until 4h seq 2: " + inPlace(5), "5h r0 v1 waiting seq 2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := newJob(t, c.edit)
			run := planned(job, hour(1))
			run.Seq = 2
			verdict, change := carillon.Candidate{
				Job: job, Run: run, Worker: worker,
			}.Decide(hour(5).Add(c.late))
			if verdict != carillon.VerdictEnd {
				t.Errorf("verdict %d", verdict)
			}
			expectChange(t, change, c.want...)
		})
	}
}

func TestTwoTimesMissedInARowAreNoRange(t *testing.T) {
	job := newJob(t, hourly(carillon.MisfireOnce))
	_, c := carillon.Candidate{Job: job, Run: planned(job, hour(1))}.Decide(hour(2))
	expectChange(
		t, c, "1h r5 v1 skipped: missed: "+runID(job, hour(2))+" runs in its place", "2h r0 v1 waiting",
	)
}

func TestALateRunIsNotMissedBeforeItsSuccessorIsDue(t *testing.T) {
	for _, policy := range []carillon.MisfirePolicy{
		carillon.MisfireOnce, carillon.MisfireSkip, carillon.MisfireAll,
	} {
		for _, late := range []time.Duration{0, time.Second, time.Minute} {
			job := newJob(t, hourly(policy))
			verdict, c := carillon.Candidate{
				Job: job, Run: planned(job, hour(1)), Worker: worker,
			}.Decide(hour(1).Add(late))
			if verdict != carillon.VerdictClaim || c.Runs[1].ID.Due != hour(2) {
				t.Errorf("%s, %s late: verdict %d, %v", policy, late, verdict, tell(c))
			}
		}
	}
}

func TestAMissedOneOff(t *testing.T) {
	for _, c := range []struct {
		name   string
		policy carillon.MisfirePolicy
		late   time.Duration
		runs   bool
	}{
		{"once: it runs, however late", carillon.MisfireOnce, 10 * 365 * 24 * time.Hour, true},
		{"skip: it runs within a minute", carillon.MisfireSkip, time.Minute, true},
		{"skip: not later", carillon.MisfireSkip, time.Minute + time.Millisecond, false},
		{"all: it runs within the window", carillon.MisfireAll, 24 * time.Hour, true},
		{"all: not later", carillon.MisfireAll, 24*time.Hour + time.Millisecond, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := newJob(t, func(d *carillon.Definition) {
				d.Schedule.At, d.Misfire.Policy = hour(1), c.policy
			})
			now := hour(1).Add(c.late)
			verdict, change := carillon.Candidate{
				Job: job, Run: planned(job, hour(1)), Worker: worker,
			}.Decide(now)
			if c.runs {
				expectChange(t, change, "1h r5 v1 claimed #1")
				return
			}
			if verdict != carillon.VerdictEnd {
				t.Errorf("verdict %d", verdict)
			}
			expectChange(t, change, "1h r5 v1 skipped: "+noWorker)
		})
	}
}

func TestOnlyARunByTheClockThatNeverBeganCanBeMissed(t *testing.T) {
	job := newJob(t, hourly(carillon.MisfireSkip))
	begun := retrying(planned(job, hour(1)), hour(3))
	handedBack := planned(job, hour(1)).Claim(worker, hour(1)).
		Finish(job, carillon.Outcome{Kind: carillon.OutcomeLost}, hour(1), 0)
	again := manual(job, hour(1))
	again.Covers, again.RetryOf = hour(1), hour(1)-5
	queued := planned(job, hour(1))
	queued.Flags |= carillon.FlagPlanned
	for name, run := range map[string]carillon.Run{
		"a retry": begun, "handed back": handedBack, "manual": manual(job, hour(1)),
		"the repetition of a finished run": again,
		"one that waited for its turn":     queued,
	} {
		t.Run(name, func(t *testing.T) {
			if verdict, c := (carillon.Candidate{Job: job, Run: run, Worker: worker}).Decide(hour(
				9,
			)); verdict != carillon.VerdictClaim {
				t.Errorf("verdict %d: %v", verdict, tell(c))
			}
		})
	}
}

func TestAMissedRunLeavesTheTurnAlone(t *testing.T) {
	job := newJob(
		t,
		hourly(carillon.MisfireOnce, func(d *carillon.Definition) { d.Overlap = carillon.OverlapQueueAll }),
	)
	_, c := carillon.Candidate{
		Job: job, Run: planned(job, hour(1)), Guards: line(job, hour(-1), hour(0)), Worker: worker,
	}.Decide(hour(2))
	expectChange(
		t, c, "1h r5 v1 skipped guarded: missed: "+runID(job, hour(2))+" runs in its place",
		"2h r0 v1 waiting guarded", "turn r9 stays",
	)
}

func TestRunsThatCatchUpWaitForEachOther(t *testing.T) {
	job := newJob(
		t, hourly(carillon.MisfireAll, func(d *carillon.Definition) { d.Overlap = carillon.OverlapSkip }),
	)
	now := hour(5).Add(50 * time.Minute)
	verdict, c := carillon.Candidate{
		Job: job, Run: planned(job, hour(4)), Guards: line(job, hour(3)),
	}.Decide(now)
	if verdict != carillon.VerdictWait {
		t.Errorf("verdict %d", verdict)
	}
	expectChange(
		t, c, "4h r5 v1 waiting guarded planned wakes 5h50m30s", "5h r0 v1 waiting guarded seq 1",
		"turn r9 of 3h then 4h",
	)
	// A run that is due now while another one is running does not catch up.
	verdict, _ = carillon.Candidate{
		Job: job, Run: planned(job, hour(6)), Guards: line(job, hour(3)),
	}.Decide(hour(6) + 1)
	if verdict != carillon.VerdictEnd {
		t.Errorf("a run on time: verdict %d", verdict)
	}
}

func TestADecadeOfDowntimeIsJumpedOver(t *testing.T) {
	for _, policy := range []carillon.MisfirePolicy{
		carillon.MisfireOnce, carillon.MisfireSkip, carillon.MisfireAll,
	} {
		for _, s := range []carillon.Schedule{
			{Every: carillon.Duration(time.Second)}, {Cron: "* * * * * *"},
		} {
			job := newJob(t, func(d *carillon.Definition) {
				d.Schedule, d.Misfire.Policy, d.Misfire.Max = s, policy, 1000
			})
			run := planned(job, job.Schedule.Next(epoch))
			run.Flags &^= carillon.FlagGuarded
			begin := time.Now() // stepping through 300 million due times takes minutes, on any machine
			_, c := carillon.Candidate{Job: job, Run: run}.Decide(epoch.Add(10 * 365 * 24 * time.Hour))
			if spent := time.Since(begin); len(c.Runs) != 2 || c.Runs[0].Until == 0 ||
				spent > 20*time.Second {
				t.Errorf("%s: %v after %s", policy, tell(c), spent)
			}
		}
	}
}

package carillon_test

import (
	"slices"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// change is an edit of the job's definition, admitted at now.
func change(
	t *testing.T, w carillon.JobSnapshot, now carillon.Time, edit func(*carillon.Definition),
) carillon.Change {
	t.Helper()
	def := w.Job.Definition
	edit(&def)
	if err := def.Admit(now); err != nil {
		t.Fatal(err)
	}
	c, err := w.Edit(def, now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAnEditMovesWhatHasNotBegun(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapQueueAll))
	w := whole(job, line(job, minute(1), minute(2)), planned(job, minute(9)), manual(job, minute(3)+1),
		behind(planned(job, minute(2))),
		claimed(planned(job, minute(1))))
	c := change(t, w, minute(4), func(d *carillon.Definition) {
		d.Queue, d.Priority, d.Name, d.FairBy = "mail", 8, "other", "acme"
		d.Target = carillon.Target{Command: &carillon.Command{Argv: []string{"true"}}}
	})
	expectChange(t, c, "job v2 active", "9m r5 v2 waiting guarded", "3m0.001s r5 v2 waiting guarded",
		"2m r5 v2 waiting guarded planned wakes 2m30s", "turn r9 of 1m then 2m")
	for _, run := range c.Runs {
		lane := carillon.Lane{
			Namespace: job.Namespace, Queue: "mail", Needs: ":command", Share: "acme", Priority: 8,
		}
		if run.Lane() != lane || run.About.Name != "other" {
			t.Errorf("%s: lane %v, name %q", since(run.ID.Due), run.Lane(), run.About.Name)
		}
	}
	if c.Job.Updated != minute(4) || c.Job.Created != epoch || c.Job.Rev != job.Rev {
		t.Errorf("the job: %+v", c.Job)
	}
}

func TestAChangedScheduleReplacesThePlannedRun(t *testing.T) {
	every := func(d time.Duration) func(*carillon.Definition) {
		return func(def *carillon.Definition) {
			def.Schedule = carillon.Schedule{Every: carillon.Duration(d)}
		}
	}
	for name, c := range map[string]struct {
		runs func(*carillon.Job) []carillon.Run
		edit func(*carillon.Definition)
		want []string
	}{
		"it is yet to come": {
			func(j *carillon.Job) []carillon.Run {
				return []carillon.Run{numbered(planned(j, minute(9)), 7)}
			}, every(time.Hour),
			[]string{"9m r5 v1 canceled seq 7: the schedule was changed", "1h4m r0 v2 waiting seq 7"},
		},
		"it is late: its record stands for all that have come": {
			func(j *carillon.Job) []carillon.Run {
				return []carillon.Run{numbered(planned(j, minute(1)), 7)}
			}, every(time.Hour),
			[]string{
				"1m r5 v1 canceled until 4m seq 7: the schedule was changed", "1h4m r0 v2 waiting seq 7",
			},
		},
		"the due time stays the same": {
			func(j *carillon.Job) []carillon.Run {
				return []carillon.Run{numbered(planned(j, minute(5)), 7)}
			},
			func(d *carillon.Definition) { d.Schedule.EndsAt = minute(100) },
			[]string{"5m r5 v2 waiting seq 7"},
		},
		"the due time is taken": {
			func(j *carillon.Job) []carillon.Run {
				return []carillon.Run{manual(j, minute(64)), planned(j, minute(9))}
			}, every(time.Hour),
			[]string{
				"9m r5 v1 canceled: the schedule was changed", "1h4m r5 v2 waiting",
				"1h4m0.001s r0 v2 waiting covers 1h4m",
			},
		},
		"runs that have begun or wait for their turn stay": {
			func(j *carillon.Job) []carillon.Run {
				return []carillon.Run{
					numbered(planned(j, minute(9)), 4), behind(planned(j, minute(2))),
					claimed(planned(j, minute(1))),
				}
			}, every(time.Hour),
			[]string{
				"9m r5 v1 canceled seq 4: the schedule was changed", "2m r5 v2 waiting planned wakes 2m30s",
				"1h4m r0 v2 waiting seq 4",
			},
		},
		"max_runs is reached": {
			func(j *carillon.Job) []carillon.Run {
				return []carillon.Run{numbered(planned(j, minute(9)), 7)}
			},
			func(d *carillon.Definition) { d.Schedule.MaxRuns = 7 },
			[]string{"9m r5 v1 canceled seq 7: the schedule was changed"},
		},
		"max_runs is raised while the last one runs": {
			func(j *carillon.Job) []carillon.Run {
				return []carillon.Run{numbered(claimed(planned(j, minute(1))), 4)}
			},
			func(d *carillon.Definition) { d.Schedule.MaxRuns = 6 },
			[]string{"5m r0 v2 waiting seq 5"},
		},
		"max_runs is raised while the last one waits for a retry": {
			func(j *carillon.Job) []carillon.Run {
				return []carillon.Run{numbered(retrying(planned(j, minute(1)), minute(8)), 4)}
			},
			func(d *carillon.Definition) { d.Schedule.MaxRuns = 6 },
			[]string{"5m r0 v2 waiting seq 5"},
		},
		"max_runs is raised, but not enough": {
			func(j *carillon.Job) []carillon.Run {
				return []carillon.Run{numbered(retrying(planned(j, minute(1)), minute(8)), 4)}
			},
			func(d *carillon.Definition) { d.Schedule.MaxRuns = 5 }, nil,
		},
		"the clock was set back: what has been is not planned again": {
			func(j *carillon.Job) []carillon.Run { return []carillon.Run{claimed(planned(j, minute(6)))} },
			func(d *carillon.Definition) { d.Schedule.MaxRuns = 60 },
			[]string{"7m r0 v2 waiting seq 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := newJob(t, minutely(carillon.OverlapAllow))
			got := change(t, whole(job, nil, c.runs(job)...), minute(4), c.edit)
			expectChange(t, got, append([]string{"job v2 active"}, c.want...)...)
		})
	}
}

func numbered(run carillon.Run, seq int32) carillon.Run {
	run.Seq = seq
	return run
}

func TestAnEditOfAPausedJobPlansOnHold(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapAllow))
	job.State = carillon.JobPaused
	run := planned(job, minute(1))
	run.Flags, run.Wake = run.Flags|carillon.FlagOnHold, carillon.Never
	c := change(t, whole(job, nil, run), minute(4), func(d *carillon.Definition) {
		d.Schedule.Cron, d.Schedule.Every = "@hourly", 0
	})
	expectChange(
		t, c, "job v2 paused", "1m r5 v1 canceled until 4m: the schedule was changed",
		"1h r0 v2 waiting on-hold wakes never",
	)
}

func TestAMovedOneOff(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*carillon.Definition)
		runs func(*carillon.Job) []carillon.Run
		at   carillon.Time
		want []string
	}{
		"it waits": {
			nil,
			func(j *carillon.Job) []carillon.Run {
				return []carillon.Run{planned(j, minute(9))}
			}, minute(20),
			[]string{
				"9m r5 v1 canceled: the schedule was changed", "20m r0 v2 waiting",
			},
		},
		"it waits, and shall run at once": {
			nil,
			func(j *carillon.Job) []carillon.Run {
				return []carillon.Run{planned(j, minute(9))}
			}, minute(1),
			[]string{
				"9m r5 v1 canceled: the schedule was changed", "1m r0 v2 waiting",
			},
		},
		"it runs, and shall once more: they must not overlap": {
			nil, func(j *carillon.Job) []carillon.Run {
				return []carillon.Run{planned(j, minute(9)).Claim(worker, minute(9))}
			}, minute(20),
			[]string{"9m r5 v1 claimed guarded #1", "20m r0 v2 waiting guarded", "turn r0 of 9m"},
		},
		"it runs, and shall once more: they may overlap": {
			func(d *carillon.Definition) { d.Overlap = carillon.OverlapAllow },
			func(j *carillon.Job) []carillon.Run {
				return []carillon.Run{planned(j, minute(9)).Claim(worker, minute(9))}
			}, minute(20),
			[]string{"20m r0 v2 waiting"},
		},
		"it runs, and that time has been": {
			nil, func(j *carillon.Job) []carillon.Run {
				return []carillon.Run{planned(j, minute(9)).Claim(worker, minute(9))}
			}, minute(1), nil,
		},
		"it has ended, and shall once more": {
			nil, func(*carillon.Job) []carillon.Run { return nil }, minute(20), []string{"20m r0 v2 waiting"},
		},
		"it has ended, and that time has been": {
			nil, func(*carillon.Job) []carillon.Run { return nil }, minute(1), nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := newJob(t, func(d *carillon.Definition) {
				d.Schedule.At = minute(9)
				if c.edit != nil {
					c.edit(d)
				}
			})
			got := change(t, whole(job, nil, c.runs(job)...), minute(10), func(d *carillon.Definition) {
				d.Schedule.At = c.at
			})
			expectChange(t, got, append([]string{"job v2 active"}, c.want...)...)
		})
	}
}

func TestAMovedOneOffLeavesTheLine(t *testing.T) {
	job := newJob(t, once(minute(9)))
	waits := planned(job, minute(9))
	waits.Flags, waits.Wake = waits.Flags|carillon.FlagGuarded, minute(9).Add(30*time.Second)
	w := whole(job, line(job, minute(8), minute(9)), waits, manual(job, minute(8)).Claim(worker, minute(8)))
	c := change(t, w, minute(10), func(d *carillon.Definition) { d.Schedule.At = minute(20) })
	expectChange(
		t, c, "job v2 active", "9m r5 v1 canceled guarded: the schedule was changed",
		"20m r0 v2 waiting guarded", "turn r9 of 8m",
	)
}

func TestAnEditCannotChangeTheKindOfSchedule(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapSkip))
	_, err := whole(job, line(job, 0)).Edit(define(t, once(minute(9))), minute(1))
	expectFieldError(t, err, "schedule", minute(9).String(), "submit a new job")
	if want := "schedule: a recurring job cannot become a one-time job: want cron or every; for a single time submit a new job"; err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	job = newJob(t, once(minute(9)))
	_, err = whole(job, nil).Edit(define(t, minutely(carillon.OverlapSkip)), minute(1))
	expectFieldError(t, err, "schedule", "", "submit a new job")
	if want := "schedule: a one-time job cannot become a recurring job: want at or after; for a schedule submit a new job"; err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func overlap(o carillon.Overlap) func(*carillon.Definition) {
	return func(d *carillon.Definition) { d.Overlap = o }
}

func TestFromAllowToSkipAllThatIsUnfinishedComesUnderTheGuard(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapAllow))
	w := whole(
		job, nil, planned(job, minute(9)), manual(job, minute(3)+1), claimed(planned(job, minute(2))),
		retrying(planned(job, minute(1)), minute(8)),
	)
	c := change(t, w, minute(4), overlap(carillon.OverlapSkip))
	expectChange(t, c, "job v2 active", "2m r5 v1 claimed guarded planned #1",
		"1m r5 v1 waiting guarded planned #1 wakes 8m",
		"9m r5 v2 waiting guarded", "3m0.001s r5 v2 waiting guarded", "turn r0 of 2m beside 1m")
}

func TestFromSkipToAllowNoRunWaitsForItsTurnAnyLonger(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapQueueAll))
	w := whole(
		job, line(job, minute(1), minute(2)), planned(job, minute(9)), behind(planned(job, minute(2))),
		claimed(planned(job, minute(1))),
	)
	c := change(t, w, minute(4), overlap(carillon.OverlapAllow))
	expectChange(
		t, c, "job v2 active", "9m r5 v2 waiting", "2m r5 v2 waiting planned wakes 4m", "turn r9 of 1m",
	)

	// And back again: the run that began meanwhile is beside the run that has the turn, which waits for a
	// retry. A claim of the waiting run that was decided earlier must lose, so the run is part of the change.
	w = whole(
		c.Job, line(job, minute(1)), c.Runs[1].Claim("worker_0", minute(4)),
		retrying(planned(job, minute(1)), minute(8)),
	)
	c = change(t, w, minute(5), overlap(carillon.OverlapSkip))
	expectChange(t, c, "job v3 active", "2m r5 v2 claimed guarded planned #1 wakes 4m",
		"1m r5 v1 waiting guarded planned #1 wakes 8m",
		"turn r9 of 1m beside 2m")
}

func TestWhoRanSideBySideBeforeAnEditWaitsForTheOthers(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapSkip))
	first, second := retrying(planned(job, minute(1)), minute(5)), claimed(planned(job, minute(2)))
	allowed := newJob(t, minutely(carillon.OverlapAllow)) // the policy that they began with
	guard := line(job, minute(1))
	guard[0].Value = []byte(`{"holder":"2027-01-15T08:01:00.000Z","beside":["2027-01-15T08:02:00.000Z"]}`)
	decide := func(run carillon.Run, others ...carillon.Run) (carillon.Verdict, carillon.Change) {
		d := carillon.Candidate{Job: allowed, Run: run, Guards: guard, Others: others, Worker: worker}
		for _, other := range others {
			if other.ID != run.ID && !slices.Contains(d.NeedsOthers(), other.ID) {
				t.Errorf("%s is decided without a look at %s", since(run.ID.Due), since(other.ID.Due))
			}
		}
		return d.Decide(minute(6))
	}
	if verdict, c := decide(first, first, second); verdict != carillon.VerdictWait {
		t.Errorf("its turn, but another still runs: verdict %d, %v", verdict, tell(c))
	} else {
		expectChange(t, c, "1m r5 v1 waiting guarded planned #1 wakes 6m30s")
	}
	other := retrying(planned(job, minute(2)), minute(5))
	if verdict, c := decide(first, first, other); verdict != carillon.VerdictClaim {
		t.Errorf("its turn, and no run goes on: verdict %d, %v", verdict, tell(c))
	}
	if verdict, c := decide(other, first, other); verdict != carillon.VerdictWait {
		t.Errorf("not its turn: verdict %d, %v", verdict, tell(c))
	}
	c := carillon.EndChange(
		job, first.Claim(worker, minute(7)).End(carillon.StateSucceeded, "", minute(7)), guard,
	)
	expectChange(t, c, "1m r5 v1 succeeded guarded planned #2", "turn r9 of 2m")
	// A run that is due meanwhile is skipped, or stops both.
	_, c = carillon.Candidate{
		Job: job, Run: planned(job, minute(6)), Guards: guard, Others: []carillon.Run{first, second},
	}.Decide(minute(6))
	if c.Runs[0].State != carillon.StateSkipped {
		t.Errorf("%v", tell(c))
	}
	replace := newJob(t, minutely(carillon.OverlapReplace))
	by := ": replaced by " + runID(job, minute(6))
	_, c = carillon.Candidate{
		Job: replace, Run: planned(job, minute(6)), Guards: guard, Others: []carillon.Run{first, second},
	}.Decide(minute(6))
	expectChange(t, c, "6m r5 v1 waiting guarded planned wakes 6m30s", "7m r0 v1 waiting guarded seq 1",
		"1m r5 v1 canceled guarded planned #1"+by, "2m r5 v1 claimed guarded planned stop #1"+
			by, "turn r9 of 2m then 6m")
}

func TestAOneOffWithTwoRunsComesUnderTheGuardWhenOverlapIsForbidden(t *testing.T) {
	job := newJob(t, func(d *carillon.Definition) {
		d.Schedule.At, d.Overlap = minute(9), carillon.OverlapAllow
	})
	w := whole(job, nil, planned(job, minute(9)), manual(job, minute(3)).Claim(worker, minute(3)))
	expectChange(t, change(t, w, minute(4), overlap(carillon.OverlapQueue)), "job v2 active",
		"3m r5 v1 claimed guarded #1",
		"9m r5 v2 waiting guarded", "turn r0 of 3m")
	// A run alone needs no guard.
	w = whole(job, nil, planned(job, minute(9)))
	expectChange(
		t, change(t, w, minute(4), overlap(carillon.OverlapQueue)), "job v2 active", "9m r5 v2 waiting",
	)
}

func TestAnEditedMisfirePolicyReachesThePlannedRun(t *testing.T) {
	job := newJob(t, once(minute(9)))
	c := change(t, whole(job, nil, planned(job, minute(9))), minute(4), func(d *carillon.Definition) {
		d.Misfire.Policy = carillon.MisfireSkip
	})
	if verdict, _ := (carillon.Candidate{Job: c.Job, Run: c.Runs[0], Worker: worker}).Decide(minute(
		20,
	)); verdict != carillon.VerdictEnd {
		t.Errorf("verdict %d: it is eleven minutes late, and the policy is skip", verdict)
	}
}

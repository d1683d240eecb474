package carillon_test

import (
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

func TestThousandsOfRunsThatAreAskedForWhileTheClockStandsHaveNamesOfTheirOwn(t *testing.T) {
	for _, policy := range []carillon.Overlap{carillon.OverlapAllow, carillon.OverlapQueueAll} {
		job := newJob(t, minutely(policy))
		w := whole(job, nil) // every run has ended before the next is asked for
		seen := map[carillon.RunID]bool{}
		for range 1500 {
			c, run, err := w.RunNow(nil, minute(2))
			if err != nil {
				t.Fatal(err)
			}
			if seen[run.ID] {
				t.Fatalf("%s: %s is a second one, after %d", policy, since(run.ID.Due), len(seen))
			}
			if run.Wake > minute(2).Add(time.Second) {
				t.Fatalf("%s: %s wakes at %s", policy, since(run.ID.Due), since(run.Wake))
			}
			seen[run.ID] = true
			run.Rev = 1
			ended := carillon.EndChange(
				c.Job, run.Claim(worker, minute(2)).End(carillon.StateSucceeded, "", minute(2)), c.Guards,
			)
			w.Job, w.Guards = *c.Job, c.Guards
			if len(ended.Guards) > 0 {
				w.Guards = ended.Guards
			}
		}
	}
}

func TestRunsAndPausesLeaveTheTimeOfTheLastEdit(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapAllow))
	w := whole(job, nil, planned(job, minute(9)))
	for name, act := range map[string]func() (carillon.Change, error){
		"run now": func() (carillon.Change, error) { c, _, err := w.RunNow(nil, minute(2)); return c, err },
		"pause":   func() (carillon.Change, error) { return w.Pause(minute(2)) },
		"cancel":  func() (carillon.Change, error) { return w.Cancel(false, minute(2)) },
	} {
		if c, err := act(); err != nil || c.Job.Updated != epoch {
			t.Errorf("%s: updated %s, %v", name, since(c.Job.Updated), err)
		}
	}
}

func TestAnEditDoesNotPlanAgainWhatHasRunThoughTheClockIsBehind(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapSkip))
	for name, c := range map[string]struct {
		runs []carillon.Run
		ran  carillon.Time
	}{
		"its successor is planned": {[]carillon.Run{planned(job, minute(6))}, minute(5)},
		"it was the last":          {nil, minute(5)},
		"it is still going on":     {[]carillon.Run{claimed(planned(job, minute(5)))}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := whole(job, line(job, 0), c.runs...)
			w.Ran = c.ran
			change := change(t, w, minute(5)-3, func(d *carillon.Definition) { d.Schedule.MaxRuns = 50 })
			for _, run := range change.Runs {
				if run.Rev == 0 && run.ID.Due != minute(6) {
					t.Errorf("planned is %s", since(run.ID.Due))
				}
			}
		})
	}
}

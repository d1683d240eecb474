package carillon_test

import (
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/google/go-cmp/cmp"
)

// endedRuns are ended runs of a minutely job, the latest due first, that ended a second after they were due:
// f failed, s succeeded, c canceled, x skipped.
func endedRuns(job *carillon.Job, ends string) (runs []carillon.Run) {
	for i, end := range ends {
		run := claimed(planned(job, minute(100-i)))
		state := map[rune]carillon.State{
			'f': carillon.StateFailed, 's': carillon.StateSucceeded, 'c': carillon.StateCanceled,
			'x': carillon.StateSkipped,
		}[end]
		runs = append(runs, run.End(state, "reason "+string(rune('a'+i)), run.ID.Due+1000))
	}
	return runs
}

func pausing(after int32) func(*carillon.Definition) {
	return func(d *carillon.Definition) {
		minutely(carillon.OverlapSkip)(d)
		d.PauseAfter = after
	}
}

func TestAJobIsPausedAfterItsLastRunsHaveFailed(t *testing.T) {
	for _, c := range []struct {
		after int32
		ends  string
		pause bool
	}{
		{3, "fff", true},
		{3, "ffff", true},
		{3, "ffs", false},
		{3, "ffsf", false},
		{3, "sfff", false},
		{3, "ff", false},
		{3, "", false},
		{3, "fcxfcf", true},
		{1, "f", true},
		{1, "sf", false},
		{0, "fff", false},
	} {
		job := newJob(t, pausing(c.after))
		waiting := planned(job, minute(101))
		w := carillon.JobSnapshot{Job: *job, Runs: []carillon.Run{waiting}}
		change, pause := w.PauseFailing(endedRuns(job, c.ends), minute(101))
		if pause != c.pause {
			t.Errorf("%d of %q: paused %t", c.after, c.ends, pause)
		}
		if !pause {
			continue
		}
		want, err := w.Pause(minute(101))
		if err != nil {
			t.Fatal(err)
		}
		guards := carillon.Guards(change.Guards)
		reason := change.Job.PauseReason(guards)
		want1, wantMany := "its last run failed: reason a", "its last 3 runs failed, the last one: reason a"
		if reason != map[int32]string{1: want1, 3: wantMany}[c.after] {
			t.Errorf("the reason is %q", reason)
		}
		change.Guards = nil
		if diff := cmp.Diff(want, change, cmp.AllowUnexported(carillon.Schedule{})); diff != "" {
			t.Error(diff)
		}
	}
}

func TestOnlyAnActiveJobIsPausedForItsFailures(t *testing.T) {
	for _, state := range []carillon.JobState{carillon.JobPaused, carillon.JobCanceled} {
		job := newJob(t, pausing(1))
		job.State = state
		w := carillon.JobSnapshot{Job: *job}
		if _, pause := w.PauseFailing(endedRuns(job, "f"), minute(101)); pause {
			t.Errorf("a job that is %s is paused", state)
		}
	}
}

func TestFailuresBeforeAnEditOrAResumeDoNotCount(t *testing.T) {
	job := newJob(t, pausing(2))
	ended := endedRuns(job, "fff") // due at minutes 100, 99 and 98
	job.Updated = minute(99)
	if _, pause := (carillon.JobSnapshot{Job: *job}).PauseFailing(ended, minute(101)); !pause {
		t.Error("two runs have failed since the edit")
	}
	job.Updated = minute(100)
	if _, pause := (carillon.JobSnapshot{Job: *job}).PauseFailing(ended, minute(101)); pause {
		t.Error("one run has failed since the edit")
	}
	job.Updated = epoch
	paused, _ := carillon.JobSnapshot{Job: *job}.PauseFailing(ended, minute(101))
	guard := carillon.Guards(paused.Guards).Of(carillon.GuardPause)
	guard.Rev = 1
	w := carillon.JobSnapshot{Job: *paused.Job, Guards: carillon.Guards{*guard}}
	resumed, err := w.Resume(minute(102))
	if err != nil {
		t.Fatal(err)
	}
	if reason := resumed.Job.PauseReason(resumed.Guards); reason != "" {
		t.Errorf("the reason is still %q", reason)
	}
	next := carillon.JobSnapshot{Job: *resumed.Job, Guards: resumed.Guards}
	if _, pause := next.PauseFailing(ended, minute(103)); pause {
		t.Error("failures before the resume count")
	}
	by, err := next.Pause(minute(103))
	if err != nil {
		t.Fatal(err)
	}
	if reason := by.Job.PauseReason(resumed.Guards); reason != "" {
		t.Errorf("a caller paused it, and the reason is %q", reason)
	}
}

func TestACancelRemovesTheRecordOfPauses(t *testing.T) {
	job := newJob(t, pausing(1))
	guard := carillon.Guard{Namespace: job.Namespace, Key: job.ID.PauseKey(), Rev: 3, Value: []byte(`{}`)}
	c, err := carillon.JobSnapshot{Job: *job, Guards: carillon.Guards{guard}}.Cancel(false, minute(1))
	guard.Value = nil
	if diff := cmp.Diff([]carillon.Guard{guard}, c.Guards); diff != "" || err != nil {
		t.Error(err, diff)
	}
}

func TestAResumeOfAJobWithoutPauseAfterWritesNoRecord(t *testing.T) {
	job := newJob(t, nil)
	job.State = carillon.JobPaused
	c, err := carillon.JobSnapshot{Job: *job}.Resume(minute(1))
	if err != nil || len(c.Guards) > 0 {
		t.Errorf("%+v, %v", c.Guards, err)
	}
}

func TestTheRecordOfAOneOffExpires(t *testing.T) {
	job := newJob(t, func(d *carillon.Definition) { d.PauseAfter = 1 })
	c, pause := carillon.JobSnapshot{Job: *job}.PauseFailing(endedRuns(job, "f"), minute(101))
	if !pause || c.Guards[0].Expires == 0 {
		t.Errorf("%+v", c.Guards)
	}
}

func TestPauseAfterIsBounded(t *testing.T) {
	for _, after := range []int32{-2, 1001} {
		def := carillon.Definition{Target: carillon.Target{Command: &carillon.Command{Shell: "true"}}}
		def.PauseAfter = after
		if err := def.Admit(epoch); err == nil || !strings.HasPrefix(err.Error(), "pause_after: ") {
			t.Errorf("%d: %v", after, err)
		}
	}
}

func TestOnlyAFailureForGoodOfAJobWithPauseAfterIsMarked(t *testing.T) {
	for _, after := range []int32{0, 2} {
		job := newJob(t, pausing(after))
		for kind, name := range kinds {
			run := claimed(planned(job, minute(1)))
			got := run.Finish(job, carillon.Outcome{Kind: kind, Reason: "so"}, minute(2), 0)
			want := after > 0 && got.State == carillon.StateFailed
			if got.Has(carillon.FlagPauseAfter) != want {
				t.Errorf("%s with pause_after %d: marked %t", name, after, !want)
			}
		}
	}
}

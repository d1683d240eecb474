package carillon_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
)

var guarding = []carillon.Overlap{
	carillon.OverlapSkip, carillon.OverlapQueue, carillon.OverlapQueueAll, carillon.OverlapReplace,
}

// failed is a run of the job that failed for good.
func failed(job *carillon.Job, due carillon.Time) carillon.Run {
	return claimed(planned(job, due)).End(carillon.StateFailed, "exit code 1", due+1)
}

// added applies a change to a snapshot of the job.
func added(w carillon.JobSnapshot, c carillon.Change) carillon.JobSnapshot {
	w.Job, w.Guards = *c.Job, c.Guards
	for _, run := range c.Runs {
		if run.Rev == 0 {
			w.Runs = append(w.Runs, run)
		}
	}
	return w
}

func TestRetriedRunsWaitTheirTurnUnderEveryPolicy(t *testing.T) {
	for _, policy := range guarding {
		t.Run(string(policy), func(t *testing.T) {
			job := newJob(t, minutely(policy))
			w := whole(job, line(job, minute(4)), claimed(planned(job, minute(4))), planned(job, minute(9)))
			for n := range 3 {
				c, run, err := w.Retry(failed(job, minute(1+n)), true, minute(5)+1)
				if err != nil {
					t.Fatal(err)
				}
				if run.Wake != minute(5)+1+30_000 {
					t.Errorf("it wakes at %s", since(run.Wake))
				}
				w = added(w, c)
			}
			holder, _, queue := turns(w.Guards)
			if holder != minute(4) || len(queue) != 3 {
				t.Fatalf("the line is %s", w.Guards[0].Value)
			}
			for _, run := range w.Runs[2:] {
				d := carillon.Candidate{Job: job, Run: run, Guards: w.Guards, Others: w.Runs, Worker: worker}
				verdict, c := d.Decide(minute(6))
				if verdict != carillon.VerdictWait || len(c.Runs) != 1 ||
					c.Runs[0].State != carillon.StateWaiting || len(c.Guards) != 0 {
					t.Errorf("verdict %d: %v", verdict, tell(c))
				}
			}
			free := carillon.EndChange(
				&w.Job, w.Runs[0].End(carillon.StateSucceeded, "", minute(6)), w.Guards,
			).Guards[0]
			verdict, _ := carillon.Candidate{
				Job: job, Run: w.Runs[2], Guards: carillon.Guards{free}, Others: w.Runs[1:], Worker: worker,
			}.Decide(minute(6))
			if verdict != carillon.VerdictClaim {
				t.Errorf("the first in line, once the turn is free: verdict %d", verdict)
			}
		})
	}
}

func TestARetryThatCannotWaitIsRefusedAndStaysADeadLetter(t *testing.T) {
	for _, policy := range guarding {
		job := newJob(t, minutely(policy))
		var queue []carillon.Time
		for n := range 1000 {
			queue = append(queue, minute(-2000+n))
		}
		_, _, err := whole(
			job, line(job, minute(-3000), queue...),
		).Retry(failed(job, minute(1)), true, minute(5))
		if !errors.Is(err, carillon.ErrConflict) ||
			!strings.Contains(err.Error(), "1000 runs of "+job.ID.String()+" are waiting already") {
			t.Errorf("%s: %v", policy, err)
		}
		if _, _, err = whole(
			job, line(job, minute(-3000), queue[1:]...),
		).Retry(failed(job, minute(1)), true, minute(5)); err != nil {
			t.Errorf("%s, with room for one: %v", policy, err)
		}
	}
}

func TestARetriedRunFromBeforeAnEditWaitsEvenWhereTheLineIsFull(t *testing.T) {
	// The overlap policy was allow when the run was added, so it has no place in line.
	job := newJob(t, minutely(carillon.OverlapSkip))
	run := manual(job, minute(5)+1)
	run.RetryOf = minute(1)
	verdict, c := carillon.Candidate{
		Job: job, Run: run, Guards: line(job, minute(4)), Worker: worker,
	}.Decide(minute(6))
	if verdict != carillon.VerdictWait {
		t.Errorf("verdict %d", verdict)
	}
	expectChange(t, c, "5m0.001s r5 v1 waiting guarded wakes 6m30s retries 1m", "turn r9 of 4m then 5m0.001s")

	var queue []carillon.Time
	for n := range 1000 {
		queue = append(queue, minute(-2000+n))
	}
	verdict, c = carillon.Candidate{
		Job: job, Run: run, Guards: line(job, minute(4), queue...), Worker: worker,
	}.Decide(minute(6))
	if verdict != carillon.VerdictWait {
		t.Errorf("verdict %d where the line is full", verdict)
	}
	expectChange(t, c, "5m0.001s r5 v1 waiting guarded wakes 6m30s retries 1m")
}

func TestReplaceGoesBeforeRetriedRunsAndLeavesThemInLine(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapReplace))
	by := "replaced by " + runID(job, minute(5))
	retry, waits := manual(job, minute(2)+1), planned(job, minute(4))
	retry.RetryOf = minute(1)
	waits.Flags |= carillon.FlagPlanned
	verdict, c := carillon.Candidate{
		Job: job, Run: planned(job, minute(5)), Guards: line(job, minute(3), minute(2)+1, minute(4)),
		Others: []carillon.Run{retry, claimed(planned(job, minute(3))), waits},
	}.Decide(minute(5))
	if verdict != carillon.VerdictWait {
		t.Errorf("verdict %d", verdict)
	}
	expectChange(t, c, "5m r5 v1 waiting guarded planned wakes 5m30s", "6m r0 v1 waiting guarded seq 1",
		"3m r5 v1 claimed guarded planned stop #1: "+by, "4m r5 v1 skipped guarded planned: "+
			by, "turn r9 of 3m then 5m then 2m0.001s")
}

func TestAManualRunThatWouldBeSkippedIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		policy carillon.Overlap
		whole  func(*carillon.Job) carillon.JobSnapshot
		want   string // part of the refusal; empty: accepted
	}{
		"skip, one runs": {carillon.OverlapSkip, func(j *carillon.Job) carillon.JobSnapshot {
			return whole(j, line(j, minute(1)), claimed(planned(j, minute(1))), planned(j, minute(9)))
		}, " has not ended, and the overlap policy of the job is skip"},
		"skip, one is due and waits for a worker": {
			carillon.OverlapSkip,
			func(j *carillon.Job) carillon.JobSnapshot {
				return whole(j, line(j, 0), planned(j, minute(1)))
			}, " has not ended, and the overlap policy of the job is skip",
		},
		"skip, one is due and on hold, and will be skipped": {
			carillon.OverlapSkip,
			func(j *carillon.Job) carillon.JobSnapshot {
				run := planned(j, minute(1))
				run.Flags |= carillon.FlagOnHold
				return whole(j, line(j, 0), run)
			}, "",
		},
		"skip, none is due": {
			carillon.OverlapSkip,
			func(j *carillon.Job) carillon.JobSnapshot { return whole(j, line(j, 0), planned(j, minute(9))) },
			"",
		},
		"queue, one runs": {
			carillon.OverlapQueue,
			func(j *carillon.Job) carillon.JobSnapshot { return whole(j, line(j, minute(1))) }, "",
		},
		"queue, one runs, one waits": {
			carillon.OverlapQueue,
			func(j *carillon.Job) carillon.JobSnapshot { return whole(j, line(j, minute(0), minute(1))) },
			" waits already, and the overlap policy of the job, queue",
		},
		"queue, one is next": {
			carillon.OverlapQueue,
			func(j *carillon.Job) carillon.JobSnapshot { return whole(j, line(j, 0, minute(1))) }, "",
		},
		"queue_all": {
			carillon.OverlapQueueAll,
			func(j *carillon.Job) carillon.JobSnapshot { return whole(j, line(j, minute(0), minute(1))) }, "",
		},
		"replace": {
			carillon.OverlapReplace,
			func(j *carillon.Job) carillon.JobSnapshot { return whole(j, line(j, minute(0), minute(1))) }, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := newJob(t, minutely(c.policy))
			change, run, err := c.whole(job).RunNow(nil, minute(1)+5)
			if c.want != "" {
				if !errors.Is(err, carillon.ErrConflict) ||
					!strings.Contains(err.Error(), runID(job, minute(1))+c.want) {
					t.Errorf("%v, want %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			_, _, queue := turns(change.Guards)
			if placed := len(queue) > 0 &&
				queue[len(queue)-1] == run.ID.Due; placed != (c.policy != carillon.OverlapReplace) {
				t.Errorf("the line is %s", change.Guards[0].Value)
			}
		})
	}
}

func TestReplaceStopsNoRetriedRun(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapReplace))
	for name, retry := range map[string]carillon.Run{
		"it runs":                       claimed(manual(job, minute(2)+1)),
		"it waits for its next attempt": retrying(manual(job, minute(2)+1), minute(9)),
	} {
		t.Run(name, func(t *testing.T) {
			retry.RetryOf = minute(1)
			verdict, c := carillon.Candidate{
				Job: job, Run: planned(job, minute(5)), Guards: line(job, minute(2)+1),
				Others: []carillon.Run{retry},
			}.Decide(minute(5))
			if verdict != carillon.VerdictWait {
				t.Errorf("verdict %d", verdict)
			}
			expectChange(t, c, "5m r5 v1 waiting guarded planned wakes 5m30s",
				"6m r0 v1 waiting guarded seq 1",
				"turn r9 of 2m0.001s then 5m")
		})
	}
}

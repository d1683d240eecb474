package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

func recurring(every time.Duration, overlap carillon.Overlap) func(*carillon.Definition) {
	return func(d *carillon.Definition) { d.Schedule.Every, d.Overlap = carillon.Duration(every), overlap }
}

func TestWhileNoCommitIsMadeLittleIsTried(t *testing.T) {
	for name, overlap := range map[string]carillon.Overlap{
		"skip": carillon.OverlapSkip, "queue": carillon.OverlapQueue, "replace": carillon.OverlapReplace,
		"allow": carillon.OverlapAllow,
	} {
		for busy, takes := range map[string]time.Duration{"idle": 0, "busy": 90 * time.Second} {
			t.Run("overlap "+name+", "+busy, func(t *testing.T) {
				in(t, func(h *house) { h.handle = slow(takes) }, func(h *house) {
					job := h.submit(1, recurring(10*time.Second, overlap))[0].ID
					time.Sleep(15 * time.Second) // its first run has begun
					h.store.set(always, nil)
					for minute := range 10 {
						before, _ := h.store.counts()
						time.Sleep(time.Minute)
						if now, _ := h.store.counts(); now-before > 20*60 {
							t.Fatalf("minute %d: %d commits were tried", minute, now-before)
						}
					}
					before := len(h.attempts())
					h.store.set(nil, nil)
					time.Sleep(10 * time.Minute)
					if n := len(h.attempts()) - before; n < 5 {
						t.Errorf("%d runs began in the ten minutes after the outage", n)
					}
					for _, run := range h.runs(job) {
						if run.State == carillon.StateFailed || run.State.Ended() && run.Attempt > 1 {
							t.Errorf(
								"%s is %s after %d attempts: %s", run.ID, run.State, run.Attempt, run.Reason,
							)
						}
					}
				})
			})
		}
	}
}

// The backlog of the scheduler shows in how much it asks the store for at once.
func TestWhileNoCommitIsMadeNothingPilesUp(t *testing.T) {
	const jobs = 5
	for name, overlap := range map[string]carillon.Overlap{
		"skip": carillon.OverlapSkip, "replace": carillon.OverlapReplace,
	} {
		t.Run("overlap "+name, func(t *testing.T) {
			in(t, func(h *house) { h.handle, h.concurrency = slow(20*time.Minute), 2*jobs }, func(h *house) {
				h.submit(jobs, recurring(10*time.Second, overlap))
				time.Sleep(15 * time.Second) // a run of each goes on, so the next one must be decided
				h.store.set(always, nil)
				time.Sleep(10 * time.Minute)
				if _, longest := h.store.counts(); longest > 4*jobs {
					t.Errorf("%d runs of %d jobs are decided about at once", longest, jobs)
				}
				h.store.set(nil, nil)
				time.Sleep(time.Minute)
			})
		})
	}
}

func TestAfterAnOutageEverythingRuns(t *testing.T) {
	in(t, func(h *house) { h.handle = slow(time.Second) }, func(h *house) {
		jobs := h.submit(3, nil) // they end while the store takes no writes
		jobs = append(jobs, h.submit(30, after(30*time.Second))...)
		h.store.set(always, nil)
		time.Sleep(10 * time.Minute)
		if _, err := h.trySubmit(1, nil); err == nil {
			t.Error("a job was accepted that was not kept")
		}
		h.store.set(nil, nil)
		time.Sleep(2 * time.Minute)
		for _, job := range jobs {
			h.expect(h.run(job.ID), carillon.StateSucceeded, 1, 0)
			if n := len(h.attempts(job.ID)); n != 1 {
				t.Errorf("%d attempts", n)
			}
		}
		h.expectSlots()
	})
}

func TestRunningIsWrittenForRunsThatOutlastAMoment(t *testing.T) {
	in(t, func(h *house) { h.concurrency = 100 }, func(h *house) {
		h.handle = func(_ context.Context, task executor.Task) error {
			d := 90 * time.Millisecond
			if task.Job.Priority == 9 {
				d = time.Second
			}
			time.Sleep(d)
			return nil
		}
		for range 20 { // at different moments between two rounds of the record loop
			short := h.submit(1, nil)[0].ID
			long := h.submit(1, func(d *carillon.Definition) { d.Priority = 9 })[0].ID
			time.Sleep(500 * time.Millisecond)
			if run := h.run(long); run.State != carillon.StateRunning || run.Started == 0 {
				t.Fatalf("after half a second it is %s, started %s", run.State, run.Started)
			}
			time.Sleep(3*time.Second + 13*time.Millisecond)
			for job, want := range map[carillon.JobID]int{short: 2, long: 3} {
				run := h.run(job)
				h.expect(run, carillon.StateSucceeded, 1, 0)
				if got := h.store.history(run.ID); len(got) != want {
					t.Fatalf("states %v, want %d of them", got, want)
				}
			}
		}
	})
}

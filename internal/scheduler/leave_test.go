package scheduler_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

// leave stops the first node.
func (h *house) leave() {
	h.stop[0]()
	h.stop = h.stop[1:]
}

func TestWhatOnlyANodeThatLeftKnewOfIsOnTime(t *testing.T) {
	in(t, nil, func(h *house) {
		h.live()
		time.Sleep(time.Minute)
		var jobs []carillon.Job
		// Near enough for the first node to keep them, and for the second to have read past them.
		for i := range 80 {
			jobs = append(jobs, h.submit(1, after(2*time.Second+time.Duration(i)*100*time.Millisecond))...)
		}
		h.leave()
		time.Sleep(time.Minute)
		h.expectAll(jobs, 1)
		h.expectLate(jobs, time.Second)
	})
}

func TestWhatANodeCommitsWhileItLeavesIsOnTime(t *testing.T) {
	in(t, nil, func(h *house) {
		h.live()
		time.Sleep(time.Minute)
		h.leave()
		time.Sleep(2 * time.Second) // the other node has read the shards that it took over
		jobs := h.put(50, after(6*time.Second))
		time.Sleep(time.Minute)
		h.expectAll(jobs, 1)
		h.expectLate(jobs, time.Second)
	})
}

// muted is a queue that loses every run that is pushed while it is mute.
type muted struct {
	carillon.Queue
	mute *atomic.Bool
}

func (q muted) Push(ctx context.Context, runs []carillon.Run) ([]int, error) {
	if q.mute.Load() {
		return nil, nil
	}
	return q.Queue.Push(ctx, runs)
}

// late puts jobs into the store that have been due for an hour, and that no running node knows of.
func (h *house) late(n int) []carillon.Job {
	h.t.Helper()
	return h.put(n, func(d *carillon.Definition) { d.Schedule.At = h.clock.Now().Add(-time.Hour) })
}

func TestASweepLooksAtOldRunsOfShardsThatANodeHasGot(t *testing.T) {
	var mute atomic.Bool
	in(t, func(h *house) {
		h.queue = func(q carillon.Queue) carillon.Queue { return muted{q, &mute} }
	}, func(h *house) {
		h.live()
		time.Sleep(time.Minute)
		mute.Store(true)
		theirs := h.nodes[0].scheduler.Shards()
		jobs := slices.DeleteFunc(h.late(200), func(j carillon.Job) bool {
			return !slices.Contains(theirs, j.ID.Shard())
		})
		h.leave()
		time.Sleep(8 * time.Second) // the other node has loaded them twice, and the queue has lost them
		mute.Store(false)
		time.Sleep(30 * time.Second)
		h.expectAll(jobs, 1)
	})
}

func TestASweepBeginsAtTheVeryBeginningNowAndThen(t *testing.T) {
	in(t, nil, func(h *house) {
		time.Sleep(2 * time.Minute) // by now a round begins about a minute in the past
		jobs := h.late(20)
		time.Sleep(6 * time.Minute)
		h.expectAll(jobs, 1)
	})
}

func TestAPausedJobIsNotTriedAgain(t *testing.T) {
	// The retry is in the timeline already when the job is paused, or is read later.
	for _, delay := range []time.Duration{2 * time.Second, 30 * time.Second} {
		t.Run(delay.String(), func(t *testing.T) {
			in(t, func(h *house) {
				h.outcome = func(task executor.Task) carillon.Outcome {
					if task.Run.Attempt == 1 {
						return carillon.Outcome{
							Kind: carillon.OutcomeRetriable, Reason: "the first time it fails",
						}
					}
					return carillon.Outcome{Kind: carillon.OutcomeSuccess}
				}
			}, func(h *house) {
				job := h.submit(1, func(d *carillon.Definition) {
					d.Retry.Delay, d.Retry.Jitter = carillon.Duration(delay), carillon.Zero
				})[0]
				time.Sleep(time.Second)
				if _, err := h.nodes[0].ledger.PauseJob(context.Background(), "default", job.ID); err != nil {
					h.t.Error(err)
				}
				time.Sleep(10 * time.Minute)
				if n := len(h.attempts()); n != 1 {
					h.t.Errorf("%d attempts of a job that is paused after the first", n)
				}
				if _, err := h.nodes[0].ledger.ResumeJob(
					context.Background(), "default", job.ID,
				); err != nil {
					h.t.Error(err)
				}
				time.Sleep(time.Second)
				h.expectAll([]carillon.Job{job}, 1)
				if n := len(h.attempts()); n != 2 {
					h.t.Errorf("%d attempts after the job was resumed", n)
				}
			})
		})
	}
}

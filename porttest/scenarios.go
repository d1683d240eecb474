package porttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

// EndToEnd runs whole scenarios on a house over the store: what users are promised, in their words.
func EndToEnd(t *testing.T, open func(t *testing.T) carillon.Store) {
	all := slices.Concat(
		scenarios, downtimes, clocks, selective, repeats, uniques, failures, workflows,
		workflowsAgain, hooks,
	)
	for _, s := range all {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &House{T: t, Store: open(t)}
				h.Live(8)
				time.Sleep(time.Second)
				s.play(h)
				h.stop()
				h.checkNeverTwice()
			})
		})
	}
}

type scenario struct {
	name string
	play func(*House)
}

var scenarios = []scenario{
	{"a job for now runs at once, and once", func(h *House) {
		job := h.Submit(nil)
		time.Sleep(time.Second)
		h.expect(job.ID, "succeeded 1")
	}},
	{"a job for later is never early and not late", func(h *House) {
		job := h.Submit(func(d *carillon.Definition) {
			d.Schedule.After = carillon.Duration(12 * time.Minute)
		})
		time.Sleep(15 * time.Minute)
		h.expect(job.ID, "succeeded 1")
		if seen := h.Seen()[0]; seen.Start != job.Schedule.At {
			h.T.Errorf("due %s, started %s", job.Schedule.At, seen.Start)
		}
	}},
	{"a recurring job runs at every due time until its last", func(h *House) {
		job := h.Submit(func(d *carillon.Definition) {
			d.Schedule.Every, d.Schedule.MaxRuns = carillon.Duration(2*time.Minute), 5
		})
		time.Sleep(20 * time.Minute)
		h.expect(job.ID, "succeeded 1", "succeeded 1", "succeeded 1", "succeeded 1", "succeeded 1")
	}},
	{"a failing run is tried again with growing pauses, then it is a dead letter", func(h *House) {
		h.Handle = func(context.Context, executor.Task) error { return errors.New("no luck") }
		job := h.Submit(func(d *carillon.Definition) {
			d.Retry.MaxAttempts, d.Retry.Jitter = 4, carillon.Zero
		})
		time.Sleep(5 * time.Minute)
		h.expect(job.ID, "failed 4 no luck")
		h.expectPauses(time.Second, 2*time.Second, 4*time.Second)
		dead, err := h.Store.FindRuns(context.Background(), carillon.RunQuery{
			Namespace: "default", Dead: true, Limit: 10,
		})
		if err != nil || len(dead.Runs) != 1 {
			h.T.Errorf("dead letters: %v, %v", dead.Runs, err)
		}
	}},
	{"a fatal error is not tried again", func(h *House) {
		h.Handle = func(context.Context, executor.Task) error { return executor.Fatal(errors.New("never")) }
		job := h.Submit(nil)
		time.Sleep(5 * time.Minute)
		h.expect(job.ID, "failed 1 never")
	}},
	{"a checkpoint reaches the next attempt", func(h *House) {
		var got texts
		h.Handle = func(ctx context.Context, task executor.Task) error {
			got.add(string(task.Checkpoint))
			if err := task.Save(ctx, fmt.Appendf(nil, "step %d", task.Run.Attempt)); err != nil {
				return err
			}
			if task.Run.Attempt < 3 {
				return errors.New("again")
			}
			return nil
		}
		job := h.Submit(nil)
		time.Sleep(time.Minute)
		h.expect(job.ID, "succeeded 3")
		if want := []string{"", "step 1", "step 2"}; !slices.Equal(got.all(), want) {
			h.T.Errorf("checkpoints %q, want %q", got.all(), want)
		}
	}},
	{"overlap skip: a due time is skipped while a run goes on, and says so", func(h *House) {
		h.Handle = sleepFor(25 * time.Second)
		job := h.Submit(every10s(carillon.OverlapSkip, 2))
		time.Sleep(5 * time.Minute)
		h.expectLike(job.ID, "succeeded", "skipped overlap", "skipped overlap", "succeeded")
	}},
	{"overlap queue: one waits for its turn, further ones are skipped", func(h *House) {
		h.Handle = sleepFor(35 * time.Second)
		job := h.Submit(every10s(carillon.OverlapQueue, 3))
		time.Sleep(5 * time.Minute)
		h.expectLike(job.ID, "succeeded", "skipped overlap", "skipped overlap", "succeeded", "succeeded")
	}},
	{"overlap queue_all: all run, one after another", func(h *House) {
		h.Handle = sleepFor(25 * time.Second)
		job := h.Submit(every10s(carillon.OverlapQueueAll, 4))
		time.Sleep(5 * time.Minute)
		h.expectLike(job.ID, "succeeded", "succeeded", "succeeded", "succeeded")
	}},
	{"overlap replace: the new run starts once the old one is gone", func(h *House) {
		h.Handle = func(ctx context.Context, task executor.Task) error {
			select {
			case <-ctx.Done():
				time.Sleep(3 * time.Second) // stops slowly
			case <-time.After(5 * time.Minute):
			}
			return ctx.Err()
		}
		job := h.Submit(every10s(carillon.OverlapReplace, 3))
		time.Sleep(15 * time.Minute)
		h.expectLike(job.ID, "succeeded", "canceled replaced", "canceled replaced")
	}},
	{"overlap allow: runs go side by side", func(h *House) {
		h.Handle = sleepFor(time.Minute)
		job := h.Submit(every10s(carillon.OverlapAllow, 3))
		time.Sleep(35 * time.Second)
		if n, _ := h.Worker.Running(); n != 3 {
			h.T.Errorf("%d runs side by side, want 3", n)
		}
		time.Sleep(5 * time.Minute)
		h.expect(job.ID, "succeeded 1", "succeeded 1", "succeeded 1")
		h.mu.Lock()
		h.seen = nil // they can overlap
		h.mu.Unlock()
	}},
	{"a manual run obeys the overlap policy", func(h *House) {
		h.Handle = sleepFor(time.Minute)
		job := h.Submit(nil)
		time.Sleep(time.Second)
		if _, err := h.Ledger.RunNow(
			context.Background(), "default", job.ID, nil,
		); !errors.Is(err, carillon.ErrConflict) {
			h.T.Errorf("while one runs: %v", err)
		}
		time.Sleep(5 * time.Minute)
		if _, err := h.Ledger.RunNow(context.Background(), "default", job.ID, nil); err != nil {
			h.T.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		h.expect(job.ID, "succeeded 1", "succeeded 1")
	}},
	{"dead letters that are retried wait for each other, and all of them run", func(h *House) {
		var mended atomic.Bool
		h.Handle = func(context.Context, executor.Task) error {
			if !mended.Load() {
				return errors.New("not yet")
			}
			time.Sleep(time.Minute)
			return nil
		}
		job := h.Submit(func(d *carillon.Definition) {
			d.Schedule.Every, d.Schedule.MaxRuns, d.Retry.MaxAttempts = carillon.Duration(time.Minute), 5, 1
		})
		time.Sleep(10 * time.Minute)
		mended.Store(true)
		for _, letter := range h.Runs(job.ID) {
			_, err := h.Ledger.RetryDeadLetter(context.Background(), "default", letter.ID, nil)
			if err != nil {
				h.T.Fatal(err)
			}
		}
		time.Sleep(5*time.Minute + 5*time.Second)
		h.expectLike(job.ID, "succeeded", "succeeded", "succeeded", "succeeded", "succeeded",
			"failed", "failed", "failed", "failed", "failed")
	}},
	{"canceling a job ends what waits and stops what runs", func(h *House) {
		h.Handle = untilStopped
		job := h.Submit(every10s(carillon.OverlapAllow, 0))
		time.Sleep(25 * time.Second)
		if _, err := h.Ledger.CancelJob(context.Background(), "default", job.ID, false); err != nil {
			h.T.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		h.expectLike(job.ID, "canceled", "canceled", "canceled")
		h.mu.Lock()
		h.seen = nil // they can overlap
		h.mu.Unlock()
	}},
	{"a paused job holds its one-off until it is resumed, and skips due times by the clock", func(h *House) {
		one := h.Submit(func(d *carillon.Definition) { d.Schedule.After = carillon.Duration(time.Minute) })
		rec := h.Submit(func(d *carillon.Definition) {
			d.Schedule.Every, d.Schedule.MaxRuns = carillon.Duration(2*time.Minute), 2
		})
		for _, job := range []carillon.Job{one, rec} {
			if _, err := h.Ledger.PauseJob(context.Background(), "default", job.ID); err != nil {
				h.T.Fatal(err)
			}
		}
		time.Sleep(13 * time.Minute)
		if len(h.Seen()) != 0 {
			h.T.Fatalf("ran while paused: %v", h.Seen())
		}
		for _, job := range []carillon.Job{one, rec} {
			if _, err := h.Ledger.ResumeJob(context.Background(), "default", job.ID); err != nil {
				h.T.Fatal(err)
			}
		}
		time.Sleep(10 * time.Minute)
		h.expect(one.ID, "succeeded 1")
		h.expectLike(rec.ID, "succeeded", "succeeded", "skipped paused")
		if skip := h.Runs(rec.ID)[2]; skip.Until.Sub(skip.ID.Due) != 10*time.Minute {
			h.T.Errorf("the skip covers %s to %s", skip.ID.Due, skip.Until)
		}
	}},
	{"an edit moves what has not begun to the new definition", func(h *House) {
		var payloads texts
		h.Handle = func(_ context.Context, task executor.Task) error {
			payloads.add(string(task.Job.Payload))
			return nil
		}
		job := h.Submit(func(d *carillon.Definition) {
			d.Schedule.Every, d.Schedule.MaxRuns, d.Payload = carillon.Duration(
				2*time.Minute,
			), 2, []byte(`"old"`)
		})
		time.Sleep(3 * time.Minute)
		if _, err := h.Ledger.EditJob(context.Background(), "default", job.ID,
			func(d *carillon.Definition) error {
				d.Payload = []byte(`"new"`)
				return d.Admit(carillon.Now())
			}); err != nil {
			h.T.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		if want := []string{`"old"`, `"new"`}; !slices.Equal(payloads.all(), want) {
			h.T.Errorf("payloads %s, want %s", payloads.all(), want)
		}
	}},
	{"a run that takes longer than its timeout is stopped and tried again", func(h *House) {
		h.Handle = untilStopped
		job := h.Submit(func(d *carillon.Definition) {
			d.Timeout, d.Retry.MaxAttempts = carillon.Duration(5*time.Second), 2
		})
		time.Sleep(5 * time.Minute)
		h.expectLike(job.ID, "failed timed out after 5s")
	}},
}

// texts are the texts that handlers saw.
type texts struct {
	mu   sync.Mutex
	list []string
}

func (t *texts) add(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.list = append(t.list, text)
}

func (t *texts) all() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.list)
}

package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/worker/protocol"
)

// wire is the connection to a dispatcher. Its calls can be slow or get lost.
type wire struct {
	protocol.Dispatcher
	mu      sync.Mutex
	slow    time.Duration // of pulls, before the answer
	away    bool          // reports do not arrive
	deaf    bool          // reports arrive, their answers do not
	unheard bool          // the dispatcher does not notice that a pull was given up
	older   bool          // the dispatcher does not know kept slots
	reports int
	beat    func(context.Context, carillon.Beat) (protocol.Orders, error) // nil: the dispatcher's
}

func (w *wire) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *wire) Pull(ctx context.Context, p protocol.Pull) ([]protocol.Task, error) {
	if w.older && p.Lone {
		return nil, fmt.Errorf("%w: lone: unknown field", carillon.ErrInvalid)
	}
	if w.unheard {
		return w.pullUnheard(ctx, p)
	}
	return w.pullSlowly(ctx, p)
}

func (w *wire) pullSlowly(ctx context.Context, p protocol.Pull) ([]protocol.Task, error) {
	tasks, err := w.Dispatcher.Pull(ctx, p)
	w.mu.Lock()
	slow := w.slow
	w.mu.Unlock()
	time.Sleep(slow)
	return tasks, err
}

func (w *wire) pullUnheard(ctx context.Context, p protocol.Pull) ([]protocol.Task, error) {
	answered := make(chan []protocol.Task, 1)
	go func() {
		tasks, _ := w.pullSlowly(context.WithoutCancel(ctx), p)
		answered <- tasks
	}()
	select {
	case tasks := <-answered:
		return tasks, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (w *wire) Beat(ctx context.Context, b carillon.Beat) (protocol.Orders, error) {
	w.mu.Lock()
	beat := w.beat
	w.mu.Unlock()
	if beat != nil {
		return beat(ctx, b)
	}
	return w.Dispatcher.Beat(ctx, b)
}

func (w *wire) Report(
	ctx context.Context, worker string, reports []protocol.Report,
) ([]protocol.Receipt, error) {
	w.mu.Lock()
	w.reports++
	away, deaf := w.away, w.deaf
	w.mu.Unlock()
	if away {
		return nil, errInjected
	}
	receipts, err := w.Dispatcher.Report(ctx, worker, reports)
	if deaf {
		return nil, errInjected
	}
	return receipts, err
}

// coordinator does not answer during an outage.
type coordinator struct {
	*mem.Coordinator
	mu   sync.Mutex
	down bool
}

func (c *coordinator) failing() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.down {
		return errInjected
	}
	return nil
}

func (c *coordinator) Beat(ctx context.Context, beats []carillon.Beat) ([]carillon.Standing, error) {
	if err := c.failing(); err != nil {
		return nil, err
	}
	return c.Coordinator.Beat(ctx, beats)
}

func (c *coordinator) Members(
	ctx context.Context, q carillon.MemberQuery,
) ([]carillon.Member, carillon.Time, error) {
	if err := c.failing(); err != nil {
		return nil, 0, err
	}
	return c.Coordinator.Members(ctx, q)
}

func remote(h *house) { h.between = &wire{} }

func TestARunWhoseAnswerComesTooLateIsNotBegun(t *testing.T) {
	in(t, remote, func(h *house) {
		h.between.set(func() { h.between.slow = protocol.PullLate + time.Second })
		job := h.submit(1, after(time.Second))[0].ID
		time.Sleep(20 * time.Second)
		if n := len(h.attempts()); n != 0 {
			t.Fatalf("%d attempts have begun", n)
		}
		h.between.set(func() { h.between.slow = 0 })
		time.Sleep(20 * time.Second)
		run := h.run(job)
		if run.State != carillon.StateSucceeded || run.Losses == 0 || run.Failures != 0 || run.Crashes != 0 ||
			len(h.attempts()) != 1 {
			t.Errorf(
				"%s after %d losses, %d failures, %d crashes, %d attempts", run.State, run.Losses,
				run.Failures, run.Crashes, len(h.attempts()),
			)
		}
		h.expectSlots()
	})
}

func TestResultsAreKeptUntilTheyAreAcknowledged(t *testing.T) {
	for name, set := range map[string]func(*wire, bool){
		"the reports get lost": func(w *wire, on bool) { w.set(func() { w.away = on }) },
		"the answers get lost": func(w *wire, on bool) { w.set(func() { w.deaf = on }) },
	} {
		t.Run(name, func(t *testing.T) {
			in(t, remote, func(h *house) {
				set(h.between, true)
				jobs := h.submit(3, nil)
				time.Sleep(2 * time.Minute)
				if held, _ := h.worker.Running(); held != 3 {
					t.Errorf("the worker holds %d results", held)
				}
				set(h.between, false)
				time.Sleep(10 * time.Second)
				for _, job := range jobs {
					h.expect(h.run(job.ID), carillon.StateSucceeded, 1, 0)
				}
				if held, _ := h.worker.Running(); held != 0 || len(h.attempts()) != 3 {
					t.Errorf("the worker still holds %d results, after %d attempts", held, len(h.attempts()))
				}
				h.expectSlots()
			})
		})
	}
}

func TestWhenTheStoreIsAwayForLongerThanTheLeaseRunningWorkIsStoppedAndLost(t *testing.T) {
	in(t, func(h *house) {
		h.handle = func(ctx context.Context, task executor.Task) error {
			if task.Run.Attempt == 1 {
				return untilStopped(ctx, task)
			}
			return nil
		}
	}, func(h *house) {
		time.Sleep(2 * carillon.SessionTime)
		job := h.submit(1, nil)[0].ID
		time.Sleep(10 * time.Second)
		away := func(is bool) {
			h.coordinator.mu.Lock()
			h.coordinator.down = is
			h.coordinator.mu.Unlock()
			h.store.set(nil, nil)
			if is {
				h.store.set(always, nil)
			}
		}
		began := carillon.Now()
		away(true)
		time.Sleep(30 * time.Second)
		a := h.attempts()
		if len(a) != 1 || !errors.Is(a[0].cause, executor.ErrLeaseOver) ||
			a[0].end.Sub(began) > protocol.LeaseTime+time.Second {
			t.Errorf("attempts during the outage: %+v", a)
		}
		away(false)
		time.Sleep(30 * time.Second)
		run := h.run(job)
		h.expect(run, carillon.StateSucceeded, 2, 1)
		if run.Crashes != 0 || run.Failures != 0 {
			t.Errorf("%d crashes, %d failures", run.Crashes, run.Failures)
		}
		h.expectSlots()
	})
}

func TestWhatWasClaimedForASessionThatIsOverIsNotBegun(t *testing.T) {
	in(t, remote, func(h *house) {
		time.Sleep(2 * carillon.SessionTime)
		// The answer is on its way while the session ends.
		h.between.set(func() { h.between.slow = 2 * time.Second })
		job := h.submit(1, nil)[0].ID
		time.Sleep(200 * time.Millisecond)
		before := h.worker.ID()
		if err := h.coordinator.Leave(context.Background(), []string{before}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		for _, a := range h.attempts(job) {
			if a.run.Worker == before {
				t.Errorf("attempt %d was begun for a session that was over", a.run.Attempt)
			}
		}
		if run := h.run(job); run.State != carillon.StateSucceeded || run.Failures != 0 {
			t.Errorf("%s, %d failures: %s", run.State, run.Failures, run.Reason)
		}
	})
}

func TestAnAttemptThatWaitsForOneThatDoesNotListenCanBeStopped(t *testing.T) {
	in(t, func(h *house) {
		h.handle = func(_ context.Context, task executor.Task) error {
			if task.Run.Attempt == 1 {
				time.Sleep(time.Hour)
			}
			return nil
		}
	}, func(h *house) {
		job := h.submit(1, nil)[0].ID
		time.Sleep(3 * time.Second)
		h.takeAway(job)
		time.Sleep(3 * time.Second)
		if _, err := h.ledger.CancelJob(
			context.Background(), carillon.DefaultNamespace, job, false,
		); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		h.expect(h.run(job), carillon.StateCanceled, 2, 1)
	})
}

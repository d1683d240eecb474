package worker_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/worker/protocol"
)

// The coordinator counts from when a beat arrives, so the worker must count from when it sent the beat: the
// answer can take long.
func TestTheLeaseCountsFromWhenABeatWasSent(t *testing.T) {
	const slow = 1500 * time.Millisecond
	in(t, func(h *house) { remote(h); h.handle = untilStopped }, func(h *house) {
		time.Sleep(2 * carillon.SessionTime)
		job := h.submit(1, nil)[0].ID
		time.Sleep(3 * time.Second)
		var sent carillon.Time
		h.between.set(func() {
			h.between.beat = func(ctx context.Context, b carillon.Beat) (protocol.Orders, error) {
				if sent != 0 {
					return protocol.Orders{}, errInjected
				}
				sent = carillon.Now()
				orders, err := h.between.Dispatcher.Beat(ctx, b)
				time.Sleep(slow)
				return orders, err
			}
		})
		time.Sleep(2 * carillon.SessionTime)
		a := h.attempts(job)[0]
		if !errors.Is(a.cause, executor.ErrLeaseOver) || a.end.Sub(sent) > protocol.LeaseTime+time.Second/2 {
			t.Errorf("stopped %s after the last good beat was sent: %v", a.end.Sub(sent), a.cause)
		}
	})
}

func TestAWorkerWhoseSessionIsOverStopsItsRunsAtOnce(t *testing.T) {
	in(t, func(h *house) { remote(h); h.handle, h.concurrency = untilStopped, 1 }, func(h *house) {
		time.Sleep(2 * carillon.SessionTime)
		job := h.submit(1, nil)[0].ID
		time.Sleep(3*time.Second + 500*time.Millisecond)
		began := carillon.Now()
		if err := h.coordinator.Leave(context.Background(), []string{h.worker.ID()}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(600 * time.Millisecond) // the answer to its next beat, half a second later, says so
		a := h.attempts(job)[0]
		if !errors.Is(a.cause, executor.ErrLeaseOver) || a.end == 0 ||
			a.end.Sub(began) > 500*time.Millisecond {
			t.Errorf("ended %s after its session: %v", a.end.Sub(began), a.cause)
		}
	})
}

// However long a claim takes, a run in flight to a worker counts as listed by the worker.
func TestWhatIsJustBeingGivenIsPartOfBeats(t *testing.T) {
	in(t, remote, func(h *house) {
		time.Sleep(2 * carillon.SessionTime)
		h.store.mu.Lock()
		h.store.delay = 2 * time.Second
		h.store.mu.Unlock()
		go func() { // the job is preclaimed
			if _, err := h.trySubmit(1, nil); err != nil {
				t.Error(err)
			}
		}()
		time.Sleep(protocol.BeatEvery + 500*time.Millisecond)
		said, _, err := h.coordinator.Members(
			context.Background(), carillon.MemberQuery{IDs: []string{h.worker.ID()}, Holds: true},
		)
		if err != nil || len(said) != 1 || len(said[0].Holds) != 1 {
			t.Errorf("%+v, %v", said, err)
		}
		time.Sleep(carillon.SessionTime)
	})
}

// A beat that failed was perhaps held up on its way, so the next one has not heard of it.
func TestABeatSaysWhichEarlierOneOfItsSessionWasAnswered(t *testing.T) {
	in(t, remote, func(h *house) {
		time.Sleep(2 * carillon.SessionTime)
		var mu sync.Mutex
		var numbers, heard []int64
		h.between.set(func() {
			h.between.beat = func(ctx context.Context, b carillon.Beat) (protocol.Orders, error) {
				mu.Lock()
				numbers, heard = append(numbers, b.Number), append(heard, b.Heard)
				count := len(numbers)
				mu.Unlock()
				switch count {
				case 2, 3:
					return protocol.Orders{}, errInjected
				case 5:
					return protocol.Orders{}, carillon.ErrSessionOver
				}
				return h.between.Dispatcher.Beat(ctx, b)
			}
		})
		time.Sleep(8 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if len(numbers) < 7 {
			t.Fatalf("%d beats", len(numbers))
		}
		n := numbers[0]
		want := []int64{n - 1, n, n, n, n + 3, 0, n + 5}
		if !slices.Equal(numbers[:7], []int64{n, n + 1, n + 2, n + 3, n + 4, n + 5, n + 6}) ||
			!slices.Equal(heard[:7], want) {
			t.Errorf("beats %d heard %d, want %d", numbers[:7], heard[:7], want)
		}
	})
}

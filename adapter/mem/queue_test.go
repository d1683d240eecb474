package mem_test

import (
	"context"
	"errors"
	"maps"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/porttest"
)

func TestQueue(t *testing.T) {
	porttest.Queue(t, func(_ *testing.T, maxPerLane int) carillon.Queue {
		return mem.NewQueue(mem.QueueConfig{MaxPerLane: maxPerLane})
	})
}

func BenchmarkQueue(b *testing.B) {
	porttest.BenchmarkQueue(b, func(*testing.B) carillon.Queue { return mem.NewQueue(mem.QueueConfig{}) })
}

func push(t *testing.T, q *mem.Queue, runs []carillon.Run) {
	t.Helper()
	if refused, err := q.Push(t.Context(), runs); err != nil || refused != nil {
		t.Fatal(refused, err)
	}
}

// pulls starts n pulls and counts those that were served.
func pulls(ctx context.Context, q *mem.Queue, n, limit int, queues ...string) *atomic.Int32 {
	served := new(atomic.Int32)
	for range n {
		go func() {
			runs, err := q.Pull(ctx, carillon.Demand{Wants: []carillon.Want{{Queues: queues}}, Max: limit})
			if err == nil && len(runs) > 0 {
				served.Add(1)
			}
		}()
	}
	return served
}

// bubble tests waiting: hours pass at once, and Go reports a pull that is never served as a deadlock.
func bubble(t *testing.T, name string, f func(t *testing.T, ctx context.Context, q *mem.Queue)) {
	t.Run(name, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f(t, ctx, mem.NewQueue(mem.QueueConfig{}))
		})
	})
}

func expectServed(t *testing.T, what string, served *atomic.Int32, want int32) {
	t.Helper()
	synctest.Wait()
	if n := served.Load(); n != want {
		t.Fatalf("%s: %d pulls were served, want %d", what, n, want)
	}
}

func TestQueueServes(t *testing.T) {
	bubble(t, "a pull after hours, in the moment of the push",
		func(t *testing.T, ctx context.Context, q *mem.Queue) {
			served := pulls(ctx, q, 1, 10)
			time.Sleep(24 * time.Hour)
			expectServed(t, "before", served, 0)
			push(t, q, runs("a", 1, 1))
			expectServed(t, "after", served, 1)
		})
	bubble(t, "as many pulls as there are runs", func(t *testing.T, ctx context.Context, q *mem.Queue) {
		served := pulls(ctx, q, 10, 1)
		synctest.Wait()
		push(t, q, runs("a", 1, 3))
		expectServed(t, "three runs", served, 3)
		push(t, q, runs("a", 10, 20))
		expectServed(t, "enough", served, 10)
		if q.Len() != 13 {
			t.Fatalf("%d are left", q.Len())
		}
	})
	bubble(t, "a pull for spare runs only after all other pulls",
		func(t *testing.T, ctx context.Context, q *mem.Queue) {
			spare := make(chan carillon.RunID, 1)
			go func() {
				runs, _ := q.Pull(ctx, carillon.Demand{Max: 10, Spare: true})
				spare <- runs[0].ID
			}()
			synctest.Wait() // it has waited longest
			served := pulls(ctx, q, 2, 1)
			synctest.Wait()
			push(t, q, runs("a", 1, 2))
			expectServed(t, "two runs", served, 2)
			push(t, q, runs("a", 10, 1))
			if id := <-spare; id.Job != 10 {
				t.Errorf("it got %s", id)
			}
		})
	bubble(t, "no puller of another queue", func(t *testing.T, ctx context.Context, q *mem.Queue) {
		a, b := pulls(ctx, q, 2, 1, "a"), pulls(ctx, q, 2, 1, "b", "c")
		synctest.Wait()
		push(t, q, runs("c", 1, 2))
		expectServed(t, "who asked for a", a, 0)
		expectServed(t, "who asked for b or c", b, 2)
	})
}

func TestPullEnds(t *testing.T) {
	bubble(t, "and gives back what it was just served",
		func(t *testing.T, ctx context.Context, q *mem.Queue) {
			for range 1000 {
				ctx, cancel := context.WithCancel(ctx)
				served := pulls(ctx, q, 1, 1)
				synctest.Wait()
				cancel()
				push(t, q, runs("a", 1, 1)) // most often before the pull notices the cancel
				synctest.Wait()
				if n := int(served.Load()) + q.Len(); n != 1 {
					t.Fatalf("one run has become %d", n)
				}
				if q.Len() == 1 {
					_, _ = q.Pull(t.Context(), carillon.Demand{Max: 1})
				}
			}
		})
	bubble(t, "at its deadline", func(t *testing.T, ctx context.Context, q *mem.Queue) {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		begin := time.Now()
		if _, err := q.Pull(ctx, carillon.Demand{Max: 1}); !errors.Is(err, context.DeadlineExceeded) ||
			time.Since(begin) != 30*time.Second {
			t.Fatal(err, time.Since(begin))
		}
		push(t, q, runs("a", 1, 1))
		if q.Len() != 1 {
			t.Fatal("another puller took the run")
		}
	})
}

// Otherwise 100,000 runs of one queue that are due at one instant would all go before the first run of
// another.
func TestEqualLanesTakeTurns(t *testing.T) {
	q := mem.NewQueue(mem.QueueConfig{})
	for i, queue := range []string{"a", "b", "c"} {
		same := runs(queue, 1+10*i, 10)
		for i := range same {
			same[i].Wake = epoch
		}
		push(t, q, same)
	}
	for range 5 {
		got, err := q.Pull(t.Context(), carillon.Demand{Max: 6})
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		for _, r := range got {
			count[r.Queue]++
		}
		if !maps.Equal(count, map[string]int{"a": 2, "b": 2, "c": 2}) {
			t.Fatalf("%v", count)
		}
	}
}

func TestPullAllocatesItsResultOnly(t *testing.T) {
	q, some := mem.NewQueue(mem.QueueConfig{}), runs("a", 1, 100)
	push(t, q, runs("a", 1000, 1000))
	n := testing.AllocsPerRun(100, func() {
		push(t, q, some)
		some, _ = q.Pull(t.Context(), carillon.Demand{Max: 100})
	})
	if n > 2 {
		t.Errorf("%v allocations for a push and a pull", n)
	}
}

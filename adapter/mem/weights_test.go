package mem_test

import (
	"maps"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
)

// fill pushes runs of a queue.
func fill(t *testing.T, q *mem.Queue, queue string, first, n int) {
	t.Helper()
	runs := make([]carillon.Run, n)
	for i := range runs {
		due := carillon.Time(1_800_000_000_000 + i)
		runs[i] = carillon.Run{
			ID: carillon.RunID{Job: carillon.JobID(first + i), Due: due}, Wake: due, Namespace: "a",
			Queue: queue, Priority: 5, State: carillon.StateWaiting,
		}
	}
	push(t, q, runs)
}

// places pulls n runs, some at a time, and counts those of each queue.
func places(t *testing.T, q *mem.Queue, n, size int, queues ...string) map[string]int {
	t.Helper()
	got := map[string]int{}
	for taken := 0; taken < n; {
		runs, err := q.Pull(t.Context(), carillon.Demand{
			Wants: []carillon.Want{{Queues: queues}}, Max: min(size, n-taken), NoWait: true,
		})
		if err != nil || len(runs) == 0 {
			t.Fatal(runs, err)
		}
		for i := range runs {
			got[runs[i].Queue]++
		}
		taken += len(runs)
	}
	return got
}

func TestQueuesTakeTurnsByTheirWeights(t *testing.T) {
	for _, size := range []int{1, 7, 64} {
		q := mem.NewQueue(mem.QueueConfig{})
		q.SetWeights(map[string]int{"mail": 3, "bulk": 0}) // 0 is no weight: it counts as 1
		for i, name := range []string{"mail", "bulk", "other"} {
			fill(t, q, name, 1+10_000*i, 5000)
		}
		near := func(what string, got map[string]int, want map[string]int) {
			t.Helper()
			for name, places := range want {
				if n := got[name]; n < places-3 || n > places+3 {
					t.Errorf("pulls of %d: %s: %v, want %v", size, what, got, want)
					return
				}
			}
		}
		near("3 to 1 to 1", places(t, q, 500, size), map[string]int{"mail": 300, "bulk": 100, "other": 100})
		near("of a worker of two queues", places(t, q, 400, size, "mail", "bulk"),
			map[string]int{"mail": 300, "bulk": 100})
		places(t, q, 5, size) // other has waited meanwhile, and gets nothing for that

		q.SetWeights(map[string]int{"bulk": 8})
		near("changed while runs wait", places(t, q, 1000, size),
			map[string]int{"mail": 100, "bulk": 800, "other": 100})
		q.SetWeights(nil)
		near("without weights", places(t, q, 900, size),
			map[string]int{"mail": 300, "bulk": 300, "other": 300})
	}
}

// A queue with the highest weight and many runs does not keep others waiting for long.
func TestARunOfAQueueOfWeightOneIsAmongTheNextHundred(t *testing.T) {
	q := mem.NewQueue(mem.QueueConfig{})
	q.SetWeights(map[string]int{"mail": 100})
	fill(t, q, "mail", 1, 5000)
	places(t, q, 1000, 10)
	fill(t, q, "bulk", 10_000, 3)
	got := places(t, q, 305, 10)
	if want := (map[string]int{"mail": 302, "bulk": 3}); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestAWeightCountsForAQueueThatComesLater(t *testing.T) {
	q := mem.NewQueue(mem.QueueConfig{})
	fill(t, q, "bulk", 1, 1000)
	q.SetWeights(map[string]int{"mail": 4})
	fill(t, q, "mail", 10_000, 1000)
	if got := places(t, q, 100, 1); got["mail"] < 79 || got["mail"] > 81 {
		t.Errorf("%v", got)
	}
}

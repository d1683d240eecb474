package mem_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
)

// fill pushes runs of a queue.
func fill(t *testing.T, q *mem.Queue, queue string, first, n int) {
	t.Helper()
	fillAs(t, q, carillon.Run{Namespace: "a", Queue: queue, Priority: 5}, first, n)
}

// fillAs pushes runs that are like another one.
func fillAs(t *testing.T, q *mem.Queue, like carillon.Run, first, n int) {
	t.Helper()
	runs := make([]carillon.Run, n)
	for i := range runs {
		due := carillon.Time(1_800_000_000_000 + i)
		runs[i] = like
		runs[i].ID, runs[i].Wake = carillon.RunID{Job: carillon.JobID(first + i), Due: due}, due
		runs[i].State = carillon.StateWaiting
	}
	push(t, q, runs)
}

// places pulls n runs, some at a time, and counts those of each queue.
func places(t *testing.T, q *mem.Queue, n, size int, queues ...string) map[string]int {
	t.Helper()
	queueOf := func(r *carillon.Run) string { return r.Queue }
	return placesBy(t, q, n, size, carillon.Want{Queues: queues}, queueOf)
}

// placesBy pulls n runs that are wanted, some at a time, and counts those with each key.
func placesBy(
	t *testing.T, q *mem.Queue, n, size int, want carillon.Want, key func(*carillon.Run) string,
) map[string]int {
	t.Helper()
	got := map[string]int{}
	for taken := 0; taken < n; {
		runs, err := q.Pull(t.Context(), carillon.Demand{
			Wants: []carillon.Want{want}, Max: min(size, n-taken), NoWait: true,
		})
		if err != nil || len(runs) == 0 {
			t.Fatal(runs, err)
		}
		for i := range runs {
			got[key(&runs[i])]++
		}
		taken += len(runs)
	}
	return got
}

// near checks numbers of places that a rounding can change.
func near(t *testing.T, what string, got, want map[string]int) {
	t.Helper()
	for name, places := range want {
		if n := got[name]; n < places-3 || n > places+3 {
			t.Errorf("%s: %v, want %v", what, got, want)
			return
		}
	}
}

func TestQueuesTakeTurnsByTheirWeights(t *testing.T) {
	for _, size := range []int{1, 7, 64} {
		q := mem.NewQueue(mem.QueueConfig{})
		q.SetWeights(map[string]int{"mail": 3, "bulk": 0}) // 0 is no weight: it counts as 1
		for i, name := range []string{"mail", "bulk", "other"} {
			fill(t, q, name, 1+10_000*i, 5000)
		}
		check := func(what string, got, want map[string]int) {
			t.Helper()
			near(t, fmt.Sprintf("pulls of %d: %s", size, what), got, want)
		}
		check("3 to 1 to 1", places(t, q, 500, size), map[string]int{"mail": 300, "bulk": 100, "other": 100})
		check("of a worker of two queues", places(t, q, 400, size, "mail", "bulk"),
			map[string]int{"mail": 300, "bulk": 100})
		places(t, q, 5, size) // other has waited meanwhile, and gets nothing for that

		q.SetWeights(map[string]int{"bulk": 8})
		check("changed while runs wait", places(t, q, 1000, size),
			map[string]int{"mail": 100, "bulk": 800, "other": 100})
		q.SetWeights(nil)
		check("without weights", places(t, q, 900, size),
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

func namespaceOf(r *carillon.Run) string { return r.Namespace }

func TestNamespacesTakeTurnsByTheirWeightsInEachQueue(t *testing.T) {
	for _, size := range []int{1, 7, 64} {
		q := mem.NewQueue(mem.QueueConfig{})
		q.SetNamespaceWeights(map[string]int{"blue": 3, "red": 0}) // 0 is no weight: it counts as 1
		first := 1
		for queue, priority := range map[string]int8{"mail": 5, "bulk": 4} {
			for _, namespace := range []string{"blue", "red", "grey"} {
				like := carillon.Run{Namespace: namespace, Queue: queue, Priority: priority}
				fillAs(t, q, like, first, 2000)
				first += 2000
			}
		}
		check := func(what string, want carillon.Want, n int, places map[string]int) {
			t.Helper()
			near(t, fmt.Sprintf("pulls of %d: %s", size, what), placesBy(t, q, n, size, want, namespaceOf), places)
		}
		check("3 to 1 to 1", carillon.Want{}, 1000, map[string]int{"blue": 600, "red": 200, "grey": 200})
		check("in one queue", carillon.Want{Queues: []string{"mail"}}, 500,
			map[string]int{"blue": 300, "red": 100, "grey": 100})
		check("of a worker of two namespaces", carillon.Want{
			Queues: []string{"mail"}, Namespaces: []string{"blue", "red"},
		}, 400, map[string]int{"blue": 300, "red": 100})

		q.SetNamespaceWeights(map[string]int{"red": 8})
		check("changed while runs wait", carillon.Want{Queues: []string{"bulk"}}, 500,
			map[string]int{"blue": 50, "red": 400, "grey": 50})
		q.SetNamespaceWeights(nil)
		check("without weights", carillon.Want{Queues: []string{"bulk"}}, 600,
			map[string]int{"blue": 200, "red": 200, "grey": 200})
	}
}

// The weight of a namespace is for its place among the namespaces, and that of a share for its place in one.
func TestAShareWithAHighWeightTakesNothingFromAnotherNamespace(t *testing.T) {
	q := mem.NewQueue(mem.QueueConfig{})
	q.SetNamespaceWeights(map[string]int{"blue": 2})
	for i, like := range []carillon.Run{
		{Namespace: "blue", Share: "ann"},
		{Namespace: "blue", Share: "bob*3"},
		{Namespace: "red", Share: "eve*100"},
	} {
		fillAs(t, q, like, 1+10_000*i, 2000)
	}
	got := placesBy(t, q, 600, 7, carillon.Want{}, func(r *carillon.Run) string { return r.Share })
	near(t, "places", got, map[string]int{"ann": 100, "bob*3": 300, "eve*100": 200})
}

func TestAWeightCountsForANamespaceThatComesLater(t *testing.T) {
	q := mem.NewQueue(mem.QueueConfig{})
	fillAs(t, q, carillon.Run{Namespace: "red"}, 1, 1000)
	q.SetNamespaceWeights(map[string]int{"blue": 4})
	fillAs(t, q, carillon.Run{Namespace: "blue"}, 10_000, 1000)
	got := placesBy(t, q, 100, 1, carillon.Want{}, namespaceOf)
	near(t, "places", got, map[string]int{"blue": 80, "red": 20})
}

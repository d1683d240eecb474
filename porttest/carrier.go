package porttest

import (
	"context"
	"sync"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
)

// Carrier checks what carillon.Carrier promises. open returns a carrier that brings the runs that a queue can
// spare.
func Carrier(t *testing.T, open func(t *testing.T, from carillon.Queue) carillon.Carrier) {
	run := func(name string, f func(carrierTest)) {
		t.Run(name, func(t *testing.T) {
			from := queueTest{t, mem.NewQueue(mem.QueueConfig{})}
			f(carrierTest{t, open(t, from), from})
		})
	}
	run("a run comes whole, and leaves the queue", carrierWhole)
	run("runs of other queues stay", carrierQueues)
	run("runs that need labels come to those that have them", carrierLabels)
	run("no more than max come, and the rest stays", carrierMax)
	run("fetch waits for a push", carrierWaits)
	run("fetch returns an error when its context ends, and takes nothing", carrierCanceled)
	run("many push and many fetch, and each run comes", carrierConcurrent)
}

// carrierTest is a carrier whose calls must not fail, and the queue that it brings runs from.
type carrierTest struct {
	testing.TB
	carillon.Carrier
	from queueTest
}

// fetch expects that there is a run. A call can end without one, so it asks again.
func (t carrierTest) fetch(limit int, queues ...string) []carillon.Run {
	t.Helper()
	for ctx := patient(t); ; {
		runs, err := t.Fetch(ctx, carillon.Demand{Wants: of(queues...), Max: limit})
		if err != nil {
			t.Fatalf("fetch: %v", err)
		}
		if len(runs) > 0 {
			return runs
		}
	}
}

func carrierWhole(t carrierTest) {
	want := sample(1, epoch)
	t.from.push(want)
	same(t, "run", t.fetch(10), []carillon.Run{want})
	same(t, "left", t.from.Len(), 0)
}

func carrierQueues(t carrierTest) {
	a, b, c := in("a", 5, 1, epoch), in("b", 5, 2, epoch), in("c", 9, 3, epoch)
	t.from.push(a, b, c)
	same(t, "of a", t.fetch(10, "a"), []carillon.Run{a})
	same(t, "of a and b", t.fetch(10, "a", "b"), []carillon.Run{b})
	same(t, "of c, which stayed", t.from.pull(10), []carillon.Run{c})
}

func carrierLabels(t carrierTest) {
	gpu := labeled(1, map[string]string{"gpu": "true"})
	t.from.push(gpu)
	want := carillon.Demand{Wants: []carillon.Want{{Types: []string{"mail.send"}}}, Max: 10, Partial: true}
	fetch := func() []carillon.Run {
		t.Helper()
		for ctx := patient(t); ; {
			runs, err := t.Fetch(ctx, want)
			if err != nil {
				t.Fatal(err)
			}
			if len(runs) > 0 {
				return runs
			}
		}
	}
	same(t, "a copy", fetch(), []carillon.Run{gpu})
	same(t, "left", t.from.Len(), 1)
	want.Wants[0].Labels, want.Known = map[string]string{"gpu": "true"}, gpu.Lane().Labels()
	same(t, "the run", fetch(), []carillon.Run{gpu})
	same(t, "left then", t.from.Len(), 0)
}

func carrierMax(t carrierTest) {
	t.from.push(sample(1, epoch), sample(2, epoch), sample(3, epoch))
	got := len(t.fetch(2))
	if got > 2 {
		t.Fatalf("asked for 2, got %d", got)
	}
	same(t, "left", t.from.Len(), 3-got)
}

func carrierWaits(t carrierTest) {
	got := make(chan []carillon.Run)
	go func() { got <- t.fetch(10, "a") }()
	t.from.push(in("b", 5, 1, epoch))
	t.from.push(in("a", 5, 2, epoch))
	same(t, "run", idsOf(<-got), []carillon.RunID{sample(2, 0).ID})
}

func carrierCanceled(t carrierTest) {
	t.from.push(sample(1, epoch))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if runs, err := t.Fetch(ended, carillon.Demand{Max: 1}); err == nil {
		t.Fatalf("fetch with an ended context: %v", runs)
	}
	same(t, "still there", t.from.Len(), 1)
}

func carrierConcurrent(t carrierTest) {
	const runs, fetches = 400, 4
	ctx, cancel := context.WithCancel(patient(t))
	d := delivery{got: map[carillon.RunID]int{}, want: runs, all: cancel}
	var all sync.WaitGroup
	for range fetches {
		all.Go(func() {
			for ctx.Err() == nil {
				got, err := t.Fetch(ctx, carillon.Demand{Max: 7})
				if err != nil && ctx.Err() == nil {
					t.Errorf("fetch: %v", err)
				}
				d.add(got)
			}
		})
	}
	for i := range runs {
		t.from.push(sample(i+1, epoch))
	}
	all.Wait()
	same(t, "different runs", len(d.got), runs)
}

package scheduler_test

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/internal/catalog"
)

// operated builds a house of two nodes with catalogs, whose runs take ten seconds.
func operated(h *house) {
	h.operated = true
	h.handle = func(executor.Task) { time.Sleep(10 * time.Second) }
}

// put writes a record of the catalog through a node.
func put[T any](by *node, kind catalog.Kind[T], name catalog.Name, value T) error {
	_, err := kind.Write(context.Background(), by.catalog, name, "ann",
		func(_, next *catalog.Record[T], _ *carillon.Change) (remove bool, err error) {
			next.Value = value
			return false, nil
		})
	return err
}

// setLimit sets a limit of operators through a node; without a bound it removes the limit.
func (h *house) setLimit(by *node, l carillon.Limit) {
	h.t.Helper()
	name := catalog.Name{Namespace: "default", Name: catalog.LimitName(l.Of, l.Key)}
	var err error
	if l.Concurrency == 0 && l.Rate.Starts == 0 {
		_, err = catalog.Limits.Write(context.Background(), by.catalog, name, "ann",
			func(_, _ *catalog.Record[carillon.Limit], _ *carillon.Change) (remove bool, err error) {
				return true, nil
			})
	} else {
		if err := l.Admit(""); err != nil {
			h.t.Fatal(err)
		}
		err = put(by, catalog.Limits, name, l)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func ofQueue(concurrency int) carillon.Limit {
	return carillon.Limit{Of: carillon.LimitQueue, Key: "default", Concurrency: concurrency}
}

// running is how many runs workers hold.
func (h *house) running() (n int) {
	h.t.Helper()
	counts, err := h.truth.Counts(context.Background(), "default", h.clock.Now())
	if err != nil {
		h.t.Fatal(err)
	}
	for _, c := range counts {
		if c.State.Held() {
			n += c.Runs
		}
	}
	return n
}

func (h *house) expectRunning(want int) {
	h.t.Helper()
	if got := h.running(); got != want {
		h.t.Errorf("%d runs are performed, want %d", got, want)
	}
}

// most is how many attempts were performed at the same time, at most, of those that began from a time on.
func (h *house) most(from carillon.Time) (most int) {
	type edge struct {
		at   carillon.Time
		step int
	}
	var edges []edge
	for _, a := range h.attempts() {
		if a.start >= from {
			edges = append(edges, edge{a.start, 1}, edge{a.end, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), a.step-b.step) })
	n := 0
	for _, e := range edges {
		n += e.step
		most = max(most, n)
	}
	return most
}

func TestALimitOfAQueueHoldsOnEveryNode(t *testing.T) {
	for _, l := range []carillon.Limit{
		ofQueue(3),
		{Of: carillon.LimitType, Key: "test", Concurrency: 3},
		{Of: carillon.LimitNamespace, Key: "default", Concurrency: 3},
	} {
		t.Run(string(l.Of), func(t *testing.T) {
			in(t, operated, func(h *house) {
				h.live()
				time.Sleep(10 * time.Second)
				h.setLimit(h.nodes[0], l)
				time.Sleep(time.Second)
				begun := h.clock.Now()
				jobs := append(h.submitBy(h.nodes[0], 10, after(0)), h.submitBy(h.nodes[1], 10, after(0))...)
				other := h.submit(2, func(d *carillon.Definition) { d.Queue, d.Type = "free", "free" })
				time.Sleep(5 * time.Second)
				h.expectRunning(map[bool]int{true: 3, false: 5}[l.Of == carillon.LimitNamespace])
				time.Sleep(2 * time.Minute)
				h.expectAll(append(jobs, other...), 1)
				if l.Of != carillon.LimitNamespace {
					h.expectLate(other, time.Second)
				} else if most := h.most(begun); most != 3 {
					t.Errorf("%d at once", most)
				}
			})
		})
	}
}

func TestALimitCountsRunsThatStartFromThenOn(t *testing.T) {
	in(t, operated, func(h *house) {
		h.submit(5, after(0))
		time.Sleep(time.Second)
		h.expectRunning(5)
		h.setLimit(h.nodes[0], ofQueue(2))
		jobs := h.submit(10, after(0))
		time.Sleep(time.Second)
		h.expectRunning(7) // 5 that it does not count, and 2
		time.Sleep(8500 * time.Millisecond)
		h.expectRunning(2)

		h.setLimit(h.nodes[0], ofQueue(1)) // two are running: nothing starts until both have ended
		begun := h.clock.Now()
		time.Sleep(11 * time.Second)
		h.expectRunning(1)
		time.Sleep(15 * time.Second)
		if most := h.most(begun); most != 1 {
			t.Errorf("%d at once after the limit was lowered to 1", most)
		}
		h.setLimit(h.nodes[0], ofQueue(4))
		time.Sleep(100 * time.Millisecond)
		h.expectRunning(4)
		time.Sleep(time.Minute)
		h.expectAll(jobs, 1)
	})
}

// More runs wait in the line than the scheduler looks at together, and the node that performs most of them
// hears of the removal from the store.
func TestARemovedLimitFreesItsLineOnEveryNode(t *testing.T) {
	in(t, func(h *house) { operated(h); h.concurrency = 100 }, func(h *house) {
		h.live()
		time.Sleep(10 * time.Second)
		h.setLimit(h.nodes[0], ofQueue(1))
		time.Sleep(time.Second)
		jobs := h.submit(1500, after(0))
		time.Sleep(5 * time.Second)
		h.expectRunning(1)
		h.setLimit(h.nodes[1], ofQueue(0))
		time.Sleep(time.Second)
		h.expectRunning(200)
		time.Sleep(90 * time.Second)
		h.expectAll(jobs, 1)
		time.Sleep(2 * time.Minute)
		guards, err := h.truth.Guards(context.Background(), carillon.GuardQuery{
			Namespace: "default", Prefix: "limit/",
		})
		if err != nil || len(guards) != 1 || guards[0].HasLine() || guards[0].Expires == 0 {
			t.Errorf("the line stays open: %s, %v", guards[0].Value, err)
		}
	})
}

func TestARemovedLimitFreesMoreRunsThanTheQueueHolds(t *testing.T) {
	in(t, func(h *house) { operated(h); h.concurrency, h.lane = 20, 50 }, func(h *house) {
		h.setLimit(h.nodes[0], ofQueue(1))
		jobs := h.submit(300, after(0))
		time.Sleep(5 * time.Second)
		h.expectRunning(1)
		h.setLimit(h.nodes[0], ofQueue(0))
		time.Sleep(170 * time.Second) // 300 runs of 10 s, 20 at a time: 150 s
		h.expectAll(jobs, 1)
	})
}

// A due time by the clock that waited in the line of a limit came in time: its misfire policy does not skip
// it.
func TestARunThatWaitedForALimitIsNotMissed(t *testing.T) {
	in(t, operated, func(h *house) {
		h.setLimit(h.nodes[0], ofQueue(1))
		h.submit(4, after(0))
		skipping := h.submit(3, func(d *carillon.Definition) {
			d.Schedule.Every, d.Schedule.MaxRuns = carillon.Duration(time.Hour), 1
			d.Schedule.StartsAt = h.clock.Now().Add(time.Second)
			d.Misfire.Policy = carillon.MisfireSkip
		})
		time.Sleep(15 * time.Second)
		h.setLimit(h.nodes[0], ofQueue(0))
		time.Sleep(time.Minute)
		h.expectAll(skipping, 1)
	})
}

func TestARateOfAQueueSpreadsItsStarts(t *testing.T) {
	in(t, operated, func(h *house) {
		l := ofQueue(0)
		l.Rate = carillon.Rate{Starts: 2, Per: time.Second}
		h.setLimit(h.nodes[0], l)
		h.handle = nil
		jobs := h.submit(20, after(0))
		time.Sleep(5 * time.Second)
		if n := len(h.attempts()); n < 9 || n > 11 {
			t.Errorf("%d starts in five seconds", n)
		}
		time.Sleep(6 * time.Second)
		h.expectAll(jobs, 1)
	})
}

package scheduler_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
	"github.com/carillon-run/carillon/internal/catalog"
	"github.com/carillon-run/carillon/porttest"
)

// releases are the operations of all releases, oldest first.
func (h *house) releases() (all []carillon.Operation) {
	h.t.Helper()
	guards, err := h.truth.Guards(context.Background(), carillon.OperationQuery("default"))
	if err != nil {
		h.t.Fatal(err)
	}
	for i := range guards {
		record, err := carillon.OperationOf(&guards[i])
		if err != nil || record.Kind != carillon.OperationRelease {
			h.t.Fatal(record, err)
		}
		all = append(all, record.Operation)
	}
	slices.SortFunc(all, func(a, b carillon.Operation) int {
		return cmp.Or(cmp.Compare(a.Created, b.Created), cmp.Compare(a.ID, b.ID))
	})
	return all
}

// expectReleases compares what people see of the operations of releases, and that none is open.
func (h *house) expectReleases(want ...string) {
	h.t.Helper()
	all := h.releases()
	for i := range max(len(all), len(want)) {
		got, wanted := "none", "none"
		if i < len(want) {
			wanted = want[i]
		}
		if i < len(all) {
			op := &all[i]
			got = fmt.Sprintf("%s by %s: %s, %d of %d", op.Release.Gate, op.By, op.State, op.Done, op.Total)
		}
		if got != wanted {
			h.t.Errorf("release %d: %s\nwant %s", i, got, wanted)
		}
	}
	open, err := h.truth.Guards(context.Background(), carillon.OpenReleaseQuery())
	if err != nil || len(open) > 0 {
		h.t.Errorf("there are open releases: %v, %v", open, err)
	}
}

// cancelRelease cancels the newest release through a node.
func (h *house) cancelRelease(by *node) error {
	h.t.Helper()
	all := h.releases()
	op := all[len(all)-1]
	op.Namespace = "default"
	return by.catalog.CancelRelease(context.Background(), &op, "eve")
}

func perSecond(n int) carillon.Rate { return carillon.Rate{Starts: n, Per: time.Second} }

func TestAReleaseShowsItsProgressAndEndsWithTheLine(t *testing.T) {
	in(t, gatedHouse, func(h *house) {
		h.closeGate(h.nodes[0], carillon.Gate{ID: "g", Match: carillon.GateMatch{All: true}})
		jobs := h.submit(100, after(0))
		time.Sleep(5 * time.Second)
		h.openGate(h.nodes[0], "g", perSecond(10))
		time.Sleep(5*time.Second + 30*time.Millisecond) // between two that leave
		op := h.releases()[0]
		if left := 100 - h.held("g"); op.State != carillon.OperationRunning || op.Total != 100 ||
			op.Done != left || left < 40 || left > 60 || h.clock.Now().Sub(op.Updated) > time.Second {
			t.Errorf("%d runs have left: %+v", left, op)
		}
		if g := h.nodes[0].catalog.GateOf("default", "g"); g.Operation != op.ID {
			t.Errorf("the gate names %s", g.Operation)
		}
		h.openGate(h.nodes[0], "g", perSecond(50)) // faster
		time.Sleep(5 * time.Second)
		h.expectAll(jobs, 1)
		h.expectReleases("g by bob: done, 100 of 100")
		if op := h.releases()[0]; op.Rate != 50 || op.Release.Rate != perSecond(50) || op.Ended == 0 {
			t.Errorf("%+v", op)
		}
		h.expectGone()
	})
}

func TestAGateWithoutRunsOpensWithoutAnOperation(t *testing.T) {
	in(t, gatedHouse, func(h *house) {
		h.closeGate(h.nodes[0], carillon.Gate{ID: "g", Match: ofType("none")})
		until := h.clock.Now().Add(time.Second)
		h.closeGate(h.nodes[0], carillon.Gate{ID: "e", Match: ofType("none"), Expires: until})
		time.Sleep(5 * time.Second)
		h.openGate(h.nodes[0], "g", carillon.Rate{})
		time.Sleep(5 * time.Second)
		h.expectReleases()
		h.expectGone()
	})
}

func TestAGateThatExpiresIsReleasedByTheSystem(t *testing.T) {
	in(t, gatedHouse, func(h *house) {
		h.live()
		time.Sleep(5 * time.Second)
		until := h.clock.Now().Add(5 * time.Second)
		h.closeGate(h.nodes[1], carillon.Gate{ID: "g", Match: carillon.GateMatch{All: true}, Expires: until})
		time.Sleep(time.Second)
		jobs := h.submit(20, after(0))
		time.Sleep(15 * time.Second)
		h.expectAll(jobs, 1)
		h.expectReleases("g by system: done, 20 of 20")
		h.expectGone()
	})
}

func TestACanceledReleaseLetsNoRunLeaveAndTheNextOneGoesOn(t *testing.T) {
	in(t, gatedHouse, func(h *house) {
		h.live()
		time.Sleep(5 * time.Second)
		until := h.clock.Now().Add(4 * time.Second)
		h.closeGate(h.nodes[0], carillon.Gate{
			ID: "g", Match: carillon.GateMatch{All: true}, Reason: "why", Expires: until,
		})
		time.Sleep(time.Second)
		jobs := h.submit(1000, after(0))
		time.Sleep(2 * time.Second)
		h.openGate(h.nodes[0], "g", perSecond(100))
		time.Sleep(3 * time.Second)
		if err := h.cancelRelease(h.nodes[1]); err != nil { // whichever node owns the gate
			t.Fatal(err)
		}
		left, done := h.held("g"), h.releases()[0].Done
		if done < 100 || done > 400 || left < 1000-done || left > 1000-done+20 {
			t.Errorf("%d have left, and %d wait", done, left)
		}
		time.Sleep(time.Minute) // the gate would have expired
		h.expectReleases(fmt.Sprintf("g by bob: canceled, %d of 1000", done))
		if n := h.held("g"); n < left || n > left+20 { // some had left, but not started
			t.Errorf("%d runs wait, and when it was canceled %d did", n, left)
		}
		again := h.held("g")
		g, op := h.nodes[0].catalog.GateOf("default", "g"), h.releases()[0]
		if g.State(h.clock.Now()) != carillon.GateClosed || g.By != "eve" || g.Reason != "why" ||
			g.Operation != 0 || op.Reason != "gate g was closed again by eve" {
			t.Errorf("%+v\n%+v", g, op)
		}
		if err := h.cancelRelease(h.nodes[0]); err != nil {
			t.Errorf("canceled twice: %v", err)
		}
		h.openGate(h.nodes[0], "g", carillon.Rate{})
		time.Sleep(10 * time.Second)
		h.expectAll(jobs, 1)
		h.expectReleases(fmt.Sprintf("g by bob: canceled, %d of 1000", done),
			fmt.Sprintf("g by bob: done, %d of %d", again, again))
		if err := h.cancelRelease(h.nodes[0]); !errors.Is(err, carillon.ErrConflict) {
			t.Errorf("canceled after its end: %v", err)
		}
		h.expectGone()
	})
}

func TestTwoNodesThatBothReleaseCountEachRunOnce(t *testing.T) {
	in(t, func(h *house) { gatedHouse(h); h.both = true }, func(h *house) {
		h.live()
		time.Sleep(5 * time.Second)
		h.closeGate(h.nodes[0], carillon.Gate{ID: "g", Match: carillon.GateMatch{All: true}})
		time.Sleep(time.Second)
		jobs := h.submit(500, after(0))
		time.Sleep(2 * time.Second)
		h.openGate(h.nodes[0], "g", perSecond(100))
		time.Sleep(20 * time.Second)
		h.expectAll(jobs, 1)
		h.expectReleases("g by bob: done, 500 of 500")
	})
}

func TestTheNextNodeGoesOnCountingWhereTheLastOneStopped(t *testing.T) {
	in(t, gatedHouse, func(h *house) { h.releaseByTwo(5 * time.Second) })
}

func TestANodeThatStopsWhileItCountsLeavesTheTotalToTheNext(t *testing.T) {
	slow := func(h *house) { gatedHouse(h); h.store = slowCounts{h.truth} }
	in(t, slow, func(h *house) { h.releaseByTwo(2 * time.Second) })
}

// releaseByTwo opens a gate that holds a hundred runs. The node that releases them stops a while after, and
// the other one goes on.
func (h *house) releaseByTwo(while time.Duration) {
	h.live()
	time.Sleep(5 * time.Second)
	h.closeGate(h.nodes[0], carillon.Gate{ID: "g", Match: carillon.GateMatch{All: true}})
	time.Sleep(time.Second)
	jobs := h.submit(100, after(0))
	time.Sleep(2 * time.Second)
	h.openGate(h.nodes[0], "g", perSecond(10))
	time.Sleep(while)
	h.stop[0]()
	h.stop = h.stop[1:]
	time.Sleep(40 * time.Second)
	h.expectAll(jobs, 1)
	h.expectReleases("g by bob: done, 100 of 100")
}

// An older node writes the gate without an operation, or drops the operation that it names, or forgets the
// gate and leaves the operation behind.
func TestReleasesThatAnOlderNodeHasTouched(t *testing.T) {
	in(t, gatedHouse, func(h *house) {
		old := func(id string, edit func(*carillon.Gate)) {
			name := catalog.Name{Namespace: "default", Name: id}
			_, err := catalog.Gates.Write(context.Background(), h.nodes[0].catalog, name, "old", func(
				was, next *catalog.Record[carillon.Gate], _ *carillon.Change,
			) (remove bool, err error) {
				next.Value = was.Value
				next.Value.Operation = 0
				edit(&next.Value)
				return false, nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		var jobs []carillon.Job
		for _, id := range []string{"a", "b", "c"} {
			h.closeGate(h.nodes[0], carillon.Gate{ID: id, Match: ofType(id)})
			jobs = append(jobs, h.submit(10, typed(id, after(0)))...)
		}
		time.Sleep(3 * time.Second)
		old("a", func(g *carillon.Gate) { g.Opened, g.OpenedBy = h.clock.Now(), "old" })
		time.Sleep(time.Second)
		h.openGate(h.nodes[0], "b", perSecond(1))
		time.Sleep(10 * time.Millisecond)
		h.openGate(h.nodes[0], "c", perSecond(1))
		time.Sleep(3500 * time.Millisecond)
		old("b", func(g *carillon.Gate) { g.Rate = perSecond(2) })
		name := catalog.Name{Namespace: "default", Name: "c"}
		if _, err := catalog.Gates.Write(context.Background(), h.nodes[0].catalog, name, "old", func(
			_, _ *catalog.Record[carillon.Gate], _ *carillon.Change,
		) (remove bool, err error) {
			return true, nil
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		h.expectAll(jobs, 1)
		h.expectReleases(
			"a by old: done, 10 of 10",
			"b by bob: canceled, 3 of 10", "c by bob: done, 3 of 10", // without those that are not counted
			"b by bob: done, 7 of 7",
		)
		h.expectGone()
	})
}

// leavings counts the runs that leave a gate, whatever a caller hears of the commit.
type leavings struct {
	carillon.Store
	mu sync.Mutex
	n  int
}

func (s *leavings) Commit(ctx context.Context, changes []carillon.Change) ([]int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []carillon.RunID
	for i := range changes {
		for k := range changes[i].Runs {
			ids = append(ids, changes[i].Runs[k].ID)
		}
	}
	held := map[carillon.RunID]bool{}
	before, err := s.Store.Runs(ctx, ids, false)
	if err != nil {
		return nil, err
	}
	for i := range before {
		_, held[before[i].ID] = carillon.GateOfHold(before[i].Hold)
	}
	lost, err := s.Store.Commit(ctx, changes)
	if err != nil {
		return lost, err
	}
	won := map[int]bool{}
	for i := range changes {
		won[i] = true
	}
	for _, i := range lost {
		won[i] = false
	}
	for i := range changes {
		for k := range changes[i].Runs {
			run := &changes[i].Runs[k]
			if _, is := carillon.GateOfHold(run.Hold); won[i] && held[run.ID] && !is {
				s.n++
			}
		}
	}
	return lost, nil
}

// Releases begin, are canceled and begin again while calls of the store fail or their outcome is unknown. The
// operations count exactly the runs that have left.
func TestReleasesCountExactlyWhileEverythingFails(t *testing.T) {
	seed := porttest.Seed(t)
	for round := range 6 {
		random := rand.New(rand.NewPCG(uint64(seed), uint64(round)))
		var store *switched
		var left *leavings
		in(t, func(h *house) {
			gatedHouse(h)
			h.both = round%3 == 2
			left = &leavings{Store: h.truth}
			loss := rand.New(rand.NewPCG(uint64(seed), uint64(100+round)))
			store = &switched{Store: left, faulty: porttest.Lossy(left, loss, 0.05)}
			h.store = store
		}, func(h *house) {
			h.live()
			time.Sleep(5 * time.Second)
			h.closeGate(h.nodes[0], carillon.Gate{ID: "g", Match: carillon.GateMatch{All: true}})
			time.Sleep(time.Second)
			jobs := h.submit(600, after(0))
			time.Sleep(5 * time.Second)
			for range 4 {
				h.openGate(h.nodes[random.IntN(2)], "g", perSecond(50+random.IntN(50)))
				store.turn(true)
				time.Sleep(time.Duration(random.IntN(2500)) * time.Millisecond)
				store.turn(false)
				if err := h.cancelRelease(h.nodes[random.IntN(2)]); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Second)
			}
			h.openGate(h.nodes[0], "g", perSecond(200))
			store.turn(true)
			time.Sleep(5 * time.Second)
			store.turn(false)
			time.Sleep(time.Minute)
			h.expectAll(jobs, 1)
			counted := 0
			for i, op := range h.releases() {
				counted += op.Done
				switch {
				case i < 4 && op.State != carillon.OperationCanceled:
					t.Errorf("release %d is %s", i, op.State)
				case i == 4 && (op.State != carillon.OperationDone || op.Done < op.Total):
					t.Errorf("the last release: %+v", op) // more, if a node has not heard and stops some again
				}
			}
			if counted != left.n || counted < 600 {
				t.Errorf("%d runs were counted, and %d have left", counted, left.n)
			}
			h.expectGone()
		})
		if t.Failed() {
			t.Fatalf("round %d of seed %d", round, seed)
		}
	}
}

// slowCounts takes three seconds to count.
type slowCounts struct{ carillon.Store }

func (s slowCounts) Counts(ctx context.Context, ns string, now carillon.Time) ([]carillon.QueueCount, error) {
	if !await.For(ctx, 3*time.Second) {
		return nil, ctx.Err()
	}
	return s.Store.Counts(ctx, ns, now)
}

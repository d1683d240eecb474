package porttest

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/google/go-cmp/cmp"
)

// epoch is the time at which the tests of this package take place.
const epoch carillon.Time = 1_800_000_000_000

// sample returns a due run with a value in every field that travels.
func sample(job int, wake carillon.Time) carillon.Run {
	id := carillon.RunID{Job: carillon.JobID(job), Due: epoch - 1000}
	return carillon.Run{
		ID: id, Namespace: "default", Queue: "default", Needs: "mail.send", Share: "acme*3",
		Hold: "limit/key/a", Slots: "key/c*2", Worker: "w1", Reason: "exit code 1",
		Wake: wake, Covers: epoch - 2000,
		Claimed: epoch - 900, Started: epoch - 800, RetryOf: epoch - 5000, Rev: 3, Version: 2, Seq: 7,
		Attempt: 4, Failures: 2,
		Losses: 1, Crashes: 1, State: carillon.StateWaiting, Priority: 5,
		Flags: carillon.FlagGuarded | carillon.FlagAdditional,
	}
}

func idsOf(runs []carillon.Run) []carillon.RunID {
	ids := make([]carillon.RunID, len(runs))
	for i := range runs {
		ids[i] = runs[i].ID
	}
	return ids
}

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

// patient returns a context for something that must happen soon. If it does not, the end of the context fails
// the test.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// timelineTest is a timeline whose calls must not fail.
type timelineTest struct {
	testing.TB
	carillon.Timeline
}

func (t timelineTest) add(runs ...carillon.Run) (refused []int) {
	t.Helper()
	refused, err := t.Add(t.Context(), runs)
	if err != nil {
		t.Fatalf("add: %v", err)
	}
	return refused
}

func (t timelineTest) due(now carillon.Time, limit int) ([]carillon.Run, carillon.Time) {
	t.Helper()
	return t.dueOf(now, nil, limit)
}

func (t timelineTest) dueOf(now carillon.Time, shards []int, limit int) ([]carillon.Run, carillon.Time) {
	t.Helper()
	runs, next, err := t.Due(t.Context(), now, shards, limit)
	if err != nil {
		t.Fatalf("due: %v", err)
	}
	return runs, next
}

// Timeline checks what carillon.Timeline promises. open returns an empty timeline with room for maxPerLane
// runs per lane; 0: for as many as it likes.
func Timeline(t *testing.T, open func(t *testing.T, maxPerLane int) carillon.Timeline) {
	run := func(name string, room int, f func(timelineTest)) {
		t.Run(name, func(t *testing.T) { f(timelineTest{t, open(t, room)}) })
	}
	run("a run is taken out whole at its wake and not before", 0, timelineWhole)
	run("the earliest wake comes first, then the earliest due time, then the smallest job", 0, timelineOrder)
	run("no more than limit come, and next says when the rest is due", 0, timelineLimit)
	run("runs of other shards stay, and next does not speak of them", 0, timelineShards)
	run("the same run twice is once, the higher rev wins and its wake replaces", 0, timelineTwice)
	run("a lane without room refuses, and another lane does not", 2, timelineRoom)
	run("room comes back with what is taken out", 2, timelineRoomBack)
	run("a run that changes its lane takes room in the new one only", 1, timelineLaneChange)
	run("a run that was taken out may be added again, with any rev", 0, timelineAgain)
	run("it does what a sorted list would do", 5, timelineModel)
	run("runs added and taken out at the same time come exactly once", 0, timelineConcurrent)
}

func timelineWhole(t timelineTest) {
	want := sample(1, epoch)
	t.add(want)
	runs, next := t.due(epoch-1, 10)
	same(t, "before its wake", len(runs), 0)
	same(t, "next", next, epoch)
	runs, next = t.due(epoch, 10)
	same(t, "at its wake", runs, []carillon.Run{want})
	same(t, "next", next, carillon.Time(0))
	runs, _ = t.due(epoch, 10)
	same(t, "once more", len(runs), 0)
}

func timelineOrder(t timelineTest) {
	at := func(wake, due carillon.Time, job int) carillon.Run {
		r := sample(job, wake)
		r.ID.Due = due
		return r
	}
	want := []carillon.Run{
		at(epoch, 5, 9), at(epoch+1, 3, 8), at(epoch+1, 4, 1), at(epoch+1, 4, 2), at(epoch+1, 4, 10),
		at(epoch+2, 1, 1),
	}
	t.add(want[4], want[0], want[5], want[2], want[1], want[3])
	runs, _ := t.due(epoch+2, 10)
	same(t, "order", idsOf(runs), idsOf(want))
}

func timelineLimit(t timelineTest) {
	t.add(sample(1, epoch), sample(2, epoch+1), sample(3, epoch+2), sample(4, epoch+60_000))
	runs, next := t.due(epoch+10, 2)
	same(t, "two of three", idsOf(runs), idsOf([]carillon.Run{sample(1, 0), sample(2, 0)}))
	same(t, "next is due already", next, epoch+2)
	runs, next = t.due(epoch+10, 2)
	same(t, "the third", idsOf(runs), idsOf([]carillon.Run{sample(3, 0)}))
	same(t, "next is ahead", next, epoch+60_000)
}

func timelineShards(t timelineTest) {
	first, second := sample(1, epoch+1), sample(2, epoch)
	for second.ID.Job.Shard() == first.ID.Job.Shard() {
		second = sample(int(second.ID.Job)+1, epoch)
	}
	mine := []int{first.ID.Job.Shard()}
	t.add(first, second)
	runs, next := t.dueOf(epoch, mine, 10)
	same(t, "before the wake of the only run of the shard", len(runs), 0)
	same(t, "next", next, epoch+1)
	runs, next = t.dueOf(epoch+1, []int{}, 10)
	same(t, "of no shard", len(runs), 0)
	same(t, "next of no shard", next, carillon.Time(0))
	runs, next = t.dueOf(epoch+1, mine, 10)
	same(t, "at its wake", runs, []carillon.Run{first})
	same(t, "next after it", next, carillon.Time(0))
	runs, _ = t.due(epoch, 10)
	same(t, "of all shards", runs, []carillon.Run{second})
}

func timelineTwice(t timelineTest) {
	first := sample(1, epoch+10)
	same(t, "refused", t.add(first, first), []int(nil))
	lower, equal, sooner := first, first, first
	lower.Rev, lower.Wake = first.Rev-1, epoch
	equal.Wake = epoch
	t.add(lower, equal)
	_, next := t.due(epoch, 10)
	same(t, "next after a lower and an equal rev", next, epoch+10)
	sooner.Rev, sooner.Wake, sooner.Attempt = first.Rev+1, epoch+5, 9
	t.add(sooner)
	_, next = t.due(epoch, 10)
	same(t, "next after an earlier wake", next, epoch+5)
	later := sooner
	later.Rev, later.Wake = sooner.Rev+1, epoch+20
	t.add(later)
	runs, next := t.due(epoch+19, 10)
	same(t, "before the later wake", len(runs), 0)
	same(t, "next after a later wake", next, epoch+20)
	runs, _ = t.due(epoch+20, 10)
	same(t, "the highest rev", runs, []carillon.Run{later})
}

func timelineRoom(t timelineTest) {
	other, urgent := sample(4, epoch), sample(5, epoch)
	other.Queue, urgent.Priority = "other", 9
	refused := t.add(sample(1, epoch), sample(2, epoch), sample(3, epoch), other, urgent, sample(1, epoch))
	same(t, "refused", refused, []int{2})
	runs, _ := t.due(epoch, 10)
	same(t, "taken", idsOf(runs), idsOf([]carillon.Run{sample(1, 0), sample(2, 0), other, urgent}))
}

func timelineRoomBack(t timelineTest) {
	t.add(sample(1, epoch), sample(2, epoch+1))
	t.due(epoch, 10)
	same(t, "after one was due", t.add(sample(3, epoch+1), sample(4, epoch+1)), []int{1})
}

func timelineLaneChange(t timelineTest) {
	moved := sample(1, epoch)
	moved.Rev, moved.Queue = moved.Rev+1, "other"
	t.add(sample(1, epoch))
	same(t, "moved", t.add(moved), []int(nil))
	same(t, "the old lane", t.add(sample(2, epoch)), []int(nil))
	full := sample(3, epoch)
	full.Queue = "other"
	same(t, "the new lane", t.add(full), []int{0})
	runs, _ := t.due(epoch, 10)
	same(t, "all", runs, []carillon.Run{moved, sample(2, epoch)})
}

func timelineAgain(t timelineTest) {
	t.add(sample(1, epoch))
	t.due(epoch, 10)
	again := sample(1, epoch)
	again.Rev = 1 // the timeline has forgotten the higher Rev
	t.add(again)
	runs, _ := t.due(epoch, 10)
	same(t, "again", runs, []carillon.Run{again})
}

// timelineModel compares with a map, over few runs and lanes, so that everything happens to each of them.
func timelineModel(t timelineTest) {
	rnd, model := random(t), map[carillon.RunID]carillon.Run{}
	for now := epoch; now < epoch+3000; now++ {
		if rnd.IntN(3) > 0 {
			runs := make([]carillon.Run, rnd.IntN(6))
			for i := range runs {
				runs[i] = sample(1+rnd.IntN(40), now+carillon.Time(rnd.IntN(50)))
				runs[i].Rev, runs[i].Priority = rnd.Int32N(200), int8(rnd.IntN(4))
			}
			same(t, "refused", t.add(runs...), modelAdd(model, runs, 5))
		} else {
			limit := 1 + rnd.IntN(5)
			var shards []int
			for rnd.IntN(2) == 0 {
				shards = append(shards, carillon.JobID(1+rnd.IntN(40)).Shard())
			}
			runs, next := t.dueOf(now, shards, limit)
			wantRuns, wantNext := modelDue(model, now, shards, limit)
			same(t, "due", runs, wantRuns)
			same(t, "next", next, wantNext)
		}
	}
}

func modelAdd(model map[carillon.RunID]carillon.Run, runs []carillon.Run, room int) (refused []int) {
	for i, r := range runs {
		if old, known := model[r.ID]; known {
			if r.Rev <= old.Rev {
				continue
			}
			delete(model, r.ID)
		}
		n := 0
		for _, other := range model {
			if other.Lane() == r.Lane() {
				n++
			}
		}
		if n >= room {
			refused = append(refused, i)
			continue
		}
		model[r.ID] = r
	}
	return refused
}

func modelDue(
	model map[carillon.RunID]carillon.Run, now carillon.Time, shards []int, limit int,
) (runs []carillon.Run, next carillon.Time) {
	sorted := slices.SortedFunc(maps.Values(model), func(a, b carillon.Run) int {
		if a.WakePos().Less(b.WakePos()) {
			return -1
		}
		return 1
	})
	for _, r := range sorted {
		if shards != nil && !slices.Contains(shards, r.ID.Job.Shard()) {
			continue
		}
		if r.Wake > now || len(runs) == limit {
			return runs, r.Wake
		}
		runs = append(runs, r)
		delete(model, r.ID)
	}
	return runs, 0
}

func timelineConcurrent(t timelineTest) {
	const adders, each = 4, 500
	var adding sync.WaitGroup
	for a := range adders {
		adding.Go(func() {
			for i := range each {
				if _, err := t.Add(t.Context(), []carillon.Run{sample(1+a*each+i, epoch)}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	got := map[carillon.RunID]int{}
	for ctx := patient(t); len(got) < adders*each && ctx.Err() == nil; {
		runs, _ := t.due(epoch, 7)
		for _, r := range runs {
			got[r.ID]++
		}
	}
	adding.Wait()
	same(t, "different runs", len(got), adders*each)
	for id, n := range got {
		if n != 1 {
			t.Fatalf("%s came %d times", id, n)
		}
	}
}

package mem_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
)

const epoch carillon.Time = 1_800_000_000_000

func runs(queue string, from, n int) []carillon.Run {
	runs := make([]carillon.Run, n)
	for i := range runs {
		id := carillon.RunID{Job: carillon.JobID(from + i), Due: epoch + carillon.Time(i)}
		runs[i] = carillon.Run{
			ID: id, Queue: queue, Priority: 5, Wake: id.Due, Rev: 1, State: carillon.StateWaiting,
		}
	}
	return runs
}

// held returns how many more bytes are in use after f than before.
func held(f func()) int {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return int(after.HeapAlloc) - int(before.HeapAlloc)
}

// kept is how much a timeline or a queue can keep after a burst. What they keep is some thousand rooms for
// runs, so it grows with carillon.Run: by 32 bytes a room when a run got Hold and Slots, to some 1.1 MB.
const kept = 5 << 18

func TestMemoryOfABurstGoesBack(t *testing.T) {
	const many, limit = 50_000, kept // a burst takes some 18 MB
	t.Run("a timeline that has emptied", func(t *testing.T) {
		timeline := mem.NewTimeline(mem.TimelineConfig{MaxPerLane: many})
		if n := held(func() { burstOf(t, timeline, many); drain(t, timeline, many) }); n > limit {
			t.Errorf("%d bytes are held", n)
		}
		runtime.KeepAlive(timeline)
	})
	t.Run("a timeline with one run left far ahead", func(t *testing.T) {
		timeline := mem.NewTimeline(mem.TimelineConfig{MaxPerLane: many})
		if n := held(func() { burstOf(t, timeline, many); drain(t, timeline, many-1) }); n > limit {
			t.Errorf("%d bytes are held", n)
		}
		if timeline.Len() != 1 {
			t.Errorf("%d runs are held", timeline.Len())
		}
	})
	t.Run("a queue that was drained", func(t *testing.T) {
		queue := mem.NewQueue(mem.QueueConfig{MaxPerLane: many})
		n := held(func() {
			if refused, err := queue.Push(t.Context(), runs("q", 1, many)); err != nil || refused != nil {
				t.Fatal(len(refused), err)
			}
			for queue.Len() > 0 {
				if _, err := queue.Pull(t.Context(), carillon.Demand{Max: 1000}); err != nil {
					t.Fatal(err)
				}
			}
		})
		if n > limit {
			t.Errorf("%d bytes are held", n)
		}
		runtime.KeepAlive(queue)
	})
}

func burstOf(t *testing.T, timeline *mem.Timeline, n int) {
	if refused, err := timeline.Add(t.Context(), runs("q", 1, n)); err != nil || refused != nil {
		t.Fatal(len(refused), err)
	}
}

func drain(t *testing.T, timeline *mem.Timeline, n int) {
	for n > 0 {
		due, _, err := timeline.Due(t.Context(), carillon.Never, nil, min(n, 1000))
		if err != nil {
			t.Fatal(err)
		}
		n -= len(due)
	}
}

// Each customer of a large service can have a share.
func TestManySharesTakeLittleMemory(t *testing.T) {
	const shares, each, limit = 20_000, 2, 30 << 20
	queue := mem.NewQueue(mem.QueueConfig{})
	all := runs("q", 1, shares*each)
	for i := range all {
		all[i].Share = fmt.Sprint("customer-", i%shares, "*3")
	}
	if n := held(func() { push(t, queue, all) }); n > limit {
		t.Errorf("%d bytes are held", n)
	}
	places := map[string]int{}
	for queue.Len() > 0 {
		runs, err := queue.Pull(t.Context(), carillon.Demand{Max: 1000})
		if err != nil {
			t.Fatal(err)
		}
		for i := range runs {
			places[runs[i].Share]++
		}
	}
	if len(places) != shares {
		t.Errorf("runs of %d shares came", len(places))
	}
	places, all = nil, nil
	if n := held(func() { queue = mem.NewQueue(mem.QueueConfig{}) }); n < -kept {
		t.Errorf("the empty queue held %d bytes", -n)
	}
}

// Whatever the number of shares, memory is bounded, and there is room for the runs of others.
func TestSharesDoNotTakeTheRoomOfOthers(t *testing.T) {
	const most = 100
	queue := mem.NewQueue(mem.QueueConfig{MaxPerLane: most})
	timeline := mem.NewTimeline(mem.TimelineConfig{MaxPerLane: most})
	all, others := runs("q", 1, 30*most), runs("other", 10_000, 2)
	for i := range all {
		all[i].Share = fmt.Sprint("share", i)
	}
	for _, add := range []func(context.Context, []carillon.Run) ([]int, error){queue.Push, timeline.Add} {
		if refused, err := add(t.Context(), all); err != nil || len(refused) != 20*most {
			t.Errorf("of %d lanes with one run %d were refused, %v", len(all), len(refused), err)
		}
		if refused, err := add(t.Context(), others); err != nil || !slices.Equal(refused, []int{1}) {
			t.Errorf("of two runs of another lane those were refused: %v, %v", refused, err)
		}
	}
}

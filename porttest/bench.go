package porttest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/carillon-run/carillon"
)

// BenchmarkTimeline measures one add and one due per operation, in calls of a thousand, with 100,000 runs
// held.
func BenchmarkTimeline(b *testing.B, open func(b *testing.B) carillon.Timeline) {
	wakes := map[string]func(i int) carillon.Time{
		"wakes rising": func(i int) carillon.Time { return epoch + carillon.Time(i/10) },
		"wakes random": func(int) carillon.Time { return epoch + carillon.Time(rand.IntN(600_000)) },
	}
	for _, name := range slices.Sorted(maps.Keys(wakes)) {
		b.Run(name, func(b *testing.B) {
			const held, batch = 100_000, 1000
			timeline, runs := timelineTest{b, open(b)}, make([]carillon.Run, held)
			for i := range runs {
				runs[i] = sample(i+1, wakes[name](i))
			}
			timeline.add(runs...)
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += batch {
				out, _ := timeline.due(carillon.Never, batch)
				for i := range out {
					out[i].Wake += 600_000
				}
				timeline.add(out...)
			}
		})
	}
}

// BenchmarkQueue measures one push and one pull per operation, in calls of a thousand and of one.
func BenchmarkQueue(b *testing.B, open func(b *testing.B) carillon.Queue) {
	for _, batch := range []int{1, 1000} {
		for _, backlog := range []int{0, 50_000} {
			b.Run(fmt.Sprintf("%d at once, %d waiting", batch, backlog), func(b *testing.B) {
				q, runs := queueTest{b, open(b)}, make([]carillon.Run, batch+backlog)
				for i := range runs {
					runs[i] = in("default", int8(i%10), i+1, epoch)
				}
				q.push(runs[batch:]...)
				runs = runs[:batch]
				b.ReportAllocs()
				b.ResetTimer()
				for n := 0; n < b.N; n += batch {
					q.push(runs...)
					runs, _ = q.Pull(b.Context(), carillon.Demand{Max: batch})
				}
			})
		}
	}
	b.Run("2 push and 2 pull, 100 at once", func(b *testing.B) { benchmarkHandOver(b, open(b)) })
}

func benchmarkHandOver(b *testing.B, q carillon.Queue) {
	const batch = 100
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	var left atomic.Int64
	left.Store(int64(max(b.N/2/batch, 1) * 2 * batch))
	each := int(left.Load()) / 2
	var all sync.WaitGroup
	b.ResetTimer()
	for p := range 2 {
		all.Go(func() {
			runs := make([]carillon.Run, batch)
			for n := 0; n < each; n += batch {
				for i := range runs {
					runs[i] = sample(1+p*each+n+i, epoch)
				}
				pushOn(ctx, q, runs)
			}
		})
		all.Go(func() {
			for ctx.Err() == nil {
				runs, _ := q.Pull(ctx, carillon.Demand{Max: batch})
				if left.Add(-int64(len(runs))) == 0 {
					cancel()
				}
			}
		})
	}
	all.Wait()
}

// pushOn pushes until the queue has room for all runs.
func pushOn(ctx context.Context, q carillon.Queue, runs []carillon.Run) {
	for ctx.Err() == nil {
		refused, _ := q.Push(ctx, runs)
		if len(refused) == 0 {
			return
		}
		left := make([]carillon.Run, len(refused))
		for i, r := range refused {
			left[i] = runs[r]
		}
		runs = left
		runtime.Gosched()
	}
}

package simulate

import (
	"context"
	"flag"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
)

var (
	seeds = flag.Int("seeds", 20, "how many worlds to simulate")
	first = flag.Uint64("first", 0, "the first seed; 0: a random one")
	seed  = flag.Uint64("seed", 0, "simulate only this world, several times")
)

func TestPromisesHoldInEveryWorld(t *testing.T) {
	if *seed != 0 {
		for range 20 {
			simulate(t, *seed, &total{})
		}
		return
	}
	from := *first
	if from == 0 {
		from = rand.Uint64N(1 << 40)
	}
	var sum total
	var next atomic.Uint64
	t.Run("worlds", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for {
					i := next.Add(1) - 1
					if i >= uint64(*seeds) || t.Failed() {
						return
					}
					simulate(t, from+i, &sum)
					if i%500 == 499 {
						t.Logf("%d worlds, %d runs", i+1, sum.runs.Load())
					}
				}
			})
		}
	})
	t.Logf(
		"seeds=%d from=%d runs=%d attempts=%d overlaps after a freeze=%d", *seeds, from, sum.runs.Load(),
		sum.attempts.Load(), sum.frozen.Load(),
	)
}

// total adds up what happened in all worlds.
type total struct{ runs, attempts, frozen atomic.Int64 }

func simulate(t *testing.T, seed uint64, sum *total) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(seed, 1))
		w := &world{
			t: t, random: random, began: time.Now(), store: mem.NewStore(),
			coordinator: mem.NewCoordinator(), logs: mem.NewLogs(),
			faults: some(random, faults), weathers: some(random, weathers),
		}
		var clock carillon.Clock
		w.coordinator.Clock = &clock
		for range 1 + w.random.IntN(3) {
			w.startNode(w.random.IntN(5))
		}
		for range w.random.IntN(4) {
			w.startWorker(1 + w.random.IntN(4))
		}
		time.Sleep(2 * carillon.SessionTime)
		w.play(pick(w.random, 30*time.Second, 2*time.Minute))
		settled := w.settle(context.Background(), 15*time.Minute)
		if settled {
			w.probe()
		}
		for _, n := range w.nodes {
			n.stop()
		}
		for _, r := range w.workers {
			r.stop()
		}
		w.all.Wait()
		for _, r := range w.workers {
			r.kill()
		}
		time.Sleep(time.Minute) // until the last request has arrived
		v := w.check(context.Background(), settled)
		sum.runs.Add(int64(v.runs))
		sum.attempts.Add(int64(v.attempts))
		sum.frozen.Add(int64(v.frozen))
		if len(v.broken) > 0 {
			t.Errorf(
				"seed %d:\n  %s\n  %s", seed, strings.Join(v.broken, "\n  "),
				strings.Join(w.story, "\n  "),
			)
		}
	})
}

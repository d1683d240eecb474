package simulate

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
)

var (
	seeds   = flag.Int("seeds", 200, "how many worlds to simulate")
	first   = flag.Uint64("first", 1, "the first seed; 0: a random one")
	seed    = flag.Uint64("seed", 0, "simulate only this world: once if the seed fixes everything, else 20 times")
	without = flag.String("without", "", "steps to leave out, such as 3,5")
)

func TestPromisesHoldInEveryWorld(t *testing.T) {
	if *seed != 0 {
		times := 20
		if seeded {
			times = 1
		}
		for range times {
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
		seedWorld(t, seed)
		w := newWorld(t, seed)
		for range 1 + w.random.IntN(3) {
			w.startNode(w.random.IntN(5))
		}
		for range w.random.IntN(4) {
			w.startWorker(1 + w.random.IntN(4))
		}
		steps := 30 + w.random.IntN(90)
		time.Sleep(2 * carillon.SessionTime)
		w.play(steps)
		settled := w.settle(context.Background(), 15*time.Minute)
		if settled {
			w.probe()
		}
		w.end()
		v := w.check(context.Background(), settled)
		sum.runs.Add(int64(v.runs))
		sum.attempts.Add(int64(v.attempts))
		sum.frozen.Add(int64(v.frozen))
		if seeded { // package simulate/player reads this
			fmt.Printf("world: steps=%d runs=%d attempts=%d frozen=%d\n", steps, v.runs, v.attempts, v.frozen)
			w.print()
		}
		if len(v.broken) > 0 {
			t.Errorf(
				"broken: seed %d:\n  %s\n  %s", seed, strings.Join(v.broken, "\n  "),
				strings.Join(w.story, "\n  "),
			)
		}
	})
}

func newWorld(t *testing.T, seed uint64) *world {
	random := rand.New(rand.NewPCG(seed, 0))
	w := &world{
		t: t, seed: seed, without: map[int]bool{}, random: random, began: time.Now(), store: mem.NewStore(),
		coordinator: mem.NewCoordinator(), logs: mem.NewLogs(),
		faults: some(random, faults), weathers: some(random, weathers),
	}
	more := rand.New(rand.NewPCG(seed, 1<<32)) // of its own, or all worlds would change with each addition
	w.tenants = []string{carillon.DefaultNamespace, "other"}[:1+more.IntN(4)/3]
	if more.IntN(4) == 0 {
		w.maxBatch = 4
	}
	for _, step := range strings.Split(*without, ",") {
		if n, err := strconv.Atoi(step); err == nil {
			w.without[n] = true
		}
	}
	w.coordinator.Clock = &carillon.Clock{}
	return w
}

// end stops all processes and waits until the last request has arrived.
func (w *world) end() {
	w.healAll()
	for _, n := range slices.Concat(w.rest, w.nodes) {
		n.thaw()
		n.stop()
	}
	for _, r := range w.workers {
		r.thaw()
		r.stop()
	}
	w.all.Wait()
	for _, r := range w.workers {
		r.kill()
	}
	time.Sleep(time.Minute)
}

// print prints everything that happened in a world.
func (w *world) print() {
	for _, line := range w.story {
		fmt.Println(line)
	}
	for _, a := range w.journal.byStart() {
		fmt.Println(a, a.start.UnixNano(), a.end.UnixNano())
	}
	fmt.Println("end of the world")
}

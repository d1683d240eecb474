// Command player plays worlds of package simulate, each in a process of its own with one thread, in which a
// seed fixes everything: the load, the faults, and the order in which goroutines run. So a world that breaks
// a promise can be played again exactly, and made smaller.
//
//	go run ./simulate/player -seeds 1000
//	go run ./simulate/player -seed 8231          # one world, twice: both times must be the same
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/carillon-run/carillon/internal/overlay"
)

var (
	seeds    = flag.Int("seeds", 1000, "how many worlds to play")
	first    = flag.Uint64("first", 0, "the first seed; 0: a random one")
	seed     = flag.Uint64("seed", 0, "play only this world, twice")
	parallel = flag.Int("parallel", runtime.NumCPU(), "how many worlds to play at once")
	compare  = flag.Int("compare", 100, "of how many worlds one is played twice, and compared")
	test     = flag.String("test", "TestPromises", "the test to play")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "player:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "carillon-player-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program, err := build(ctx, dir)
	if err != nil {
		return err
	}
	if err := overlay.LimitMemory(); err != nil {
		return err
	}
	p := player{program: program, test: *test}
	if *seed != 0 {
		return p.twice(ctx, *seed)
	}
	from := *first
	if from == 0 {
		from = rand.Uint64N(1 << 40)
	}
	return p.many(ctx, from, *seeds)
}

// many plays worlds until one breaks a promise. Some of them it plays twice, and compares.
func (p *player) many(ctx context.Context, from uint64, n int) error {
	var (
		mu     sync.Mutex
		sum    total
		next   int
		broken *game
		failed error
		wg     sync.WaitGroup
	)
	began := time.Now()
	for range *parallel {
		wg.Go(func() {
			for {
				mu.Lock()
				i, over := next, next >= n || broken != nil || failed != nil
				next++
				mu.Unlock()
				if over {
					return
				}
				g, err := p.play(ctx, from+uint64(i), nil)
				if err == nil && i%*compare == 0 && g.story == "" {
					err = p.same(ctx, g)
				}
				mu.Lock()
				if err != nil {
					failed = err
				} else if sum.add(g); g.story != "" {
					broken = g
				}
				if sum.worlds%1000 == 0 && failed == nil {
					fmt.Printf("%s, %s\n", sum, time.Since(began).Round(time.Second))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if failed != nil {
		return failed
	}
	fmt.Printf("%s from=%d %s\n", sum, from, time.Since(began).Round(time.Second))
	if broken == nil {
		return nil
	}
	return p.shrink(ctx, broken)
}

// twice plays a world two times, and makes it smaller if it breaks a promise.
func (p *player) twice(ctx context.Context, seed uint64) error {
	g, err := p.play(ctx, seed, nil)
	if err != nil {
		return err
	}
	if err := p.same(ctx, g); err != nil {
		return err
	}
	fmt.Printf("seed %d: %d runs, the same both times\n", seed, g.runs)
	if g.story == "" {
		return nil
	}
	return p.shrink(ctx, g)
}

// same plays a world again and compares it with what happened before.
func (p *player) same(ctx context.Context, g *game) error {
	again, err := p.play(ctx, g.seed, nil)
	if err != nil || again.record == g.record {
		return err
	}
	was, is := strings.Split(g.record, "\n"), strings.Split(again.record, "\n")
	for i := range min(len(was), len(is)) {
		if was[i] != is[i] {
			return fmt.Errorf("seed %d gave two different worlds:\n  %s\n  %s", g.seed, was[i], is[i])
		}
	}
	return fmt.Errorf("seed %d gave two different worlds: one of them went on", g.seed)
}

package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

// tomorrow is far enough ahead that no run starts during the scenario.
func tomorrow() carillon.Schedule {
	return carillon.Schedule{At: carillon.Now().Add(24 * time.Hour)}
}

// submitScenario: durable submits of single jobs from 16 callers, from one, from 16 over HTTP (one request
// for each job, and in shared requests), and in bulk.
func submitScenario(ctx context.Context, b *bench) error {
	at, h, err := b.serving(ctx)
	if err != nil {
		return err
	}
	for _, callers := range []int{16, 1} {
		rate, err := hammer(callers, func() error { return submit(ctx, h, 1, tomorrow()) })
		if err != nil {
			return err
		}
		b.figure(fmt.Sprintf("submit_x%d", callers), rate, "jobs/s")
	}
	caller, err := h.caller()
	if err != nil {
		return err
	}
	for _, way := range []struct {
		figure string
		submit func(context.Context, carillon.Definition) (carillon.Job, error)
	}{
		{"submit_http_x16", caller.Submit},
		{"submit_http_batcher_x16", client.NewBatcher(caller, client.BatcherConfig{}).Submit},
	} {
		rate, err := hammer(16, func() error {
			_, err := way.submit(ctx, definition(tomorrow()))
			return err
		})
		if err != nil {
			return err
		}
		b.figure(way.figure, rate, "jobs/s")
	}
	n := b.count(200_000)
	start := time.Now()
	if err := b.fill(ctx, h, n, tomorrow()); err != nil {
		return err
	}
	b.figure("submit_bulk", float64(n)/time.Since(start).Seconds(), "jobs/s")
	return b.leave(ctx, at, h)
}

// hammer lets a number of callers repeat the same call for five seconds.
func hammer(callers int, do func() error) (rate float64, err error) {
	return hammerFor(5*time.Second, callers, do)
}

func hammerFor(length time.Duration, callers int, do func() error) (rate float64, err error) {
	var n atomic.Int64
	var g errgroup.Group
	start := time.Now()
	for range callers {
		g.Go(func() error {
			for time.Since(start) < length {
				if err := do(); err != nil {
					return err
				}
				n.Add(1)
			}
			return nil
		})
	}
	err = g.Wait()
	return float64(n.Load()) / time.Since(start).Seconds(), err
}

// steadyScenario: jobs are submitted for now while others run and end; four submitters send 250 at a time.
func steadyScenario(ctx context.Context, b *bench) error {
	at, h, err := b.house(ctx, slots, nil)
	if err != nil {
		return err
	}
	const submitters, batch, ahead = 4, 250, 8000
	var sent atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	from := spentSoFar()
	start := time.Now()
	for range submitters {
		wg.Go(func() {
			for time.Since(start) < 10*time.Second {
				if sent.Load()-h.started.Load() > ahead {
					time.Sleep(time.Millisecond)
					continue
				}
				if err := submit(ctx, h, batch, carillon.Schedule{}); err != nil {
					failed.Store(&err)
					return
				}
				sent.Add(batch)
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	if err := h.empty(ctx, int(sent.Load())); err != nil {
		return err
	}
	took, to, n := time.Since(start), spentSoFar(), float64(sent.Load())
	if ran := float64(h.started.Load()); ran != n {
		return fmt.Errorf("%.0f jobs were submitted, %.0f ran", n, ran)
	}
	b.figure("steady", n/took.Seconds(), "jobs/s")
	b.spentOn("steady", n, from, to)
	return b.leave(ctx, at, h)
}

// drainScenario: a backlog of due jobs is read from the store, run, and recorded.
func drainScenario(ctx context.Context, b *bench) error {
	n := b.count(200_000)
	var from, to spent
	rate, err := b.drainRate(ctx, n, func(at place) (crew, error) {
		from = spentSoFar()
		c, err := inside(at)
		return metered{c, &to}, err
	})
	if err != nil {
		return err
	}
	b.figure("drain", rate, "jobs/s")
	b.spentOn("drain", float64(n), from, to)
	if plain := b.known("plain_cycle"); plain != nil {
		b.figure("drain_of_plain", 100*rate/plain.value, "%")
	}
	return nil
}

// instantScenario: many jobs are due at the very same millisecond.
func instantScenario(ctx context.Context, b *bench) error {
	n := b.count(100_000)
	late := make([]time.Duration, n)
	var next atomic.Int64
	at, h, err := b.house(ctx, slots, func(run *carillon.Run) {
		if i := next.Add(1) - 1; int(i) < n {
			late[i] = time.Since(run.ID.Due.Std())
		}
	})
	if err != nil {
		return err
	}
	due := carillon.Now().Add(time.Duration(float64(n)/b.kind.bulk*float64(time.Second)) + 2*time.Second)
	if err := b.fill(ctx, h, n, carillon.Schedule{At: due}); err != nil {
		return err
	}
	if left := time.Until(due.Std()); left < 0 {
		return fmt.Errorf("filling took %s too long: the instant had passed", -left)
	}
	time.Sleep(time.Until(due.Std()))
	if err := h.empty(ctx, n); err != nil {
		return err
	}
	if ran := h.ran(); ran != n {
		return fmt.Errorf("%d jobs were submitted, %d ran", n, ran)
	}
	b.figure("instant_done", time.Since(due.Std()).Seconds(), "s")
	b.percentiles("instant_lateness", late, time.Millisecond, "ms")
	return b.leave(ctx, at, h)
}

// pickupScenario: on an idle system, how long a job that is submitted for now waits for its start, and how
// late a job starts that is due in a moment.
func pickupScenario(ctx context.Context, b *bench) error {
	begun := make(chan time.Time, 1)
	at, h, err := b.house(ctx, slots, func(*carillon.Run) { begun <- time.Now() })
	if err != nil {
		return err
	}
	time.Sleep(time.Second)
	var pickup, timer []time.Duration
	for range b.count(500) {
		start := time.Now()
		if err := submit(ctx, h, 1, carillon.Schedule{}); err != nil {
			return err
		}
		pickup = append(pickup, (<-begun).Sub(start))
		time.Sleep(5 * time.Millisecond)
	}
	for range b.count(200) {
		due := carillon.Now().Add(20 * time.Millisecond)
		if err := submit(ctx, h, 1, carillon.Schedule{At: due}); err != nil {
			return err
		}
		timer = append(timer, (<-begun).Sub(due.Std()))
	}
	b.percentiles("pickup", pickup, time.Millisecond, "ms")
	b.percentiles("timer", timer, time.Millisecond, "ms")
	return b.leave(ctx, at, h)
}

// flatScenario: the cost of a job must not depend on how many others wait.
func flatScenario(ctx context.Context, b *bench) error {
	var small []float64
	for range 5 {
		rate, err := b.warmDrain(ctx, b.count(10_000))
		if err != nil {
			return err
		}
		small = append(small, rate)
	}
	slices.Sort(small)
	large, err := b.warmDrain(ctx, b.count(1_000_000))
	if err != nil {
		return err
	}
	b.figure("drain_backlog_10k", small[len(small)/2], "jobs/s")
	b.figure("drain_backlog_1m", large, "jobs/s")
	b.figure("backlog_cost_ratio", small[len(small)/2]/large, "x")
	return nil
}

// warmDrain leaves out the time until the first job starts, which would weigh more on a small backlog.
func (b *bench) warmDrain(ctx context.Context, n int) (rate float64, err error) {
	at, err := b.fresh(ctx)
	if err != nil {
		return 0, err
	}
	var first atomic.Pointer[time.Time]
	_, end, err := b.drain(ctx, at, n, func(at place) (crew, error) {
		return open(at.config(slots), func(*carillon.Run) {
			if first.Load() == nil {
				now := time.Now()
				first.CompareAndSwap(nil, &now)
			}
		})
	})
	if err != nil {
		return 0, err
	}
	return float64(n) / end.Sub(*first.Load()).Seconds(), b.discard(ctx, at)
}

func (b *bench) percentiles(name string, d []time.Duration, unit time.Duration, text string) {
	slices.Sort(d)
	at := func(q float64) float64 { return float64(d[min(int(q*float64(len(d))), len(d)-1)]) / float64(unit) }
	b.figure(name+"_p50", at(0.5), text)
	b.figure(name+"_p99", at(0.99), text)
	b.figure(name+"_max", at(1), text)
}

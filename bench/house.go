package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/node"
)

// house is a node on a data directory with one no-op handler.
type house struct {
	node    *node.Node
	started atomic.Int64
	onStart func(run *carillon.Run) // nil: nothing
	stop    func() error
}

// slots is how many no-op handlers may run at once: they end at once, so this is how many claims can be on their way.
const slots = 4000

// open starts a node. A node that serves no queue keeps jobs and runs none.
func (b *bench) open(dir string, serve bool, onStart func(*carillon.Run)) (*house, error) {
	h := &house{onStart: onStart}
	cfg := node.Config{
		Data: dir, Concurrency: slots, Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Handlers: map[string]executor.Handler{"bench": func(_ context.Context, task executor.Task) error {
			if h.onStart != nil {
				h.onStart(&task.Run)
			}
			h.started.Add(1)
			return nil
		}},
	}
	if !serve {
		cfg.Queues = []string{"nobody"}
	}
	ctx, cancel := context.WithCancel(context.Background())
	n, err := node.Open(ctx, cfg)
	if err != nil {
		cancel()
		return nil, err
	}
	h.node = n
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	h.stop = func() error { cancel(); return <-done }
	return h, nil
}

// fresh is a new data directory.
func (b *bench) fresh() string {
	b.opened++
	return filepath.Join(b.dir, fmt.Sprintf("%s-%d", b.scene, b.opened))
}

var payload = func() json.RawMessage {
	b, _ := json.Marshal(map[string]any{
		"customer": "c-1029384756", "subject": "Your order has been shipped", "template": "order-shipped-v3",
		"locale": "en-GB", "items": []int{4711, 4712, 4713}, "note": "two hundred bytes is what people usually send",
	})
	return b
}()

func definition(schedule carillon.Schedule) carillon.Definition {
	d := carillon.NewDefinition()
	d.Name, d.Type, d.Payload, d.Schedule = "bench", "bench", payload, schedule
	d.Target.Handler = &carillon.Handler{}
	return d
}

// fill submits n jobs in bulk, four submitters with 1000 at a time, and shows progress.
func (b *bench) fill(ctx context.Context, h *house, n int, schedule carillon.Schedule) error {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	errs := make(chan error, 4)
	for range 4 {
		wg.Go(func() {
			for {
				size := min(1000, left.Add(-1000)+1000)
				if size <= 0 {
					return
				}
				if err := submit(ctx, h, int(size), schedule); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	ended := make(chan struct{})
	go b.progress("submitted", n, func() int { return n - max(int(left.Load()), 0) }, ended)
	wg.Wait()
	close(ended)
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

func submit(ctx context.Context, h *house, n int, schedule carillon.Schedule) error {
	defs := make([]carillon.Definition, n)
	for i := range defs {
		defs[i] = definition(schedule)
	}
	_, err := h.node.Submit(ctx, defs...)
	return err
}

// progress prints how far something is, every few seconds.
func (b *bench) progress(what string, of int, done func() int, ended <-chan struct{}) {
	tick := time.NewTicker(3 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			b.say("%s %d of %d", what, done(), of)
		case <-ended:
			return
		}
	}
}

// empty waits until no unfinished run is left: every end is on disk.
func empty(ctx context.Context, h *house) error {
	for {
		runs, err := h.node.Store().Wakes(ctx, carillon.WakeQuery{Until: carillon.Never - 1, Limit: 1})
		if err != nil || len(runs) == 0 {
			return err
		}
		time.Sleep(2 * time.Millisecond)
	}
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/node"
)

// house is a node in this process with one no-op handler.
type house struct {
	node    *node.Node
	started atomic.Int64
	stop    func() error // can be called again
}

const (
	// slots is how many no-op handlers can run at once: they end at once, so it limits how many claims can be
	// in flight.
	slots = 4000
	// The concurrency of a node that performs no runs and only keeps jobs.
	noWorker = -1
)

// open starts a node. onStart, if not nil, is called at the start of every run.
func open(cfg node.Config, onStart func(*carillon.Run)) (*house, error) {
	h := &house{}
	cfg.Logger = logger()
	cfg.Handlers = map[string]executor.Handler{"bench": func(_ context.Context, task executor.Task) error {
		if onStart != nil {
			onStart(&task.Run)
		}
		h.started.Add(1)
		return nil
	}}
	ctx, cancel := context.WithCancel(context.Background())
	n, err := node.Open(ctx, cfg)
	if err != nil {
		cancel()
		return nil, err
	}
	h.node = n
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	h.stop = sync.OnceValue(func() error { cancel(); return <-done })
	return h, nil
}

// house opens a node in a fresh place; leave closes it and removes its data.
func (b *bench) house(
	ctx context.Context, concurrency int, onStart func(*carillon.Run),
) (place, *house, error) {
	return b.start(ctx, func(at place) node.Config { return at.config(concurrency) }, onStart)
}

// serving is a house that performs no runs and can be called over HTTP.
func (b *bench) serving(ctx context.Context) (place, *house, error) {
	return b.start(ctx, func(at place) node.Config {
		cfg := at.config(noWorker)
		cfg.Listen = loopback
		return cfg
	}, nil)
}

// caller is a client that talks to the house over HTTP.
func (h *house) caller() (*client.Client, error) { return h.callerWith(0) }

// callerWith is a caller that sends a write that often at most; with 1 it sends no idempotency keys.
func (h *house) callerWith(tries int) (*client.Client, error) {
	token, err := os.ReadFile(h.node.TokenFile())
	if err != nil {
		return nil, err
	}
	return client.New(client.Config{
		URL: h.node.URL(), Token: strings.TrimSpace(string(token)), Tries: tries,
	})
}

func (b *bench) start(
	ctx context.Context, config func(at place) node.Config, onStart func(*carillon.Run),
) (place, *house, error) {
	at, err := b.fresh(ctx)
	if err != nil {
		return place{}, nil, err
	}
	h, err := open(config(at), onStart)
	if err == nil {
		b.houses = append(b.houses, h)
	}
	return at, h, err
}

// abandon stops the nodes that a failed scenario left running, so that the next scenario has the machine to
// itself.
func (b *bench) abandon() (err error) {
	for _, h := range b.houses {
		err = errors.Join(err, h.stop())
	}
	b.houses = nil
	return err
}

func (b *bench) leave(ctx context.Context, at place, h *house) error {
	if err := h.stop(); err != nil {
		return err
	}
	return b.discard(ctx, at)
}

func logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

var payload = func() json.RawMessage {
	b, _ := json.Marshal(map[string]any{
		"customer": "c-1029384756", "subject": "Your order has been shipped", "template": "order-shipped-v3",
		"locale": "en-GB", "items": []int{4711, 4712, 4713},
		"note": "two hundred bytes is what people usually send",
	})
	return b
}()

func definition(schedule carillon.Schedule) carillon.Definition {
	d := carillon.Definition{}
	d.Name, d.Type, d.Payload, d.Schedule = "bench", "bench", payload, schedule
	d.Target.Handler = &carillon.Handler{}
	return d
}

// fill submits n jobs in bulk.
func (b *bench) fill(ctx context.Context, h *house, n int, schedule carillon.Schedule) error {
	return b.fillWith(ctx, h, n, func(int) carillon.Definition { return definition(schedule) })
}

// fillWith submits n jobs in bulk, with four submitters and 1000 jobs at a time, and shows progress.
func (b *bench) fillWith(
	ctx context.Context, h *house, n int, define func(i int) carillon.Definition,
) error {
	var left atomic.Int64
	left.Store(int64(n))
	var wg sync.WaitGroup
	errs := make(chan error, 4)
	for range 4 {
		wg.Go(func() {
			for {
				rest := left.Add(-1000) + 1000
				if rest <= 0 {
					return
				}
				defs := make([]carillon.Definition, min(1000, rest))
				for i := range defs {
					defs[i] = define(n - int(rest) + i)
				}
				if _, err := h.node.Submit(ctx, defs...); err != nil {
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

// progress prints every few seconds how many of the jobs are done.
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

func (h *house) ran() int   { return int(h.started.Load()) }
func (h *house) end() error { return h.stop() }

// empty waits until n jobs have run and no unfinished run is left: every end is on disk. It does not ask the
// store before the worker holds no more runs, so it costs the store nothing during the measurement.
func (h *house) empty(ctx context.Context, n int) error {
	over := func() bool { held, _ := h.node.Running(); return held == 0 && h.ran() >= n }
	if err := until(ctx, over); err != nil {
		return err
	}
	return h.settled(ctx)
}

// settled waits until no unfinished run is left.
func (h *house) settled(ctx context.Context) error {
	var failed error
	err := until(ctx, func() bool {
		var runs []carillon.Run
		runs, failed = h.node.Store().Wakes(ctx, carillon.WakeQuery{Until: carillon.Never - 1, Limit: 1})
		return failed != nil || len(runs) == 0
	})
	return errors.Join(err, failed)
}

// until checks a condition every two milliseconds until it holds.
func until(ctx context.Context, so func() bool) error {
	for !so() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(2 * time.Millisecond)
	}
	return nil
}

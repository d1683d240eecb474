package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon-run/carillon"
)

// remoteScenario: a worker that dials in over HTTP runs the backlog, compared with a worker inside the node.
func remoteScenario(ctx context.Context, b *bench) error {
	n := b.count(200_000)
	return b.beside(ctx, "remote", n, func() (float64, error) {
		begin, err := b.remotely()
		if err != nil {
			return 0, err
		}
		return b.drainRate(ctx, n, begin)
	})
}

// beside measures something between two plain drains, and reports it and its ratio to their mean: so a
// machine that drifts in one direction favors neither.
func (b *bench) beside(
	ctx context.Context, name string, n int, measure func() (rate float64, err error),
) error {
	before, err := b.drainRate(ctx, n, inside)
	if err != nil {
		return err
	}
	b.say("inside a node before: %.0f jobs/s", before)
	rate, err := measure()
	if err != nil {
		return err
	}
	b.say("%s: %.0f jobs/s", name, rate)
	after, err := b.drainRate(ctx, n, inside)
	if err != nil {
		return err
	}
	b.say("inside a node after: %.0f jobs/s", after)
	usual := (before + after) / 2
	b.figure(name+"_usual", usual, "jobs/s")
	b.figure(name, rate, "jobs/s")
	b.figure(name+"_ratio", 100*rate/usual, "%")
	return nil
}

// nodesScenario: one node, two and four run the backlog, each in its own process, on one database. One node
// is measured before and after the others.
func nodesScenario(ctx context.Context, b *bench) error {
	n := b.count(200_000)
	rates := map[int][]float64{}
	for _, count := range []int{1, 2, 4, 1} {
		begin, err := b.apart(count)
		if err != nil {
			return err
		}
		rate, err := b.drainRate(ctx, n, begin)
		if err != nil {
			return fmt.Errorf("%d nodes: %w", count, err)
		}
		b.say("%d nodes: %.0f jobs/s", count, rate)
		rates[count] = append(rates[count], rate)
	}
	one := (rates[1][0] + rates[1][1]) / 2
	b.figure("nodes_1", one, "jobs/s")
	b.figure("nodes_2", rates[2][0], "jobs/s")
	b.figure("nodes_4", rates[4][0], "jobs/s")
	b.figure("nodes_ratio", 100*rates[4][0]/one, "%")
	return nil
}

// heldScenario: a client holds a transaction open while jobs come and go, so that the database cannot remove
// dead rows; then the backlog is run.
func heldScenario(ctx context.Context, b *bench) error {
	n := b.count(200_000)
	return b.beside(ctx, "held", n, func() (float64, error) {
		at, err := b.fresh(ctx)
		if err != nil {
			return 0, err
		}
		release, err := b.pileUp(ctx, at)
		if err != nil {
			return 0, err
		}
		start, end, err := b.drain(ctx, at, n, inside)
		if err := errors.Join(err, release()); err != nil {
			return 0, err
		}
		return float64(n) / end.Sub(start).Seconds(), b.discard(ctx, at)
	})
}

// heldRate is how many jobs a second come and go while a transaction is held: a load that leaves most of the
// machine idle.
const heldRate = 2000

// pileUp opens the transaction in a place and runs jobs there for the duration of -hold.
func (b *bench) pileUp(ctx context.Context, at place) (release func() error, err error) {
	h, err := open(at.config(slots), nil)
	if err != nil {
		return nil, err
	}
	release, err = b.engine.hold(ctx, at)
	if err != nil {
		return nil, errors.Join(err, h.stop())
	}
	sent := 0
	ended := make(chan struct{})
	go b.progress("ran beside a transaction that is held", int(b.hold.Seconds()*heldRate), h.ran, ended)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for start := time.Now(); time.Since(start) < b.hold && err == nil; <-tick.C {
		err = submit(ctx, h, heldRate/10, carillon.Schedule{})
		sent += heldRate / 10
	}
	close(ended)
	if err == nil {
		err = h.empty(ctx, sent)
	}
	if err = errors.Join(err, h.stop()); err != nil {
		return nil, errors.Join(err, release())
	}
	return release, nil
}

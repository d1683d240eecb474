package main

import (
	"context"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

// keysBars: a submit with a key costs at most 15 % more, so there are at least 87 % as many.
var keysBars = []bar{{figure: "keys_ratio", limit: 87}}

const (
	keysRounds = 30
	keysTurn   = time.Second
	keysBatch  = 100
)

// keysScenario: submits over HTTP without and with idempotency keys, in turns of a second on the same node,
// so that both see the same machine.
func keysScenario(ctx context.Context, b *bench) error {
	at, h, err := b.serving(ctx)
	if err != nil {
		return err
	}
	without, err := h.callerWith(1)
	if err != nil {
		return err
	}
	with, err := h.caller()
	if err != nil {
		return err
	}
	for _, size := range []int{1, keysBatch} {
		if err := b.keys(ctx, [2]*client.Client{without, with}, size); err != nil {
			return err
		}
	}
	return b.leave(ctx, at, h)
}

// keys lets callers submit through two clients in turns, some jobs at a time. The first round does not count.
func (b *bench) keys(ctx context.Context, clients [2]*client.Client, size int) error {
	name, callers := "keys", 16
	if size > 1 {
		name, callers = "keys_batch", 4
	}
	var rates [2][]float64
	var ratios []float64
	for round := range 1 + max(int(keysRounds*b.scale), 3) {
		var rate [2]float64
		for turn := range 2 {
			i := (round + turn) % 2 // each goes first as often as the other
			calls, err := hammerFor(keysTurn, callers, func() error {
				return submitSome(ctx, clients[i], size)
			})
			if err != nil {
				return err
			}
			rate[i] = calls * float64(size)
		}
		if round > 0 {
			rates[0], rates[1] = append(rates[0], rate[0]), append(rates[1], rate[1])
			ratios = append(ratios, 100*rate[1]/rate[0])
		}
	}
	for _, list := range [][]float64{rates[0], rates[1], ratios} {
		slices.Sort(list)
	}
	b.figure(name+"_without", median(rates[0]), "jobs/s")
	b.figure(name+"_with", median(rates[1]), "jobs/s")
	b.figure(name+"_ratio", median(ratios), "%")
	return nil
}

// submitSome submits one job, or several in one request.
func submitSome(ctx context.Context, c *client.Client, n int) error {
	if n == 1 {
		_, err := c.Submit(ctx, definition(tomorrow()))
		return err
	}
	defs := make([]carillon.Definition, n)
	for i := range defs {
		defs[i] = definition(tomorrow())
	}
	_, err := c.SubmitMany(ctx, defs)
	return err
}

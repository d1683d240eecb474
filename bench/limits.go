package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
)

// limitsBars are the same for every store; the bar of the hot key is meant for PostgreSQL.
var limitsBars = []bar{
	{figure: "limits_1000_ratio", limit: 70},
	{figure: "limits_hot", limit: 20_000},
}

const limitsRounds = 3

// limitsScenario: the same backlog of jobs is worked off without limits, with limits of a thousand keys, and
// with one limit that all jobs share, in turns.
func limitsScenario(ctx context.Context, b *bench) error {
	n := b.count(200_000)
	kinds := []struct {
		name   string
		define func(i int) []carillon.Limit
	}{
		{"limits_none", func(int) []carillon.Limit { return nil }},
		{"limits_1000", func(i int) []carillon.Limit {
			return []carillon.Limit{{Key: fmt.Sprint("customer-", i%1000), Concurrency: 10}}
		}},
		{"limits_hot", func(int) []carillon.Limit {
			return []carillon.Limit{{Key: "hot", Concurrency: 10_000}}
		}},
		{"limits_shared", func(i int) []carillon.Limit { // a key of a thousand, and one that all share
			return []carillon.Limit{
				{Key: fmt.Sprint("customer-", i%1000), Concurrency: 10}, {Key: "all", Concurrency: 10_000},
			}
		}},
		{"limits_tight", func(i int) []carillon.Limit { // most runs have to wait for one of ten slots
			return []carillon.Limit{{Key: fmt.Sprint("tight-", i%10), Concurrency: 10}}
		}},
	}
	rates := make([][]float64, len(kinds))
	for range limitsRounds {
		for i, kind := range kinds {
			rate, err := b.limited(ctx, n, kind.define)
			if err != nil {
				return err
			}
			rates[i] = append(rates[i], rate)
		}
	}
	for i, kind := range kinds {
		slices.Sort(rates[i])
		b.figure(kind.name, median(rates[i]), "jobs/s")
	}
	b.figure("limits_1000_ratio", 100*median(rates[1])/median(rates[0]), "%")
	return nil
}

// limited works off a backlog of jobs with limits.
func (b *bench) limited(
	ctx context.Context, n int, limits func(i int) []carillon.Limit,
) (rate float64, err error) {
	at, h, err := b.house(ctx, noWorker, nil)
	if err != nil {
		return 0, err
	}
	err = b.fillWith(ctx, h, n, func(i int) carillon.Definition {
		d := definition(carillon.Schedule{})
		d.Limits = limits(i)
		return d
	})
	if err != nil {
		return 0, err
	}
	if err := h.stop(); err != nil {
		return 0, err
	}
	begin := time.Now()
	c, err := inside(at)
	if err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	go b.progress("ran", n, c.ran, ended)
	err = c.empty(ctx, n)
	took := time.Since(begin)
	close(ended)
	if err != nil {
		return 0, err
	}
	if err := c.end(); err != nil {
		return 0, err
	}
	if ran := c.ran(); ran != n {
		return 0, fmt.Errorf("%d jobs were submitted, %d ran", n, ran)
	}
	return float64(n) / took.Seconds(), b.discard(ctx, at)
}

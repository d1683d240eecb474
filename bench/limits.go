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

const limitsRounds = 5

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
	rates, costs := make([][]float64, len(kinds)), make([][]float64, len(kinds))
	var ratios []float64 // of neighbours: a shared machine is faster in one minute and slower in the next
	for round := range limitsRounds {
		for i, kind := range kinds {
			did, err := b.limited(ctx, n, kind.define)
			if err != nil {
				return err
			}
			rates[i], costs[i] = append(rates[i], did.rate), append(costs[i], 1e6*did.cpu)
			b.say("%s: %.0f jobs/s, %.1f us of processor time for each", kind.name, did.rate, 1e6*did.cpu)
		}
		ratios = append(ratios, 100*rates[1][round]/rates[0][round])
	}
	for i, kind := range kinds {
		slices.Sort(rates[i])
		slices.Sort(costs[i])
		b.figure(kind.name, median(rates[i]), "jobs/s")
		b.figure(kind.name+"_cpu", median(costs[i]), "us/job")
	}
	slices.Sort(ratios)
	b.figure("limits_1000_ratio", median(ratios), "%")
	return nil
}

// limited works off a backlog of jobs with limits. Processor time is that of the node and of a server.
func (b *bench) limited(
	ctx context.Context, n int, limits func(i int) []carillon.Limit,
) (did done, err error) {
	at, h, err := b.house(ctx, noWorker, nil)
	if err != nil {
		return did, err
	}
	err = b.fillWith(ctx, h, n, func(i int) carillon.Definition {
		d := definition(carillon.Schedule{})
		d.Limits = limits(i)
		return d
	})
	if err != nil {
		return did, err
	}
	if err := h.stop(); err != nil {
		return did, err
	}
	begin, cpu := time.Now(), cpuTime()+cpuOfChildren()
	c, err := inside(at)
	if err != nil {
		return did, err
	}
	ended := make(chan struct{})
	go b.progress("ran", n, c.ran, ended)
	err = c.empty(ctx, n)
	took, used := time.Since(begin), cpuTime()+cpuOfChildren()-cpu
	close(ended)
	if err != nil {
		return did, err
	}
	if err := c.end(); err != nil {
		return did, err
	}
	if ran := c.ran(); ran != n {
		return did, fmt.Errorf("%d jobs were submitted, %d ran", n, ran)
	}
	return done{float64(n) / took.Seconds(), used.Seconds() / float64(n)}, b.discard(ctx, at)
}

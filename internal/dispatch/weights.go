package dispatch

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/carillon-run/carillon"
)

// queueWeight is how much of a pull a queue gets while other queues have runs too.
type queueWeight struct {
	queue  string
	weight int
}

// weightsOf reads "name" and "name=weight". Without any weight there are no shares: then priority and waiting
// time alone decide over all queues.
func weightsOf(queues []string) (names []string, shares []queueWeight) {
	weighted := false
	for _, q := range queues {
		name, text, has := strings.Cut(q, "=")
		weight := 1
		if n, err := strconv.Atoi(text); has && err == nil && n > 0 {
			weight, weighted = n, true
		}
		names, shares = append(names, name), append(shares, queueWeight{name, weight})
	}
	if !weighted {
		shares = nil
	}
	return names, shares
}

// taker is a queue that can be read without waiting. A queue that cannot has no shares.
type taker interface {
	Take(queues []string, max int) []carillon.Run
}

// pull takes runs from the queues by their shares, then from any of them, and waits only if there are none at
// all.
func (d *Dispatcher) pull(
	ctx context.Context, names []string, shares []queueWeight, max int,
) ([]carillon.Run, func(context.Context) error, error) {
	queue, can := d.cfg.Queue.(taker)
	if shares == nil || !can {
		return d.cfg.Queue.Pull(ctx, names, max)
	}
	var runs []carillon.Run
	for i, n := range apportion(shares, max) {
		if n > 0 {
			runs = append(runs, queue.Take([]string{shares[i].queue}, n)...)
		}
	}
	if rest := max - len(runs); rest > 0 && len(runs) > 0 {
		runs = append(runs, queue.Take(names, rest)...)
	}
	if len(runs) > 0 {
		return runs, nil, nil
	}
	return d.cfg.Queue.Pull(ctx, names, max)
}

// apportion draws a queue for each of n places, so that the shares come out right also over many small pulls.
func apportion(shares []queueWeight, n int) []int {
	total := 0
	for _, s := range shares {
		total += s.weight
	}
	drawn := make([]int, len(shares))
	for i, s := range shares { // whole parts are fixed, only the rest is drawn
		drawn[i] = n * s.weight / total
	}
	rest := n
	for _, got := range drawn {
		rest -= got
	}
	for range rest {
		at := rand.IntN(total)
		for i, s := range shares {
			if at -= s.weight; at < 0 {
				drawn[i]++
				break
			}
		}
	}
	return drawn
}

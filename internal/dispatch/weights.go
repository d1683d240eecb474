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

// weightsOf reads "name" and "name=weight". Without any weight there are no shares: the queues take turns.
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

// pull takes the wanted runs from the queues by their shares, then from any of them, and waits only if there
// are none at all.
func (d *Dispatcher) pull(
	ctx context.Context, all carillon.Demand, shares []queueWeight,
) (runs []carillon.Run, err error) {
	if shares == nil {
		return d.cfg.Queue.Pull(ctx, all)
	}
	want := all.Wants[0]
	take := func(queues []string, n int) {
		if err != nil || n <= 0 {
			return
		}
		some := want
		some.Queues = queues
		var more []carillon.Run
		more, err = d.cfg.Queue.Pull(ctx, carillon.Demand{
			Wants: []carillon.Want{some}, Max: n, NoWait: true,
		})
		runs = append(runs, more...)
	}
	for i, n := range apportion(shares, all.Max) {
		take([]string{shares[i].queue}, n)
	}
	if len(runs) > 0 {
		take(want.Queues, all.Max-len(runs))
		return runs, nil // after an error the next pull gets the rest
	}
	if err != nil {
		return nil, err
	}
	return d.cfg.Queue.Pull(ctx, all)
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

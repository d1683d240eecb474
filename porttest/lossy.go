package porttest

import (
	"context"
	"math/rand/v2"
	"sync"

	"github.com/carillon-run/carillon"
)

// chance says yes to a share of its calls, as long as it is on.
type chance struct {
	mu    sync.Mutex
	rand  *rand.Rand
	share float64
}

func newChance(random *rand.Rand, share float64) *chance { return &chance{rand: random, share: share} }

func (c *chance) hit() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rand.Float64() < c.share
}

func (c *chance) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.share = 0
}

// some returns the runs that are not lost, and their indexes.
func (c *chance) some(runs []carillon.Run) (kept []carillon.Run, at []int) {
	for i := range runs {
		if !c.hit() {
			kept, at = append(kept, runs[i]), append(at, i)
		}
	}
	return kept, at
}

// lossyTimeline forgets some of the runs that it is told of.
type lossyTimeline struct {
	carillon.Timeline
	lost *chance
}

func (l lossyTimeline) Add(ctx context.Context, runs []carillon.Run) ([]int, error) {
	kept, at := l.lost.some(runs)
	refused, err := l.Timeline.Add(ctx, kept)
	for i := range refused {
		refused[i] = at[refused[i]]
	}
	return refused, err
}

// lossyQueue forgets some of the runs that are pushed, fails now and then, and delivers some runs twice.
type lossyQueue struct {
	carillon.Queue
	lost *chance
}

func (q lossyQueue) Push(ctx context.Context, runs []carillon.Run) ([]int, error) {
	if q.lost.hit() {
		return nil, ErrInjected
	}
	kept, at := q.lost.some(runs)
	refused, err := q.Queue.Push(ctx, kept)
	for i := range refused {
		refused[i] = at[refused[i]]
	}
	return refused, err
}

func (q lossyQueue) Pull(ctx context.Context, want carillon.Demand) ([]carillon.Run, error) {
	runs, err := q.Queue.Pull(ctx, want)
	if len(runs) > 0 && q.lost.hit() {
		runs = append(runs, runs[0])
	}
	return runs, err
}

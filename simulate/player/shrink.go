package main

import (
	"context"
	"fmt"
	"slices"
)

// shrink leaves out steps of a broken world for as long as it breaks the same promise, and returns its story
// as an error.
func (p *player) shrink(ctx context.Context, g *game) error {
	fmt.Printf("seed %d breaks a promise (%s) in %d steps; leaving steps out\n", g.seed, g.broke(), g.steps)
	for size := max(g.steps/2, 1); ; size /= 2 {
		for from := 0; from < g.steps; from += size {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			without := slices.Clone(g.without)
			for step := from; step < min(from+size, g.steps); step++ {
				if !slices.Contains(without, step) {
					without = append(without, step)
				}
			}
			if len(without) == len(g.without) {
				continue
			}
			smaller, err := p.play(ctx, g.seed, without)
			if err != nil {
				return err
			}
			if smaller.broke() == g.broke() {
				smaller.steps, g = g.steps, smaller
			}
		}
		if size == 1 {
			break
		}
	}
	return fmt.Errorf("%s\nwith %d of %d steps", g.story, g.steps-len(g.without), g.steps)
}

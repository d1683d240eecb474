// Package await holds the two ways in which loops wait: for a while, and for a signal.
package await

import (
	"context"
	"time"
)

// For waits for a while, and says whether that has passed; false: ctx ended first.
func For(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Signal wakes one loop, which receives from it. Setting it twice wakes the loop once.
type Signal chan struct{}

// NewSignal returns a signal that is not set.
func NewSignal() Signal { return make(Signal, 1) }

// Set sets the signal. It never waits.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// Taken says whether the signal was set, and resets it.
func (s Signal) Taken() bool {
	select {
	case <-s:
		return true
	default:
		return false
	}
}

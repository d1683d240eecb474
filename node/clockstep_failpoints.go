//go:build failpoints

package node

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// stepClock sets the node's clock forward by CLOCK_STEP on SIGUSR1 and back on SIGUSR2, as if it had read a
// wrong time from the store, until the node compares its clock with the store's again.
func (n *Node) stepClock(ctx context.Context) error {
	step, err := time.ParseDuration(os.Getenv("CLOCK_STEP"))
	if err != nil {
		return nil // the test sets no clock
	}
	told := make(chan os.Signal, 16)
	signal.Notify(told, syscall.SIGUSR1, syscall.SIGUSR2)
	defer signal.Stop(told)
	for {
		by := step
		select {
		case sig := <-told:
			if sig == syscall.SIGUSR2 {
				by = -step
			}
		case <-ctx.Done():
			return nil
		}
		n.clock.SetAhead(n.clock.Ahead() + by)
		fmt.Fprintln(os.Stderr, "clock step:", by)
	}
}

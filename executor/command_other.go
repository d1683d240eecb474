//go:build !linux

package executor

import (
	"context"
	"os"
	"runtime"

	"github.com/carillon-run/carillon"
)

// Command refuses every command: what makes commands safe (child subreapers, CLOCK_BOOTTIME, /proc) exists on
// Linux only.
type Command struct{}

// NewCommand returns an executor that refuses every command.
func NewCommand(CommandConfig) *Command { return &Command{} }

// Execute is Retriable: a worker on Linux may take the next attempt.
func (*Command) Execute(context.Context, Task) carillon.Outcome {
	return retriable(
		"commands run on Linux only: this worker runs on %s and could not keep them from outliving it",
		runtime.GOOS,
	)
}

// Supervise does nothing here.
func Supervise() {}

// HoldLeash opens path and does not wait: without commands there are no supervisors.
func HoldLeash(ctx context.Context, path string) (*os.File, error) {
	return holdLeash(ctx, path, nil)
}

func holdLeash(_ context.Context, path string, _ func(int)) (*os.File, error) {
	return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
}

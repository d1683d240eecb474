package executor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// AllConfig says what a process can run. The zero value runs http targets that are on public addresses.
type AllConfig struct {
	Handlers  map[string]Handler // by job type
	HTTPAllow []netip.Prefix     // private networks that http targets may call
	// RetryBudget bounds the retries of http targets: see HTTPConfig.
	RetryBudget float64
	// Leash and TempDir are a file and a directory that no other process uses. All makes both if they do not
	// exist, and empties the directory. Without them this process does not run command targets.
	Leash, TempDir string
	// AllowSetuid lets commands gain privileges: see CommandConfig.
	AllowSetuid bool
	// MaxProcesses bounds the processes of a command: see CommandConfig.
	MaxProcesses int
	Logger       *slog.Logger // default slog.Default()
}

// errInUse is for a leash that a live process holds.
var errInUse = errors.New("in use")

// leashWait is longer than any supervisor lets its command live without a worker.
const leashWait = 15 * time.Second

// All makes an executor for each kind of target that the process can run. release frees what they hold; call
// it after the last attempt.
func All(ctx context.Context, c AllConfig) (all map[string]Executor, release func() error, err error) {
	funcs := NewFuncs()
	for jobType, handler := range c.Handlers {
		funcs.Register(jobType, handler)
	}
	all = map[string]Executor{"handler": funcs, "http": NewHTTP(HTTPConfig{
		Allow: c.HTTPAllow, RetryBudget: c.RetryBudget, Logger: c.Logger,
	})}
	if c.Leash == "" {
		return all, func() error { return nil }, nil
	}
	// Until the last supervisor of a former process is gone, commands of that process may still be running
	// here.
	ctx, cancel := context.WithTimeout(ctx, leashWait)
	defer cancel()
	leash, err := holdLeash(ctx, c.Leash, func(pid int) {
		logger := cmp.Or(c.Logger, slog.Default())
		if pid != 0 {
			logger.Warn(
				"the directory for commands is used by another process: waiting a moment for its end",
				"file", c.Leash, "pid", pid,
			)
			return
		}
		logger.Info(
			"waiting for the commands of a former process to end", "file", c.Leash, "at_most", leashWait,
		)
	})
	if errors.Is(err, errInUse) {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, fmt.Errorf("wait for the commands of a former process to end: %w", err)
	}
	temp, err := filepath.Abs(c.TempDir) // commands have other working directories
	if err == nil {
		err = errors.Join(os.RemoveAll(temp), os.MkdirAll(temp, 0o700)) // what killed attempts left behind
	}
	if err != nil {
		return nil, nil, errors.Join(err, leash.Close())
	}
	all["command"] = NewCommand(CommandConfig{
		Leash: leash, TempDir: temp, AllowSetuid: c.AllowSetuid, MaxProcesses: c.MaxProcesses,
		Logger: c.Logger,
	})
	// The leash is unsigned at the end, so that this process can take it again even if a supervisor is not
	// gone yet.
	return all, func() error { return errors.Join(leash.Truncate(0), leash.Close()) }, nil
}

package executor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/carillon-run/carillon"
)

// Command performs runs as processes, each under a supervisor that outlives neither the attempt nor the
// worker.
type Command struct{ config CommandConfig }

// NewCommand needs a program that calls Supervise; in any other program Execute refuses commands.
func NewCommand(config CommandConfig) *Command { return &Command{config.withDefaults()} }

// Execute runs the command to its end, and the end of everything it started.
func (c *Command) Execute(ctx context.Context, task Task) carillon.Outcome {
	if !supervised.Load() {
		return fatal(
			"this program does not call executor.Supervise() first in main, so it cannot run commands",
		)
	}
	if ctx.Err() != nil {
		return task.ended(context.Cause(ctx))
	}
	s, err := newScratch(c.config.TempDir, task.Checkpoint)
	if err != nil {
		return retriable("temporary directory: %w", err)
	}
	defer s.remove()
	spec, err := c.spec(task, s)
	if err != nil {
		return task.handled(ctx, err)
	}
	a, err := c.start(task, spec)
	if err != nil {
		return retriable("start supervisor: %w", err)
	}
	ended := a.wait(ctx, task, s)
	if ended.how == 0 {
		killStrays(
			"CARILLON_RUN_ID="+task.Run.ID.String(), fmt.Sprintf("CARILLON_ATTEMPT=%d", task.Run.Attempt),
		)
	}
	a.drain()
	if !errors.Is(context.Cause(ctx), ErrLeaseOver) && ended.how != leaseOver {
		saving, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		s.look(saving, task, true)
	}
	o := a.outcome(ctx, task, ended)
	o.Output = outputOf(s.result(task))
	return o
}

// spec says what to run. Its errors are Fatal where no other attempt can do better.
func (c *Command) spec(task Task, s *scratch) (spec, error) {
	command := task.Job.Target.Command
	env := c.config.environ(task, os.LookupEnv)
	env["CARILLON_CHECKPOINT_FILE"], env["CARILLON_RESULT_FILE"] = s.path(checkpointFile), s.path(resultFile)
	if c.config.Leash != nil {
		mark, err := leashMark(c.config.Leash)
		if err != nil {
			return spec{}, fmt.Errorf("leash: %w", err)
		}
		env[leashVariable] = mark
	}
	argv := command.Argv
	if command.Shell != "" {
		argv = []string{"/bin/sh", "-c", command.Shell}
	}
	if command.Dir != "" {
		if st, err := os.Stat(command.Dir); errors.Is(err, os.ErrNotExist) || err == nil && !st.IsDir() {
			return spec{}, Fatal(fmt.Errorf("directory %q does not exist on this worker", command.Dir))
		}
	}
	program, err := lookProgram(argv[0], command.Dir, env["PATH"])
	if err != nil {
		return spec{}, Fatal(err)
	}
	made := spec{
		program: program, argv: argv, env: pairs(env), dir: command.Dir, scratch: s.dir, lease: never,
		leash:  c.config.Leash != nil,
		setuid: c.config.AllowSetuid, most: c.config.MaxProcesses,
	}
	if task.Lease != nil {
		made.lease = task.Lease.Until()
	}
	return made, Fatal(made.check())
}

// lookProgram finds a program as a shell would, with the PATH that the command itself will see. It skips
// entries relative to the working directory: they would run any program that happens to be in a job's
// directory.
func lookProgram(name, dir, path string) (string, error) {
	if strings.Contains(name, "/") {
		at := name
		if !filepath.IsAbs(at) && dir != "" {
			at = filepath.Join(dir, name)
		}
		if _, err := os.Stat(at); errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("program %q does not exist on this worker", name)
		}
		return name, nil
	}
	for _, entry := range filepath.SplitList(path) {
		at := filepath.Join(entry, name)
		st, err := os.Stat(at)
		if err == nil && filepath.IsAbs(at) && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return at, nil
		}
	}
	return "", fmt.Errorf("program %q is not found in PATH (%s) on this worker", name, path)
}

// outcome reads the report. The supervisor has decided which came first, the command's own end or the order
// to stop.
func (a *attempt) outcome(ctx context.Context, task Task, r report) carillon.Outcome {
	command := task.Job.Target.Command
	switch r.how {
	case byItself:
		return exited(r.status, command.FatalExitCodes)
	case onRequest:
		return task.ended(context.Cause(ctx))
	case leaseOver:
		return task.ended(ErrLeaseOver)
	case crowded:
		return retriable("more than %d processes at once: all of them were killed", a.most)
	case withAll:
		return task.ended(fmt.Errorf("%w: the command was sent a signal with it", ErrShutdown))
	case notStarted:
		name := append(slices.Clone(command.Argv), "/bin/sh")[0]
		if slices.Contains(
			[]syscall.Errno{
				unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.ETXTBSY, unix.EINTR, unix.EIO,
			},
			r.errno,
		) {
			return retriable("start %q: %w", name, r.errno) // the machine is at fault, not the program
		}
		return fatal("start %q: %w", name, r.errno)
	}
	if ctx.Err() != nil {
		return task.ended(context.Cause(ctx))
	}
	// Not Lost: a command that brings its supervisor down (out of memory) would be tried for ever.
	return retriable("the command's supervisor died: %s", a.death)
}

// exited is the outcome of a command that ended by itself.
func exited(status syscall.WaitStatus, fatalCodes []int) carillon.Outcome {
	switch code := status.ExitStatus(); {
	case status.Signaled():
		return retriable("killed by signal: %s", status.Signal())
	case code == 0:
		return carillon.Outcome{Kind: carillon.OutcomeSuccess}
	case slices.Contains(fatalCodes, code):
		return exitCode(fatal, code)
	default:
		return exitCode(retriable, code)
	}
}

func exitCode(class func(format string, args ...any) carillon.Outcome, code int) carillon.Outcome {
	o := class("exit code %d", code)
	o.Exit = uint8(code)
	return o
}

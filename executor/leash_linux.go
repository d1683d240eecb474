package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// HoldLeash opens path and waits, until ctx ends, for the supervisors of a former process that held it. When
// it returns, nothing of their commands is left. From then on this process holds the file, and so do the
// supervisors that it starts if the file is given to NewCommand, until the last of them is gone. If the
// process that holds the file stays alive, HoldLeash does not wait long.
func HoldLeash(ctx context.Context, path string) (*os.File, error) {
	return holdLeash(ctx, path, func(int) {})
}

// livingWait is for a process that was killed and has not quite ended: until then it looks alive.
const livingWait = time.Second

// holdLeash calls waiting once if it has to wait, with the process that holds the leash, or 0 if that process
// has ended.
func holdLeash(ctx context.Context, path string, waiting func(pid int)) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("leash: %w", err)
	}
	if err := waitForLeash(ctx, f, waiting); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func waitForLeash(ctx context.Context, f *os.File, waiting func(pid int)) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	var living time.Duration
	for first := true; ; first = false {
		held, err := hold(f)
		if held && err == nil {
			err = errors.Join(killLeashed(f), signLeash(f))
		}
		switch {
		case err != nil:
			return fmt.Errorf("leash %s: %w", f.Name(), err)
		case held:
			return nil
		}
		said, _ := io.ReadAll(io.NewSectionReader(f, 0, 4096))
		pid, alive := leashHolder(said)
		if !alive {
			living = 0
		} else if living == 0 {
			living = Boottime()
		} else if Boottime()-living > livingWait {
			return fmt.Errorf(
				"%s is %w by carillon process %d: stop that process first, or choose another directory "+
					"with --data",
				f.Name(), errInUse, pid,
			)
		}
		if first {
			waiting(pid)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf(
				"leash %s is still held by commands of a process that has ended: %s%w", f.Name(),
				asList(said), context.Cause(ctx),
			)
		}
	}
}

// holderLine is the first line of a leash: it names the process that holds it. The start time tells that
// process from a later one with the same number.
const holderLine = "carillon process %d started %s\n"

// signLeash writes that this process holds the leash. It drops the lines of a former process's supervisors,
// which are of no use any more.
func signLeash(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := fmt.Fprintf(f, holderLine, os.Getpid(), startOf(os.Getpid()))
	return err
}

// leashHolder is the process that signed the leash, if it is alive.
func leashHolder(said []byte) (pid int, alive bool) {
	var started string
	if _, err := fmt.Sscanf(string(said), holderLine, &pid, &started); err != nil {
		return 0, false
	}
	if startOf(pid) != started {
		return 0, false
	}
	return pid, true
}

// startOf is when a process started, in ticks since the machine started. It is "" if there is no such
// process, or if the process has ended and its parent has not reaped it.
func startOf(pid int) string {
	if fields := statOf(pid); len(fields) > 19 && fields[0] != "Z" && fields[0] != "X" {
		return fields[19]
	}
	return ""
}

// asList makes a part of an error from the lines that supervisors wrote into a leash: the processes that they
// cannot kill.
func asList(said []byte) string {
	_, lines, _ := strings.Cut(string(said), "\n")
	return strings.ReplaceAll(lines, "\n", "; ")
}

// leashVariable is in the environment of every command. It names the leash that the command's supervisor
// held.
const leashVariable = "CARILLON_LEASH"

func leashMark(f *os.File) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino), nil
}

// killLeashed kills the processes that supervisors could not kill: if the supervisors were killed too (pkill
// -9 -f carillon), the lock is free, but processes that their commands had started still run.
func killLeashed(f *os.File) error {
	mark, err := leashMark(f)
	if err == nil {
		killStrays(leashVariable + "=" + mark)
	}
	return err
}

// hold takes the lock exclusively, which proves that no other process has it, and then shares it. The kernel
// changes a lock by releasing it first, so another process may get it in between; then the caller begins
// again.
func hold(f *os.File) (bool, error) {
	for _, how := range []int{unix.LOCK_EX, unix.LOCK_SH} {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		for err == unix.EINTR {
			err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		}
		if err == unix.EWOULDBLOCK {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	return true, nil
}

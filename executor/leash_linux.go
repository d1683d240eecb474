package executor

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// HoldLeash opens path and waits, until ctx ends, for every process that holds it: a former worker on the same path and
// all its supervisors. When it returns, nothing of their commands is left. The file is then held by this process, and by
// the supervisors it starts if it is given to NewCommand, until the last of them is gone.
func HoldLeash(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("leash: %w", err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		held, err := hold(f)
		if held {
			err = killLeashed(f)
		}
		if held && err == nil {
			err = f.Truncate(0)
		}
		if held && err == nil {
			return f, nil
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("leash %s: %w", path, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			said, _ := io.ReadAll(io.NewSectionReader(f, 0, 4096)) // by supervisors: what they cannot kill
			f.Close()
			return nil, fmt.Errorf("leash %s is still held by another process or its commands: %s%w", path, asList(said), context.Cause(ctx))
		}
	}
}

// asList makes the lines of a leash a part of an error.
func asList(said []byte) string {
	return strings.ReplaceAll(string(said), "\n", "; ")
}

// leashVariable is in the environment of every command: which leash its supervisor held.
const leashVariable = "CARILLON_LEASH"

func leashMark(f *os.File) (string, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino), nil
}

// killLeashed kills what supervisors could not: when they too were killed (pkill -9 -f carillon), the lock is free and
// what their commands had started still runs.
func killLeashed(f *os.File) error {
	mark, err := leashMark(f)
	if err == nil {
		killStrays(leashVariable + "=" + mark)
	}
	return err
}

// hold takes the lock alone, which proves that nobody else has it, and then shares it. The kernel changes a lock by
// letting go of it first, so another process may get in between; then everything begins again.
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

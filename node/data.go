package node

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/carillon-run/carillon/internal/owned"
)

// The files of a data directory, besides the store's own.
const (
	lockFile    = "lock"          // held by the process that serves; names that process
	leashFile   = "commands.lock" // held by every supervisor of a command: see executor.HoldLeash
	tokenFile   = "token"
	addressFile = "address" // of the API, while it is served
	logsDir     = "logs"
	tempDir     = "tmp" // for commands, one directory per attempt
)

// lock makes sure that only one process uses a directory or a file: of two schedulers on one embedded store,
// each would take the other's runs for abandoned. The lock lasts until the node is shut.
func (n *Node) lock(ctx context.Context, path, what string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	// A process that was killed while it started a child leaves a copy of the lock for a moment: the child
	// holds it until it has become its own program. So lock waits if the holder is dead, and does not wait if
	// the holder is alive.
	for end := time.Now().Add(lockWait); ; {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			n.close = append(n.close, f.Close)
			return f, nil
		}
		who := holderOf(f)
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			err = fmt.Errorf("lock %s: %w", f.Name(), err)
		} else if who.alive() || time.Now().After(end) || ctx.Err() != nil {
			err = fmt.Errorf(
				"%s is in use by %s: stop that server first, or choose another place with --data or --store",
				what,
				who,
			)
		} else {
			time.Sleep(lockPoll)
			continue
		}
		f.Close()
		return nil, err
	}
}

const (
	lockWait = 5 * time.Second
	lockPoll = 10 * time.Millisecond
)

// lockHolder is what the lock file says about its holder.
type lockHolder string

func holderOf(lock *os.File) lockHolder {
	b := make([]byte, 200)
	n, _ := lock.ReadAt(b, 0)
	return lockHolder(strings.TrimSpace(string(b[:n])))
}

func (h lockHolder) alive() bool {
	var pid int
	_, err := fmt.Sscanf(string(h), "carillon process %d", &pid)
	return err == nil && !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

func (h lockHolder) String() string { return cmp.Or(string(h), "another process") }

// private creates the file of a store, for its owner alone, if there is none. It refuses a file that another
// user owns or can write: the jobs in it are commands that run as this user.
func private(path string) error {
	if err := owned.Me().File(path); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// sign writes the holder into the lock file.
func sign(lock *os.File, address string) error {
	who := fmt.Sprintf("carillon process %d", os.Getpid())
	if address != "" {
		who += " serving " + address
	}
	if err := lock.Truncate(0); err != nil {
		return err
	}
	_, err := lock.WriteAt([]byte(who+"\n"), 0)
	return err
}

// token reads the API's token, or makes one at the first start. It refuses a token that another user can read
// or has written: that user could run commands as this one.
func token(dir string) (string, error) {
	path := filepath.Join(dir, tokenFile)
	b, err := owned.Me().ReadSecret(path)
	if err == nil {
		if t := strings.TrimSpace(string(b)); len(t) >= 16 {
			return t, nil
		}
		return "", fmt.Errorf(
			"%s holds no token of at least 16 characters; remove the file, and the next start writes a new "+
				"token", path,
		)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", err
	}
	raw := make([]byte, 32)
	rand.Read(raw)
	t := "carillon_" + hex.EncodeToString(raw)
	return t, writeFile(path, t+"\n", 0o600)
}

// writeFile replaces a file as a whole, so that no reader sees half of it and no crash leaves half of it.
func writeFile(path, content string, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err := f.WriteString(content); err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// randomID names this start of the process. The name is never used again, so nothing of an older process can
// be taken for this one's.
func randomID(prefix string) string {
	raw := make([]byte, 8)
	rand.Read(raw)
	return prefix + hex.EncodeToString(raw)
}

package chaos

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock takes the lock of a key without waiting: one byte of a file that all bodies of a test share. It
// belongs to the open file and not to the process, so that two handlers of one worker are in each other's way
// too, and the kernel frees it when the body's process dies. busy: another body has it.
func lock(path string, key int64) (unlock func(), busy bool, err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, false, err
	}
	unlock = func() { f.Close() }
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: key, Len: 1})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return unlock, true, nil
	}
	return unlock, false, err
}

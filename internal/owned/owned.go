// Package owned checks that a directory or a file belongs to the user that runs this process, before the
// process trusts what it finds there. Data directories hold the token and say where the server is: another
// user who can write there decides which commands this user runs.
//
// A file that was checked by its path can be replaced before it is opened, but only by a user who can write
// in its directory or in one above it. This package checks the directory, but not those above it.
package owned

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

// Users are the users whose files the process trusts.
type Users []int

// Me is the user that runs this process, and root, who can do everything anyway.
func Me() Users { return Users{os.Geteuid(), 0} }

const (
	othersWrite = 0o022
	othersRead  = 0o044
)

// Directory refuses a directory that belongs to another user or in which other users can write. A symbolic
// link is followed, and must itself belong to one of the users.
func (u Users) Directory(path string) error {
	link, err := os.Lstat(path)
	if err != nil {
		return err
	}
	if link.Mode()&fs.ModeSymlink != 0 {
		if err := u.owner(path, link); err != nil {
			return err
		}
	}
	dir, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !dir.IsDir() {
		return fmt.Errorf("%s is not a directory", path)
	}
	if err := u.owner(path, dir); err != nil {
		return err
	}
	if mode := dir.Mode().Perm(); mode&othersWrite != 0 {
		return fmt.Errorf("other users can write in %s (mode %#o): run \"chmod go-w %s\", or name a "+
			"directory inside it that does not exist yet",
			path, mode, path)
	}
	return nil
}

// File checks a file that another program opens by its path. It refuses a file that belongs to another user
// or that other users can write, and one in a directory where they could replace it. The file need not exist
// yet.
func (u Users) File(path string) error {
	if err := u.Directory(filepath.Dir(path)); err != nil {
		return err
	}
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := u.owner(path, st); err != nil {
		return err
	}
	if mode := st.Mode().Perm(); mode&othersWrite != 0 {
		return fmt.Errorf("other users can write %s (mode %#o): run \"chmod go-w %s\"", path, mode, path)
	}
	return nil
}

// Read reads a file that belongs to one of the users and that no other user can write.
func (u Users) Read(path string) ([]byte, error) { return u.read(path, othersWrite) }

// ReadSecret reads a file that no other user can read either.
func (u Users) ReadSecret(path string) ([]byte, error) { return u.read(path, othersWrite|othersRead) }

// read checks the file that it has opened, so that the file cannot be replaced in between.
func (u Users) read(path string, forbidden fs.FileMode) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a named pipe must not block it
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	if err := u.owner(path, st); err != nil {
		return nil, err
	}
	if mode := st.Mode().Perm(); mode&forbidden != 0 {
		can := "write"
		if mode&othersWrite == 0 {
			can = "read"
		}
		return nil, fmt.Errorf(
			"other users can %s %s (mode %#o): run \"chmod 600 %s\"", can, path, mode, path,
		)
	}
	return io.ReadAll(io.LimitReader(f, 64<<10))
}

// Owner is the id of the user that a file or directory belongs to.
func Owner(path string) (int, error) {
	st, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return owner(st)
}

func owner(st fs.FileInfo) (int, error) {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.New("its owner is not known")
	}
	return int(sys.Uid), nil
}

func (u Users) owner(path string, st fs.FileInfo) error {
	uid, err := owner(st)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if slices.Contains(u, uid) {
		return nil
	}
	me := os.Geteuid()
	return fmt.Errorf("%s belongs to %s, and this process runs as %s: run it as that user, name another "+
		"directory, or run \"chown -R %d %s\" if you trust what is in it",
		path, name(uid), name(me), me, path)
}

func name(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return fmt.Sprintf("user %s (%d)", u.Username, uid)
	}
	return fmt.Sprintf("user %d", uid)
}

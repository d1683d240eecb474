package executor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/carillon-run/carillon"
)

// scratch is the private directory of an attempt. Through files in it a command reads and saves its
// checkpoint and hands back its result. The command makes these files, so they are not trusted.
type scratch struct {
	dir    string
	root   *os.File // opened when it was made: stays the same whatever the command does to the path
	saved  stamp    // the checkpoint that was saved, or was found too large
	before stamp    // the checkpoint at the last look
	looks  int      // how often in a row the checkpoint was being written

	lamented stamp // the checkpoint that could not be saved, as the log already says
}

const (
	checkpointFile = "checkpoint"
	resultFile     = "result"
)

// stamp changes whenever a file is written or replaced.
type stamp struct {
	inode    uint64
	size     int64
	modified unix.Timespec
}

func newScratch(parent string, checkpoint []byte) (*scratch, error) {
	dir, err := os.MkdirTemp(parent, "carillon-") // mode 0700
	if err != nil {
		return nil, err
	}
	s := &scratch{dir: dir}
	if s.root, err = os.Open(dir); err == nil && checkpoint != nil {
		err = os.WriteFile(s.path(checkpointFile), checkpoint, 0o600)
	}
	if err != nil {
		s.remove()
		return nil, err
	}
	if f, at, err := s.open(checkpointFile); err == nil {
		f.Close()
		s.saved, s.before = at, at
	}
	return s, nil
}

func (s *scratch) path(name string) string { return filepath.Join(s.dir, name) }

func (s *scratch) remove() {
	if s.root != nil {
		s.root.Close()
	}
	removeAll(s.dir)
}

// removeAll also removes directories that were made unreadable.
func removeAll(dir string) {
	if os.RemoveAll(dir) == nil {
		return
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	_ = os.RemoveAll(dir)
}

var errNotRegular = errors.New("is not a regular file")

// open never follows a link: it could lead to a file that the worker can read and the command's owner cannot.
// It also never waits for the other end of a named pipe.
func (s *scratch) open(name string) (*os.File, stamp, error) {
	fd, err := unix.Openat(
		int(s.root.Fd()), name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0,
	)
	if err == unix.ELOOP {
		err = errNotRegular
	}
	if err != nil {
		return nil, stamp{}, err
	}
	f := os.NewFile(uintptr(fd), name)
	at, err := stampOf(f)
	if err != nil {
		f.Close()
		return nil, stamp{}, err
	}
	return f, at, nil
}

func stampOf(f *os.File) (stamp, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return stamp{}, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return stamp{}, errNotRegular
	}
	return stamp{inode: st.Ino, size: st.Size, modified: st.Mtim}, nil
}

// read returns up to limit bytes of a file, and its stamp.
func (s *scratch) read(name string, limit int64) (b []byte, at stamp, err error) {
	f, at, err := s.open(name)
	if err != nil {
		return nil, stamp{}, err
	}
	defer f.Close()
	b, err = io.ReadAll(io.LimitReader(f, limit))
	return b, at, err
}

// lookEvery is short enough to save a new checkpoint within a second, even if the first look finds it half
// written.
const lookEvery = 400 * time.Millisecond

// watch saves the checkpoints that the command writes, until ctx ends.
func (s *scratch) watch(ctx context.Context, task Task) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.look(ctx, task, false)
		}
	}
}

// look saves the checkpoint if it is a new one. A file that was replaced is complete. A file that is written
// in place may be half written, so look must find it unchanged twice, unless it never rests or no process is
// left that could write it. look never saves an empty file: a kill between truncating and writing leaves one.
func (s *scratch) look(ctx context.Context, task Task, last bool) {
	b, at, err := s.read(checkpointFile, carillon.MaxCheckpoint+1)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err != nil:
		if last {
			task.remark("the checkpoint is not saved: CARILLON_CHECKPOINT_FILE %s", err)
		}
		return
	case at == s.saved || len(b) == 0:
		return
	}
	const restless = 2
	inPlace := at.inode == s.before.inode || s.before == stamp{}
	if inPlace && at != s.before && s.looks < restless && !last {
		s.before, s.looks = at, s.looks+1
		return
	}
	s.before, s.looks = at, 0
	err = task.save(ctx, b)
	if err != nil && at != s.lamented && (ctx.Err() == nil || last) {
		s.lamented = at
		task.remark("the checkpoint is not saved: %s", err)
	}
	if err == nil || len(b) > carillon.MaxCheckpoint {
		s.saved = at // otherwise the store is at fault: try again at the next look
	}
}

// result is the result that the command left, nil if none.
func (s *scratch) result(task Task) []byte {
	b, _, err := s.read(resultFile, carillon.MaxResult+1)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		task.remark("there is no result: CARILLON_RESULT_FILE %s", err)
		return nil
	case len(b) > carillon.MaxResult:
		task.remark("%s", fmt.Sprintf("the result is cut after %d bytes", carillon.MaxResult))
		return b[:carillon.MaxResult]
	}
	return b
}

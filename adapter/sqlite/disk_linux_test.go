package sqlite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/sqlite"
	lite "zombiezen.com/go/sqlite"
)

// swap replaces every open file of a path by another file, and returns a function that puts them back. This
// is how a disk fails here: /dev/full has no room, /dev/null takes everything and cannot be synced.
func swap(t *testing.T, path, other string) (restore func()) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	bad, err := os.OpenFile(other, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer bad.Close()
	saved := map[int]int{}
	for _, e := range entries {
		fd, _ := strconv.Atoi(e.Name())
		if target, _ := os.Readlink("/proc/self/fd/" + e.Name()); target != path {
			continue
		}
		if saved[fd], err = syscall.Dup(fd); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Dup3(int(bad.Fd()), fd, syscall.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
	}
	if len(saved) == 0 {
		t.Fatalf("%s is not open", path)
	}
	return func() {
		for fd, was := range saved {
			if err := syscall.Dup3(was, fd, syscall.O_CLOEXEC); err != nil {
				t.Error(err)
			}
			syscall.Close(was)
		}
	}
}

func guard(key string, rev int32, value string) []carillon.Change {
	return []carillon.Change{
		{Guards: []carillon.Guard{{Namespace: "a", Key: key, Rev: rev, Value: []byte(value)}}},
	}
}

func values(t *testing.T, store *sqlite.Store) string {
	t.Helper()
	guards, err := store.Guards(context.Background(), carillon.GuardQuery{Namespace: "a"})
	if err != nil {
		t.Fatal(err)
	}
	all := ""
	for _, g := range guards {
		all += g.Key + "=" + string(g.Value) + " "
	}
	return all
}

func TestAFullDiskUndoesTheCommitAndALaterOneMaySucceed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "carillon.db")
	store := openPath(t, path)
	ctx := context.Background()
	if _, err := store.Commit(ctx, guard("k", 0, "1")); err != nil {
		t.Fatal(err)
	}
	restore := swap(t, path+"-wal", "/dev/full")
	_, err := store.Commit(ctx, guard("k", 1, "2"))
	if lite.ErrCode(err).ToPrimary() != lite.ResultFull || errors.Is(err, carillon.ErrPermanent) {
		t.Errorf("on a full disk: %v", err)
	}
	restore()
	if got := values(t, store); got != "k=1 " {
		t.Errorf("after it: %s", got)
	}
	if lost, err := store.Commit(ctx, guard("k", 1, "3")); len(lost) > 0 || err != nil {
		t.Errorf("with room again: %v %v", lost, err)
	}
	if got := values(t, store); got != "k=3 " {
		t.Errorf("with room again: %s", got)
	}
}

func TestAfterAnErrorOfTheDiskNothingIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "carillon.db")
	store := openPath(t, path)
	ctx := context.Background()
	if _, err := store.Commit(ctx, guard("k", 0, "1")); err != nil {
		t.Fatal(err)
	}
	restore := swap(t, path+"-wal", "/dev/null")
	_, first := store.Commit(ctx, guard("k", 1, "2"))
	if lite.ErrCode(first) != lite.ResultIOErrFsync || !errors.Is(first, carillon.ErrPermanent) {
		t.Errorf("when the disk cannot sync: %v", first)
	}
	restore()
	_, second := store.Commit(ctx, guard("k", 1, "3"))
	if lite.ErrCode(second) != lite.ResultIOErrFsync || !errors.Is(second, carillon.ErrPermanent) {
		t.Errorf("after it: %v", second)
	}
	if _, err := store.Forget(ctx, carillon.DefaultRetention, 1, 1); err != nil {
		t.Errorf("forgetting nothing: %v", err)
	}
	if got := values(t, store); got != "k=1 " {
		t.Errorf("what is read: %s", got)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	again := openPath(t, path)
	if lost, err := again.Commit(ctx, guard("k", 1, "4")); len(lost) > 0 || err != nil {
		t.Errorf("opened again: %v %v", lost, err)
	}
}

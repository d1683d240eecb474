package sqlite_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/sqlite"
	"github.com/carillon-run/carillon/porttest"
	"github.com/google/go-cmp/cmp"
	lite "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

func open(t testing.TB) *sqlite.Store {
	t.Helper()
	return openPath(t, filepath.Join(t.TempDir(), "carillon.db"))
}

func openPath(t testing.TB, path string) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func TestStore(t *testing.T) {
	porttest.Store(t, func(t *testing.T) carillon.Store { return open(t) })
}

func TestLimits(t *testing.T) {
	porttest.Limits(t, func(t *testing.T) carillon.Store { return open(t) })
}

func TestGates(t *testing.T) {
	porttest.Gates(t, func(t *testing.T) carillon.Store { return open(t) })
}

func TestModel(t *testing.T) {
	porttest.Model(t, func(t *testing.T) carillon.Store { return open(t) })
}

func TestHouse(t *testing.T) {
	porttest.EndToEnd(t, func(t *testing.T) carillon.Store { return open(t) })
}

func BenchmarkStore(b *testing.B) {
	porttest.BenchmarkStore(b, func(b *testing.B) carillon.Store { return open(b) })
}

// kept returns changes with a bit of everything that a store keeps.
func kept(t *testing.T) []carillon.Change {
	t.Helper()
	const now = 1_800_000_000_000
	def := carillon.Definition{}
	def.Type, def.Target.Handler, def.Labels = "mail.send", &carillon.Handler{}, map[string]string{
		"team": "a",
	}
	if err := def.Admit(now); err != nil {
		t.Fatal(err)
	}
	waiting := carillon.Submit(&carillon.Job{ID: 1, Namespace: "default", Definition: def}, now)
	ended := carillon.Submit(&carillon.Job{ID: 2, Namespace: "default", Definition: def}, now)
	ended.Runs[0] = ended.Runs[0].Claim("w", now).End(carillon.StateFailed, "because", now)
	ended.Runs[0].Output = &carillon.Output{Result: []byte("r"), Checkpoint: []byte("c")}
	ended.Guards = []carillon.Guard{{Namespace: "default", Key: "k", Value: []byte("v")}}
	return []carillon.Change{waiting, ended}
}

func everything(t *testing.T, s *sqlite.Store) []any {
	t.Helper()
	ctx := context.Background()
	jobs, err1 := s.FindJobs(ctx, carillon.JobQuery{})
	labeled, err2 := s.FindJobs(ctx, carillon.JobQuery{
		Namespace: "default", Labels: []carillon.Label{{Key: "team", Value: "a"}},
	})
	runs, err3 := s.FindRuns(ctx, carillon.RunQuery{})
	dead, err4 := s.FindRuns(ctx, carillon.RunQuery{Dead: true})
	whole, err5 := s.Runs(ctx, []carillon.RunID{runs.Runs[0].ID, runs.Runs[1].ID}, true)
	guards, err6 := s.Guards(ctx, carillon.GuardQuery{Namespace: "default"})
	wakes, err7 := s.Wakes(ctx, carillon.WakeQuery{Until: carillon.Never})
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7); err != nil {
		t.Fatal(err)
	}
	return []any{jobs.Jobs, labeled.Jobs, runs, dead, whole, guards, wakes}
}

func TestWhatWasCommittedIsThereWhenTheFileIsOpenedAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "carillon.db")
	store := openPath(t, path)
	if lost, err := store.Commit(context.Background(), kept(t)); len(lost) > 0 || err != nil {
		t.Fatal(lost, err)
	}
	before := everything(t, store)
	// A second process finds the file as a crash would leave it, with its log.
	second := openPath(t, path)
	if d := cmp.Diff(before, everything(t, second), ignoreParsed); d != "" {
		t.Error("beside the first:", d)
	}
	if err := errors.Join(second.Close(), store.Close()); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, everything(t, openPath(t, path)), ignoreParsed); d != "" {
		t.Error("after both:", d)
	}
}

var ignoreParsed = cmp.Comparer(func(a, b carillon.Schedule) bool {
	return a.At == b.At && a.Cron == b.Cron && a.Every == b.Every
})

func TestTwoProcessesMayWriteToOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "carillon.db")
	stores := []*sqlite.Store{openPath(t, path), openPath(t, path)}
	var all sync.WaitGroup
	for i, store := range stores {
		all.Go(func() {
			for n := range 20 {
				key := string(rune('a'+i)) + string(rune('a'+n))
				if lost, err := store.Commit(context.Background(), guard(key, 0, "1")); len(lost) > 0 ||
					err != nil {
					t.Error(lost, err)
				}
			}
		})
	}
	all.Wait()
	if got := strings.Count(values(t, stores[0]), "=1"); got != 40 {
		t.Errorf("%d of 40", got)
	}
}

func TestAFileOfANewerProgramIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "carillon.db")
	if err := openPath(t, path).Close(); err != nil {
		t.Fatal(err)
	}
	conn, err := lite.OpenConn(path, lite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := sqlitex.ExecuteTransient(
		conn, `INSERT INTO migration VALUES (99, '0099_later.sql', 0)`, nil,
	); err != nil {
		t.Fatal(err)
	}
	conn.Close()
	_, err = sqlite.Open(path)
	if err == nil || !strings.Contains(err.Error(), "schema version 99, this program knows up to ") {
		t.Errorf("got %v", err)
	}
}

func TestAClosedStoreSaysSo(t *testing.T) {
	store := open(t)
	if err := errors.Join(store.Close(), store.Close()); err != nil {
		t.Fatal(err)
	}
	_, commitErr := store.Commit(context.Background(), guard("k", 0, "1"))
	_, readErr := store.Guards(context.Background(), carillon.GuardQuery{})
	for _, err := range []error{commitErr, readErr} {
		if err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("got %v", err)
		}
	}
}

func TestAFileThatIsNoDatabaseIsRefused(t *testing.T) {
	if _, err := sqlite.Open(t.TempDir()); err == nil {
		t.Error("a directory was opened")
	}
}

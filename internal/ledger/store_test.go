package ledger_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
)

// store wraps the store of mem: a test can hold up its commits with a gate, and step in before its reads.
type store struct {
	*mem.Store

	mu      sync.Mutex
	commits []int         // how many changes each had
	gate    chan struct{} // if set, a commit waits until it can receive from it
	slow    time.Duration // how long a commit takes
	fail    error         // if set, commits end with it
	before  func(read string)
	reads   int // how many definitions were read
}

func newStore() *store { return &store{Store: mem.NewStore()} }

func (s *store) Commit(ctx context.Context, changes []carillon.Change) ([]int, error) {
	s.mu.Lock()
	gate := s.gate
	s.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	time.Sleep(s.slow)
	s.mu.Lock()
	s.commits = append(s.commits, len(changes))
	fail := s.fail
	s.mu.Unlock()
	if fail != nil {
		return nil, fail
	}
	return s.Store.Commit(ctx, changes)
}

func (s *store) Jobs(ctx context.Context, ids []carillon.JobVersion) ([]carillon.Job, error) {
	s.step("jobs")
	s.mu.Lock()
	s.reads += len(ids)
	s.mu.Unlock()
	return s.Store.Jobs(ctx, ids)
}

func (s *store) Runs(ctx context.Context, ids []carillon.RunID, whole bool) ([]carillon.Run, error) {
	s.step("runs")
	return s.Store.Runs(ctx, ids, whole)
}

func (s *store) FindRuns(ctx context.Context, q carillon.RunQuery) (carillon.RunPage, error) {
	s.step("find runs")
	return s.Store.FindRuns(ctx, q)
}

func (s *store) Guards(ctx context.Context, q carillon.GuardQuery) ([]carillon.Guard, error) {
	s.step("guards")
	return s.Store.Guards(ctx, q)
}

func (s *store) step(read string) {
	s.mu.Lock()
	before := s.before
	s.mu.Unlock()
	if before != nil {
		before(read)
	}
}

func (s *store) set(change func(*store)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

func (s *store) sizes() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]int(nil), s.commits...)
}

// within runs a test in a synctest bubble, with a ledger that runs until the test ends.
func within(
	t *testing.T, cfg ledger.Config, test func(t *testing.T, l *ledger.Ledger),
	listeners ...func(committed []carillon.Change),
) {
	t.Helper()
	withSlots(t, cfg, nil, test, listeners...)
}

// withSlots is within, with slots of a worker if they are not nil.
func withSlots(
	t *testing.T, cfg ledger.Config, have ledger.Slots, test func(t *testing.T, l *ledger.Ledger),
	listeners ...func(committed []carillon.Change),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.IDs = idgen.New(1, carillon.Never)
		l := ledger.New(cfg)
		l.Listen(listeners...)
		if have != nil {
			l.UseSlots(have)
		}
		ctx, stop := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() {
			if err := l.Run(ctx); err != nil {
				t.Error(err)
			}
		})
		test(t, l)
		stop()
		running.Wait()
	})
}

// define returns an admitted definition.
func define(t *testing.T, edit func(*carillon.Definition)) carillon.Definition {
	t.Helper()
	def := carillon.Definition{}
	def.Type, def.Target.Handler = "test", &carillon.Handler{}
	if edit != nil {
		edit(&def)
	}
	if err := def.Admit(carillon.Now()); err != nil {
		t.Fatal(err)
	}
	return def
}

func every(d time.Duration, overlap carillon.Overlap) func(*carillon.Definition) {
	return func(def *carillon.Definition) { def.Schedule.Every, def.Overlap = carillon.Duration(d), overlap }
}

func submit(t *testing.T, l *ledger.Ledger, edit func(*carillon.Definition)) carillon.Job {
	t.Helper()
	jobs, err := l.Submit(t.Context(), "default", []carillon.Definition{define(t, edit)})
	if err != nil {
		t.Fatal(err)
	}
	return jobs[0]
}

// unfinished are the runs of a job that have not ended, latest due first.
func unfinished(t *testing.T, s carillon.Store, job carillon.JobID) []carillon.Run {
	t.Helper()
	page, err := s.FindRuns(t.Context(), carillon.RunQuery{
		Namespace: "default", Job: job,
		States: []carillon.State{carillon.StateWaiting, carillon.StateClaimed, carillon.StateRunning},
		Limit:  10_000,
	})
	if err != nil {
		t.Fatal(err)
	}
	return page.Runs
}

// claim takes a waiting run for a worker, as the dispatcher does.
func claim(t *testing.T, l *ledger.Ledger, run carillon.Run) carillon.Run {
	t.Helper()
	candidates, err := l.Candidates(t.Context(), []carillon.Run{run}, "worker_1")
	if err != nil || len(candidates) != 1 {
		t.Fatalf("%d dues, %v", len(candidates), err)
	}
	verdict, c := candidates[0].Decide(max(carillon.Now(), run.ID.Due))
	if verdict != carillon.VerdictClaim {
		t.Fatalf("verdict %d", verdict)
	}
	if lost, err := l.Commit(t.Context(), []carillon.Change{c}); err != nil || len(lost) > 0 {
		t.Fatalf("lost %v, %v", lost, err)
	}
	return c.Runs[0]
}

// finish ends the attempt that holds a run, as the dispatcher does.
func finish(t *testing.T, l *ledger.Ledger, run carillon.Run, o carillon.Outcome) {
	t.Helper()
	candidates, err := l.Candidates(t.Context(), []carillon.Run{run}, "")
	if err != nil || len(candidates) != 1 {
		t.Fatalf("%d candidates, %v", len(candidates), err)
	}
	ended := run.Finish(candidates[0].Job, o, carillon.Now(), 0)
	change := carillon.EndChange(candidates[0].Job, ended, candidates[0].Guards)
	if lost, err := l.Commit(t.Context(), []carillon.Change{change}); err != nil || len(lost) > 0 {
		t.Fatalf("lost %v, %v", lost, err)
	}
}

// note is a change of a single guard: something to commit.
func note(key string, rev int32) carillon.Change {
	return carillon.Change{
		Guards: []carillon.Guard{{Namespace: "default", Key: key, Rev: rev, Value: []byte("x")}},
	}
}

func notes(from, n int) (changes []carillon.Change) {
	for i := range n {
		changes = append(changes, note(fmt.Sprint("note/", from+i), 0))
	}
	return changes
}

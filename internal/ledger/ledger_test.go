package ledger_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/ledger"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestAnIdleLedgerCommitsAtOnce(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		begin := time.Now()
		for i := range 3 {
			if lost, err := l.Commit(t.Context(), notes(i, 1)); err != nil || len(lost) > 0 {
				t.Fatalf("lost %v, %v", lost, err)
			}
		}
		if spent := time.Since(begin); spent > 0 || !slices.Equal(s.sizes(), []int{1, 1, 1}) {
			t.Errorf("%v changes per commit, after %s", s.sizes(), spent)
		}
		if lost, err := l.Commit(t.Context(), nil); err != nil || len(lost) > 0 || len(s.sizes()) != 3 {
			t.Errorf("a commit of nothing: %v, %v, commits %v", lost, err, s.sizes())
		}
	})
}

// busy holds the ledger in a commit while other callers bring their changes, and then lets the commit go on.
func busy(t *testing.T, s *store, l *ledger.Ledger, bring ...[]carillon.Change) (lost [][]int, errs []error) {
	gate := make(chan struct{})
	s.set(func(s *store) { s.gate = gate })
	var all sync.WaitGroup
	all.Go(func() { l.Commit(context.Background(), []carillon.Change{note("first", 0)}) })
	synctest.Wait()
	lost, errs = make([][]int, len(bring)), make([]error, len(bring))
	for i, changes := range bring {
		all.Go(func() { lost[i], errs[i] = l.Commit(context.Background(), changes) })
		synctest.Wait() // one after another
	}
	s.set(func(s *store) { s.gate = nil })
	close(gate)
	all.Wait()
	return lost, errs
}

func TestABusyLedgerMergesWhatComesMeanwhile(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		busy(t, s, l, notes(0, 1), notes(1, 5), notes(6, 2))
		if want := []int{1, 8}; !slices.Equal(s.sizes(), want) {
			t.Errorf("commits of %v changes, want %v", s.sizes(), want)
		}
	})
}

func TestCallersThatComeBackAtOnceShareCommits(t *testing.T) {
	for _, flushers := range []int{1, 2} {
		const callers, rounds = 16, 100
		s := newStore()
		s.slow = time.Millisecond
		within(t, ledger.Config{Store: s, Flushers: flushers}, func(t *testing.T, l *ledger.Ledger) {
			var all sync.WaitGroup
			for i := range callers {
				all.Go(func() {
					for k := range rounds {
						if _, err := l.Commit(t.Context(), notes(rounds*i+k, 1)); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			if n := len(s.sizes()); n > rounds*3/2 {
				t.Errorf("%d flushers: %d commits for %d rounds of %d callers", flushers, n, rounds, callers)
			}
		})
	}
}

func TestAChangeDoesNotWaitForACommitOfAFew(t *testing.T) {
	s := newStore()
	s.slow = time.Second
	within(t, ledger.Config{Store: s, Flushers: 2}, func(t *testing.T, l *ledger.Ledger) {
		go l.Commit(t.Context(), notes(0, 1))
		synctest.Wait()
		began := time.Now()
		if _, err := l.Commit(t.Context(), notes(1, 1)); err != nil || time.Since(began) > time.Second {
			t.Errorf("took %s, %v", time.Since(began), err)
		}
	})
}

func TestACommitThatIsStuckHoldsUpNoOthersForLong(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s, Flushers: 2}, func(t *testing.T, l *ledger.Ledger) {
		gate := make(chan struct{})
		s.set(func(s *store) { s.gate = gate })
		go l.Commit(t.Context(), notes(0, 10))
		synctest.Wait()
		s.set(func(s *store) { s.gate = nil })
		began := time.Now()
		if _, err := l.Commit(t.Context(), notes(10, 1)); err != nil ||
			time.Since(began) > 100*time.Millisecond {
			t.Errorf("took %s beside a commit that is stuck, %v", time.Since(began), err)
		}
		close(gate)
	})
}

func TestABatchIsBounded(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s, MaxBatch: 4}, func(t *testing.T, l *ledger.Ledger) {
		busy(t, s, l, notes(0, 3), notes(3, 3), notes(6, 9), notes(15, 1))
		if want := []int{1, 6, 9, 1}; !slices.Equal(s.sizes(), want) { // changes of one call stay together
			t.Errorf("commits of %v changes, want %v", s.sizes(), want)
		}
	})
}

func TestEachCallerHearsWhichOfHisOwnLost(t *testing.T) {
	s := newStore()
	var told []carillon.Change
	within(t, ledger.Config{Store: s},
		func(t *testing.T, l *ledger.Ledger) {
			if _, err := l.Commit(t.Context(), []carillon.Change{note("taken", 0)}); err != nil {
				t.Fatal(err)
			}
			told = nil
			loser := note("taken", 0)
			bring := [][]carillon.Change{
				{note("a", 0), loser, note("b", 0)},
				{note("c", 0)},
				{loser},
				{loser, note("a", 1), note("d", 7)}, // its second builds on another caller's change
			}
			lost, errs := busy(t, s, l, bring...)
			want := [][]int{{1}, nil, {0}, {0, 2}}
			if diff := cmp.Diff(want, lost, cmpopts.EquateEmpty()); diff != "" ||
				!slices.Equal(errs, make([]error, 4)) {
				t.Errorf("errors %v, lost (-want +got):\n%s", errs, diff)
			}
			var keys []string
			for _, c := range told {
				keys = append(keys, c.Guards[0].Key)
			}
			if want := []string{"first", "a", "b", "c", "a"}; !slices.Equal(keys, want) {
				t.Errorf("told of %v, want %v", keys, want)
			}
			revs := []int32{
				bring[0][0].Guards[0].Rev, bring[0][1].Guards[0].Rev, bring[3][1].Guards[0].Rev,
				bring[3][2].Guards[0].Rev,
			}
			if want := []int32{1, 0, 2, 7}; !slices.Equal(revs, want) {
				t.Errorf("revisions %v, want %v: raised where it won, untouched where it lost", revs, want)
			}
		},
		func(c []carillon.Change) { told = append(told, c...) })
}

func TestEveryRowOfAWinnerHasItsNewRevision(t *testing.T) {
	s := newStore()
	var told []carillon.Change
	within(t, ledger.Config{Store: s},
		func(t *testing.T, l *ledger.Ledger) {
			job := submit(t, l, every(time.Minute, carillon.OverlapSkip))
			c := told[0]
			if job.Rev != 1 || c.Job.Rev != 1 || c.Runs[0].Rev != 1 || c.Guards[0].Rev != 1 {
				t.Errorf(
					"job %d, told %d, run %d, guard %d", job.Rev, c.Job.Rev, c.Runs[0].Rev, c.Guards[0].Rev,
				)
			}
			kept, err := s.Runs(t.Context(), []carillon.RunID{c.Runs[0].ID}, false)
			if err != nil || len(kept) != 1 || kept[0].Rev != 1 {
				t.Errorf("%v, %v", kept, err)
			}
		},
		func(c []carillon.Change) { told = append(told, c...) })
}

func TestAnErrorReachesAllCallers(t *testing.T) {
	s := newStore()
	outage := errors.New("the disk is away")
	told := 0
	within(t, ledger.Config{Store: s},
		func(t *testing.T, l *ledger.Ledger) {
			s.set(func(s *store) { s.fail = outage })
			bring := [][]carillon.Change{notes(0, 2), notes(2, 1)}
			_, errs := busy(t, s, l, bring...)
			if !errors.Is(errs[0], outage) || !errors.Is(errs[1], outage) || told > 0 ||
				bring[0][0].Guards[0].Rev != 0 {
				t.Errorf("errors %v, told %d times, revision %d", errs, told, bring[0][0].Guards[0].Rev)
			}
			if !errors.Is(l.Failing(), outage) {
				t.Errorf("failing: %v", l.Failing())
			}
			s.set(func(s *store) { s.fail = nil })
			if _, err := l.Commit(t.Context(), notes(9, 1)); err != nil || l.Failing() != nil {
				t.Errorf("afterwards: %v, %v", err, l.Failing())
			}
		},
		func([]carillon.Change) { told++ })
}

func TestACallerWhoGoesAwayHoldsUpNoOthers(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		gate := make(chan struct{})
		s.set(func(s *store) { s.gate = gate })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := l.Commit(ctx, notes(0, 1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		close(gate)
		if lost, err := l.Commit(t.Context(), notes(1, 1)); err != nil || len(lost) > 0 {
			t.Errorf("the next: %v, %v", lost, err)
		}
		if !slices.Equal(s.sizes(), []int{1, 1}) {
			t.Errorf("commits %v: a change without a waiting caller is committed all the same", s.sizes())
		}
	})
}

// behind brings a start and some ends while a commit is under way, and returns the sizes of all commits.
func behind(t *testing.T, cfg ledger.Config, starting bool, ends int) (sizes []int) {
	t.Helper()
	s := newStore()
	cfg.Store = s
	withSlots(t, cfg, &slots{starting: starting}, func(t *testing.T, l *ledger.Ledger) {
		gate := make(chan struct{})
		s.set(func(s *store) { s.gate = gate })
		var starts, posts sync.WaitGroup
		start := func(i int) {
			starts.Go(func() {
				if _, err := l.Commit(t.Context(), notes(i, 1)); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		start(0)
		for i := range ends {
			posts.Add(1)
			l.Post(notes(10+i, 1), func(_ []int, err error) {
				if err != nil {
					t.Error(err)
				}
				posts.Done()
			})
		}
		start(1)
		close(gate)
		starts.Wait()
		posts.Wait()
		sizes = s.sizes()
	})
	return sizes
}

func TestEndsLetStartsGoFirstWhileDueRunsWait(t *testing.T) {
	for _, c := range []struct {
		name     string
		cfg      ledger.Config
		starting bool
		ends     int
		want     []int
	}{
		{"no run waits: a start and the ends are one commit", ledger.Config{}, false, 3, []int{1, 4}},
		{
			"starts are about to come: the ends let them go first",
			ledger.Config{},
			true, 3,
			[]int{1, 1, 3},
		},
		{
			"ends that were held for long enough go along",
			ledger.Config{HoldEnds: -1},
			true, 3,
			[]int{1, 4},
		},
		{
			"a few at a time while no start is in line",
			ledger.Config{MaxBatch: 16},
			true, 6,
			[]int{1, 1, 2, 2, 2},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := behind(t, c.cfg, c.starting, c.ends); !slices.Equal(got, c.want) {
				t.Errorf("commits of %v, want %v", got, c.want)
			}
		})
	}
}

func TestAClosingLedgerWritesWhatItHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		gate := make(chan struct{})
		s.gate = gate
		l := ledger.New(ledger.Config{Store: s})
		l.UseSlots(&slots{starting: true})
		ctx, stop := context.WithCancel(context.Background())
		var running, callers sync.WaitGroup
		running.Go(func() { l.Run(ctx) })
		errs := make([]error, 3)
		for i := range errs {
			callers.Go(func() { _, errs[i] = l.Commit(context.Background(), notes(i, 1)) })
			synctest.Wait()
		}
		ended := errors.New("not called")
		l.Post(notes(9, 1), func(_ []int, err error) { ended = err })
		stop() // one commit is under way, the rest waits
		synctest.Wait()
		close(gate)
		running.Wait()
		callers.Wait()
		if err := errors.Join(append(errs, ended)...); err != nil {
			t.Errorf("%v", err)
		}
		if total := s.sizes(); !slices.Equal(total, []int{1, 3}) {
			t.Errorf("commits %v", total)
		}
		if _, err := l.Commit(t.Context(), notes(20, 1)); !errors.Is(err, ledger.ErrClosed) {
			t.Errorf("afterwards: %v", err)
		}
		l.Post(notes(21, 1), func(_ []int, err error) { ended = err })
		if !errors.Is(ended, ledger.ErrClosed) {
			t.Errorf("an end afterwards: %v", ended)
		}
	})
}

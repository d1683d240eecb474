package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
)

// take takes one of the slots that a guard counts; give gives one back.
func take(key string, limit int) carillon.Fold {
	return carillon.Fold{Namespace: "default", Key: key, Step: func(
		g carillon.Guard, now carillon.Time,
	) (carillon.Guard, bool) {
		n := slotsTaken(g, now)
		g.Value = []byte(strconv.Itoa(n + 1))
		return g, n < limit
	}}
}

func give(key string) carillon.Fold {
	return carillon.Fold{Namespace: "default", Key: key, Step: func(
		g carillon.Guard, now carillon.Time,
	) (carillon.Guard, bool) {
		n := slotsTaken(g, now)
		if g.Value = []byte(strconv.Itoa(n - 1)); n == 1 {
			g.Value = nil
		}
		return g, true
	}}
}

func slotsTaken(g carillon.Guard, now carillon.Time) int {
	if g.Value == nil || g.Expired(now) {
		return 0
	}
	n, err := strconv.Atoi(string(g.Value))
	if err != nil {
		panic(err)
	}
	return n
}

// guard returns a guard of the store; without a value if it does not exist.
func guard(t *testing.T, s carillon.Store, key string) carillon.Guard {
	t.Helper()
	found, err := s.Guards(t.Context(), carillon.GuardQuery{Namespace: "default", Keys: []string{key}})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) == 0 {
		return carillon.Guard{}
	}
	return found[0]
}

func expectGuard(t *testing.T, s carillon.Store, key, value string, rev int32) {
	t.Helper()
	if g := guard(t, s, key); string(g.Value) != value || g.Rev != rev {
		t.Errorf("%s is %q at revision %d, want %q at %d", key, g.Value, g.Rev, value, rev)
	}
}

// folding gives changes their folds.
func folding(changes []carillon.Change, folds [][]carillon.Fold) []carillon.Change {
	for i := range changes {
		changes[i].Folds = folds[i]
	}
	return changes
}

// same gives each of n changes the same folds.
func same(n int, folds ...carillon.Fold) [][]carillon.Fold {
	return slices.Repeat([][]carillon.Fold{folds}, n)
}

func expectLost(
	t *testing.T, l *ledger.Ledger, changes []carillon.Change, folds [][]carillon.Fold, want ...int,
) {
	t.Helper()
	lost, err := l.Commit(t.Context(), folding(changes, folds))
	if err != nil || !slices.Equal(lost, want) {
		t.Errorf("lost %v, %v; want %v", lost, err, want)
	}
}

func TestManyTakesOfOneGuardAreOneCommitAndOneRow(t *testing.T) {
	const takes, limit = 1000, 100
	s := newStore()
	var reads int
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		gate := make(chan struct{})
		s.set(func(s *store) { s.gate, s.before = gate, func(string) { reads++ } })
		var callers sync.WaitGroup
		callers.Go(func() { expectLost(t, l, notes(-1, 1), same(1, take("limit", limit))) })
		synctest.Wait()
		won := make([]bool, takes)
		for i := range takes {
			callers.Go(func() {
				lost, err := l.Commit(t.Context(), folding(notes(i, 1), same(1, take("limit", limit))))
				won[i] = len(lost) == 0 && err == nil
			})
		}
		synctest.Wait()
		s.set(func(s *store) { s.gate = nil })
		close(gate)
		callers.Wait()
		n := 0
		for _, won := range won {
			if won {
				n++
			}
		}
		if n != limit-1 || reads != 2 || !slices.Equal(s.sizes(), []int{1, 1}) {
			t.Errorf("%d won after %d reads and commits of %v changes", n, reads, s.sizes())
		}
		expectGuard(t, s, "limit", "100", 2)
		written, _ := s.Guards(t.Context(), carillon.GuardQuery{Namespace: "default", Prefix: "note/"})
		if len(written) != limit {
			t.Errorf("%d changes were written", len(written))
		}
	})
}

func TestFoldsOfAGuardAreAppliedInOrder(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		folds := append(same(4, take("limit", 2)), []carillon.Fold{give("limit")})
		folds = append(folds, same(2, take("limit", 2))...)
		folds = append(folds, nil) // has no folds
		expectLost(t, l, notes(0, 8), folds, 2, 3, 6)
		expectGuard(t, s, "limit", "2", 1)
		expectLost(t, l, notes(8, 2), same(2, give("limit")))
		expectGuard(t, s, "limit", "", 0)
	})
}

func TestAChangeWithTwoFoldsNeedsBoth(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		both := []carillon.Fold{take("a", 10), take("b", 2)}
		expectLost(t, l, notes(0, 5), [][]carillon.Fold{{take("a", 10)}, both, both, both, {take("b", 3)}}, 3)
		expectGuard(t, s, "a", "3", 1)
		expectGuard(t, s, "b", "3", 1)
		if !slices.Equal(s.sizes(), []int{1}) {
			t.Errorf("commits of %v changes", s.sizes())
		}
		twice := []carillon.Fold{take("a", 5), take("a", 5)} // of one guard
		expectLost(t, l, notes(5, 2), [][]carillon.Fold{twice, twice}, 1)
		expectGuard(t, s, "a", "5", 2)
	})
}

func TestAGuardThatAFoldLeavesAsItIsIsOnlyCompared(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		expectLost(t, l, notes(0, 1), same(1, take("limit", 5)))
		expectLost(t, l, notes(1, 2), [][]carillon.Fold{{take("limit", 5)}, {give("limit")}})
		expectGuard(t, s, "limit", "1", 1)
	})
}

func TestAnExpiredGuardIsFree(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		full := carillon.Guard{Namespace: "default", Key: "limit", Value: []byte("5")}
		full.Expires = carillon.Now() + 1
		if _, err := l.Commit(t.Context(), []carillon.Change{{Guards: []carillon.Guard{full}}}); err != nil {
			t.Fatal(err)
		}
		expectLost(t, l, notes(0, 1), same(1, take("limit", 5)), 0)
		time.Sleep(time.Millisecond)
		expectLost(t, l, notes(0, 1), same(1, take("limit", 5)))
		expectGuard(t, s, "limit", "1", 2)
	})
}

// One change that has lost must not take those with it that were merged with it.
func TestOnlyTheChangeWhoseOwnRowsHaveChangedLoses(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		const n, old = 100, 37
		job := submit(t, l, func(d *carillon.Definition) { d.Schedule.After = carillon.Duration(time.Hour) })
		run := unfinished(t, s, job.ID)[0]
		stale, letter := run, carillon.RunID{Job: job.ID, Due: 7}
		stale.Rev = 5
		for name, c := range map[string]struct {
			of    carillon.Change
			tries int
		}{
			"a run":         {carillon.Change{Runs: []carillon.Run{stale}}, 2},
			"a guard":       {note("none", 3), 2},
			"compared":      {carillon.Change{Compared: []carillon.GuardRev{{Namespace: "default", Key: "c", Rev: 1}}}, 2},
			"a dead letter": {carillon.Change{Retried: []carillon.RunID{letter}}, 20}, // found by halves
		} {
			before := len(s.sizes())
			changes := make([]carillon.Change, n)
			for i := range changes {
				changes[i] = note(fmt.Sprint(name, i), 0)
			}
			changes[old] = c.of
			expectLost(t, l, changes, same(n, take(name, n)), old)
			if tries := len(s.sizes()) - before; tries > c.tries {
				t.Errorf("%s: %d commits", name, tries)
			}
			if got := string(guard(t, s, name).Value); got != strconv.Itoa(n-1) {
				t.Errorf("%s: %s slots are taken", name, got)
			}
		}
	})
}

func TestFoldsAreAppliedAgainWhenAnotherWriterWasQuicker(t *testing.T) {
	s := newStore()
	s.slow = time.Second
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		var writer sync.WaitGroup
		writer.Go(func() { // after the guard is read, before the commit
			time.Sleep(time.Second / 2)
			_, err := s.Store.Commit(t.Context(), []carillon.Change{{Guards: []carillon.Guard{
				{Namespace: "default", Key: "limit", Value: []byte("3")},
			}}})
			if err != nil {
				t.Error(err)
			}
		})
		expectLost(t, l, notes(0, 4), same(4, take("limit", 5)), 2, 3)
		writer.Wait()
		expectGuard(t, s, "limit", "5", 2)
		if !slices.Equal(s.sizes(), []int{1, 1}) {
			t.Errorf("commits of %v changes", s.sizes())
		}
	})
}

// Changes that cannot be one change follow each other in several commits.
func TestChangesThatNameTheSameRowAreNotMerged(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s, MaxBatch: 10}, func(t *testing.T, l *ledger.Ledger) {
		id := idgen.New(2, carillon.Never)
		var jobs []carillon.Change
		for range 3 {
			next, err := id.Next(carillon.Now())
			if err != nil {
				t.Fatal(err)
			}
			jobs = append(jobs, carillon.Submit(
				&carillon.Job{Namespace: "default", ID: next, Definition: define(t, nil)}, carillon.Now(),
			))
		}
		expectLost(t, l, jobs, same(3, take("jobs", 5)))
		expectGuard(t, s, "jobs", "3", 3)
		twice := []carillon.Change{note("x", 0), note("x", 0), note("x", 1), note("y", 0)}
		expectLost(t, l, twice, same(4, take("twice", 5)), 1)
		if got := string(guard(t, s, "twice").Value); got != "3" {
			t.Errorf("%s slots are taken", got)
		}
		expectGuard(t, s, "x", "x", 2)
		expectLost(t, l, notes(0, 35), same(35, take("many", 100))) // more than are merged into one
		expectGuard(t, s, "many", "35", 4)
	})
}

func TestListenersHearOfEachChangeWithFolds(t *testing.T) {
	s := newStore()
	var told []string
	listen := func(committed []carillon.Change) {
		for _, c := range committed {
			for _, g := range c.Guards {
				told = append(told, fmt.Sprint(g.Key, " ", string(g.Value), " r", g.Rev))
			}
		}
	}
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		changes := append(notes(0, 2), note("note/2", 9))
		changes = append(changes, notes(3, 2)...)
		expectLost(t, l, changes, same(5, take("limit", 3)), 2, 4)
		want := []string{"note/0 x r1", "note/1 x r1", "limit 2 r1", "note/3 x r1", "limit 3 r2"}
		if !slices.Equal(told, want) {
			t.Errorf("told %q", told)
		}
		if changes[0].Guards[0].Rev != 1 || changes[2].Guards[0].Rev != 9 {
			t.Errorf("revisions %d and %d", changes[0].Guards[0].Rev, changes[2].Guards[0].Rev)
		}
	}, listen)
}

func TestAnErrorLeavesOnlyCallsWithoutAnAnswerUnknown(t *testing.T) {
	s := newStore()
	s.slow = time.Second
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		away := errors.New("the store is away")
		var callers sync.WaitGroup
		callers.Go(func() { expectLost(t, l, notes(0, 1), same(1, take("a", 1))) })
		synctest.Wait() // its commit is under way, the next calls share one
		callers.Go(func() { expectLost(t, l, notes(1, 2), same(2, take("b", 1)), 1) })
		callers.Go(func() { expectLost(t, l, notes(3, 1), same(1, take("a", 1)), 0) })
		callers.Go(func() {
			both := []carillon.Change{note("note/0", 0), note("c", 0)} // the first loses
			lost, err := l.Commit(t.Context(), folding(both, same(2, take("c", 2))))
			if !errors.Is(err, away) || lost != nil {
				t.Errorf("lost %v, %v", lost, err)
			}
		})
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		time.Sleep(time.Second) // the second commit has won in part; the third will fail
		s.set(func(s *store) { s.fail = away })
		callers.Wait()
		if !errors.Is(l.Failing(), away) {
			t.Errorf("failing: %v", l.Failing())
		}
		s.set(func(s *store) { s.fail = nil })
		expectLost(t, l, notes(5, 1), same(1, take("c", 2)))
		if l.Failing() != nil {
			t.Errorf("failing: %v", l.Failing())
		}
	})
}

func TestChangesWithoutFoldsDoNotWaitForGuards(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		read := make(chan struct{})
		s.set(func(s *store) { s.before = func(string) { <-read } })
		var caller sync.WaitGroup
		caller.Go(func() { expectLost(t, l, notes(0, 1), same(1, take("limit", 1))) })
		synctest.Wait()
		if lost, err := l.Commit(t.Context(), notes(1, 3)); err != nil || len(lost) > 0 {
			t.Errorf("lost %v, %v", lost, err)
		}
		close(read)
		caller.Wait()
	})
}

func TestChangesWithFoldsThatWaitWhenTheLedgerStopsAreCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		s.slow = time.Second
		l := ledger.New(ledger.Config{Store: s})
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() { l.Run(ctx) })
		for i := range 3 {
			all.Go(func() { expectLost(t, l, notes(i, 1), same(1, take("limit", 3))) })
			synctest.Wait()
		}
		stop()
		all.Wait()
		expectGuard(t, s, "limit", "3", 2)
		if _, err := l.Commit(t.Context(), folding(notes(9, 1), same(1))); !errors.Is(err, ledger.ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
}

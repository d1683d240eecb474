package ledger_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/ledger"
)

// between lets another writer in before each change of a commit, as a store may that needs several
// transactions for one commit.
type between struct {
	*store
	writer func()
}

func (s *between) Commit(ctx context.Context, changes []carillon.Change) (lost []int, err error) {
	for i := range changes {
		s.writer()
		some, err := s.store.Commit(ctx, changes[i:i+1])
		if err != nil {
			return nil, err
		}
		if len(some) > 0 {
			lost = append(lost, i)
		}
	}
	return lost, nil
}

func TestTwoWritersOfAGuardCountEveryChange(t *testing.T) {
	s := &between{store: newStore()}
	others := 0
	s.writer = func() { // takes a slot too, twenty times
		g := guard(t, s, "limit")
		if others == 20 {
			return
		}
		others++
		g.Namespace, g.Key, g.Value = "default", "limit", []byte(strconv.Itoa(slotsTaken(g, 0)+1))
		lost, err := s.Store.Commit(t.Context(), []carillon.Change{{Guards: []carillon.Guard{g}}})
		if err != nil || len(lost) > 0 {
			t.Errorf("the other writer lost %v, %v", lost, err)
		}
	}
	within(t, ledger.Config{Store: s, MaxBatch: 4}, func(t *testing.T, l *ledger.Ledger) {
		changes := notes(0, 30)
		for i := 0; i < len(changes); i += 7 { // they will lose
			changes[i] = note(fmt.Sprint("none/", i), 5)
		}
		expectLost(t, l, changes, same(30, take("limit", 100)), 0, 7, 14, 21, 28)
		if g := guard(t, s, "limit"); string(g.Value) != strconv.Itoa(25+others) {
			t.Errorf("%s slots are taken, want %d", g.Value, 25+others)
		}
	})
}

// A change that folds two guards ties their changes together. A writer that is always quicker at one of them
// must not hold up those of the other.
func TestAWriterOfOneGuardHoldsUpOnlyItsChanges(t *testing.T) {
	s := &between{store: newStore()}
	others := 0
	s.writer = func() {
		if others == 10 {
			return
		}
		others++
		g := guard(t, s, "a")
		g.Namespace, g.Key, g.Value = "default", "a", []byte(strconv.Itoa(slotsTaken(g, 0)+1))
		lost, err := s.Store.Commit(t.Context(), []carillon.Change{{Guards: []carillon.Guard{g}}})
		if err != nil || len(lost) > 0 {
			t.Errorf("the other writer lost %v, %v", lost, err)
		}
	}
	var told []string
	listen := func(committed []carillon.Change) {
		for _, c := range committed {
			for _, g := range c.Guards {
				if strings.HasPrefix(g.Key, "note/") {
					told = append(told, g.Key)
				}
			}
		}
	}
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		both := []carillon.Fold{take("a", 100), take("b", 100)}
		expectLost(t, l, notes(0, 3), [][]carillon.Fold{{take("a", 100)}, both, {take("b", 100)}})
		if len(told) != 3 || told[0] != "note/2" {
			t.Errorf("committed: %q", told)
		}
		if a, b := guard(t, s, "a"), guard(t, s, "b"); string(a.Value) != "12" || string(b.Value) != "2" {
			t.Errorf("%s and %s slots are taken", a.Value, b.Value)
		}
	}, listen)
}

// With several flushers several goroutines fold. Changes that fold two guards tie guards of different lists
// together, so two goroutines of one ledger write the same guard.
func TestSeveralFoldingGoroutinesCountEveryChange(t *testing.T) {
	s := newStore()
	within(t, ledger.Config{Store: s, Flushers: 3, MaxBatch: 5}, func(t *testing.T, l *ledger.Ledger) {
		const callers, calls, keys = 8, 20, 5
		key := func(i int) string { return fmt.Sprint("limit/", i%keys) }
		var want [keys]atomic.Int64
		var all sync.WaitGroup
		for caller := range callers {
			all.Go(func() {
				for call := range calls {
					n := caller*calls + call
					changes := folding(notes(3*n, 3), [][]carillon.Fold{
						{take(key(n), 60)}, {take(key(n), 60), take(key(n+1), 60)}, nil,
					})
					lost, err := l.Commit(t.Context(), changes)
					if err != nil || slices.Contains(lost, 2) {
						t.Errorf("lost %v, %v", lost, err)
					}
					if !slices.Contains(lost, 0) {
						want[n%keys].Add(1)
					}
					if !slices.Contains(lost, 1) {
						want[n%keys].Add(1)
						want[(n+1)%keys].Add(1)
					}
				}
			})
		}
		all.Wait()
		for i := range want {
			if g := guard(t, s, key(i)); slotsTaken(g, 0) != int(want[i].Load()) || want[i].Load() < 59 {
				t.Errorf("%s: %s slots are taken, %d changes won", key(i), g.Value, want[i].Load())
			}
		}
	})
}

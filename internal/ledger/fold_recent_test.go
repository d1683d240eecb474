package ledger_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/ledger"
)

// reads counts how often guards are read.
type reads struct {
	*store
	n int
}

func (r *reads) Guards(ctx context.Context, q carillon.GuardQuery) ([]carillon.Guard, error) {
	r.n++
	return r.store.Guards(ctx, q)
}

// takeOne commits one change that takes a slot, and says whether it won and how many reads that took.
func (r *reads) takeOne(t *testing.T, l *ledger.Ledger, n, limit int) (won bool, reads int) {
	t.Helper()
	before := r.n
	lost, err := l.Commit(t.Context(), folding(notes(n, 1), same(1, take("limit", limit))))
	if err != nil {
		t.Fatal(err)
	}
	return len(lost) == 0, r.n - before
}

// another is what another node does: it sets the slots that are taken.
func (r *reads) another(t *testing.T, slots int) {
	t.Helper()
	g := guard(t, r.store, "limit")
	g.Value = []byte(strconv.Itoa(slots))
	lost, err := r.Store.Commit(t.Context(), []carillon.Change{{Guards: []carillon.Guard{g}}})
	if err != nil || len(lost) > 0 {
		t.Fatalf("the other node lost %v, %v", lost, err)
	}
}

func TestAGuardThatOnlyThisNodeFoldsIsNotReadEachTime(t *testing.T) {
	s := &reads{store: newStore()}
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		for n := range 10 {
			won, reads := s.takeOne(t, l, n, 100)
			if want := n < 4 || n == 9; !won || (reads > 0) != want {
				t.Errorf("take %d: won is %v after %d reads", n, won, reads)
			}
		}
		time.Sleep(time.Second)
		if won, reads := s.takeOne(t, l, 10, 100); !won || reads == 0 {
			t.Errorf("a second later: won is %v after %d reads", won, reads)
		}
		expectGuard(t, s, "limit", "11", 11)
	})
}

func TestAFoldIsRefusedOnlyByWhatIsStored(t *testing.T) {
	s := &reads{store: newStore()}
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		for n := range 5 {
			s.takeOne(t, l, n, 5)
		}
		s.another(t, 4) // gives a slot back
		if won, _ := s.takeOne(t, l, 5, 5); !won {
			t.Error("a change lost though another node had given a slot back")
		}
		if won, _ := s.takeOne(t, l, 6, 5); won {
			t.Error("six of five slots are taken")
		}
		expectGuard(t, s, "limit", "5", 7)
	})
}

func TestAGuardThatAnotherNodeWroteIsFoldedAnew(t *testing.T) {
	s := &reads{store: newStore()}
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		for n := range 5 {
			s.takeOne(t, l, n, 100)
		}
		s.another(t, 50)
		for n := range 3 { // the first one loses and reads; then the guard is not this node's alone
			if won, reads := s.takeOne(t, l, 5+n, 100); !won || reads == 0 {
				t.Errorf("take %d: won is %v after %d reads", n, won, reads)
			}
		}
		expectGuard(t, s, "limit", "53", 9)
	})
}

func TestAGuardFromBeforeAFailoverIsNotUsedAfterIt(t *testing.T) {
	s := &reads{store: newStore()}
	within(t, ledger.Config{Store: s}, func(t *testing.T, l *ledger.Ledger) {
		for n := range 5 {
			s.takeOne(t, l, n, 100)
		}
		s.set(func(s *store) { s.fail = errors.New("the primary is gone") })
		if _, err := l.Commit(t.Context(), notes(100, 1)); err == nil { // a change without folds
			t.Fatal("no error")
		}
		s.set(func(s *store) { s.fail = nil })
		// The replica has lost the last commits, and another node has written the guard up to the same
		// revision.
		g := guard(t, s, "limit")
		gone, rev := g, g.Rev
		gone.Value = nil
		g.Rev, g.First, g.Value = 0, rev, []byte("10")
		for _, g := range []carillon.Guard{gone, g} {
			lost, err := s.Store.Commit(t.Context(), []carillon.Change{{Guards: []carillon.Guard{g}}})
			if err != nil || len(lost) > 0 {
				t.Fatalf("lost %v, %v", lost, err)
			}
		}
		if won, _ := s.takeOne(t, l, 50, 10); won {
			t.Errorf("an eleventh slot of ten was taken: the guard says %s", guard(t, s, "limit").Value)
		}
	})
}

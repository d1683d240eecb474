package ledger_test

import (
	"context"
	"fmt"
	"strconv"
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

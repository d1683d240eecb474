package ledger

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
)

// turns lets submits of this node that change the job of the same unique key go one after the other. Without
// it, all of them decide on the same revision of the guard, and each commit has one winner only: of many
// submits most would lose all their tries. Submits whose first try wins never look here.
type turns struct {
	mu sync.Mutex
	of map[uniqueKey]*turn
}

type uniqueKey struct{ namespace, key string }

type turn struct {
	users int           // submits that have the turn or wait for it; used with turns.mu
	taken chan struct{} // capacity 1: holds a value while a submit has the turn
}

// take waits until it is the caller's turn, or until ctx ends.
func (t *turns) take(ctx context.Context, key uniqueKey) error {
	t.mu.Lock()
	if t.of == nil {
		t.of = map[uniqueKey]*turn{}
	}
	one := t.of[key]
	if one == nil {
		one = &turn{taken: make(chan struct{}, 1)}
		t.of[key] = one
	}
	one.users++
	t.mu.Unlock()
	select {
	case one.taken <- struct{}{}: // senders are served in the order in which they came
		return nil
	case <-ctx.Done():
		t.leave(key, one)
		return ctx.Err()
	}
}

// give lets the next submit have the turn.
func (t *turns) give(key uniqueKey) {
	t.mu.Lock()
	one := t.of[key]
	t.mu.Unlock()
	<-one.taken
	t.leave(key, one)
}

func (t *turns) leave(key uniqueKey, one *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if one.users--; one.users == 0 {
		delete(t.of, key)
	}
}

// longestPause bounds the pause between two tries of a submit.
const longestPause = 100 * time.Millisecond

// wait is for a submit that has lost a number of tries. It must be called before the submit reads what it
// decides on: while it waits, that changes. First the submit takes its turns among those of this node. If it
// loses again, submits of other nodes are quicker, or a run of the job begins or ends; a pause of random
// length then keeps the nodes apart.
func (l *Ledger) wait(ctx context.Context, s *submission, lost int) error {
	if !s.unique || lost == 1 && !s.replaces() {
		return nil // most submits that return a job write nothing
	}
	if s.turns == nil {
		return l.takeTurns(ctx, s)
	}
	if most := min(time.Millisecond<<min(lost, 10), longestPause); !await.For(ctx, rand.N(most)) {
		return ctx.Err()
	}
	return nil
}

// takeTurns takes the turns of all unique keys of a submit, sorted, so that two submits cannot deadlock.
func (l *Ledger) takeTurns(ctx context.Context, s *submission) error {
	var keys []uniqueKey
	for i := range s.defs {
		if key := s.defs[i].UniqueName(); key != "" {
			keys = append(keys, uniqueKey{s.namespace, key})
		}
	}
	slices.SortFunc(keys, func(a, b uniqueKey) int { return strings.Compare(a.key, b.key) })
	for _, key := range slices.Compact(keys) {
		if err := l.turns.take(ctx, key); err != nil {
			return err
		}
		s.turns = append(s.turns, key)
	}
	return nil
}

// giveTurns ends the turns of a submit.
func (l *Ledger) giveTurns(s *submission) {
	for _, key := range s.turns {
		l.turns.give(key)
	}
	s.turns = nil
}

// replaces says that the submit changes a job that holds one of its keys.
func (s *submission) replaces() bool {
	return slices.ContainsFunc(s.defs, func(def carillon.Definition) bool {
		return def.Unique != nil && def.Unique.OnConflict == carillon.ConflictReplace
	})
}

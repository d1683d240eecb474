package ledger

import (
	"context"
	"iter"
	"maps"
	"slices"

	"github.com/carillon-run/carillon"
)

// maxFoldTries bounds how often folds are applied again because other nodes change the same guards. Each time
// another writer made progress.
const maxFoldTries = 100

// settle commits a batch. A merged change that lost is folded again on what the store has by now, without
// those of its changes that have lost for a reason of their own: see afterLoss.
func (l *Ledger) settle(ctx context.Context, f *foldList, batch []*foldCall, committed chan<- commit) {
	if n := l.forgets.Load(); n != f.forgets {
		clear(f.recent)
		f.forgets = n
	}
	err := l.settleIn(ctx, f, batch, committed)
	if err == nil {
		l.failing.Store(nil)
		return
	}
	// Listeners have heard of the changes that were committed before the error. For the caller the outcome of
	// the call is unknown, as after every error.
	l.fail(err)
	for _, call := range batch {
		if call.open > 0 {
			call.done(nil, err)
		}
	}
}

func (l *Ledger) settleIn(
	ctx context.Context, f *foldList, batch []*foldCall, committed chan<- commit,
) (err error) {
	groups, changes := groupFolds(batch), countChanges(batch)
	for try := 0; len(groups) > 0 && err == nil; try++ {
		r := newRound(l.cfg.Clock.Now(), l.cfg.MaxBatch, changes, f.recent)
		groups, err = l.tryFolds(ctx, r, groups, try)
		if len(r.won)+len(r.settled) > 0 {
			committed <- commit{all: r.won, answers: r.settled}
		}
	}
	return err
}

// tryFolds makes one try, and returns the changes that need another one.
func (l *Ledger) tryFolds(
	ctx context.Context, r *round, groups []*foldGroup, try int,
) (again []*foldGroup, err error) {
	var stored ownRevs
	if try > 0 {
		if stored, err = l.ownRevs(ctx, groups); err != nil {
			return nil, err
		}
	}
	// Read last: the shorter the time until the commit, the fewer other writers come in between.
	if err = l.foldedGuards(ctx, r, groups, try); err != nil {
		return nil, err
	}
	if try > 0 {
		groups = r.afterLoss(groups, stored)
	}
	for _, g := range groups {
		r.fold(g)
	}
	var lost []int
	if len(r.merged) > 0 {
		if lost, err = l.cfg.Store.Commit(ctx, r.changes()); err != nil {
			return nil, err
		}
	}
	return r.record(lost), nil
}

// foldedGuards reads each guard that some changes fold, once. The first try takes some from memory.
func (l *Ledger) foldedGuards(ctx context.Context, r *round, groups []*foldGroup, try int) error {
	var toRead []guardKey
	for _, g := range groups {
		for _, item := range g.items {
			for i := range item.change.Folds {
				key := keyOf(&item.change.Folds[i])
				if r.guards[key] != nil {
					continue
				}
				guard, known := r.recent.get(key, r.now)
				if known = known && try == 0; !known {
					guard = carillon.Guard{Namespace: key.namespace, Key: key.key}
					toRead = append(toRead, key)
				}
				folded := r.read.new()
				*folded = foldedGuard{Guard: guard, base: guard, remembered: known}
				r.guards[key] = folded
			}
		}
	}
	return l.readGuards(ctx, slices.Values(toRead), func(g carillon.Guard) {
		*r.guards[guardKey{g.Namespace, g.Key}] = foldedGuard{Guard: g, base: g}
	})
}

func (l *Ledger) readGuards(
	ctx context.Context, keys iter.Seq[guardKey], found func(carillon.Guard),
) error {
	spaces := map[string][]string{}
	for key := range keys {
		spaces[key.namespace] = append(spaces[key.namespace], key.key)
	}
	for namespace, keys := range spaces {
		guards, err := l.cfg.Store.Guards(ctx, carillon.GuardQuery{Namespace: namespace, Keys: keys})
		if err != nil {
			return err
		}
		for i := range guards {
			found(guards[i])
		}
	}
	return nil
}

// afterLoss prepares merged changes that lost for another try. Changes whose own rows have changed have lost
// for good. If there is none of them, and no folded guard has changed, one of the changes lost for a reason
// that was not read; halves of the group will tell which one.
func (r *round) afterLoss(groups []*foldGroup, stored ownRevs) (again []*foldGroup) {
	for _, g := range groups {
		if g.expected == nil {
			again = append(again, g)
			continue
		}
		var kept []*folding
		for _, item := range g.items {
			if g.tries == maxFoldTries || !stored.stands(item.change) {
				r.lose(item)
			} else {
				kept = append(kept, item)
			}
		}
		switch {
		case len(kept) == 0:
		case len(kept) < len(g.items) || r.moved(g.expected):
			again = append(again, apart(kept, g.tries)...)
		case len(kept) == 1:
			r.lose(kept[0])
		default:
			half := len(kept) / 2
			again = append(again,
				&foldGroup{items: kept[:half], tries: g.tries},
				&foldGroup{items: kept[half:], tries: g.tries},
			)
		}
	}
	return again
}

// ownRevs are the stored revisions of rows that changes name. Rows that do not exist are left out.
type ownRevs struct {
	runs   map[carillon.RunID]int32
	guards map[guardKey]int32
}

// ownRevs reads the runs and guards that changes which lost name beside those that they fold.
func (l *Ledger) ownRevs(ctx context.Context, groups []*foldGroup) (stored ownRevs, err error) {
	stored = ownRevs{map[carillon.RunID]int32{}, map[guardKey]int32{}}
	var ids []carillon.RunID
	for _, g := range groups {
		if g.expected == nil {
			continue
		}
		for _, item := range g.items {
			for i := range item.change.Runs {
				ids = append(ids, item.change.Runs[i].ID)
			}
			for _, g := range item.change.Guards {
				stored.guards[guardKey{g.Namespace, g.Key}] = 0
			}
			for _, g := range item.change.Compared {
				stored.guards[guardKey{g.Namespace, g.Key}] = 0
			}
		}
	}
	if err := l.readGuards(ctx, maps.Keys(stored.guards), func(g carillon.Guard) {
		stored.guards[guardKey{g.Namespace, g.Key}] = g.Rev
	}); err != nil || len(ids) == 0 {
		return stored, err
	}
	runs, err := l.cfg.Store.Runs(ctx, ids, false)
	for i := range runs {
		if !runs[i].State.Ended() {
			stored.runs[runs[i].ID] = runs[i].Rev
		}
	}
	return stored, err
}

// stands says that the runs and guards of a change have the revisions that it was decided on.
func (s *ownRevs) stands(c *carillon.Change) bool {
	for i := range c.Runs {
		if s.runs[c.Runs[i].ID] != c.Runs[i].Rev {
			return false
		}
	}
	for _, g := range c.Guards {
		if s.guards[guardKey{g.Namespace, g.Key}] != g.Rev {
			return false
		}
	}
	for _, g := range c.Compared {
		if s.guards[guardKey{g.Namespace, g.Key}] != g.Rev {
			return false
		}
	}
	return true
}

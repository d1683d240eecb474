package ledger

import (
	"bytes"
	"slices"

	"github.com/carillon-run/carillon"
)

// round is one try to commit changes with folds. It writes each guard at most once. A second change could
// only expect the guard as the first one leaves it, and it would win if the first one lost and another node
// wrote that revision of the guard.
type round struct {
	now     carillon.Time
	limit   int // of the changes that are merged into one
	recent  recentGuards
	guards  map[guardKey]*foldedGuard
	read    slab[foldedGuard]
	runs    map[carillon.RunID]*merged // the last merged change that names the run
	named   map[guardKey]namedGuard    // guards that changes name beside those that they fold
	merged  []*merged
	made    slab[merged]
	refused []*folding   // the guards did not allow them
	later   []*foldGroup // they wait for the next round

	won     []carillon.Change // for the listeners
	settled []*foldCall

	next, were []carillon.Guard // of step, used again
}

// insert adds the changes that only insert, because of a step of the folds of one change, or of its hooks.
func (m *merged) insert(item *folding, was, is []carillon.Guard, now carillon.Time) {
	for k := range item.change.Folds {
		if insert := item.change.Folds[k].Insert; insert != nil {
			m.inserts = append(m.inserts, insert(&was[k], &is[k], now)...)
		}
	}
	m.insertHooks(item.change)
}

// namedGuard is a guard that a change names.
type namedGuard struct {
	in  *merged // the last merged change that names it
	rev int32   // that it is compared with; writtenGuard: it is written
}

const writtenGuard = -1

// newRound makes a round for about so many changes.
func newRound(now carillon.Time, limit, changes int, recent recentGuards) *round {
	return &round{
		now: now, limit: limit, recent: recent, guards: make(map[guardKey]*foldedGuard, changes),
		runs: make(map[carillon.RunID]*merged, changes), named: map[guardKey]namedGuard{},
		made: slab[merged]{size: min(changes, maxSlab)}, read: slab[foldedGuard]{size: min(changes, maxSlab)},
	}
}

// slab allocates many values of a round a piece at a time.
type slab[T any] struct {
	free []T
	size int // of a piece
}

const maxSlab = 64

func (s *slab[T]) new() *T {
	if len(s.free) == 0 {
		s.free = make([]T, max(s.size, 1))
	}
	v := &s.free[0]
	s.free = s.free[1:]
	return v
}

// foldedGuard is a guard after the folds so far.
type foldedGuard struct {
	carillon.Guard
	base carillon.Guard // as it was read
	in   *merged        // the merged change that folds it; nil: none
	// remembered says that the guard was not read in this round: another writer may have changed it.
	remembered bool
}

// changed says that the folds did not leave the guard as it was.
func (g *foldedGuard) changed() bool {
	return (g.Value == nil) != (g.base.Value == nil) || !bytes.Equal(g.Value, g.base.Value) ||
		g.Expires != g.base.Expires
}

// fold applies the folds of a group, and merges the changes that the guards allow. If a change cannot be
// merged with those before it, this change and all behind it wait for the next round.
func (r *round) fold(g *foldGroup) {
	m := r.made.new()
	// Items that stay move to the front of the group's own list: those that wait are always behind them.
	m.tries, m.items, m.folded = g.tries, g.items[:0], m.one[:0]
	if len(g.items) > 1 {
		m.change.Runs = make([]carillon.Run, 0, len(g.items))
	}
	for i, item := range g.items {
		if len(m.items) == r.limit || !r.fits(item, m) || r.taken(item, m) {
			r.later = append(r.later, &foldGroup{items: g.items[i:], tries: g.tries})
			break
		}
		next, ok := r.step(item)
		if !ok {
			r.refused = append(r.refused, item)
			continue
		}
		r.add(item, m)
		m.insert(item, r.were, next, r.now)
		for k := range next {
			g := r.guards[keyOf(&item.change.Folds[k])]
			if g.in == nil {
				g.in = m
				m.folded = append(m.folded, g)
			}
			g.Value, g.Expires = next[k].Value, next[k].Expires
		}
	}
	if len(m.items) > 0 {
		m.close()
		r.merged = append(r.merged, m)
	}
}

// taken says that another merged change of this round folds a guard of the change.
func (r *round) taken(item *folding, m *merged) bool {
	return slices.ContainsFunc(item.change.Folds, func(f carillon.Fold) bool {
		in := r.guards[keyOf(&f)].in
		return in != nil && in != m
	})
}

// step applies the folds of one change; all of them must be allowed.
func (r *round) step(item *folding) (next []carillon.Guard, ok bool) {
	r.next = slices.Grow(r.next[:0], len(item.change.Folds))[:len(item.change.Folds)]
	r.were = slices.Grow(r.were[:0], len(item.change.Folds))[:len(item.change.Folds)]
	next = r.next
	for i := range item.change.Folds {
		was := r.guards[keyOf(&item.change.Folds[i])].Guard
		for k := range i { // a change can fold a guard twice
			if keyOf(&item.change.Folds[k]) == keyOf(&item.change.Folds[i]) {
				was = next[k]
			}
		}
		r.were[i] = was
		if next[i], ok = item.change.Folds[i].Step(was, r.now); !ok {
			return nil, false
		}
	}
	return next, true
}

func (r *round) changes() []carillon.Change {
	n := 0
	for _, m := range r.merged {
		n += 1 + len(m.inserts)
	}
	changes := make([]carillon.Change, 0, n)
	for _, m := range r.merged {
		m.at = len(changes)
		changes = append(changes, m.change)
		for i := range m.inserts {
			m.inserts[i].Joined = true
			changes = append(changes, m.inserts[i])
		}
	}
	return changes
}

// record notes which merged changes won, and returns the changes that have to be tried again. Listeners hear
// of each change as it was given, and then of the guards.
func (r *round) record(lost []int) (again []*foldGroup) {
	behind := map[guardKey]*foldGroup{} // changes that a guard did not allow because of a change that lost
	n := 0
	for _, m := range r.merged {
		n += len(m.items) + 1 + len(m.inserts)
	}
	r.won = make([]carillon.Change, 0, n) // a change is large: a list that grows would copy it
	for _, m := range r.merged {
		for len(lost) > 0 && lost[0] < m.at {
			lost = lost[1:] // joined to one before it
		}
		if len(lost) > 0 && lost[0] == m.at {
			expected, next := m.expected(), &foldGroup{tries: m.tries}
			r.recent.lost(expected)
			for _, g := range expected {
				behind[guardKey{g.Namespace, g.Key}] = next
			}
			again = append(again, &foldGroup{m.items, expected, m.tries + 1}, next)
			continue
		}
		for _, item := range m.items {
			r.won = append(r.won, *item.change)
			r.settle(item)
		}
		for _, g := range m.folded {
			r.recent.left(g, r.now)
		}
		if len(m.written) > 0 {
			r.won = append(r.won, carillon.Change{Guards: m.written})
		}
		r.won = append(r.won, m.inserts...)
	}
	unsure := &foldGroup{} // they may have room by what is stored
	for _, item := range r.refused {
		if r.anyRemembered(item) {
			unsure.items = append(unsure.items, item)
			continue
		}
		i := slices.IndexFunc(item.change.Folds, func(f carillon.Fold) bool {
			return behind[keyOf(&f)] != nil
		})
		if i < 0 {
			r.lose(item)
			continue
		}
		g := behind[keyOf(&item.change.Folds[i])]
		g.items = append(g.items, item)
	}
	again = append(again, unsure)
	again = append(again, r.later...)
	return slices.DeleteFunc(again, func(g *foldGroup) bool { return len(g.items) == 0 })
}

func (r *round) anyRemembered(item *folding) bool {
	return slices.ContainsFunc(item.change.Folds, func(f carillon.Fold) bool {
		return r.guards[keyOf(&f)].remembered
	})
}

func (r *round) lose(item *folding) {
	item.call.lost = append(item.call.lost, item.index)
	r.settle(item)
}

func (r *round) settle(item *folding) {
	if item.call.open--; item.call.open == 0 {
		r.settled = append(r.settled, item.call)
	}
}

// moved says that a guard is no longer as a try expected it.
func (r *round) moved(expected []carillon.GuardRev) bool {
	for _, g := range expected {
		if r.guards[guardKey{g.Namespace, g.Key}].base.Rev != g.Rev {
			return true
		}
	}
	return false
}

// merged is several changes as one.
type merged struct {
	tries   int
	change  carillon.Change
	items   []*folding
	folded  []*foldedGuard
	one     [1]*foldedGuard   // room for folded: most changes fold one guard
	written []carillon.Guard  // of folded; the last ones of the change
	inserts []carillon.Change // written together with the change
	at      int               // where the change is in the commit
}

// expected are the folded guards as they were read.
func (m *merged) expected() []carillon.GuardRev {
	expected := make([]carillon.GuardRev, 0, len(m.folded))
	for _, g := range m.folded {
		expected = append(expected, g.base.Compare())
	}
	return expected
}

// fits says that the merged change, with this one, would name no row twice.
func (r *round) fits(item *folding, m *merged) bool {
	c := item.change
	if c.Job != nil && m.change.Job != nil {
		return false
	}
	for i := range c.Runs {
		if r.runs[c.Runs[i].ID] == m {
			return false
		}
	}
	for _, id := range c.Retried {
		if r.runs[id] == m {
			return false
		}
	}
	for i := range c.Guards {
		key := guardKey{c.Guards[i].Namespace, c.Guards[i].Key}
		if r.named[key].in == m || r.folds(key, m) {
			return false
		}
	}
	for _, g := range c.Compared {
		key := guardKey{g.Namespace, g.Key}
		if named := r.named[key]; named.in == m && named.rev != g.Rev || r.folds(key, m) {
			return false
		}
	}
	for i := range c.Folds {
		if len(r.named) > 0 && r.named[keyOf(&c.Folds[i])].in == m {
			return false
		}
	}
	return true
}

// folds says that the merged change folds the guard.
func (r *round) folds(key guardKey, m *merged) bool {
	g := r.guards[key]
	return g != nil && g.in == m
}

func (r *round) add(item *folding, m *merged) {
	c := item.change
	m.items = append(m.items, item)
	if c.Job != nil {
		m.change.Job = c.Job
	}
	for i := range c.Runs {
		r.runs[c.Runs[i].ID] = m
	}
	for _, id := range c.Retried {
		r.runs[id] = m
	}
	for i := range c.Guards {
		r.named[guardKey{c.Guards[i].Namespace, c.Guards[i].Key}] = namedGuard{m, writtenGuard}
	}
	for _, g := range c.Compared {
		key := guardKey{g.Namespace, g.Key}
		if r.named[key].in != m {
			m.change.Compared = append(m.change.Compared, g)
		}
		r.named[key] = namedGuard{m, g.Rev}
	}
	if m.change.Runs == nil { // the only change: the store does not modify its runs
		m.change.Runs = c.Runs[:len(c.Runs):len(c.Runs)]
	} else {
		m.change.Runs = append(m.change.Runs, c.Runs...)
	}
	m.change.Guards = append(m.change.Guards, c.Guards...)
	m.change.Retried = append(m.change.Retried, c.Retried...)
}

// close adds the guards. A guard that the folds left as it was is only compared.
func (m *merged) close() {
	own := len(m.change.Guards)
	m.change.Guards = slices.Grow(m.change.Guards, len(m.folded))
	for _, g := range m.folded {
		if !g.changed() {
			m.change.Compared = append(m.change.Compared, g.base.Compare())
			continue
		}
		m.change.Guards = append(m.change.Guards, g.Guard)
	}
	m.written = m.change.Guards[own:]
}

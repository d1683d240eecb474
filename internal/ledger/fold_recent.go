package ledger

import (
	"time"

	"github.com/carillon-run/carillon"
)

// recentGuards are guards as the goroutine of a fold list left them. It folds a guard that is here without
// reading it. If another writer was quicker the change loses, as it does if that happens after a read, and
// the next try reads the guard. Only its own goroutine uses it.
type recentGuards map[guardKey]recentGuard

type recentGuard struct {
	carillon.Guard
	at    carillon.Time // shortly before it was written
	alone int           // how many times in a row no other writer came in between
}

const (
	// Guards that other nodes write too are read: most changes would lose otherwise.
	minAlone = 3
	// A guard is read at every so many writes. Without a read a node is quicker than all others, which have
	// to read: it would never see one of them win.
	readEvery = 8
	// recentFor is much less than the time after which an unused guard is removed. A guard that was removed
	// and made anew could have the same revision and another value.
	recentFor = time.Second
	maxRecent = 10_000
)

// get returns a guard if it need not be read.
func (r recentGuards) get(key guardKey, now carillon.Time) (g carillon.Guard, ok bool) {
	recent := r[key]
	fresh := recent.at <= now && now < recent.at.Add(recentFor)
	kept := recent.Expires == 0 || now.Add(recentFor) < recent.Expires
	alone := recent.alone >= minAlone && recent.alone%readEvery != 0
	return recent.Guard, alone && fresh && kept
}

// left notes the guard of a change that won.
func (r recentGuards) left(g *foldedGuard, now carillon.Time) {
	key := guardKey{g.Namespace, g.Key}
	was, known := r[key]
	next := recentGuard{Guard: g.Guard, at: now}
	if known && was.Rev == g.base.Rev {
		next.alone = was.alone + 1
	}
	if g.changed() {
		next.Rev = g.NextRev()
	}
	if g.Value == nil {
		delete(r, key) // there is no row
		return
	}
	if !known && len(r) >= maxRecent {
		clear(r)
	}
	r[key] = next
}

// lost forgets the guards that a change expected in vain.
func (r recentGuards) lost(expected []carillon.GuardRev) {
	for _, g := range expected {
		delete(r, guardKey{g.Namespace, g.Key})
	}
}

package ledger

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
)

// foldList holds the calls that wait for one of the goroutines that commit changes with folds. Such changes
// have lists of their own, so changes without folds wait neither for a lock nor for the read of a guard. The
// guard of a change's last fold decides about its list, so folds of one guard are merged. The last fold is
// that of the limit that most jobs share: a change with a key of its own and a limit of its namespace goes to
// the list of the namespace. Two goroutines write the same guard only if it is not always the last one.
type foldList struct {
	mu     sync.Mutex
	calls  []*foldCall
	closed bool
	signal await.Signal

	// Used by the list's goroutine only:
	recent    recentGuards
	forgets   int64 // of the ledger, when recent was last used
	skipWaits int   // commits until it waits for callers again
}

func newFoldLists(n int) []*foldList {
	lists := make([]*foldList, n)
	for i := range lists {
		lists[i] = &foldList{signal: await.NewSignal(), recent: recentGuards{}}
	}
	return lists
}

// foldCall is the changes with folds of one call of Commit or Post that have the same list.
type foldCall struct {
	changes []carillon.Change
	done    func(lost []int, err error)
	posted  bool // no caller waits for it

	open int // changes that are not settled yet
	lost []int
}

// withFolds says that some of the changes fold guards, or have hooks.
func withFolds(changes []carillon.Change) bool {
	for i := range changes { // by index: every commit asks, and a change is large
		if len(changes[i].Folds) > 0 || len(changes[i].Hooks) > 0 {
			return true
		}
	}
	return false
}

// addSplit adds changes of which some fold guards, and calls done once, when all of them are settled. A
// change has lost if a fold says no, or if a row of its own is not as it was decided on. It does not lose
// because another writer changed a guard that it folds: then its folds are applied again. The folds of one
// guard are applied in the order in which they came, but for those that are applied again (see apart), and
// those of changes that fold several guards.
func (l *Ledger) addSplit(to *entries, e entry) {
	if slices.ContainsFunc(e.changes, func(c carillon.Change) bool { return c.Joined }) {
		e.done(nil, errors.New("a joined change cannot fold: merged changes do not keep the tie"))
		return
	}
	parts := l.split(e.changes)
	var mu sync.Mutex
	var lost []int
	var failed error
	open := 0
	for i := range parts {
		if len(parts[i].changes) > 0 {
			open++
		}
	}
	settle := func(p *part) func([]int, error) {
		return func(of []int, err error) {
			mu.Lock()
			defer mu.Unlock()
			for _, i := range of {
				lost = append(lost, p.index[i])
			}
			failed = errors.Join(failed, err)
			if open--; open == 0 {
				slices.Sort(lost)
				e.done(lost, failed)
			}
		}
	}
	for i := range parts {
		switch p := &parts[i]; {
		case len(p.changes) == 0:
		case i < len(l.folds):
			l.folds[i].add(&foldCall{changes: p.changes, posted: e.posted, done: settle(p)})
		default:
			l.add(to, entry{changes: p.changes, posted: e.posted, done: settle(p)})
		}
	}
}

// foldListOf is the index of the list of a change; len(l.folds) if the change has neither folds nor hooks.
func (l *Ledger) foldListOf(c *carillon.Change) int {
	switch {
	case len(c.Folds) == 0 && len(c.Hooks) == 0:
		return len(l.folds)
	case len(l.folds) == 1:
		return 0
	case len(c.Folds) == 0: // any list: the change steps no guard
		return int(uint64(c.Hooks[0].ID) % uint64(len(l.folds)))
	}
	hash := uint32(2166136261) // FNV-1a
	for _, b := range []byte(c.Folds[len(c.Folds)-1].Key) {
		hash = (hash ^ uint32(b)) * 16777619
	}
	return int(hash % uint32(len(l.folds)))
}

// part is some of the changes of a call, each with its index there.
type part struct {
	changes []carillon.Change
	index   []int
}

// split returns the part of each list, and as the last one the changes without folds. It counts first: a
// change is large, and a list that grows would copy it again and again.
func (l *Ledger) split(changes []carillon.Change) []part {
	parts, of := make([]part, len(l.folds)+1), make([]int, len(changes))
	counts := make([]int, len(parts))
	for i := range changes {
		of[i] = l.foldListOf(&changes[i])
		counts[of[i]]++
	}
	for i, n := range counts {
		if n > 0 {
			parts[i] = part{make([]carillon.Change, 0, n), make([]int, 0, n)}
		}
	}
	for i := range changes {
		p := &parts[of[i]]
		p.changes, p.index = append(p.changes, changes[i]), append(p.index, i)
	}
	return parts
}

func (f *foldList) add(call *foldCall) {
	call.open = len(call.changes)
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		call.done(nil, ErrClosed)
		return
	}
	f.calls = append(f.calls, call)
	f.mu.Unlock()
	f.signal.Set()
}

// foldAll commits the changes of a list until ctx ends, and then what is left.
func (l *Ledger) foldAll(ctx context.Context, f *foldList, committed chan<- commit) {
	for {
		batch, closed := f.take(l.cfg.MaxBatch, ctx.Err() != nil)
		if closed {
			return
		}
		if len(batch) > 0 {
			l.settle(context.WithoutCancel(ctx), f, batch, committed)
			f.regroup(batch)
			continue
		}
		select {
		case <-f.signal:
		case <-ctx.Done():
		}
	}
}

// take removes calls until they hold about limit changes.
func (f *foldList) take(limit int, closing bool) (batch []*foldCall, closed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, changes := 0, 0
	for n < len(f.calls) && changes < limit {
		changes += len(f.calls[n].changes)
		n++
	}
	batch = f.calls[:n:n]
	if f.calls = f.calls[n:]; len(f.calls) == 0 {
		f.calls = nil
	}
	f.closed = closing && n == 0
	return batch, f.closed
}

// regroup gives callers that were just answered a moment to come back: see groupcommit.go.
func (f *foldList) regroup(answered []*foldCall) {
	callers := 0
	for _, call := range answered {
		if !call.posted {
			callers++
		}
	}
	if f.skipWaits > 0 || callers < smallBatch || callers >= largeBatch {
		f.skipWaits = max(f.skipWaits-1, 0)
		return
	}
	begin := time.Now()
	for try := 0; try < maxYields && f.waiting() < callers && time.Since(begin) < groupWait; try++ {
		runtime.Gosched()
	}
	if time.Since(begin) > 10*groupWait {
		f.skipWaits = skippedWaits
	}
}

func (f *foldList) waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.calls)
}

// addAny adds changes to the lists that they belong to.
func (l *Ledger) addAny(to *entries, e entry) {
	if withFolds(e.changes) {
		l.addSplit(to, e)
	} else {
		l.add(to, e)
	}
}

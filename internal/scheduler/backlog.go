package scheduler

import (
	"maps"
	"slices"
	"sort"
	"sync"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
)

// backlog says of each lane where its waiting runs are. A lane is in one of two modes:
//
//   - live: memory has all of its runs up to the horizon. Nearly all lanes are live, and take no entry here.
//   - paged: memory had no room for all of them. It has those before a position; from there on only the store
//     has them, and the loader reads them page by page as there is room.
//
// Memory is bounded per lane: the backlog of one lane must not hide another lane's run. Lanes that differ
// only in their share are the exception: there can be millions of them. If more than maxPagedShares of them
// are paged, all of them are paged together, in the order of wakes.
// The backlog itself holds positions, no runs, and reads nothing.
type backlog struct {
	owns       func(shard int) bool // whether a shard is this node's own
	overflowed await.Signal         // one more lane is paged

	mu     sync.Mutex
	lanes  map[laneKey]*lane
	shares map[carillon.Lane]int // how many lanes with a share have an entry, by the lane without its share
}

// laneKey names a lane, or all lanes that differ from it only in their share.
type laneKey struct {
	carillon.Lane
	anyShare bool
}

// maxPagedShares is how many lanes that differ only in their share are paged one by one. Each of them needs
// reads of its own.
const maxPagedShares = 256

// lane is a lane that is paged, or whose next page is being read.
type lane struct {
	paged bool
	tail  tail
	// How many runs fitted into memory the last time, and this time so far. 0: not known, none.
	fittedLast, fitted int
}

// tail is the part of a paged lane that only the store has.
type tail struct {
	from carillon.WakePos
	// first is the run that had no room, if it is known. While it has none, the lane need not be read.
	first *carillon.Run
	// foreign: it has runs of other nodes' shards too. Only this node knows of them so far.
	foreign bool
}

func newBacklog(owns func(shard int) bool) *backlog {
	return &backlog{
		owns: owns, overflowed: await.NewSignal(),
		lanes: map[laneKey]*lane{}, shares: map[carillon.Lane]int{},
	}
}

// admit leaves out runs that belong to the tail of their lane: if memory took them now, they would overtake
// all runs that wait in the store.
func (b *backlog) admit(runs []carillon.Run) []carillon.Run {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.lanes) == 0 {
		return runs
	}
	kept := make([]carillon.Run, 0, len(runs))
	for i := range runs {
		l := b.lanes[b.keyOf(runs[i].Lane())]
		if l == nil || !l.paged || runs[i].WakePos().Less(l.tail.from) {
			kept = append(kept, runs[i])
		} else if !b.owns(runs[i].ID.Job.Shard()) {
			l.tail.foreign = true
		}
	}
	return kept
}

// overflow notes the runs that memory had no room for, by their indexes: their lanes are paged from the
// earliest of them on.
func (b *backlog) overflow(runs []carillon.Run, refused []int) {
	if len(refused) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range refused {
		first := runs[i]
		key := b.keyOf(first.Lane())
		if b.cut(key, tail{first.WakePos(), &first, !b.owns(first.ID.Job.Shard())}) {
			b.overflowed.Set()
		}
	}
}

// keyOf is the key of a lane's entry: that of all its shares if they are paged together. The caller holds mu.
func (b *backlog) keyOf(of carillon.Lane) laneKey {
	if of.Share == "" {
		return laneKey{Lane: of}
	}
	if together := (laneKey{of.WithoutShare(), true}); b.lanes[together] != nil {
		return together
	}
	return laneKey{Lane: of}
}

// cut makes a lane paged from a position on, unless its tail begins earlier already. The caller holds mu.
func (b *backlog) cut(key laneKey, t tail) (earlier bool) {
	l := b.lanes[key]
	if l == nil {
		l = &lane{}
		b.lanes[key] = l
		if key.Share != "" {
			b.shares[key.Lane.WithoutShare()]++
		}
	}
	t.foreign = t.foreign || l.tail.foreign
	if earlier = !l.paged || t.from.Less(l.tail.from); earlier {
		l.paged, l.tail = true, t
	}
	l.tail.foreign = t.foreign
	if b.shares[key.Lane.WithoutShare()] > maxPagedShares {
		b.join(key.Lane.WithoutShare())
	}
	return earlier
}

// join has all shares of a lane paged together, from the earliest of their tails on. A share whose page is
// being read keeps its entry until it was read. The caller holds mu.
func (b *backlog) join(of carillon.Lane) {
	together := laneKey{of, true}
	for key, l := range b.lanes {
		if key.Share != "" && key.Lane.WithoutShare() == of && l.paged {
			b.drop(key)
			b.cut(together, l.tail)
		}
	}
}

// drop removes the entry of a lane. The caller holds mu.
func (b *backlog) drop(key laneKey) {
	if b.lanes[key] == nil {
		return
	}
	delete(b.lanes, key)
	if of := key.Lane.WithoutShare(); key.Share != "" {
		if b.shares[of]--; b.shares[of] == 0 {
			delete(b.shares, of)
		}
	}
}

// paged lists the lanes that are paged.
func (b *backlog) paged() []laneKey {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Collect(maps.Keys(b.lanes)), func(key laneKey) bool {
		return !b.lanes[key].paged
	})
}

// pagedBefore lists the lanes whose tail begins at a position or before it: a reader that is there can pass
// over their runs. It leaves out lanes that are paged together.
func (b *backlog) pagedBefore(pos carillon.WakePos) (lanes []carillon.Lane) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, l := range b.lanes {
		if l.paged && !key.anyShare && !pos.Less(l.tail.from) {
			lanes = append(lanes, key.Lane)
		}
	}
	return lanes
}

// first returns the run that a paged lane had no room for; nil: it is not known.
func (b *backlog) first(key laneKey) (first *carillon.Run, paged bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.lanes[key]; l != nil && l.paged {
		return l.tail.first, true
	}
	return nil, false
}

// resume makes a paged lane live again. It returns the tail that it had, and how many runs of it to read now.
// It comes before the read: memory admits runs that are committed from now on, and runs that were committed
// before are in the page or after it. A run that comes both ways counts once.
func (b *backlog) resume(key laneKey) (was tail, size int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := b.lanes[key]
	was = l.tail
	l.paged, l.tail = false, tail{}
	return was, l.pageSize()
}

// The size of a page follows how many runs fitted last time: runs of the last page that do not fit are read
// again later.
const (
	smallPage   = 100
	largestPage = 10_000
)

func (l *lane) pageSize() int {
	size := l.fittedLast // most likely as many have left since then
	switch {
	case l.fitted > 0 && l.fittedLast > 0:
		size = l.fitted / 4 // more have left
	case l.fitted > 0:
		size = 2 * l.fitted
	}
	return min(max(size, smallPage), largestPage)
}

// resumed says that a page of a tail was read and offered to memory. It says whether all of the page fitted
// and the store has more.
func (b *backlog) resumed(key laneKey, was tail, page []carillon.Run, size int) (more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.joined(key, tail{from: was.from, foreign: was.foreign}) {
		return false
	}
	l := b.lanes[key]
	full := l.paged // again: a part of the page, or of what was committed meanwhile, did not fit
	switch {
	case len(page) < size && !full:
		b.drop(key)
		return false
	case len(page) < size:
		l.fittedLast, l.fitted = 0, 0
		return false
	case full:
		l.fittedLast = l.fitted + sort.Search(len(page), func(i int) bool {
			return !page[i].WakePos().Less(l.tail.from)
		})
		l.fitted = 0
	default:
		l.fitted += len(page)
	}
	b.cut(key, tail{from: page[len(page)-1].WakePos(), foreign: was.foreign})
	return !full
}

// unread says that the page of a tail could not be read.
func (b *backlog) unread(key laneKey, was tail) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.joined(key, was) {
		return
	}
	b.cut(key, was)
	if l := b.lanes[key]; l != nil { // else that was one share too many, and it is paged with the others now
		l.fittedLast, l.fitted = 0, 0
	}
}

// joined says that the other shares of a lane came to be paged together while a page of this one was read.
// Then it is read again with them, from t on. The caller holds mu.
func (b *backlog) joined(key laneKey, t tail) bool {
	if key.Share == "" || b.keyOf(key.Lane) == key {
		return false
	}
	b.drop(key)
	b.cut(b.keyOf(key.Lane), t)
	return true
}

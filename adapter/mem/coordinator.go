package mem

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/carillon-run/carillon"
)

// Coordinator knows the members of one process. They are gone when they leave: a process does not outlive itself.
type Coordinator struct {
	mu       sync.Mutex
	members  map[string]seat
	watchers map[chan []carillon.Member]struct{}
}

type seat struct {
	carillon.Member
	lost chan struct{}
}

// NewCoordinator returns a coordinator without members.
func NewCoordinator() *Coordinator {
	return &Coordinator{members: map[string]seat{}, watchers: map[chan []carillon.Member]struct{}{}}
}

// Join refuses an ID that is there already.
func (c *Coordinator) Join(ctx context.Context, m carillon.Member) (<-chan struct{}, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, taken := c.members[m.ID]; taken {
		return nil, fmt.Errorf("join %s: %w", m.ID, carillon.ErrConflict)
	}
	s := seat{m, make(chan struct{})}
	c.members[m.ID] = s
	c.tell()
	context.AfterFunc(ctx, func() { c.remove(s) })
	return s.lost, nil
}

// Lose takes a member away as if its connection had been lost. It is for tests: in one process nothing else does that.
func (c *Coordinator) Lose(id string) {
	c.mu.Lock()
	s, ok := c.members[id]
	c.mu.Unlock()
	if ok && c.remove(s) {
		close(s.lost)
	}
}

// remove says whether it was this call that removed it.
func (c *Coordinator) remove(s seat) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.members[s.ID].lost != s.lost {
		return false
	}
	delete(c.members, s.ID)
	c.tell()
	return true
}

// Watch delivers the latest list only: who looks late sees what is, not what was. The channel is closed when ctx ends.
func (c *Coordinator) Watch(ctx context.Context) (<-chan []carillon.Member, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := make(chan []carillon.Member, 1)
	w <- c.list()
	c.watchers[w] = struct{}{}
	context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watchers, w)
		close(w)
	})
	return w, nil
}

func (c *Coordinator) tell() {
	for w := range c.watchers {
		select {
		case <-w: // it has not looked yet; that list is old now
		default:
		}
		w <- c.list() // there is room: only this function sends, under the lock
	}
}

// list is a new slice each time, because each watcher owns what it gets.
func (c *Coordinator) list() []carillon.Member {
	list := make([]carillon.Member, 0, len(c.members))
	for s := range maps.Values(c.members) {
		list = append(list, s.Member)
	}
	slices.SortFunc(list, func(a, b carillon.Member) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

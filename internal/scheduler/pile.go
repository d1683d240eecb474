package scheduler

import (
	"sync"

	"github.com/carillon-run/carillon/internal/await"
)

// pile collects items; one loop takes them all at once.
type pile[T any] struct {
	mu    *sync.Mutex
	items *[]T
	ready await.Signal
}

func newPile[T any]() pile[T] { return pile[T]{new(sync.Mutex), new([]T), await.NewSignal()} }

func (p pile[T]) add(items ...T) {
	if len(items) == 0 {
		return
	}
	p.mu.Lock()
	*p.items = append(*p.items, items...)
	p.mu.Unlock()
	p.ready.Set()
}

func (p pile[T]) take() []T {
	p.mu.Lock()
	defer p.mu.Unlock()
	items := *p.items
	*p.items = nil
	return items
}

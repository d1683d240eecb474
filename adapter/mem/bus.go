package mem

import (
	"context"
	"iter"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/carillon-run/carillon"
)

// Bus publishes events to listeners in the same process.
type Bus struct {
	mu        sync.Mutex                  // guards changes to the list
	listeners atomic.Pointer[[]*listener] // replaced, never changed: Publish reads it without the lock
}

// listener has room for buffered events and one more slot for the event that says that it missed some. That
// event goes into the stream at once, where the gap is, and needs neither a later event nor a goroutine to be
// delivered.
type listener struct {
	filter carillon.EventFilter

	mu     sync.Mutex
	events chan carillon.Event
	behind bool // the latest event in events is EventMissed
	closed bool
}

const buffered = 1024

// NewBus returns a bus without listeners.
func NewBus() *Bus { return &Bus{} }

// Listening says whether the bus has a listener.
func (b *Bus) Listening() bool { return b.listeners.Load() != nil }

func (b *Bus) Publish(_ context.Context, events iter.Seq[carillon.Event]) error {
	listeners := b.listeners.Load()
	if listeners == nil {
		return nil
	}
	all := slices.Collect(events) // once, however many listen
	for _, l := range *listeners {
		l.tell(all)
	}
	return nil
}

func (b *Bus) Subscribe(ctx context.Context, filter carillon.EventFilter) (<-chan carillon.Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := &listener{filter: filter, events: make(chan carillon.Event, buffered+1)}
	b.change(func(all []*listener) []*listener { return append(all, l) })
	context.AfterFunc(ctx, func() {
		b.change(func(all []*listener) []*listener {
			return slices.DeleteFunc(all, func(other *listener) bool { return other == l })
		})
		l.close()
	})
	return l.events, nil
}

func (b *Bus) change(f func([]*listener) []*listener) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []*listener
	if old := b.listeners.Load(); old != nil {
		all = slices.Clone(*old)
	}
	if all = f(all); len(all) == 0 {
		b.listeners.Store(nil)
		return
	}
	b.listeners.Store(&all)
}

func (l *listener) tell(events []carillon.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	for i := range events {
		e := &events[i]
		if !matches(&l.filter, e) {
			continue
		}
		// Only this function sends, and it holds the lock, so room that is free now stays free.
		switch {
		case len(l.events) < buffered:
			l.events <- *e
			l.behind = false
		case !l.behind:
			l.events <- carillon.Event{Kind: carillon.EventMissed}
			l.behind = true
		}
	}
}

func (l *listener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	close(l.events)
}

func matches(f *carillon.EventFilter, e *carillon.Event) bool {
	return (f.Namespace == "" || e.Namespace == f.Namespace) &&
		(f.Job == 0 || e.Job == f.Job) &&
		(f.Run.IsZero() || e.Run.ID == f.Run)
}

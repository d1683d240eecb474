package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

// Bus carries events from one process to the others by NOTIFY. It is slower than the bus inside of a process and says less:
// events are gathered and sent a few times a second, by name; who listens reads the runs themselves. What happened to a
// run meanwhile is one event, and where there was too much to name it is EventMissed.
//
// A process does not hear its own events here: a node has a bus of its own for those, and would hear them twice.
type Bus struct {
	store  *Store
	sender string
	config BusConfig

	mu        sync.Mutex
	pending   map[name]struct{}
	overflow  bool // more has happened than pending says
	listeners []*listener
	published chan struct{} // something is pending
	changed   chan struct{} // the first listener came, or the last one left
}

// BusConfig is how a bus works. The zero value is a good one.
type BusConfig struct {
	// URL is where to listen. Default: as the store. A pooler that hands each transaction to another connection cannot be
	// listened through: then it is the address of the server itself.
	URL string
	// Every is the least time between two notifications. Default 250 ms.
	Every time.Duration
	// Logger hears when the connection is lost. Default slog.Default().
	Logger *slog.Logger
}

// NewBus uses the store's connections to publish and to read, and one of its own to listen while anybody does.
func NewBus(store *Store, config BusConfig) *Bus {
	config.Every = cmp.Or(config.Every, 250*time.Millisecond)
	config.Logger = cmp.Or(config.Logger, slog.Default())
	return &Bus{
		store: store, sender: rand.Text()[:senderSize], config: config, pending: map[name]struct{}{},
		published: make(chan struct{}, 1), changed: make(chan struct{}, 1),
	}
}

// Run sends what is published and listens for others until ctx ends. Without it nothing is delivered.
func (b *Bus) Run(ctx context.Context) error {
	var listening sync.WaitGroup
	listening.Go(func() { b.listen(ctx) })
	b.send(ctx)
	listening.Wait()
	return nil
}

// Publish only takes note. It never waits for the database.
func (b *Bus) Publish(_ context.Context, events []carillon.Event) error {
	if len(events) == 0 {
		return nil
	}
	b.mu.Lock()
	for i := range events {
		b.note(&events[i])
	}
	b.mu.Unlock()
	signal(b.published)
	return nil
}

// Full says that nobody need publish at present: more has happened than one notification can say, so who listens will hear
// that it missed some.
func (b *Bus) Full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.overflow
}

func (b *Bus) note(e *carillon.Event) {
	if e.Kind == carillon.EventMissed || len(b.pending) >= maxNames {
		b.overflow = true
	}
	if b.overflow {
		clear(b.pending)
		return
	}
	b.pending[nameOf(e)] = struct{}{}
}

// Subscribe delivers what others publish. The listener hears EventMissed as soon as it is connected, unless somebody listened
// before it: what was published until then has passed it by.
func (b *Bus) Subscribe(ctx context.Context, filter carillon.EventFilter) (<-chan carillon.Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := &listener{filter: filter, events: make(chan carillon.Event, buffered+1)}
	b.mu.Lock()
	b.listeners = append(b.listeners, l)
	b.mu.Unlock()
	signal(b.changed)
	context.AfterFunc(ctx, func() {
		b.mu.Lock()
		b.listeners = slices.DeleteFunc(b.listeners, func(other *listener) bool { return other == l })
		close(l.events)
		b.mu.Unlock()
		signal(b.changed)
	})
	return l.events, nil
}

func (b *Bus) listening() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.listeners) > 0
}

// wanted says whether any listener's filter lets the name through.
func (b *Bus) wanted(n name) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.ContainsFunc(b.listeners, func(l *listener) bool { return l.matches(n) })
}

// tell delivers events to the listeners that want them.
func (b *Bus) tell(events ...carillon.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.listeners {
		for i := range events {
			l.tell(&events[i])
		}
	}
}

// listener has room for buffered events and one more place, for the word that it missed some. It is used with the lock of
// its bus: nobody else sends, so what is free stays free.
type listener struct {
	filter carillon.EventFilter
	events chan carillon.Event
	behind bool // the latest thing in events is EventMissed
}

const buffered = 1024

func (l *listener) tell(e *carillon.Event) {
	missed := e.Kind == carillon.EventMissed
	switch {
	case !missed && !l.matches(nameOf(e)):
	case !missed && len(l.events) < buffered:
		l.events <- *e
		l.behind = false
	case !l.behind || len(l.events) == 0:
		l.events <- carillon.Event{Kind: carillon.EventMissed}
		l.behind = true
	}
}

func (l *listener) matches(n name) bool {
	f := &l.filter
	return (f.Namespace == "" || n.namespace == f.Namespace) && (f.Job == 0 || n.run.Job == f.Job) && (f.Run.IsZero() || n.run == f.Run)
}

// signal wakes whoever waits on c, now or later.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

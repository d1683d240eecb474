package postgres

import (
	"cmp"
	"context"
	"crypto/rand"
	"iter"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
)

// Bus carries events from one process to the others by NOTIFY. It is slower than the bus inside a process and
// says less: it collects events and sends their names a few times a second, and the receiving process reads
// the runs itself. Everything that happens to a run in that time is one event. If there are too many names to
// send, the bus sends EventMissed.
//
// A process does not hear its own events here: a node has an in-process bus for those, and would hear them
// twice.
type Bus struct {
	store  *Store
	sender string
	config BusConfig

	mu        sync.Mutex
	pending   map[name]struct{}
	overflow  bool // more has happened than pending says
	listeners []*listener
	published await.Signal // something is pending
	changed   await.Signal // the first listener came, or the last one left
}

// BusConfig configures a bus. The zero value is a good configuration.
type BusConfig struct {
	// URL is where to listen. Default: the store's address. It is not possible to listen through a pooler
	// that gives each transaction to another connection; URL must then be the address of the server itself.
	URL string
	// Every is the least time between two notifications. Default 250 ms.
	Every time.Duration
	// Logger is told when the connection is lost. Default slog.Default().
	Logger *slog.Logger
}

// NewBus returns a bus that uses the store's connections to publish and to read. While there are listeners it
// has one more connection, to listen.
func NewBus(store *Store, config BusConfig) *Bus {
	config.Every = cmp.Or(config.Every, 250*time.Millisecond)
	config.Logger = cmp.Or(config.Logger, slog.Default())
	return &Bus{
		store: store, sender: rand.Text()[:senderSize], config: config, pending: map[name]struct{}{},
		published: await.NewSignal(), changed: await.NewSignal(),
	}
}

// Run sends published events and listens for events of other processes until ctx ends. Without it nothing is
// delivered.
func (b *Bus) Run(ctx context.Context) error {
	var listening sync.WaitGroup
	listening.Go(func() { b.listen(ctx) })
	b.send(ctx)
	listening.Wait()
	return nil
}

// Publish only notes the events. It never waits for the database. Once more has happened than one
// notification can say, it ignores further events: the listeners will hear that they missed some.
func (b *Bus) Publish(_ context.Context, events iter.Seq[carillon.Event]) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.overflow {
		return nil
	}
	for e := range events {
		if e.Kind == carillon.EventMissed || len(b.pending) >= maxNames {
			b.overflow = true
			clear(b.pending)
			break
		}
		b.pending[nameOf(&e)] = struct{}{}
	}
	if b.overflow || len(b.pending) > 0 {
		b.published.Set()
	}
	return nil
}

// Subscribe delivers events that other processes publish. If the bus was not listening yet, the listener
// hears EventMissed as soon as the bus is connected, because earlier events did not reach it.
func (b *Bus) Subscribe(ctx context.Context, filter carillon.EventFilter) (<-chan carillon.Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l := &listener{filter: filter, events: make(chan carillon.Event, buffered+1)}
	b.mu.Lock()
	b.listeners = append(b.listeners, l)
	b.mu.Unlock()
	b.changed.Set()
	context.AfterFunc(ctx, func() {
		b.mu.Lock()
		b.listeners = slices.DeleteFunc(b.listeners, func(other *listener) bool { return other == l })
		close(l.events)
		b.mu.Unlock()
		b.changed.Set()
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

// listener has room for buffered events and one more place for EventMissed. The bus holds its lock whenever
// it uses a listener, so no other goroutine sends, and free room stays free.
type listener struct {
	filter carillon.EventFilter
	events chan carillon.Event
	behind bool // the latest event in events is EventMissed
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
	return (f.Namespace == "" || n.namespace == f.Namespace) && (f.Job == 0 || n.run.Job == f.Job) &&
		(f.Run.IsZero() || n.run == f.Run)
}

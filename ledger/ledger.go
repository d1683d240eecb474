// Package ledger is the one door for writes. It merges what many callers want committed at the same time into one
// commit of the store, and tells listeners what became true.
package ledger

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon"
)

// ErrClosed is what callers get once the ledger has stopped.
var ErrClosed = errors.New("the ledger is closed")

// Config says what a ledger writes to and whom it tells.
type Config struct {
	Store carillon.Store
	IDs   *carillon.IDs // for Submit

	// MaxBatch bounds the changes of one commit: a larger one makes everybody wait longer for little gain. Default 4000.
	MaxBatch int

	// Waiting is how many due runs wait for a worker. While some do, ends are held back so that starts go first: a start
	// that waits is a late job, an end that waits is only a late record. Default: none wait.
	Waiting func() int
	// HoldEnds bounds that. Default 200ms.
	HoldEnds time.Duration

	// Then are told, in order and one commit at a time, what was committed. Rows carry their new Rev. They must be quick
	// and must not wait for the ledger. A worker takes from here what it has claimed, a scheduler what has to be woken.
	Then []func(committed []carillon.Change)
}

// Ledger merges commits: an idle one commits at once, a busy one gathers what came while it was writing.
type Ledger struct {
	cfg         Config
	slots       Slots
	Definitions *Definitions

	flushing chan struct{} // capacity 1: full from a commit until its listeners were told

	failing atomic.Pointer[error] // of the last commit; nil: it went well
	broken  chan error            // capacity 1: the first permanent error

	mu     sync.Mutex
	starts line // everything but ends
	ends   line
	closed bool
	signal chan struct{} // capacity 1: there is something to flush
}

// line is what waits to be committed.
type line struct {
	entries []entry
	changes int
	since   time.Time // when the oldest came
}

type entry struct {
	changes []carillon.Change
	done    func(lost []int, err error)
}

func New(cfg Config) *Ledger {
	cfg.MaxBatch = cmp.Or(cfg.MaxBatch, 4000)
	cfg.HoldEnds = cmp.Or(cfg.HoldEnds, 200*time.Millisecond)
	if cfg.Waiting == nil {
		cfg.Waiting = func() int { return 0 }
	}
	return &Ledger{cfg: cfg, Definitions: newDefinitions(cfg.Store), signal: make(chan struct{}, 1), broken: make(chan error, 1), flushing: make(chan struct{}, 1)}
}

// Commit returns when the changes are on disk or have lost; see carillon.Store. The rows of those that won carry their
// new Rev afterwards. If ctx ends first, nothing is known.
func (l *Ledger) Commit(ctx context.Context, changes []carillon.Change) (lost []int, err error) {
	type result struct {
		lost []int
		err  error
	}
	done := make(chan result, 1)
	l.add(&l.starts, entry{changes, func(lost []int, err error) { done <- result{lost, err} }})
	select {
	case r := <-done:
		return r.lost, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Post commits ends of runs without waiting; done is called from the ledger's own goroutine and must be quick.
func (l *Ledger) Post(changes []carillon.Change, done func(lost []int, err error)) {
	l.add(&l.ends, entry{changes, done})
}

func (l *Ledger) add(to *line, e entry) {
	if len(e.changes) == 0 {
		e.done(nil, nil)
		return
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		e.done(nil, ErrClosed)
		return
	}
	if len(to.entries) == 0 {
		to.since = time.Now()
	}
	to.entries = append(to.entries, e)
	to.changes += len(e.changes)
	l.mu.Unlock()
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// Run commits until ctx ends, then what is left, and refuses what comes later.
func (l *Ledger) Run(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		batch, wait := l.take(false)
		if len(batch) > 0 {
			l.flush(context.WithoutCancel(ctx), batch) // a commit that was begun is not broken off
			continue
		}
		timer.Reset(cmp.Or(wait, time.Hour))
		select {
		case <-l.signal:
		case <-timer.C:
		case <-ctx.Done():
			return l.close(ctx)
		}
	}
}

func (l *Ledger) close(ctx context.Context) error {
	for {
		batch, _ := l.take(true)
		if len(batch) == 0 {
			return nil
		}
		l.flush(context.WithoutCancel(ctx), batch)
	}
}

// Broken delivers the first permanent error of the store: after it (a disk that cannot be trusted any more) every further
// commit fails too.
func (l *Ledger) Broken() <-chan error { return l.broken }

// Failing is why the last commit did not go well; nil if it did.
func (l *Ledger) Failing() error {
	if err := l.failing.Load(); err != nil {
		return *err
	}
	return nil
}

// heldBatches bounds how many ends are held back, in batches: they are memory, and a longer wait for the last of them.
const heldBatches = 8

// take removes the next batch: starts, and ends unless they should let starts go first. wait is how long to wait for
// that if the batch is empty.
func (l *Ledger) take(closing bool) (batch []entry, wait time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	batch = l.starts.take(l.cfg.MaxBatch)
	if l.ends.changes > 0 {
		wait = l.cfg.HoldEnds - time.Since(l.ends.since)
		hold := !closing && wait > 0 && l.ends.changes < heldBatches*l.cfg.MaxBatch && l.cfg.Waiting() > 0
		if !hold {
			batch = append(batch, l.ends.take(l.cfg.MaxBatch)...)
		}
	}
	if len(batch) == 0 && closing {
		l.closed = true
	}
	return batch, max(wait, 0)
}

// take removes entries until they hold about limit changes, at least one.
func (w *line) take(limit int) []entry {
	n, changes := 0, 0
	for n < len(w.entries) && changes < limit {
		changes += len(w.entries[n].changes)
		n++
	}
	batch := w.entries[:n:n]
	w.entries = w.entries[n:]
	w.changes -= changes
	w.since = time.Now() // of what is left, near enough
	if len(w.entries) == 0 {
		w.entries = nil
	}
	return batch
}

// Told returns when everything that the store has committed by now has been told to those who listen (see Config.Then).
func (l *Ledger) Told() {
	l.flushing <- struct{}{}
	<-l.flushing
}

func (l *Ledger) flush(ctx context.Context, batch []entry) {
	l.flushing <- struct{}{}
	defer func() { <-l.flushing }()
	all := batch[0].changes
	if len(batch) > 1 {
		all = nil
		for _, e := range batch {
			all = append(all, e.changes...)
		}
	}
	lost, err := l.cfg.Store.Commit(ctx, all)
	if err != nil {
		l.failing.Store(&err)
		if errors.Is(err, carillon.ErrPermanent) {
			select {
			case l.broken <- err:
			default:
			}
		}
		for _, e := range batch {
			e.done(nil, err)
		}
		return
	}
	l.failing.Store(nil)
	won := raise(all, lost)
	for _, then := range l.cfg.Then { // before the answer: who hears that a run is his has been told of it
		then(won)
	}
	answer(batch, lost)
}

// raise gives the rows of the changes that won their new Rev, and returns those changes.
func raise(all []carillon.Change, lost []int) []carillon.Change {
	won := all
	if len(lost) > 0 {
		won = make([]carillon.Change, 0, len(all)-len(lost))
	}
	for i := range all {
		if len(lost) > 0 && lost[0] == i {
			lost = lost[1:]
			continue
		}
		c := &all[i]
		if c.Job != nil {
			c.Job.Rev++
		}
		for k := range c.Runs {
			c.Runs[k].Rev++
		}
		for k := range c.Guards {
			c.Guards[k].Rev++
		}
		if len(won) != len(all) {
			won = append(won, *c)
		}
	}
	return won
}

// answer tells each caller which of its own changes lost.
func answer(batch []entry, lost []int) {
	start := 0
	for _, e := range batch {
		end := start + len(e.changes)
		var own []int
		for len(lost) > 0 && lost[0] < end {
			own = append(own, lost[0]-start)
			lost = lost[1:]
		}
		e.done(own, nil)
		start = end
	}
}

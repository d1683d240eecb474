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

	// Flushers is how many commits may be under way at the same time: more than one where the store can use it. Then what
	// is told of two of them may come in either order. Default 1.
	Flushers int
	// MaxBatch bounds the changes of one commit: a larger one makes everybody wait longer for little gain. Default 4000.
	MaxBatch int

	// Starting says that more starts are about to come: due runs wait, and some are on their way to a worker. Then ends are
	// held back: a start that waits is a late job, an end that waits is only a late record. Default: never.
	Starting func() bool
	// HoldEnds bounds that. Default 300ms.
	HoldEnds time.Duration

	// Then are told, in order and one commit at a time, what was committed. Rows carry their new Rev, runs no Output. They must be quick
	// and must not wait for the ledger. A desk takes from here what was claimed for its workers, a scheduler what has to be woken.
	Then []func(committed []carillon.Change)
}

// Ledger merges commits: an idle one commits at once, a busy one gathers what came while it was writing.
type Ledger struct {
	cfg         Config
	slots       Slots
	Definitions *Definitions

	failing atomic.Pointer[error] // of the last commit; nil: it went well
	broken  chan error            // capacity 1: the first permanent error

	mu      sync.Mutex
	starts  line // everything but ends
	ends    line
	closed  bool
	writing int           // changes that are being written, and what follows: see gather.go
	hurried int           // commits until callers are waited for again
	signal  chan struct{} // capacity 1: there is something to flush
}

// line is what waits to be committed.
type line []entry

type entry struct {
	changes []carillon.Change
	done    func(lost []int, err error)
	since   time.Time // it waits
	posted  bool      // nobody waits for it
}

func New(cfg Config) *Ledger {
	cfg.Flushers = cmp.Or(cfg.Flushers, 1)
	cfg.MaxBatch = cmp.Or(cfg.MaxBatch, 4000)
	cfg.HoldEnds = cmp.Or(cfg.HoldEnds, 300*time.Millisecond)
	if cfg.Starting == nil {
		cfg.Starting = func() bool { return false }
	}
	return &Ledger{cfg: cfg, Definitions: newDefinitions(cfg.Store), signal: make(chan struct{}, 1), broken: make(chan error, 1)}
}

// Commit returns when the changes are on disk or have lost; see carillon.Store. The rows of those that won carry their
// new Rev afterwards. If ctx ends first, nothing is known.
func (l *Ledger) Commit(ctx context.Context, changes []carillon.Change) (lost []int, err error) {
	if len(changes) == 0 {
		return nil, nil
	}
	type result struct {
		lost []int
		err  error
	}
	done := make(chan result, 1)
	l.add(&l.starts, entry{changes: changes, done: func(lost []int, err error) { done <- result{lost, err} }})
	select {
	case r := <-done:
		return r.lost, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Post commits ends of runs without waiting; done is called from the ledger's own goroutine and must be quick. Many ends are
// better posted in pieces: the ledger keeps what was posted at once together.
func (l *Ledger) Post(changes []carillon.Change, done func(lost []int, err error)) {
	l.add(&l.ends, entry{changes: changes, done: done, posted: true})
}

func (l *Ledger) add(to *line, e entry) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		e.done(nil, ErrClosed)
		return
	}
	e.since = time.Now()
	*to = append(*to, e)
	l.mu.Unlock()
	l.wake()
}

func (l *Ledger) wake() {
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// Run commits until ctx ends, then what is left, and refuses what comes later. While listeners are told of one commit, the
// next is being written.
func (l *Ledger) Run(ctx context.Context) error {
	committed := make(chan commit, 1)
	var telling sync.WaitGroup
	telling.Go(func() {
		for c := range committed {
			l.tell(c)
		}
	})
	var flushing sync.WaitGroup
	for range l.cfg.Flushers {
		flushing.Go(func() { l.flushAll(ctx, committed) })
	}
	flushing.Wait()
	close(committed)
	telling.Wait()
	return nil
}

func (l *Ledger) flushAll(ctx context.Context, committed chan<- commit) {
	for ctx.Err() == nil {
		if batch := l.take(false); len(batch) > 0 {
			l.flush(context.WithoutCancel(ctx), batch, committed) // a commit that was begun is not broken off
			l.gather(line(batch))
			continue
		}
		select {
		case <-l.signal:
		case <-l.overdue():
		case <-ctx.Done():
		}
	}
	for batch := l.take(true); len(batch) > 0; batch = l.take(true) {
		l.flush(context.WithoutCancel(ctx), batch, committed)
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

// take removes the next batch: starts, and ends unless they should let starts go first. Where none is in line at the moment
// but some are about to come, only a few ends are written in between: a writer that stands still helps nobody.
func (l *Ledger) take(closing bool) (batch []entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !closing && !l.worthwhile() {
		return nil
	}
	batch = l.starts.take(l.cfg.MaxBatch)
	if len(l.ends) > 0 {
		hold := !closing && l.cfg.Starting() && time.Since(l.ends[0].since) < l.cfg.HoldEnds
		switch {
		case !hold:
			batch = append(batch, l.ends.take(l.cfg.MaxBatch)...)
		case len(batch) == 0:
			batch = l.ends.take(max(l.cfg.MaxBatch/8, 1))
		}
	}
	if len(batch) == 0 && closing {
		l.closed = true
	}
	l.writing += line(batch).count()
	if len(l.starts)+len(l.ends) > 0 {
		l.wake() // another flusher may be free
	}
	return batch
}

// take removes entries until they hold about limit changes, at least one.
func (w *line) take(limit int) []entry {
	n, changes := 0, 0
	for n < len(*w) && changes < limit {
		changes += len((*w)[n].changes)
		n++
	}
	batch := (*w)[:n:n]
	*w = (*w)[n:]
	if len(*w) == 0 {
		*w = nil
	}
	return batch
}

// commit is what the store has written for a batch.
type commit struct {
	batch []entry
	all   []carillon.Change
	lost  []int
}

func (l *Ledger) flush(ctx context.Context, batch []entry, committed chan<- commit) {
	all := batch[0].changes
	if len(batch) > 1 {
		all = nil
		for _, e := range batch {
			all = append(all, e.changes...)
		}
	}
	lost, err := l.cfg.Store.Commit(ctx, all)
	if err != nil {
		l.fail(err)
		for _, e := range batch {
			e.done(nil, err)
		}
		return
	}
	l.failing.Store(nil)
	committed <- commit{batch, all, lost}
}

func (l *Ledger) fail(err error) {
	l.failing.Store(&err)
	l.Definitions.ForgetAll()
	if errors.Is(err, carillon.ErrPermanent) {
		select {
		case l.broken <- err:
		default:
		}
	}
}

// tell tells the listeners of a commit, and then its callers: who hears that a run is his has been told of it.
func (l *Ledger) tell(c commit) {
	if won := raise(c.all, c.lost); len(won) > 0 {
		for _, then := range l.cfg.Then {
			then(won)
		}
	}
	answer(c.batch, c.lost)
}

// raise gives the rows of the changes that won their new Rev, and returns those changes. What lies beside a run is written
// now: it is let go, lest it stay in memory with a run that waits, and be written again with its claim.
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
			c.Runs[k].Output = nil
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

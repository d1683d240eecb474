// Package ledger is the one door for writes. It merges the changes of concurrent callers into one commit of
// the store (group commit), and tells listeners what was committed. Changes that step the same guard become
// one change (folds).
package ledger

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
	"github.com/carillon-run/carillon/internal/idgen"
)

// ErrClosed is what callers get once the ledger has stopped.
var ErrClosed = errors.New("the ledger is closed")

// Config says which store a ledger writes to, and how.
type Config struct {
	Store carillon.Store
	IDs   *idgen.IDs      // for Submit
	Clock *carillon.Clock // default this machine's

	// Flushers is how many commits can run at the same time: more than one where the store can use it. As
	// many commits of changes with folds can run beside them. With several, listeners can hear of two commits
	// in either order, and no end is held back: it delays no start. Default 1.
	Flushers int
	// MaxBatch bounds the changes of one commit: with a larger commit all callers wait longer for little
	// gain. Default 4000.
	MaxBatch int

	// HoldEnds bounds how long ends are held back while starts are about to come: see Slots. Default 50ms.
	HoldEnds time.Duration
}

// Ledger merges commits: an idle ledger commits at once, a busy one coalesces the changes that come while it
// writes.
type Ledger struct {
	cfg         Config
	slots       Slots                                // nil: none
	limits      func(*carillon.Job) []carillon.Limit // nil: those of the job
	gates       Gates                                // nil: there are none
	listeners   []func(committed []carillon.Change)
	Definitions *Definitions

	failing atomic.Pointer[error] // of the last commit; nil: it went well
	broken  chan error            // capacity 1: the first permanent error
	forgets atomic.Int64          // counts calls of Forget

	waiting    atomic.Int64 // the number of changes in starts and submits; written under mu
	commitTime atomic.Int64 // nanoseconds of a commit lately: see Wait

	mu        sync.Mutex
	starts    entries // everything but submits and ends
	submits   entries // behind starts: callers must not delay the runs of jobs that are accepted already
	ends      entries
	crowd     crowd
	closed    bool
	writing   int          // changes in a running commit, or in the wait after it: see groupcommit.go
	skipWaits int          // commits until the ledger waits for callers again
	signal    await.Signal // there is something to flush

	folds []*foldList // of changes with folds: see fold_lists.go

	turns turns // of submits with unique keys
}

// entries holds the entries that wait to be committed.
type entries []entry

type entry struct {
	changes []carillon.Change
	done    func(lost []int, err error)
	since   time.Time // when it began to wait
	posted  bool      // no caller waits for it
	// reserved are the runs of a submit that have slots; nil for other changes.
	reserved *[]carillon.RunID
	due      int // how many runs of a submit could have had a slot when it came
}

func New(cfg Config) *Ledger {
	cfg.Flushers = cmp.Or(cfg.Flushers, 1)
	cfg.MaxBatch = cmp.Or(cfg.MaxBatch, 4000)
	cfg.HoldEnds = cmp.Or(cfg.HoldEnds, 50*time.Millisecond)
	return &Ledger{
		cfg: cfg, Definitions: newDefinitions(cfg.Store), signal: await.NewSignal(),
		broken: make(chan error, 1), folds: newFoldLists(cfg.Flushers),
	}
}

// Listen adds listeners. Call it before Run. The ledger calls the listeners in order, one commit at a time,
// with the committed changes. Rows carry their new Rev, runs carry no Output. Listeners must be quick and
// must not wait for the ledger. A dispatcher learns here which runs were claimed for its workers, a scheduler
// which runs it has to wake.
func (l *Ledger) Listen(listeners ...func(committed []carillon.Change)) {
	l.listeners = append(l.listeners, listeners...)
}

// Commit returns when the changes are on disk or have lost; see carillon.Store. The rows of changes that won
// then carry their new Rev. If ctx ends first, the result is unknown. Changes with folds have an order of
// their own: see fold_lists.go.
func (l *Ledger) Commit(ctx context.Context, changes []carillon.Change) (lost []int, err error) {
	return l.commit(ctx, &l.starts, entry{changes: changes})
}

func (l *Ledger) commit(ctx context.Context, to *entries, e entry) (lost []int, err error) {
	if len(e.changes) == 0 {
		return nil, nil
	}
	if e.changes, err = l.follow(ctx, e.changes); err != nil {
		return nil, err
	}
	type result struct {
		lost []int
		err  error
	}
	done := make(chan result, 1)
	e.done = func(lost []int, err error) { done <- result{lost, err} }
	l.addAny(to, e)
	select {
	case r := <-done:
		return r.lost, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Post commits ends of runs without waiting. The ledger calls done from its own goroutine, so done must be
// quick. Post many ends in pieces: the ledger keeps the changes of one call together.
func (l *Ledger) Post(changes []carillon.Change, done func(lost []int, err error)) {
	changes, err := l.follow(context.Background(), changes)
	if err != nil {
		done(nil, err)
		return
	}
	l.addAny(&l.ends, entry{changes: changes, done: done, posted: true})
}

func (l *Ledger) add(to *entries, e entry) {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		e.done(nil, ErrClosed)
		return
	}
	e.since = time.Now()
	*to = append(*to, e)
	if to != &l.ends {
		l.waiting.Add(int64(len(e.changes)))
		l.crowd.due.Add(int64(e.due))
	}
	l.mu.Unlock()
	l.signal.Set()
}

// Run commits until ctx ends. Then it commits what is left, and refuses later changes. While it tells the
// listeners of one commit, it writes the next.
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
	for _, list := range l.folds {
		flushing.Go(func() { l.foldAll(ctx, list, committed) })
	}
	flushing.Wait()
	close(committed)
	telling.Wait()
	return nil
}

func (l *Ledger) flushAll(ctx context.Context, committed chan<- commit) {
	for ctx.Err() == nil {
		if batch := l.take(false); len(batch) > 0 {
			l.preclaimLate(batch)
			l.left(batch)
			l.flush(context.WithoutCancel(ctx), batch, committed) // a commit that has begun goes on
			l.regroup(entries(batch))
			continue
		}
		select {
		case <-l.signal:
		case <-l.flushTimer():
		case <-ctx.Done():
		}
	}
	for batch := l.take(true); len(batch) > 0; batch = l.take(true) {
		l.flush(context.WithoutCancel(ctx), batch, committed)
	}
}

// Broken delivers the first permanent error of the store. After it (a disk that can no longer be trusted)
// every further commit fails too.
func (l *Ledger) Broken() <-chan error { return l.broken }

// Failing is the error of the last commit; nil if it succeeded.
func (l *Ledger) Failing() error {
	if err := l.failing.Load(); err != nil {
		return *err
	}
	return nil
}

// take removes the next batch: starts, and ends unless they must let starts go first. If no start waits now
// but some are about to come, it takes only a few ends meanwhile: an idle flusher would help no caller.
func (l *Ledger) take(closing bool) (batch []entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !closing && !l.shouldFlush() {
		return nil
	}
	batch = l.takeStarts(closing)
	if len(l.ends) > 0 {
		hold := !closing && l.starting() && time.Since(l.ends[0].since) < l.cfg.HoldEnds
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
	l.writing += entries(batch).count()
	if len(batch) > 0 && len(l.starts)+len(l.submits)+len(l.ends) > 0 {
		l.signal.Set() // another flusher may be free
	}
	return batch
}

// submitRoom is how many submits fit into a commit with so many starts. While runs start or end, submits get
// a quarter of a commit: a longer commit keeps the slots of workers waiting. If due runs wait while others
// are on their way to slots, more jobs are accepted than are begun: then submits get half as much as starts,
// and at least a 64th of a commit. The caller holds mu.
func (l *Ledger) submitRoom(starts int) int {
	room := l.cfg.MaxBatch
	switch {
	case l.slots != nil && l.slots.Starting():
		room = min(max(starts/2, room/64), room/4)
	case starts+len(l.ends) > 0:
		room /= 4
	}
	return max(room, 1)
}

func changesOf(batch []entry) (n int) {
	for i := range batch {
		n += len(batch[i].changes)
	}
	return n
}

// starting says that ends should let starts go first: a start that waits is a late job, an end that waits is
// only a late record.
func (l *Ledger) starting() bool { return l.cfg.Flushers == 1 && l.slots != nil && l.slots.Starting() }

// take removes entries until they hold about limit changes, at least one entry.
func (w *entries) take(limit int) []entry {
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

// commit is a batch that the store has written.
type commit struct {
	batch []entry
	all   []carillon.Change
	lost  []int

	answers []*foldCall // of changes with folds, in place of batch
}

func (l *Ledger) flush(ctx context.Context, batch []entry, committed chan<- commit) {
	all := batch[0].changes
	if len(batch) > 1 {
		all = make([]carillon.Change, 0, changesOf(batch))
		for i := range batch {
			all = append(all, batch[i].changes...)
		}
	}
	begin := time.Now()
	lost, err := l.cfg.Store.Commit(ctx, all)
	l.measured(time.Since(begin))
	if err != nil {
		l.fail(err)
		for _, e := range batch {
			e.done(nil, err)
		}
		return
	}
	l.failing.Store(nil)
	committed <- commit{batch: batch, all: all, lost: lost}
}

// Forget drops what the ledger remembers of the store: the store was away, and may have lost commits that it
// had confirmed.
func (l *Ledger) Forget() {
	l.forgets.Add(1)
	l.Definitions.ForgetAll()
}

func (l *Ledger) fail(err error) {
	l.failing.Store(&err)
	l.Forget()
	if errors.Is(err, carillon.ErrPermanent) {
		select {
		case l.broken <- err:
		default:
		}
	}
}

// tell informs the listeners of a commit, and then its callers: a caller that hears that its claim won has
// already been told of the run as a listener.
func (l *Ledger) tell(c commit) {
	if won := raise(c.all, c.lost); len(won) > 0 {
		l.rememberDue(won)
		for _, listener := range l.listeners {
			listener(won)
		}
	}
	answer(c.batch, c.lost)
	for _, call := range c.answers {
		slices.Sort(call.lost)
		call.done(call.lost, nil)
	}
}

// raise gives the rows of the changes that won their new Rev, and returns those changes. It drops the Output
// of each run, which is written now: otherwise the Output would stay in memory with a waiting run, and be
// written again with its claim.
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
			c.Guards[k].Rev = c.Guards[k].NextRev()
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

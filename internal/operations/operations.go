// Package operations performs the operations of carillon.Operation: long actions on many things, such as a
// pause of all jobs that match a filter.
//
// The node that owns the shard of an operation's id performs it, in turns. A turn acts on the things that the
// record names as pending, chooses the next ones, and writes both results with one compare-and-set of the
// record. So what a crash can repeat is one turn, and Kind.Do must bear that. If two nodes perform the same
// operation for a while, one of their writes loses, and its node reads the record again.
package operations

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
	"github.com/carillon-run/carillon/internal/ledger"
)

// Kind finds the things of an operation, and acts on them. To add a kind, write one, put it into
// Config.Kinds, and add its name to package carillon.
type Kind interface {
	// Find returns up to limit things behind a cursor, and the cursor behind them; "" at the end. It can
	// return none and still not be at the end. If it returns ErrInvalid, ErrNotFound or ErrConflict, the
	// operation has failed.
	Find(
		ctx context.Context, op *carillon.Operation, cursor string, limit int,
	) (items []string, next string, err error)
	// Do acts on one thing. It can be called again for a thing on which it has acted, and must then do no
	// harm. An error that is ErrSkipped, ErrInvalid, ErrNotFound or ErrConflict is an answer: it is counted.
	// After any other error Do is called again later.
	Do(ctx context.Context, op *carillon.Operation, item string) error
}

// Together is a Kind that acts on many things with less effort than on each of them alone.
type Together interface {
	// DoAll is Do for many things, with one error for each.
	DoAll(ctx context.Context, op *carillon.Operation, items []string) []error
}

// ErrSkipped says that the action does not apply to a thing any more.
var ErrSkipped = errors.New("skipped")

// Config says what a Loop works on.
type Config struct {
	Store  carillon.Store
	Ledger *ledger.Ledger
	Clock  *carillon.Clock // default this machine's
	// Owns says whether a shard belongs to this node. Default: all do.
	Owns   func(shard int) bool
	Kinds  map[carillon.OperationKind]Kind // default those that act on jobs and on dead letters
	Logger *slog.Logger                    // default slog.Default()

	// Look is how often the loop looks which operations are open. A canceled one is not. Default 500 ms.
	Look time.Duration
	// Retry is the pause after an error of the store. Default one second.
	Retry time.Duration
}

const (
	// turnTime bounds a turn, so that others get theirs, and progress is written at least once a second.
	turnTime = 300 * time.Millisecond
	// maxPending is how many things one turn acts on, and width how many at the same time: the ledger merges
	// their commits.
	maxPending = 100
	width      = 8
	// turnsPerSecond is in how many parts an operation with a rate spreads the things of a second.
	turnsPerSecond = 4
	countPage      = 500
	// maxLate is how much lateness an operation with a rate makes up for.
	maxLate = time.Second
	// maxTries is how often an action is tried on a thing while everything else works.
	maxTries = 30
)

// Loop performs operations.
type Loop struct {
	cfg     Config
	open    map[carillon.OperationID]*work
	looked  time.Time
	failing bool // the last look failed, and that was logged
}

// work is an open operation of this node.
type work struct {
	record carillon.OperationRecord
	stale  bool      // the record in the store can be another one
	next   time.Time // when its next turn may begin

	failing bool           // its last turn failed, and that was logged
	tries   map[string]int // of pending things on which it could not act
}

func New(cfg Config) *Loop {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	cfg.Look = cmp.Or(cfg.Look, 500*time.Millisecond)
	cfg.Retry = cmp.Or(cfg.Retry, time.Second)
	if cfg.Owns == nil {
		cfg.Owns = func(int) bool { return true }
	}
	if cfg.Kinds == nil {
		jobs := &jobs{store: cfg.Store, ledger: cfg.Ledger, clock: cfg.Clock}
		cfg.Kinds = map[carillon.OperationKind]Kind{
			carillon.OperationPause: jobs, carillon.OperationResume: jobs, carillon.OperationCancel: jobs,
			carillon.OperationRun:     jobs,
			carillon.OperationRedrive: &letters{store: cfg.Store, ledger: cfg.Ledger},
		}
	}
	return &Loop{cfg: cfg, open: map[carillon.OperationID]*work{}}
}

// Run performs operations until ctx ends.
func (l *Loop) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		if now := time.Now(); now.Sub(l.looked) >= l.cfg.Look {
			l.looked = now
			err := l.look(ctx)
			l.note(ctx, &l.failing, err, "look for operations: trying again")
		}
		if w := l.first(); w != nil && !w.next.After(time.Now()) {
			l.take(ctx, w)
			continue
		}
		until := l.looked.Add(l.cfg.Look)
		if w := l.first(); w != nil && w.next.Before(until) {
			until = w.next
		}
		await.For(ctx, time.Until(until))
	}
	return nil
}

// look learns which operations are open and belong to this node.
func (l *Loop) look(ctx context.Context) error {
	guards, err := l.cfg.Store.Guards(ctx, carillon.OpenOperationQuery())
	if err != nil {
		return err
	}
	open := map[carillon.OperationID]*work{}
	for i := range guards {
		namespace, id, err := carillon.OpenOperationOf(&guards[i])
		if err != nil || !l.cfg.Owns(id.Shard()) {
			continue
		}
		if open[id] = l.open[id]; open[id] == nil {
			w := &work{stale: true, next: time.Now(), tries: map[string]int{}}
			w.record.Namespace, w.record.ID = namespace, id
			open[id] = w
		}
	}
	l.open = open
	return nil
}

// first is the operation whose turn comes next. The one that has waited longest goes first, so that all
// operations get the same number of turns, unless their rates are lower.
func (l *Loop) first() (first *work) {
	for _, w := range l.open {
		if first == nil || w.next.Before(first.next) ||
			w.next.Equal(first.next) && w.record.ID < first.record.ID {
			first = w
		}
	}
	return first
}

// take gives an operation a turn. It sets when its next one may begin before anything can fail.
func (l *Loop) take(ctx context.Context, w *work) {
	began, planned := time.Now(), w.next
	w.next = began.Add(l.cfg.Retry)
	acted, err := l.turn(ctx, w)
	if ctx.Err() != nil {
		return
	}
	l.note(
		ctx, &w.failing, err, "perform an operation: trying again", "operation", w.record.ID.String(),
	)
	if err != nil {
		return
	}
	w.next = time.Now() // behind all others that wait
	if rate := w.record.Rate; rate > 0 && acted > 0 {
		// A turn that began or ended late does not lower the rate: the next turns come sooner, until the
		// operation is where it should be. But a long standstill is not made up for.
		from := planned
		if late := began.Add(-maxLate); from.Before(late) {
			from = late
		}
		w.next = from.Add(time.Duration(acted) * time.Second / time.Duration(rate))
	}
}

// note logs only the first of several errors.
func (l *Loop) note(ctx context.Context, failing *bool, err error, what string, facts ...any) {
	if err != nil && !*failing && ctx.Err() == nil {
		l.cfg.Logger.Error(what, append(facts, "error", err)...)
	}
	*failing = err != nil
}

// turn performs one turn, and returns on how many things it acted. After an error it reads the record again:
// the write of the record, too, can have been performed.
func (l *Loop) turn(ctx context.Context, w *work) (acted int, err error) {
	if w.stale {
		record, err := l.cfg.Ledger.Operation(ctx, w.record.Namespace, w.record.ID)
		if errors.Is(err, carillon.ErrNotFound) || err == nil && record.State.Over() {
			delete(l.open, w.record.ID)
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		w.record = record
	}
	kind := l.cfg.Kinds[w.record.Kind]
	if kind == nil {
		return 0, errors.New("this node does not know the kind of operation " + string(w.record.Kind))
	}
	w.stale = true
	pending := slices.Clone(w.record.Pending)
	acted, failed := l.advance(ctx, kind, w)
	if ctx.Err() != nil {
		return acted, failed
	}
	won, err := l.cfg.Ledger.SaveOperation(ctx, &w.record)
	switch {
	case err != nil:
		return acted, err
	case !won:
		return acted, l.addToCanceled(ctx, &w.record, pending)
	}
	w.stale = failed != nil
	if w.record.State.Over() {
		l.ended(&w.record)
	}
	return acted, failed
}

// advance acts on the pending things and finds the next ones, or goes on counting.
func (l *Loop) advance(ctx context.Context, kind Kind, w *work) (acted int, err error) {
	r, until := &w.record, time.Now().Add(turnTime)
	if r.State == carillon.OperationCounting {
		err = l.count(ctx, kind, r, until)
	} else {
		acted, err = l.act(ctx, kind, w, until)
	}
	if r.State == carillon.OperationRunning && len(r.Pending) == 0 && err == nil {
		err = l.find(ctx, kind, r, until)
	}
	switch {
	case err != nil && refused(err):
		r.State, r.Reason, err = carillon.OperationFailed, err.Error(), nil
	case r.State == carillon.OperationRunning && len(r.Pending) == 0 && r.Last:
		r.State = carillon.OperationDone
	}
	return acted, err
}

func (l *Loop) count(
	ctx context.Context, kind Kind, r *carillon.OperationRecord, until time.Time,
) error {
	for {
		items, next, err := kind.Find(ctx, &r.Operation, r.Cursor, countPage)
		if err != nil {
			return err
		}
		r.Total, r.Cursor = r.Total+len(items), next
		if next == "" {
			r.State = carillon.OperationRunning
			return nil
		}
		if !time.Now().Before(until) {
			return nil
		}
	}
}

// find takes the next things into the record.
func (l *Loop) find(ctx context.Context, kind Kind, r *carillon.OperationRecord, until time.Time) error {
	want := maxPending
	if r.Rate > 0 {
		want = min(max(r.Rate/turnsPerSecond, 1), maxPending)
	}
	for !r.Last && len(r.Pending) < want {
		items, next, err := kind.Find(ctx, &r.Operation, r.Cursor, want-len(r.Pending))
		if err != nil {
			return err
		}
		r.Pending, r.Cursor, r.Last = append(r.Pending, items...), next, next == ""
		if !time.Now().Before(until) {
			return nil
		}
	}
	return nil
}

// refused says that an error is an answer, and not an outage.
func refused(err error) bool {
	return errors.Is(err, carillon.ErrInvalid) || errors.Is(err, carillon.ErrNotFound) ||
		errors.Is(err, carillon.ErrConflict)
}

// addToCanceled adds what a turn has done to the record, if the operation was canceled during the turn. If
// the record has other things pending, another node has counted them. The write can lose against another node
// that does the same: then the record is read again.
func (l *Loop) addToCanceled(
	ctx context.Context, did *carillon.OperationRecord, pending []string,
) error {
	for {
		record, err := l.cfg.Ledger.Operation(ctx, did.Namespace, did.ID)
		if err != nil || record.State != carillon.OperationCanceled || len(pending) == 0 ||
			!slices.Equal(record.Pending, pending) {
			return err
		}
		record.Done, record.Failed, record.Skipped = did.Done, did.Failed, did.Skipped
		record.Errors, record.Pending = did.Errors, nil
		won, err := l.cfg.Ledger.SaveOperation(ctx, &record)
		if err != nil {
			return err
		}
		if won {
			l.ended(&record)
			return nil
		}
	}
}

func (l *Loop) ended(r *carillon.OperationRecord) {
	delete(l.open, r.ID)
	l.cfg.Logger.Info("operation ended", "operation", r.ID.String(), "kind", string(r.Kind),
		"state", string(r.State), "done", r.Done, "failed", r.Failed, "skipped", r.Skipped)
}

// Package outage makes a node log once that its store is away, however many loops notice it. It watches the
// calls to the store: a call that fails marks its error. Of all log lines with such an error, the log handler
// of this package lets one through when the outage begins, and one a minute while it lasts. When a call
// succeeds again, one line says so.
package outage

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon"
)

// Every is the time between two lines about one outage.
const Every = time.Minute

// Outage knows whether one thing, such as the store, is away. Watch it by Store, Logs, Coordinator and
// Intake.
type Outage struct {
	what   string
	logger *slog.Logger

	// turn counts beginnings and ends of outages: it is odd during one. A call remembers the turn in which it
	// began. So a failure that was in flight when an outage ended does not begin another one.
	turn atomic.Int64

	mu    sync.Mutex
	began time.Time
	wrote bool      // a write failed: a read that succeeds, as on a full disk, does not end the outage
	told  int64     // the last turn that a line was let through for
	said  time.Time // the last line during an outage
	blip  time.Time // the last line about a failure that was over before it could be logged
	held  int       // lines held back since the last one that was let through
}

// New returns the Outage of one thing, which messages call what ("the store"). The logger gets a line when an
// outage is over.
func New(what string, logger *slog.Logger) *Outage { return &Outage{what: what, logger: logger} }

// failure marks an error as part of an outage. Its text is that of the error.
type failure struct {
	error
	of   *Outage
	turn int64
}

func (f *failure) Unwrap() error { return f.error }

// kind is what a call does.
type kind uint8

const (
	read   kind = iota
	write       // also the only kind that ends an outage in which a write failed
	search      // a read that can take too long by itself, which is no outage
)

func (o *Outage) begin() int64 { return o.turn.Load() }

// end takes the result of a call that began in turn. It returns the error, marked if the thing is away.
func (o *Outage) end(turn int64, k kind, err error) error {
	switch {
	case err == nil:
		if o.away() {
			o.answered(turn, k)
		}
		return nil
	case !outside(k, err):
		return err
	}
	return &failure{err, o, o.failed(turn, k)}
}

func (o *Outage) away() bool { return o.turn.Load()%2 == 1 }

// outside says whether an error comes from outside of this program. A refusal of the input is an answer, and
// a caller that gave up says nothing about the store.
func outside(k kind, err error) bool {
	answers := []error{
		context.Canceled, carillon.ErrNotFound, carillon.ErrInvalid, carillon.ErrConflict,
		carillon.ErrPermanent, carillon.ErrLost, carillon.ErrSessionOver,
	}
	if k == search {
		answers = append(answers, context.DeadlineExceeded)
	}
	for _, answer := range answers {
		if errors.Is(err, answer) {
			return false
		}
	}
	return true
}

// failed notes a failure, and returns the turn of the outage that the failure belongs to.
func (o *Outage) failed(began int64, k kind) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	turn := o.turn.Load()
	switch {
	case turn%2 == 1:
		o.wrote = o.wrote || k == write
		return turn
	case began != turn:
		return turn - 1
	}
	o.began, o.wrote = time.Now(), k == write
	return o.turn.Add(1)
}

// answered ends the outage, unless the call began before it, or a write failed and the call is no write.
func (o *Outage) answered(began int64, k kind) {
	o.mu.Lock()
	turn := o.turn.Load()
	if turn%2 == 0 || began != turn || o.wrote && k != write {
		o.mu.Unlock()
		return
	}
	o.turn.Add(1)
	told, held, lasted := o.told == turn, o.held, time.Since(o.began)
	if told {
		o.held = 0
	}
	o.mu.Unlock()
	if told {
		o.logger.Info(o.what+" works again", "after", lasted.Round(time.Millisecond), "held_back", held)
	}
}

// admit says whether a line about a failure is let through, and how many were held back before it.
func (o *Outage) admit(turn int64) (ok, away bool, held int) {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	away = o.away()
	last := &o.said
	if !away {
		last = &o.blip
	}
	if !away && turn == o.told || !last.IsZero() && now.Sub(*last) < Every {
		o.held++
		return false, away, 0
	}
	*last = now
	if away {
		o.told = o.turn.Load()
	}
	held, o.held = o.held, 0
	return true, away, held
}

package simulate

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// weather is how the calls of a link fail.
type weather struct {
	slow     time.Duration // up to that long on each way
	held     float64       // share of the requests, and of the answers, that are held up for seconds
	lost     float64       // share of the requests that do not arrive
	unheard  float64       // share of the answers that do not arrive
	twice    float64       // share of the requests that arrive once more, later
	deaf     bool          // the other end does not notice that the caller gave up
	describe string
}

// link carries calls from a process to another one, or to a server that does not fail itself (to is nil).
type link struct {
	name  string
	from  *process
	to    *process
	limit time.Duration // a caller gives up after that
	nth   *nth          // lets one call fail; nil: none

	mu      sync.Mutex
	random  *rand.Rand
	weather weather
}

var (
	errNoAnswer = errors.New("no answer in time")
	errRefused  = errors.New("connection refused")
	errBroken   = errors.New("the store has failed")
)

func (l *link) set(w weather) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.weather = w
}

// fate is how one call fails.
type fate struct {
	there, back, again   time.Duration
	lost, unheard, twice bool
	deaf                 bool
}

func (l *link) fate() (f fate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := &l.weather
	if w.slow > 0 {
		f.there, f.back = l.upTo(w.slow), l.upTo(w.slow)
	}
	if l.random.Float64() < w.held {
		f.there += l.upTo(8 * time.Second)
	}
	if l.random.Float64() < w.held {
		f.back += l.upTo(8 * time.Second)
	}
	f.lost, f.unheard, f.twice = l.random.Float64() < w.lost, l.random.Float64() < w.unheard,
		l.random.Float64() < w.twice
	if f.twice {
		f.again = l.upTo(10 * time.Second)
	}
	f.deaf = w.deaf
	return f
}

func (l *link) upTo(d time.Duration) time.Duration { return time.Duration(l.random.Int64N(int64(d))) }

// answer is what comes back of a call.
type answer[T any] struct {
	value T
	err   error
}

// call makes a call over a link. A request that is under way arrives also if its caller has given up, or is
// dead, by then.
func call[T any](ctx context.Context, l *link, do func(context.Context) (T, error)) (T, error) {
	var none T
	if err := l.from.pass(ctx); err != nil {
		return none, err
	}
	f := l.fate()
	if l.to != nil && l.to.dead() {
		return none, errRefused
	}
	switch l.nth.next() {
	case mishapFails:
		return none, errBroken
	case mishapUnheard:
		f.unheard = true
	case mishapDiesAfter:
		_, _ = do(context.WithoutCancel(ctx))
		fallthrough
	case mishapDiesBefore:
		l.nth.kill()
		return none, errKilled
	}
	answers := make(chan answer[T], 2)
	at := context.WithoutCancel(ctx)
	if !f.deaf {
		var gaveUp context.CancelFunc
		at, gaveUp = context.WithCancel(at)
		defer gaveUp()
	}
	carry := func(there time.Duration) {
		time.Sleep(there)
		if f.lost || l.to != nil && l.to.pass(context.Background()) != nil {
			return
		}
		value, err := do(at)
		if l.to != nil && l.to.pass(context.Background()) != nil {
			return
		}
		time.Sleep(f.back)
		if !f.unheard {
			answers <- answer[T]{value, err}
		}
	}
	go carry(f.there)
	if f.twice {
		go carry(f.there + f.again)
	}
	limit := time.NewTimer(l.limit)
	defer limit.Stop()
	select {
	case a := <-answers:
		if err := l.from.pass(ctx); err != nil {
			return none, err
		}
		return a.value, a.err
	case <-limit.C:
		return none, errNoAnswer
	case <-ctx.Done():
		return none, ctx.Err()
	case <-l.from.killed:
		return none, errKilled
	}
}

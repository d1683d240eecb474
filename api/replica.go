package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

// Replica is a copy of the store that lags behind it. Lists and history may be read from it; what decides something, and a
// single job or run that somebody may just have written, never is.
type Replica struct {
	Store carillon.Store
	Lag   func(context.Context) (time.Duration, error)
}

const (
	lagHeader = "Carillon-Replica-Lag" // how old what a list shows may be
	lagEvery  = time.Second            // how often it is measured at most
	// maxLag is how far behind a replica may be and still be asked.
	maxLag = time.Minute
)

// behind remembers how far the replica is behind.
type behind struct {
	mu  sync.Mutex
	at  time.Time
	lag time.Duration
	err error

	complained time.Time
}

// complain says whether it is time to say so in the log again.
func (b *behind) complain() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.complained) < time.Minute {
		return false
	}
	b.complained = time.Now()
	return true
}

func (b *behind) measure(ctx context.Context, lag func(context.Context) (time.Duration, error)) (time.Duration, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.at) > lagEvery {
		ctx, cancel := context.WithTimeout(ctx, lagEvery)
		defer cancel()
		b.lag, b.err = lag(ctx)
		b.at = time.Now()
	}
	return b.lag, b.err
}

// list reads a list from the replica, if there is one that answers and is not too far behind, and says so; else from the
// store itself.
func list[T any](s *server, w http.ResponseWriter, r *http.Request, read func(carillon.Store) (T, error)) (T, error) {
	if s.Replica == nil {
		return read(s.Store)
	}
	lag, err := s.behind.measure(r.Context(), s.Replica.Lag)
	if err == nil && lag <= maxLag {
		var found T
		if found, err = read(s.Replica.Store); err == nil {
			w.Header().Set(lagHeader, lag.Round(time.Millisecond).String())
			return found, nil
		}
	}
	if s.behind.complain() {
		s.Logger.Warn("the replica is not read: it does not answer, or is too far behind", "lag", lag, "error", err)
	}
	return read(s.Store)
}

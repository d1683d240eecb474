package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

// Replica is a copy of the store that lags behind it. Lists and history may be read from it. Reads that
// decide something never use it, nor do reads of a single job or run, which a caller may just have written.
type Replica struct {
	Store carillon.Store
	Lag   func(context.Context) (time.Duration, error)
}

const (
	lagHeader = "Carillon-Replica-Lag" // how old the rows of a list may be
	lagEvery  = time.Second            // how often the lag is measured at most
	// maxLag is how far behind a replica may be and still be read.
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

// complain says whether it is time to log again that the replica is not read.
func (b *behind) complain() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.complained) < time.Minute {
		return false
	}
	b.complained = time.Now()
	return true
}

func (b *behind) measure(
	ctx context.Context, lag func(context.Context) (time.Duration, error),
) (time.Duration, error) {
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

// list reads a list from the replica, if there is one that answers and is not too far behind, and tells the
// caller the lag. Otherwise it reads the list from the store itself.
func list[T any](
	s *server, w http.ResponseWriter, r *http.Request, read func(carillon.Store) (T, error),
) (T, error) {
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
		s.Logger.Warn(
			"the replica is not read: it does not answer, or is too far behind", "lag", lag, "error", err,
		)
	}
	return read(s.Store)
}

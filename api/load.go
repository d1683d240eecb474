package api

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon/internal/wire"
)

// load is the memory of the requests that add work and are not answered yet, about. Without a bound, callers
// that offer more than the store can commit would fill the memory, and each of them would wait longer than
// the one before, until all of them time out. So the API refuses what the store cannot take soon. Requests of
// workers, and those that stop or change a job, are not counted and never refused: they end work.
type load struct{ held atomic.Int64 }

const (
	maxHeld = 128 << 20
	// maxWait is how long a job can wait for its commit before the API refuses further ones.
	maxWait = 2 * time.Second
	// A request costs more memory than its body: a goroutine, buffers of its connection, decoded jobs.
	requestSize = 8 << 10
	jobSize     = 2 << 10
	// A large request can arrive slowly, and holds its memory meanwhile. A quarter of the bound is for small
	// ones only, so that a few slow senders cannot keep single jobs out.
	largeRequest = 64 << 10
	maxHeldLarge = maxHeld / 4 * 3
)

// overloaded says whether a request of this size is refused, given what other requests hold and how long a
// job waits for its commit now; and if so, after how long the caller should try again.
func overloaded(held, size int64, wait time.Duration) (retryAfter time.Duration, refused bool) {
	bound := int64(maxHeld)
	if size > largeRequest {
		bound = maxHeldLarge
	}
	if held+size <= bound && wait <= maxWait {
		return 0, false
	}
	return min(max(wait.Round(time.Second), time.Second), 30*time.Second), true
}

// take adds a part of a request to the load, or refuses it. The caller gives back what it took.
func (s *server) take(size int64) error {
	held := s.load.held.Add(size) - size
	retryAfter, refused := overloaded(held, size, s.Ledger.Wait(time.Now()))
	if !refused {
		return nil
	}
	s.give(size)
	s.Overloaded()
	return problem{
		Type: wire.ProblemOverloaded, Title: "Too many jobs at once", Status: http.StatusTooManyRequests,
		Detail: fmt.Sprintf(
			"more jobs are submitted than the store can take now; nothing of this request was stored: "+
				"try again in %s", retryAfter,
		),
		RetryAfter: retryAfter,
	}
}

func (s *server) give(size int64) { s.load.held.Add(-size) }

// enter takes the request into the load before its body is read. If the request is refused and small, enter
// reads the body all the same: then the connection stays open, and the next try does not need a new one.
func (s *server) enter(w http.ResponseWriter, r *http.Request) (size int64, err error) {
	body := min(r.ContentLength, wire.MaxLargeBody)
	if body < 0 {
		body = wire.MaxBody // not announced; the body of a batch is counted when it is known
	}
	size = requestSize + jobSize + body
	err = s.take(size)
	if watched, ok := w.(*watch); err != nil && ok && body <= largeRequest {
		_, unread := io.Copy(io.Discard, io.LimitReader(r.Body, largeRequest+1))
		watched.bodyRead = unread == nil
	}
	return size, err
}

package api

import (
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon/internal/wire"
)

// load is what the requests that add work hold until they are answered. Without a bound, callers that offer
// more than the store can commit would fill the memory, and each of them would wait longer than the one
// before, until all of them time out. Claims and ends share the commits: they would be late too, and the node
// would start fewer runs than it can. So the API refuses what the store cannot take soon. Requests of
// workers, and those that stop or change a job, are not counted and never refused: they end work.
type load struct{ bytes, jobs atomic.Int64 }

// part is what one request, or a part of it, adds to the load.
type part struct {
	bytes, jobs int64
	large       bool // it belongs to a large request
}

const (
	maxBytes = 64 << 20
	// maxJobs is about two full commits of the ledger, and up to 32 while due runs wait: more would only
	// wait.
	maxJobs = 8000
	// maxWait is how long a job can wait for its commit before the API refuses further ones.
	maxWait = 2 * time.Second
	// A request costs more memory than its body: a goroutine, buffers of its connection, decoded jobs.
	requestSize = 8 << 10
	jobSize     = 2 << 10
	// A large request can arrive slowly, and holds its part meanwhile. A quarter of the bounds is for small
	// ones only, so that a few slow senders cannot keep single jobs out.
	largeBody = 64 << 10
	// usualJob is the length of a usual job, by which the jobs of a batch are counted before it is read.
	usualJob = 300
)

// overloaded says whether a part is refused, given what other requests hold and how long a job waits for its
// commit now; and if so, after how long the caller should try again.
func overloaded(held, p part, wait time.Duration) (retryAfter time.Duration, refused bool) {
	bytes, jobs := int64(maxBytes), int64(maxJobs)
	if p.large {
		bytes, jobs = bytes/4*3, jobs/4*3
	}
	if held.bytes+p.bytes <= bytes && held.jobs+p.jobs <= jobs && wait <= maxWait {
		return 0, false
	}
	return min(max(wait.Round(time.Second), time.Second), maxRetryAfter), true
}

const maxRetryAfter = 30 * time.Second

// refusals are the answers to refused requests, by the seconds after which the caller should try again. They
// are encoded once: under overload most requests get one.
var refusals = func() (list [maxRetryAfter/time.Second + 1]problem) {
	for i := range list {
		p := &list[i]
		*p = problem{
			Type: wire.ProblemOverloaded, Title: "Too many jobs at once", Status: http.StatusTooManyRequests,
			RetryAfter: time.Duration(i) * time.Second,
		}
		p.Detail = fmt.Sprintf("more jobs are submitted than the store can take now; "+
			"nothing of this request was stored: try again in %s", p.RetryAfter)
		p.text = p.encoded()
	}
	return list
}()

// take adds a part to the load, or refuses it. The caller gives back what it took.
func (s *server) take(p part) (retryAfter time.Duration, refused bool) {
	held := part{bytes: s.load.bytes.Add(p.bytes) - p.bytes, jobs: s.load.jobs.Add(p.jobs) - p.jobs}
	if retryAfter, refused = overloaded(held, p, s.Ledger.Wait(time.Now())); refused {
		s.give(p)
		s.Overloaded()
	}
	return retryAfter, refused
}

func (s *server) give(p part) {
	s.load.bytes.Add(-p.bytes)
	s.load.jobs.Add(-p.jobs)
}

// enter takes the request into the load before its body is read. ok is false if the request is refused: with
// the error to answer with, or without one if the Refuser has answered. If the request is not large, enter
// reads the body all the same, if it comes soon: then the connection stays open. A new connection costs more
// than the rest of a refused request. A caller that asks first whether to send the body is told no.
func (s *server) enter(rt route, w http.ResponseWriter, r *http.Request) (p part, ok bool, err error) {
	_, batch := rt.Takes.(wire.Batch)
	p = submitPart(batch, r.ContentLength)
	retryAfter, refused := s.take(p)
	if !refused {
		return p, true, nil
	}
	if watched, ok := w.(*watch); ok && !p.large && r.Header.Get("Expect") == "" {
		if !watched.bodyRead {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(unreadGrace))
			watched.bodyRead = skip(r.Body)
		}
		if watched.bodyRead && s.takeOver(w, r, retryAfter) {
			return p, false, nil
		}
	}
	return p, false, refusals[retryAfter/time.Second]
}

// submitPart is the part of a request whose body has a length; -1: the length is not announced.
func submitPart(batch bool, length int64) part {
	body := min(length, wire.MaxLargeBody)
	switch {
	case body < 0 && batch:
		body = wire.MaxLargeBody
	case body < 0:
		body = wire.MaxBody
	}
	p := part{jobs: 1, large: body > largeBody}
	if batch {
		p.jobs = usualJobs(body)
	}
	p.bytes = requestSize + body + p.jobs*jobSize
	return p
}

// skip reads a body that is not large, and throws it away. It says whether it has read all of it. One large
// read costs less than the many of io.Discard.
func skip(body io.Reader) bool {
	buffer := skipped.Get().(*[largeBody]byte)
	defer skipped.Put(buffer)
	for left := largeBody; left >= 0; {
		n, err := body.Read(buffer[:])
		if err != nil {
			return err == io.EOF
		}
		left -= n
	}
	return false
}

var skipped = sync.Pool{New: func() any { return new([largeBody]byte) }}

// usualJobs is how many jobs a batch of this length has, if they are of the usual length.
func usualJobs(body int64) int64 { return min(1+body/usualJob, wire.MaxBatch) }

// enterRest takes in what was not known of a batch before it was read: that its jobs are shorter than usual,
// and so there are more of them.
func (s *server) enterRest(body []byte, jobs int) (p part, err error) {
	p = part{jobs: max(int64(jobs)-usualJobs(int64(len(body))), 0), large: len(body) > largeBody}
	if p.jobs == 0 {
		return p, nil
	}
	p.bytes = p.jobs * jobSize
	if retryAfter, refused := s.take(p); refused {
		return p, refusals[retryAfter/time.Second]
	}
	return p, nil
}

package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

// BatcherConfig says when submits share a request. The default of MaxJobs and that of MaxJobBytes together
// keep a request below 1 MiB, which most proxies let through.
type BatcherConfig struct {
	// MaxJobs bounds the jobs of one request. Default 64, at most 1000.
	MaxJobs int
	// MaxJobBytes bounds, in bytes of JSON, a job that shares a request. The Batcher sends a larger job at
	// once in a request of its own. Default 8 KiB.
	MaxJobBytes int
	// InFlight is how many requests are in flight before submits wait for each other. MaxJobs waiting jobs
	// are sent at once, even if more requests are then in flight. Default 2.
	InFlight int
}

// Batcher submits jobs of concurrent callers in shared requests. It raises the number of submits per second
// where many goroutines submit one job each; in exchange, callers can wait for and fail with each other.
// Many goroutines can use a Batcher at once. It has no goroutine of its own and needs no closing: each
// request belongs to the calls of Submit that wait for it, and ends with the last of them.
type Batcher struct {
	client *Client
	cfg    BatcherConfig

	mu       sync.Mutex
	inFlight int
	next     *batch // waits for a request to be answered; nil: no submit waits
}

// batch is a request for the jobs of several callers.
type batch struct {
	// Batcher.mu guards calls until the batch is sent, and callers always.
	calls   []*call
	callers int // that still wait for the answer

	ctx    context.Context // of the request; canceled when no caller waits any more
	cancel context.CancelFunc
	done   chan struct{} // closed when the answer is there
	err    error         // set before done is closed
}

// call is one caller's part of a batch.
type call struct {
	body []byte
	job  carillon.Job // set before the batch is done
}

// NewBatcher makes a Batcher that submits through the client.
func NewBatcher(c *Client, cfg BatcherConfig) *Batcher {
	cfg.MaxJobs = min(max(cmp.Or(cfg.MaxJobs, 64), 1), wire.MaxBatch)
	cfg.MaxJobBytes = cmp.Or(cfg.MaxJobBytes, 8<<10)
	cfg.InFlight = max(cmp.Or(cfg.InFlight, 2), 1)
	return &Batcher{client: c, cfg: cfg}
}

// Submit submits a job as Client.Submit does, in a request of its own or together with jobs of other callers.
// When it returns without an error, the job is on disk.
//
//   - While fewer than InFlight requests are in flight, Submit sends the job at once: a caller that is alone
//     never waits. Otherwise the job waits until one of them is answered or MaxJobs jobs wait; after
//     an answer at most 100 us more, for callers that come back. The waiting counts towards the client's
//
// Timeout.
//   - A job that is refused fails only its own caller. It costs the other jobs of its request a second
//     request each.
//   - A shared request is sent again as every write of the Client is. It has one idempotency key, so the
//     server takes all its jobs or none. If it fails in the end, all its callers get the error.
//   - A job with a key of its own (see WithIdempotencyKey) has a request of its own.
//   - When ctx ends, Submit returns, and the jobs of other callers go on. If the request is not sent yet, the
//     job will not be sent. Otherwise the server can still take it.
//   - A shared request carries no values of its callers' contexts.
func (b *Batcher) Submit(ctx context.Context, def carillon.Definition) (carillon.Job, error) {
	ctx, cancel := within(ctx, b.client.timeout)
	defer cancel()
	body, err := wire.MarshalDefinition(&def)
	if err != nil {
		return carillon.Job{}, fmt.Errorf("write the body: %w", err)
	}
	_, keyed := ctx.Value(idempotencyKey{}).(string)
	if keyed || ctx.Err() != nil || len(body) > b.cfg.MaxJobBytes {
		return b.client.submit(ctx, body)
	}
	own := &call{body: body}
	shared := b.enqueue(own)
	if shared == nil {
		defer b.sendNext()
		return b.client.submit(ctx, body)
	}
	select {
	case <-shared.done:
	case <-ctx.Done():
		b.leave(shared, own)
		return carillon.Job{}, b.client.failed(ctx, ctx.Err())
	}
	// One job that is not valid, or whose unique key another job holds, makes the server refuse all jobs of
	// the request. So each caller submits its own job again, alone, and gets the error of that job, if it has
	// one.
	var unknown *UnknownOutcome // then the server may have taken the jobs
	refused := errors.Is(shared.err, carillon.ErrInvalid) || errors.Is(shared.err, carillon.ErrConflict)
	if refused && !errors.As(shared.err, &unknown) && len(shared.calls) > 1 {
		return b.client.submit(ctx, body)
	}
	if shared.err != nil {
		return carillon.Job{}, shared.err
	}
	return own.job, nil
}

// enqueue adds the call to the next batch. It returns nil if the caller has to send its own request now, and
// then call sendNext.
func (b *Batcher) enqueue(c *call) *batch {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inFlight < b.cfg.InFlight {
		b.inFlight++
		return nil
	}
	if b.next == nil {
		b.next = &batch{done: make(chan struct{})}
		b.next.ctx, b.next.cancel = context.WithCancel(context.Background())
	}
	joined := b.next
	joined.calls = append(joined.calls, c)
	joined.callers++
	if len(joined.calls) == b.cfg.MaxJobs {
		b.next = nil
		b.inFlight++
		go b.send(joined)
	}
	return joined
}

// leave removes a caller that has given up, and its job too if the batch is not sent yet.
func (b *Batcher) leave(from *batch, c *call) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == from {
		from.calls = slices.DeleteFunc(from.calls, func(other *call) bool { return other == c })
	}
	if from.callers--; from.callers > 0 {
		return
	}
	from.cancel()
	if b.next == from {
		b.next = nil
	}
}

// sendNext sends the batch that waits, if there is one, in place of a request that has ended.
func (b *Batcher) sendNext() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		b.inFlight--
		return
	}
	go b.send(b.next)
	b.next = nil
}

// send sends a batch. The batch belongs to several callers, so no single one of them can cancel it.
func (b *Batcher) send(s *batch) {
	defer b.sendNext()
	defer s.cancel()
	var jobs []carillon.Job
	jobs, s.err = b.submit(s)
	for i := range jobs {
		s.calls[i].job = jobs[i]
	}
	expected := b.waiting() + len(s.calls)
	close(s.done)
	b.waitForCallers(expected)
}

// submit returns one job for each call, or an error. It does not wrap a single job in a list: the
// server would name a field of that list in its error.
func (b *Batcher) submit(s *batch) ([]carillon.Job, error) {
	if len(s.calls) == 1 {
		job, err := b.client.submit(s.ctx, s.calls[0].body)
		return []carillon.Job{job}, err
	}
	bodies := make([][]byte, len(s.calls))
	for i, c := range s.calls {
		bodies[i] = c.body
	}
	jobs, err := b.client.SubmitManyJSON(s.ctx, bodies)
	if err != nil {
		return nil, err
	}
	if len(jobs) != len(bodies) {
		return nil, fmt.Errorf("the server answered %d submits with %d jobs", len(bodies), len(jobs))
	}
	return jobs, nil
}

func (b *Batcher) waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.next == nil {
		return 0
	}
	return len(b.next.calls)
}

// waitForCallers gives callers that were just answered a moment to come back with their next jobs, until the
// expected number of jobs waits. Most callers come back at once, and then share the next request.
func (b *Batcher) waitForCallers(expected int) {
	const moment, maxYields = 100 * time.Microsecond, 1000
	for try, begin := 0, time.Now(); try < maxYields && b.waiting() < expected &&
		time.Since(begin) < moment; try++ {
		runtime.Gosched()
	}
}

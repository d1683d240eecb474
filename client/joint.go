package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

// Concurrent submits share requests: while two requests are in flight, further submits gather for the next
// one. A single caller never waits, and many callers share the cost of a request, of which the jobs
// themselves are the smallest part.

const (
	// maxFlights is how many requests are in flight before submits gather.
	maxFlights = 2
	// maxJoint bounds the jobs of one request, and maxLight bounds, in bytes, a job that shares a request
	// with others: together they stay below what a proxy lets through.
	maxJoint = 64
	maxLight = 8 << 10
)

// flights are the submits in flight.
type flights struct {
	mu        sync.Mutex
	flying    int
	gathering *joint // the next to go; nil: no submit waits
}

// joint is a request for the jobs of several callers.
type joint struct {
	bodies [][]byte      // each caller's at its index; nil: that caller has given up
	landed chan struct{} // closed when the answer is there
	jobs   []carillon.Job
	err    error
}

// join submits a job in a separate request, or together with others.
func (c *Client) join(ctx context.Context, def carillon.Definition) (carillon.Job, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, c.timeout, errTimeout)
	defer cancel()
	body, err := json.Marshal(wire(def))
	if err != nil {
		return carillon.Job{}, fmt.Errorf("write the body: %w", err)
	}
	if ctx.Err() != nil || len(body) > maxLight {
		return c.submit(ctx, body)
	}
	j, at := c.flights.board(c, body)
	if j == nil {
		defer c.flights.next(c)
		return c.submit(ctx, body)
	}
	select {
	case <-j.landed:
	case <-ctx.Done():
		c.flights.leave(j, at)
		return carillon.Job{}, c.failed(ctx, ctx.Err())
	}
	// One invalid job makes the server refuse all of them. So each caller submits its job again alone, and
	// gets the error of its own job, if it has one.
	if errors.Is(j.err, carillon.ErrInvalid) {
		return c.submit(ctx, body)
	}
	if j.err != nil {
		return carillon.Job{}, j.err
	}
	return j.jobs[at], nil
}

// board takes a place in the next joint; nil: there is no need, the caller sends its own request.
func (f *flights) board(c *Client, body []byte) (j *joint, at int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.flying < maxFlights {
		f.flying++
		return nil, 0
	}
	if f.gathering == nil {
		f.gathering = &joint{landed: make(chan struct{})}
	}
	j, at = f.gathering, len(f.gathering.bodies)
	j.bodies = append(j.bodies, body)
	if len(j.bodies) == maxJoint { // a full joint does not wait for others to land
		f.gathering = nil
		f.flying++
		go c.fly(j)
	}
	return j, at
}

// leave gives a place back, unless the joint has gone: then the outcome is unknown, as with any request.
func (f *flights) leave(j *joint, at int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gathering == j {
		j.bodies[at] = nil
	}
}

// next sends the jobs that have gathered, now that a request has landed.
func (f *flights) next(c *Client) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gathering == nil {
		f.flying--
		return
	}
	go c.fly(f.gathering)
	f.gathering = nil
}

var errNotSent = errors.New("the request was not sent")

// fly sends a joint. The joint belongs to several callers, so none of them can cancel it.
func (c *Client) fly(j *joint) {
	j.err = errNotSent
	defer c.flights.next(c)
	defer func() {
		want := c.flights.waiting() + len(j.bodies)
		close(j.landed)
		c.flights.await(want)
	}()
	var bodies [][]byte
	var places []int
	for at, body := range j.bodies {
		if body != nil {
			bodies, places = append(bodies, body), append(places, at)
		}
	}
	if len(bodies) == 0 {
		return
	}
	jobs, err := c.submitAll(context.Background(), bodies)
	if err == nil && len(jobs) != len(bodies) {
		err = fmt.Errorf("%d jobs were handed in and the server answered with %d", len(bodies), len(jobs))
	}
	j.jobs, j.err = make([]carillon.Job, len(j.bodies)), err
	for i := range jobs {
		if err == nil {
			j.jobs[places[i]] = jobs[i]
		}
	}
}

// submitAll does not wrap a single job in a list: the server would name a field of that list in its error.
func (c *Client) submitAll(ctx context.Context, bodies [][]byte) ([]carillon.Job, error) {
	if len(bodies) > 1 {
		return c.SubmitManyJSON(ctx, bodies)
	}
	job, err := c.submit(ctx, bodies[0])
	return []carillon.Job{job}, err
}

func (f *flights) waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gathering == nil {
		return 0
	}
	return len(f.gathering.bodies)
}

// await gives callers that were just answered a moment to come back with their next jobs: most do at once.
func (f *flights) await(want int) {
	const moment, maxYields = 100 * time.Microsecond, 1000
	for try, begin := 0, time.Now(); try < maxYields && f.waiting() < want &&
		time.Since(begin) < moment; try++ {
		runtime.Gosched()
	}
}

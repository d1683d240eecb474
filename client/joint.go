package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

// Submits that are made at the same time travel together: while as many requests are under way as keep a server busy, those who
// come gather for the next one. A caller that is alone never waits, and many share the price of a request, of which the jobs
// themselves are the least part.

const (
	// maxFlights is how many requests are under way before submits gather.
	maxFlights = 2
	// maxJoint bounds what gathers for one request, and maxLight how large a job may be to travel with others, in bytes.
	maxJoint = 256
	maxLight = 16 << 10
)

// flights are the submits under way.
type flights struct {
	mu        sync.Mutex
	flying    int
	gathering *joint // the next to go; nil: nobody waits
}

// joint is a request for the jobs of several callers, each at its index.
type joint struct {
	bodies [][]byte
	landed chan struct{} // closed when the answer is there
	jobs   []carillon.Job
	err    error
}

// join hands in a job by a request of its own, or with others.
func (c *Client) join(ctx context.Context, def carillon.Definition) (carillon.Job, error) {
	body, err := json.Marshal(wire(def))
	if err != nil {
		return carillon.Job{}, fmt.Errorf("write the body: %w", err)
	}
	if len(body) > maxLight {
		return c.submit(ctx, body)
	}
	f := &c.flights
	f.mu.Lock()
	if f.flying < maxFlights {
		f.flying++
		f.mu.Unlock()
		defer c.next()
		return c.submit(ctx, body)
	}
	if f.gathering == nil {
		f.gathering = &joint{landed: make(chan struct{})}
	}
	j, at := f.gathering, len(f.gathering.bodies)
	j.bodies = append(j.bodies, body)
	if len(j.bodies) == maxJoint { // it does not wait for others to land
		f.gathering = nil
		f.flying++
		go c.fly(j)
	}
	f.mu.Unlock()
	select {
	case <-j.landed:
	case <-ctx.Done():
		return carillon.Job{}, c.failed(ctx, ctx.Err())
	}
	var refused *Problem
	switch {
	case j.err == nil:
		return j.jobs[at], nil
	case errors.As(j.err, &refused) && refused.Status/100 == 4 && len(j.bodies) > 1:
		return c.submit(ctx, body) // for one of them all were: by itself each hears what is wrong with it, if anything is
	}
	return carillon.Job{}, j.err
}

// next lets those go who have gathered, now that a request has landed.
func (c *Client) next() {
	f := &c.flights
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gathering == nil {
		f.flying--
		return
	}
	go c.fly(f.gathering)
	f.gathering = nil
}

// fly sends a joint. It is of several callers, so none of them can call it off.
func (c *Client) fly(j *joint) {
	j.jobs, j.err = c.SubmitManyJSON(context.Background(), j.bodies)
	if j.err == nil && len(j.jobs) != len(j.bodies) {
		j.err = fmt.Errorf("%d jobs were handed in and the server answered with %d", len(j.bodies), len(j.jobs))
	}
	want := c.flights.waiting() + len(j.bodies)
	close(j.landed)
	c.flights.await(want)
	c.next()
}

func (f *flights) waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gathering == nil {
		return 0
	}
	return len(f.gathering.bodies)
}

// await lets callers that were answered come back with their next jobs: most do at once. It is over in a moment.
func (f *flights) await(want int) {
	const moment, maxYields = 100 * time.Microsecond, 1000
	for try, begin := 0, time.Now(); try < maxYields && f.waiting() < want && time.Since(begin) < moment; try++ {
		runtime.Gosched()
	}
}

func (c *Client) submit(ctx context.Context, body []byte) (job carillon.Job, err error) {
	err = c.call(ctx, request{method: http.MethodPost, path: "/v1/jobs", body: body}, &job)
	return job, err
}

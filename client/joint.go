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

// Submits that are made at the same time travel together: while two are under way, those who come gather for the next request.
// A caller that is alone never waits, and many share the price of a request, of which the jobs themselves are the least part.

const (
	// maxFlights is how many requests are under way before submits gather.
	maxFlights = 2
	// maxJoint bounds what gathers for one request, and maxLight how large a job may be to travel with others, in bytes: together
	// they stay below what a proxy lets through.
	maxJoint = 64
	maxLight = 8 << 10
)

// flights are the submits under way.
type flights struct {
	mu        sync.Mutex
	flying    int
	gathering *joint // the next to go; nil: nobody waits
}

// joint is a request for the jobs of several callers.
type joint struct {
	bodies [][]byte      // each caller's at its index; nil: it has given up
	landed chan struct{} // closed when the answer is there
	jobs   []carillon.Job
	err    error
}

// join hands in a job by a request of its own, or with others.
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
	if errors.Is(j.err, carillon.ErrInvalid) { // for one of them all were refused: by itself each hears what is wrong with it, if anything is
		return c.submit(ctx, body)
	}
	if j.err != nil {
		return carillon.Job{}, j.err
	}
	return j.jobs[at], nil
}

// board takes a place in the next joint; nil: there is no need, the caller flies alone.
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
	if len(j.bodies) == maxJoint { // it does not wait for others to land
		f.gathering = nil
		f.flying++
		go c.fly(j)
	}
	return j, at
}

// leave gives a place back, unless the joint has gone: then nobody knows, as with any request.
func (f *flights) leave(j *joint, at int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gathering == j {
		j.bodies[at] = nil
	}
}

// next lets those go who have gathered, now that a request has landed.
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

// fly sends a joint. It is of several callers, so none of them can call it off.
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

// submitAll does not wrap one job in a list: what is wrong with it would be said of a field in that list.
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

// await lets callers that were answered come back with their next jobs: most do at once. It is over in a moment.
func (f *flights) await(want int) {
	const moment, maxYields = 100 * time.Microsecond, 1000
	for try, begin := 0, time.Now(); try < maxYields && f.waiting() < want && time.Since(begin) < moment; try++ {
		runtime.Gosched()
	}
}

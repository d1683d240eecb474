package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
)

const loopback = "127.0.0.1:0"

// crew runs the jobs of a backlog.
type crew interface {
	ran() int
	empty(ctx context.Context, n int) error // waits until all n have run and every end is on disk
	end() error
}

// backlog fills a place with jobs while no worker runs them.
func (b *bench) backlog(ctx context.Context, at place, n int, schedule carillon.Schedule) error {
	h, err := open(at.config(noWorker), nil)
	if err != nil {
		return err
	}
	err = b.fill(ctx, h, n, schedule)
	return errors.Join(err, h.stop())
}

// drain fills a place with due jobs while no worker runs them, then measures from the start of a crew until
// every job is recorded as ended.
func (b *bench) drain(
	ctx context.Context, at place, n int, begin func(at place) (crew, error),
) (start, end time.Time, err error) {
	if err := b.backlog(ctx, at, n, carillon.Schedule{}); err != nil {
		return start, end, err
	}
	start = time.Now()
	c, err := begin(at)
	if err != nil {
		return start, end, err
	}
	ended := make(chan struct{})
	go b.progress("ran", n, c.ran, ended)
	err = c.empty(ctx, n)
	end = time.Now()
	close(ended)
	if err = errors.Join(err, c.end()); err != nil {
		return start, end, err
	}
	if ran := c.ran(); ran != n {
		return start, end, fmt.Errorf("%d jobs were submitted, %d ran", n, ran)
	}
	return start, end, nil
}

// drainRate drains in a fresh place and returns the rate in jobs a second.
func (b *bench) drainRate(
	ctx context.Context, n int, begin func(at place) (crew, error),
) (rate float64, err error) {
	at, err := b.fresh(ctx)
	if err != nil {
		return 0, err
	}
	start, end, err := b.drain(ctx, at, n, begin)
	if err != nil {
		return 0, err
	}
	return float64(n) / end.Sub(start).Seconds(), b.discard(ctx, at)
}

// inside is a crew in this process: a node with a worker inside.
func inside(at place) (crew, error) { return open(at.config(slots), nil) }

// remote is a node in this process that performs no runs, and a worker in another process that dials it.
type remote struct {
	*house
	worker *child
}

// remotely starts the worker's process at once, so that this time is not part of the measurement.
func (b *bench) remotely() (begin func(at place) (crew, error), err error) {
	w, err := b.spawn("worker")
	if err != nil {
		return nil, err
	}
	return func(at place) (crew, error) {
		cfg := at.config(noWorker)
		cfg.Listen = loopback
		h, err := open(cfg, nil)
		if err != nil {
			return nil, errors.Join(err, w.end())
		}
		token, err := os.ReadFile(h.node.TokenFile())
		if err == nil {
			err = w.tell(orders{Server: h.node.URL(), Token: strings.TrimSpace(string(token))})
		}
		if err != nil {
			return nil, errors.Join(err, w.end(), h.end())
		}
		return remote{h, w}, nil
	}, nil
}

func (r remote) ran() int   { return int(r.worker.ran.Load()) }
func (r remote) end() error { return errors.Join(r.worker.end(), r.house.end()) }

func (r remote) empty(ctx context.Context, n int) error {
	if err := (nodes{r.worker}).begun(ctx, n); err != nil {
		return err
	}
	return r.settled(ctx)
}

// nodes are nodes with a worker inside, each in its own process, that share a database.
type nodes []*child

// apart starts the processes at once, for the same reason as remotely.
func (b *bench) apart(count int) (begin func(at place) (crew, error), err error) {
	var list nodes
	for range count {
		c, err := b.spawn("node")
		if err != nil {
			return nil, errors.Join(err, list.end())
		}
		list = append(list, c)
	}
	return func(at place) (crew, error) {
		for i, c := range list {
			if err := c.tell(orders{
				Data: filepath.Join(at.data, fmt.Sprintf("node-%d", i+1)), Store: at.store,
			}); err != nil {
				return nil, errors.Join(err, list.end())
			}
		}
		return list, nil
	}, nil
}

func (l nodes) ran() (sum int) {
	for _, c := range l {
		sum += int(c.ran.Load())
	}
	return sum
}

// begun waits until n jobs have run.
func (l nodes) begun(ctx context.Context, n int) error {
	over := false
	err := until(ctx, func() bool {
		for _, c := range l {
			select {
			case <-c.ended:
				over = true
			default:
			}
		}
		return over || l.ran() >= n
	})
	if err == nil && over {
		err = errChildEnded
	}
	return err
}

// empty has the first node check the store for all nodes.
func (l nodes) empty(ctx context.Context, n int) error {
	if err := l.begun(ctx, n); err != nil {
		return err
	}
	if err := l[0].tell("watch"); err != nil {
		return err
	}
	select {
	case <-l[0].emptied:
		return nil
	case <-l[0].ended:
		return errChildEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l nodes) end() (err error) {
	for _, c := range l {
		c.in.Close()
	}
	for _, c := range l {
		err = errors.Join(err, c.end())
	}
	return err
}

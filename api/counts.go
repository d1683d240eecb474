package api

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

// countShare says that at most one part in so many of the time is spent on counting the runs of a namespace:
// where millions of runs wait, a count takes seconds of the store.
const countShare = 30

// counts are the last counts of each namespace.
type counts struct {
	mu sync.Mutex
	of map[string]*countOf
}

type countOf struct {
	turn  chan struct{} // capacity 1: held by the request that counts; the others wait for its answer
	last  counted
	until time.Time // until then last is good enough
}

// counted is what was counted, and when.
type counted struct {
	counts []carillon.QueueCount
	at     carillon.Time
}

func (c *counts) get(namespace string) *countOf {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.of[namespace]
	if of == nil {
		if c.of == nil {
			c.of = map[string]*countOf{}
		}
		of = &countOf{turn: make(chan struct{}, 1)}
		c.of[namespace] = of
	}
	return of
}

// count counts the runs of a namespace, or returns the last count.
func (s *server) count(w http.ResponseWriter, r *http.Request, namespace string) (counted, error) {
	of := s.counts.get(namespace)
	return of.now(r.Context(), func() (counted, error) {
		at := s.Clock.Now()
		counts, err := list(s, w, r, func(from carillon.Store) ([]carillon.QueueCount, error) {
			return from.Counts(r.Context(), namespace, at)
		})
		return counted{counts, at}, err
	})
}

func (of *countOf) now(ctx context.Context, count func() (counted, error)) (counted, error) {
	select {
	case of.turn <- struct{}{}:
		defer func() { <-of.turn }()
	case <-ctx.Done():
		return counted{}, ctx.Err()
	}
	began := time.Now()
	if began.Before(of.until) {
		return of.last, nil
	}
	c, err := count()
	if err != nil {
		return counted{}, err
	}
	ended := time.Now()
	of.last, of.until = c, ended.Add((countShare-1)*ended.Sub(began))
	return c, nil
}

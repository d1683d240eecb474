package client_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

func TestTheOutcomeIsUnknownIfAnEarlierTryMayHaveBeenPerformed(t *testing.T) {
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	refused := func(*http.Request, func() *http.Response) (*http.Response, error) { return nil, dial }
	full := status(429, "1")
	for what, c := range map[string]struct {
		mishaps []mishap
		unknown bool
		status  int // of the problem; 0: none
	}{
		"ambiguous, then 429":           {[]mishap{answerLost, full, full, full, full}, true, 429},
		"cut, then 429 without a time":  {[]mishap{answerCut(9, reset), status(429, "")}, true, 429},
		"503, then no connection":       {[]mishap{status(503, ""), refused, refused, refused, refused}, true, 503},
		"ambiguous, then a proxy's 404": {[]mishap{answerLost, status(404, "")}, true, 404},
		"ambiguous, then a proxy's 400": {[]mishap{answerLost, status(400, "")}, true, 400},
		"429 only":                      {[]mishap{full, full, full, full, full}, false, 429},
		"no connection, then 429":       {[]mishap{refused, full, full, full, full}, false, 429},
		"429, then ambiguous":           {[]mishap{full, full, full, full, answerLost}, false, 0}, // *Unreachable
	} {
		t.Run(what, func(t *testing.T) {
			onRoad(t, client.Config{}, c.mishaps, func(t *testing.T, way *road) {
				_, err := way.Submit(t.Context(), echoes(1)[0])
				var unknown *client.UnknownOutcome
				if errors.As(err, &unknown) != c.unknown || len(way.keys) != len(c.mishaps) {
					t.Errorf("after %d tries: %v", len(way.keys), err)
				}
				var problem *client.Problem
				if errors.As(err, &problem) != (c.status > 0) || c.status > 0 && problem.Status != c.status {
					t.Errorf("want status %d: %v", c.status, err)
				}
				if c.unknown && !strings.Contains(err.Error(), "not known whether") {
					t.Error(err)
				}
			})
		})
	}
}

// A server that has looked at the key says what became of all tries.
func TestTheOutcomeIsKnownIfTheServerRefusesAFurtherTry(t *testing.T) {
	onRoad(t, client.Config{}, []mishap{fine, noConnection}, func(t *testing.T, way *road) {
		ctx := client.WithIdempotencyKey(t.Context(), "order-17")
		must(way.Submit(ctx, echoes(1)[0]))(t)
		def := echoes(1)[0]
		def.Name = "other"
		_, err := way.Submit(ctx, def)
		var unknown *client.UnknownOutcome
		if !errors.Is(err, carillon.ErrInvalid) || errors.As(err, &unknown) || len(way.keys) != 3 {
			t.Errorf("after %d tries: %v", len(way.keys), err)
		}
	})
}

// The transport itself repeats a request that has an idempotency key if the connection is an old one, so a
// connection that is refused does not mean that the request was not sent.
func TestARequestThatTheTransportRepeatsIsSent(t *testing.T) {
	var web *httptest.Server
	var calls atomic.Int64
	web = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls.Add(1) == 1 {
			_, _ = w.Write([]byte("{}"))
			return
		}
		_ = web.Listener.Close()
		panic(http.ErrAbortHandler)
	}))
	defer web.Close()
	c := must(client.New(client.Config{URL: web.URL, Tries: 1}))(t)
	ctx := client.WithIdempotencyKey(t.Context(), "order-17")
	_, err := c.Pause(ctx, 1)
	_, err2 := c.Pause(ctx, 1)
	_, err3 := c.Pause(ctx, 1)
	var away, never *client.Unreachable
	if err != nil || !errors.As(err2, &away) || away.NotSent() ||
		!errors.As(err3, &never) || !never.NotSent() {
		t.Errorf("%v; %v; %v", err, err2, err3)
	}
}

func TestJobsOfASharedRequestAreNotSubmittedAloneIfTheOutcomeIsUnknown(t *testing.T) {
	late := func(_ *http.Request, serve func() *http.Response) (*http.Response, error) {
		time.Sleep(time.Second) // until all other callers wait
		return serve(), nil
	}
	onRoad(t, client.Config{}, []mishap{late, answerLost, status(400, "")}, func(t *testing.T, way *road) {
		batcher := client.NewBatcher(way.Client, client.BatcherConfig{InFlight: 1})
		var callers sync.WaitGroup
		var unknown atomic.Int64
		for _, def := range echoes(10) {
			callers.Go(func() {
				_, err := batcher.Submit(t.Context(), def)
				if what := new(client.UnknownOutcome); errors.As(err, &what) {
					unknown.Add(1)
				}
			})
		}
		callers.Wait()
		if n := way.jobs(t); n != 10 || unknown.Load() != 9 {
			t.Errorf("%d jobs, %d of unknown outcome", n, unknown.Load())
		}
	})
}

package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/api"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
)

// mishap is what happens to one request on its way. serve performs the request.
type mishap func(r *http.Request, serve func() *http.Response) (*http.Response, error)

func status(code int, retryAfter string) mishap {
	return func(*http.Request, func() *http.Response) (*http.Response, error) {
		w := httptest.NewRecorder()
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(code)
		return w.Result(), nil
	}
}

var errGone = errors.New("connection reset by peer")

func noConnection(*http.Request, func() *http.Response) (*http.Response, error) { return nil, errGone }

func answerLost(_ *http.Request, serve func() *http.Response) (*http.Response, error) {
	serve()
	return nil, errGone
}

// answerCut performs the request; reading its answer fails after some bytes.
func answerCut(after int64, with error) mishap {
	return func(_ *http.Request, serve func() *http.Response) (*http.Response, error) {
		answer := serve()
		part := io.LimitReader(answer.Body, after)
		answer.Body = io.NopCloser(io.MultiReader(part, iotest.ErrReader(with)))
		return answer, nil
	}
}

// reset is how a connection breaks whose other end has died.
var reset = &net.OpError{Op: "read", Net: "tcp", Err: os.NewSyscallError("read", syscall.ECONNRESET)}

// answers replaces the answer by a text.
func answers(text string) mishap {
	return func(_ *http.Request, serve func() *http.Response) (*http.Response, error) {
		answer := serve()
		answer.Body = io.NopCloser(strings.NewReader(text))
		return answer, nil
	}
}

func silence(r *http.Request, serve func() *http.Response) (*http.Response, error) {
	serve()
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func fine(_ *http.Request, serve func() *http.Response) (*http.Response, error) { return serve(), nil }

// road is the way to the real API, in a bubble: the first requests have mishaps.
type road struct {
	*client.Client
	store *mem.Store

	mu      sync.Mutex
	mishaps []mishap
	keys    []string // of all requests
	told    []string // what Retrying was told
	enough  bool     // Retrying says no
}

func onRoad(t *testing.T, cfg client.Config, mishaps []mishap, play func(t *testing.T, way *road)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		way := &road{store: mem.NewStore(), mishaps: mishaps}
		door := ledger.New(ledger.Config{Store: way.store, IDs: idgen.New(1, carillon.Never)})
		ctx, stop := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = door.Run(ctx) })
		server := api.New(api.Config{
			Ledger: door, Store: way.store, Logs: mem.NewLogs(),
			Tokens: map[string]api.Credential{token: {Namespace: carillon.DefaultNamespace, Name: "test"}},
		})
		cfg.URL, cfg.Token = "http://road.test", token
		cfg.Retrying = func(reason error, _ time.Duration) bool {
			way.mu.Lock()
			defer way.mu.Unlock()
			way.told = append(way.told, reason.Error())
			return !way.enough
		}
		cfg.HTTP = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			return way.next(r)(r, func() *http.Response {
				w := httptest.NewRecorder()
				server.ServeHTTP(w, r)
				answer := w.Result()
				answer.Request = r
				return answer
			})
		})}
		var err error
		if way.Client, err = client.New(cfg); err != nil {
			t.Fatal(err)
		}
		defer running.Wait() // also after t.Fatal
		defer stop()
		play(t, way)
	})
}

func (way *road) next(r *http.Request) mishap {
	way.mu.Lock()
	defer way.mu.Unlock()
	way.keys = append(way.keys, r.Header.Get("Idempotency-Key"))
	if len(way.mishaps) == 0 {
		return fine
	}
	first := way.mishaps[0]
	way.mishaps = way.mishaps[1:]
	return first
}

func (way *road) jobs(t *testing.T) int {
	t.Helper()
	page, err := way.store.FindJobs(t.Context(), carillon.JobQuery{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Jobs)
}

func TestAWriteIsSentAgainUntilItIsAnsweredAndPerformedOnce(t *testing.T) {
	for what, c := range map[string]struct {
		mishaps     []mishap
		least, most time.Duration // that it takes
	}{
		"at once":                     {nil, 0, 0},
		"no connection":               {[]mishap{noConnection}, 100 * time.Millisecond, 150 * time.Millisecond},
		"the answer is lost":          {[]mishap{answerLost}, 100 * time.Millisecond, 150 * time.Millisecond},
		"the answer is cut":           {[]mishap{answerCut(20, io.ErrUnexpectedEOF)}, 100 * time.Millisecond, 150 * time.Millisecond},
		"the answer is reset":         {[]mishap{answerCut(20, reset)}, 100 * time.Millisecond, 150 * time.Millisecond},
		"the answer is empty":         {[]mishap{answerCut(0, io.EOF)}, 100 * time.Millisecond, 150 * time.Millisecond},
		"a proxy without a server":    {[]mishap{status(502, ""), status(504, "")}, 400 * time.Millisecond, 600 * time.Millisecond},
		"a server that is stopping":   {[]mishap{status(503, "1")}, time.Second, time.Second},
		"too many jobs":               {[]mishap{status(429, "7")}, 7 * time.Second, 7 * time.Second},
		"a server that went silent":   {[]mishap{silence}, 30 * time.Second, 31 * time.Second},
		"all sorts of things, and it": {[]mishap{noConnection, answerLost, status(503, ""), answerCut(9, reset)}, 4 * time.Second, 6 * time.Second},
	} {
		t.Run(what, func(t *testing.T) {
			onRoad(t, client.Config{}, c.mishaps, func(t *testing.T, way *road) {
				began := time.Now()
				job, err := way.Submit(t.Context(), echoes(1)[0])
				if took := time.Since(began); err != nil || job.ID == 0 || took < c.least || took > c.most {
					t.Errorf("%s after %s: %v", job.ID, took, err)
				}
				if n := way.jobs(t); n != 1 {
					t.Errorf("%d jobs", n)
				}
				if len(way.keys) != len(c.mishaps)+1 || len(way.told) != len(c.mishaps) ||
					way.keys[0] == "" || len(slices.Compact(way.keys)) != 1 {
					t.Errorf("keys %q, told %q", way.keys, way.told)
				}
			})
		})
	}
}

func TestEveryWriteHasAKeyOfItsOwnAndIsPerformedOnce(t *testing.T) {
	job := carillon.JobID(0)
	var run carillon.RunID
	for what, write := range map[string]func(ctx context.Context, way *road) error{
		"submit many": func(ctx context.Context, way *road) error {
			jobs, err := way.SubmitMany(ctx, echoes(3))
			if err == nil && len(jobs) != 3 {
				err = fmt.Errorf("%d jobs", len(jobs))
			}
			return err
		},
		"edit": func(ctx context.Context, way *road) error {
			edited, err := way.Edit(ctx, job, client.Changes{"name": "new"}, 1)
			if err == nil && edited.Version != 2 {
				err = fmt.Errorf("version %d", edited.Version)
			}
			return err
		},
		"cancel":     func(ctx context.Context, way *road) error { _, err := way.Cancel(ctx, job, true); return err },
		"pause":      func(ctx context.Context, way *road) error { _, err := way.Pause(ctx, job); return err },
		"run now":    func(ctx context.Context, way *road) error { _, err := way.RunNow(ctx, job, []byte("1")); return err },
		"cancel run": func(ctx context.Context, way *road) error { _, err := way.CancelRun(ctx, run); return err },
	} {
		t.Run(what, func(t *testing.T) {
			onRoad(t, client.Config{}, []mishap{fine, answerLost, answerLost}, func(t *testing.T, way *road) {
				def := echoes(1)[0]
				def.Schedule = carillon.Schedule{Every: carillon.Duration(time.Hour)}
				def.Overlap = carillon.OverlapAllow
				made, err := way.Submit(t.Context(), def)
				if err != nil {
					t.Fatal(err)
				}
				job = made.ID
				page, err := way.store.FindRuns(t.Context(), carillon.RunQuery{Job: job, Limit: 1})
				if err != nil {
					t.Fatal(err)
				}
				run = page.Runs[0].ID
				if err := write(t.Context(), way); err != nil {
					t.Error(err)
				}
				different := slices.Compact(slices.Clone(way.keys))
				if len(way.keys) != 4 || len(different) != 2 || way.keys[1] == "" {
					t.Errorf("keys %q", way.keys)
				}
				if want := map[bool]int{false: 1, true: 4}[what == "submit many"]; way.jobs(t) != want {
					t.Errorf("%d jobs, want %d", way.jobs(t), want)
				}
				page, _ = way.store.FindRuns(t.Context(), carillon.RunQuery{Job: job, Limit: 10})
				if what == "run now" && len(page.Runs) != 2 {
					t.Errorf("%d runs", len(page.Runs))
				}
			})
		})
	}
}

func TestAWriteIsGivenUp(t *testing.T) {
	always := slices.Repeat([]mishap{noConnection}, 99)
	untrusted := func(*http.Request, func() *http.Response) (*http.Response, error) {
		return nil, &tls.CertificateVerificationError{Err: errGone}
	}
	for what, c := range map[string]struct {
		cfg     client.Config
		mishaps []mishap
		ctx     time.Duration // until the caller gives up
		tries   int
		most    time.Duration
	}{
		"after some tries":              {client.Config{}, always, time.Hour, 5, 6 * time.Second},
		"after the first":               {client.Config{Tries: 1}, always, time.Hour, 1, 0},
		"when the caller gives up":      {client.Config{}, always, time.Second, 3, time.Second},
		"when the time is over":         {client.Config{Timeout: 2 * time.Second}, always, time.Hour, 4, 2 * time.Second},
		"if it would wait too long":     {client.Config{}, []mishap{status(429, "61")}, time.Hour, 1, 0},
		"if the server names no time":   {client.Config{}, []mishap{status(429, "")}, time.Hour, 1, 0},
		"if it is refused":              {client.Config{}, []mishap{status(409, "1")}, time.Hour, 1, 0},
		"if the server cannot prove it": {client.Config{}, []mishap{untrusted}, time.Hour, 1, 0},
		"if the answer is no JSON":      {client.Config{}, []mishap{answers("<html>")}, time.Hour, 1, 0},
		"if the answer is no job":       {client.Config{}, []mishap{answers(`{"id":7}`)}, time.Hour, 1, 0},
		"if the id is of no job":        {client.Config{}, []mishap{answers(`{"id":"run"}`)}, time.Hour, 1, 0},
		"if every server is silent":     {client.Config{Tries: 3}, slices.Repeat([]mishap{silence}, 99), time.Hour, 3, time.Minute},
	} {
		t.Run(what, func(t *testing.T) {
			onRoad(t, c.cfg, c.mishaps, func(t *testing.T, way *road) {
				ctx, cancel := context.WithTimeout(t.Context(), c.ctx)
				defer cancel()
				began := time.Now()
				_, err := way.Submit(ctx, echoes(1)[0])
				if took := time.Since(began); err == nil || took > c.most {
					t.Errorf("after %s: %v", took, err)
				}
				if len(way.keys) != c.tries || (way.keys[0] == "") != (c.cfg.Tries == 1) {
					t.Errorf("tries %q, want %d", way.keys, c.tries)
				}
			})
		})
	}
}

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
	if err != nil || !errors.As(err2, &away) || away.NotSent() || !errors.As(err3, &never) || !never.NotSent() {
		t.Errorf("%v; %v; %v", err, err2, err3)
	}
}

func TestATryIsCutOnlyIfEnoughTimeRemainsForAnother(t *testing.T) {
	slow := func(r *http.Request, serve func() *http.Response) (*http.Response, error) {
		answer := serve()
		select {
		case <-r.Context().Done():
			return nil, r.Context().Err()
		case <-time.After(600 * time.Millisecond):
			return answer, nil
		}
	}
	onRoad(t, client.Config{}, []mishap{slow}, func(t *testing.T, way *road) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := way.Submit(ctx, echoes(1)[0]); err != nil || len(way.keys) != 1 {
			t.Errorf("%d tries: %v", len(way.keys), err)
		}
	})
	onRoad(t, client.Config{}, slices.Repeat([]mishap{silence}, 9), func(t *testing.T, way *road) {
		_, err := way.Submit(t.Context(), echoes(1)[0])
		if len(way.told) != 2 || !strings.HasSuffix(way.told[0], "no answer in time: waited 30s") ||
			!strings.Contains(way.told[1], "waited 14.9s") {
			t.Errorf("told %q", way.told)
		}
		if err == nil || !strings.HasSuffix(err.Error(), "no answer in time: waited 1m0s") {
			t.Error(err)
		}
	})
}

func TestACallerCanSayNoToAFurtherTry(t *testing.T) {
	onRoad(t, client.Config{}, []mishap{noConnection}, func(t *testing.T, way *road) {
		way.enough = true
		if _, err := way.Submit(t.Context(), echoes(1)[0]); !errors.Is(err, errGone) || len(way.keys) != 1 {
			t.Errorf("%d tries: %v", len(way.keys), err)
		}
	})
}

func TestACallerChoosesTheKey(t *testing.T) {
	onRoad(t, client.Config{Tries: 1}, []mishap{answerLost}, func(t *testing.T, way *road) {
		ctx := client.WithIdempotencyKey(t.Context(), "order-17")
		batcher := client.NewBatcher(way.Client, client.BatcherConfig{})
		if _, err := way.Submit(ctx, echoes(1)[0]); err == nil {
			t.Error("the answer was not lost")
		}
		first, err := way.Submit(ctx, echoes(1)[0])
		again, err2 := batcher.Submit(ctx, echoes(1)[0])
		if err != nil || err2 != nil || first.ID != again.ID || way.jobs(t) != 1 {
			t.Errorf("%s, then %s: %v, %v", first.ID, again.ID, err, err2)
		}
		def := echoes(1)[0]
		def.Name = "other"
		_, err = way.Submit(ctx, def)
		var problem *client.Problem
		if !errors.As(err, &problem) || problem.Status != 422 || !errors.Is(err, carillon.ErrInvalid) ||
			!strings.Contains(err.Error(), "used at") {
			t.Errorf("another job: %v", err)
		}
	})
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

func TestASharedRequestIsSentAgain(t *testing.T) {
	onRoad(t, client.Config{}, slices.Repeat([]mishap{answerLost}, 3), func(t *testing.T, way *road) {
		batcher := client.NewBatcher(way.Client, client.BatcherConfig{})
		var callers sync.WaitGroup
		for _, def := range echoes(10) {
			callers.Go(func() { must(batcher.Submit(t.Context(), def))(t) })
		}
		callers.Wait()
		if n := way.jobs(t); n != 10 {
			t.Errorf("%d jobs", n)
		}
	})
}

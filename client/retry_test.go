package client_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
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
	door  *ledger.Ledger

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
		way.door = ledger.New(ledger.Config{Store: way.store, IDs: idgen.New(1, carillon.Never)})
		ctx, stop := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = way.door.Run(ctx) })
		server := api.New(api.Config{
			Ledger: way.door, Store: way.store, Logs: mem.NewLogs(),
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

// effect is what writes have left in the store.
type effect struct {
	jobs    int
	version int32 // of the first job
	state   carillon.JobState
	runs    []carillon.State // of that job, latest first
}

func (way *road) effect(t *testing.T, id carillon.JobID) effect {
	t.Helper()
	job := must(way.Job(t.Context(), id))(t)
	e := effect{jobs: way.jobs(t), version: job.Version, state: job.State}
	for _, run := range must(way.store.FindRuns(t.Context(), carillon.RunQuery{Job: id, Limit: 10}))(t).Runs {
		e.runs = append(e.runs, run.State)
	}
	return e
}

// die makes the run a dead letter.
func (way *road) die(t *testing.T, job *carillon.Job, id carillon.RunID) {
	t.Helper()
	fatal := carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: "no"}
	for _, step := range []func(r *carillon.Run) carillon.Run{
		func(r *carillon.Run) carillon.Run { return r.Claim("worker_1", carillon.Now()) },
		func(r *carillon.Run) carillon.Run { return r.Finish(job, fatal, carillon.Now(), 0) },
	} {
		run := must(way.store.Runs(t.Context(), []carillon.RunID{id}, true))(t)[0]
		changes := []carillon.Change{{Runs: []carillon.Run{step(&run)}}}
		if lost, err := way.door.Commit(t.Context(), changes); err != nil || len(lost) > 0 {
			t.Fatal(lost, err)
		}
	}
}

func TestEveryWriteHasAKeyOfItsOwnAndIsPerformedOnce(t *testing.T) {
	const active, paused, canceled = carillon.JobActive, carillon.JobPaused, carillon.JobCanceled
	const waiting, ended, failed = carillon.StateWaiting, carillon.StateCanceled, carillon.StateFailed
	type states = []carillon.State
	type made struct {
		*road
		t   *testing.T
		ctx context.Context
		job carillon.Job
		run carillon.RunID
	}
	for what, c := range map[string]struct {
		before func(m made)
		write  func(m made) (right bool, err error)
		want   effect
	}{
		"submit many": {nil, func(m made) (bool, error) {
			jobs, err := m.SubmitMany(m.ctx, echoes(3))
			return len(jobs) == 3, err
		}, effect{4, 1, active, states{waiting}}},
		"edit": {nil, func(m made) (bool, error) {
			job, err := m.Edit(m.ctx, m.job.ID, client.Changes{"name": "new"}, 1)
			return job.Name == "new" && job.Version == 2, err
		}, effect{1, 2, active, states{waiting}}},
		"cancel": {nil, func(m made) (bool, error) {
			job, err := m.Cancel(m.ctx, m.job.ID, true)
			return job.State == canceled, err
		}, effect{1, 1, canceled, states{ended}}},
		"pause": {nil, func(m made) (bool, error) {
			job, err := m.Pause(m.ctx, m.job.ID)
			return job.State == paused, err
		}, effect{1, 1, paused, states{waiting}}},
		"resume": {func(m made) { must(m.Pause(m.ctx, m.job.ID))(m.t) }, func(m made) (bool, error) {
			job, err := m.Resume(m.ctx, m.job.ID)
			return job.State == active, err
		}, effect{1, 1, active, states{waiting}}},
		"run now": {nil, func(m made) (bool, error) {
			run, err := m.RunNow(m.ctx, m.job.ID, []byte("1"))
			return run.ID.Job == m.job.ID && run.ID != m.run, err
		}, effect{1, 1, active, states{waiting, waiting}}},
		"cancel run": {nil, func(m made) (bool, error) {
			run, err := m.CancelRun(m.ctx, m.run)
			return run.ID == m.run && run.State == ended, err
		}, effect{1, 1, active, states{waiting, ended}}},
		"retry run": {func(m made) { must(m.CancelRun(m.ctx, m.run))(m.t) }, func(m made) (bool, error) {
			run, err := m.RetryRun(m.ctx, m.run)
			return run.RetryOf == m.run.Due, err
		}, effect{1, 1, active, states{waiting, ended, waiting}}},
		"retry dead letter": {func(m made) { m.die(m.t, &m.job, m.run) }, func(m made) (bool, error) {
			run, err := m.RetryDeadLetter(m.ctx, m.run, nil)
			return run.RetryOf == m.run.Due, err
		}, effect{1, 1, active, states{failed, waiting}}},
	} {
		t.Run(what, func(t *testing.T) {
			onRoad(t, client.Config{}, nil, func(t *testing.T, way *road) {
				def := echoes(1)[0]
				def.Schedule = carillon.Schedule{Every: carillon.Duration(time.Hour)}
				def.Overlap = carillon.OverlapAllow
				m := made{road: way, t: t, ctx: t.Context(), job: must(way.Submit(t.Context(), def))(t)}
				first := carillon.RunQuery{Job: m.job.ID, Limit: 1}
				m.run = must(way.store.FindRuns(m.ctx, first))(t).Runs[0].ID
				if c.before != nil {
					c.before(m)
				}
				before := len(way.keys)
				way.mishaps = []mishap{answerLost, answerLost}
				if right, err := c.write(m); err != nil || !right {
					t.Errorf("right answer: %v, %v", right, err)
				}
				keys := way.keys[before:]
				if len(keys) != 3 || len(slices.Compact(slices.Clone(keys))) != 1 || keys[0] == "" ||
					slices.Contains(way.keys[:before], keys[0]) {
					t.Errorf("keys %q, before %q", keys, way.keys[:before])
				}
				if got := way.effect(t, m.job.ID); !reflect.DeepEqual(got, c.want) {
					t.Errorf("left %v, want %v", got, c.want)
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

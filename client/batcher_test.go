package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/api"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
)

// gate is the real API in a bubble: there is no network, and requests wait until the test lets them through.
type gate struct {
	*client.Client
	batcher  *client.Batcher
	open     chan struct{} // each value lets one request through; closed: all
	requests atomic.Int64
	canceled atomic.Int64 // requests that ended before the gate let them through
	named    atomic.Int64 // requests whose context has a value for nameKey
	status   int          // instead of the API's answer; 0: none
}

type nameKey struct{}

func behindGate(t *testing.T, cfg client.BatcherConfig, play func(t *testing.T, g *gate)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := mem.NewStore()
		door := ledger.New(ledger.Config{Store: store, IDs: idgen.New(1, carillon.Never)})
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- door.Run(ctx) }()
		server := api.New(api.Config{
			Ledger: door, Store: store, Logs: mem.NewLogs(),
			Tokens: map[string]api.Credential{token: {Namespace: carillon.DefaultNamespace, Name: "test"}},
		})
		g := &gate{open: make(chan struct{})}
		way := roundTrip(func(r *http.Request) (*http.Response, error) {
			g.requests.Add(1)
			if r.Context().Value(nameKey{}) != nil {
				g.named.Add(1)
			}
			select {
			case <-g.open:
			case <-r.Context().Done():
				g.canceled.Add(1)
				return nil, r.Context().Err()
			}
			w := httptest.NewRecorder()
			if g.status != 0 {
				w.WriteHeader(g.status)
			} else {
				server.ServeHTTP(w, r)
			}
			return w.Result(), nil
		})
		var err error
		if g.Client, err = client.New(client.Config{
			URL: "http://carillon", Token: token, HTTP: &http.Client{Transport: way},
		}); err != nil {
			t.Fatal(err)
		}
		g.batcher = client.NewBatcher(g.Client, cfg)
		play(t, g)
		stop()
		<-ended
	})
}

// submitAll submits jobs at the same time, each from its own caller, and opens the gate when all wait.
func (g *gate) submitAll(
	ctx context.Context, defs []carillon.Definition,
	submit func(context.Context, carillon.Definition) (carillon.Job, error),
) (jobs []carillon.Job, errs []error) {
	jobs, errs = make([]carillon.Job, len(defs)), make([]error, len(defs))
	var callers sync.WaitGroup
	for i := range defs {
		callers.Go(func() { jobs[i], errs[i] = submit(ctx, defs[i]) })
	}
	synctest.Wait()
	close(g.open)
	callers.Wait()
	return jobs, errs
}

func (g *gate) names(t *testing.T) (names []string) {
	t.Helper()
	for _, job := range collect(t, g.Jobs(t.Context(), carillon.JobQuery{})) {
		names = append(names, job.Name)
	}
	slices.Sort(names)
	return names
}

func echoes(n int) (defs []carillon.Definition) {
	for i := range n {
		defs = append(defs, echo(fmt.Sprint("job ", i)))
	}
	return defs
}

func TestSubmitIsOneRequestWithTheContextOfItsCaller(t *testing.T) {
	behindGate(t, client.BatcherConfig{}, func(t *testing.T, g *gate) {
		defs := echoes(10)
		defs[3].Queue = "no queue"
		_, errs := g.submitAll(context.WithValue(t.Context(), nameKey{}, "caller"), defs, g.Submit)
		for i, err := range errs {
			if (err != nil) != (i == 3) {
				t.Errorf("job %d: %v", i, err)
			}
		}
		if n, named := g.requests.Load(), g.named.Load(); n != 10 || named != 10 {
			t.Errorf("%d requests, %d of them with the context of their caller: want 10", n, named)
		}
	})
}

func TestConcurrentSubmitsShareRequests(t *testing.T) {
	behindGate(t, client.BatcherConfig{}, func(t *testing.T, g *gate) {
		defs := echoes(300)
		jobs, errs := g.submitAll(context.WithValue(t.Context(), nameKey{}, "caller"), defs, g.batcher.Submit)
		ids := map[carillon.JobID]bool{}
		for i := range defs {
			if errs[i] != nil || jobs[i].Name != defs[i].Name || ids[jobs[i].ID] {
				t.Fatalf("%s came back as %s (%s), %v", defs[i].Name, jobs[i].Name, jobs[i].ID, errs[i])
			}
			ids[jobs[i].ID] = true
		}
		if n := g.requests.Load(); n > 10 {
			t.Errorf("%d requests for %d jobs", n, len(defs))
		}
		if n := g.named.Load(); n != 2 {
			t.Errorf("%d requests have values of a caller's context, want only the two that went at once", n)
		}
	})
}

func TestAnInvalidJobFailsOnlyItsOwnCaller(t *testing.T) {
	behindGate(t, client.BatcherConfig{}, func(t *testing.T, g *gate) {
		defs := echoes(10)
		defs[3].Queue, defs[7].Priority = "no queue", 99
		_, errs := g.submitAll(t.Context(), defs, g.batcher.Submit)
		for i, err := range errs {
			switch i {
			case 3, 7:
				var problem *client.Problem
				if field := map[int]string{3: "queue", 7: "priority"}[i]; !errors.As(err, &problem) ||
					problem.Field != field {
					t.Errorf("job %d: %v, want what is wrong with its %s", i, err, field)
				}
			default:
				if err != nil {
					t.Errorf("job %d: %v", i, err)
				}
			}
		}
	})
}

func TestAJobWhoseKeyIsHeldFailsOnlyItsOwnCaller(t *testing.T) {
	behindGate(t, client.BatcherConfig{}, func(t *testing.T, g *gate) {
		defs := echoes(10)
		for _, i := range []int{3, 7} {
			defs[i].Unique = &carillon.Unique{
				Key: "k", For: carillon.Duration(time.Hour), OnConflict: carillon.ConflictRefuse,
			}
		}
		_, errs := g.submitAll(t.Context(), defs, g.batcher.Submit)
		if held := []error{errs[3], errs[7]}; (held[0] == nil) == (held[1] == nil) ||
			!errors.Is(errors.Join(held...), carillon.ErrConflict) {
			t.Errorf("of two jobs with one key: %v", held)
		}
		for i, err := range errs {
			if err != nil && i != 3 && i != 7 {
				t.Errorf("job %d: %v", i, err)
			}
		}
	})
}

func TestAJobThatWaitsAloneIsToldItsOwnField(t *testing.T) {
	behindGate(t, client.BatcherConfig{}, func(t *testing.T, g *gate) {
		defs := echoes(3) // two go at once
		for i := range defs {
			defs[i].Queue = "no queue"
		}
		_, errs := g.submitAll(t.Context(), defs, g.batcher.Submit)
		for i, err := range errs {
			var problem *client.Problem
			if !errors.As(err, &problem) || problem.Field != "queue" {
				t.Errorf("job %d: %v, want what is wrong with its queue", i, err)
			}
		}
		if n := g.requests.Load(); n != 3 {
			t.Errorf("%d requests, want one for each job", n)
		}
	})
}

func TestACallerThatGivesUpTakesNoOtherWithIt(t *testing.T) {
	behindGate(t, client.BatcherConfig{}, func(t *testing.T, g *gate) {
		var others sync.WaitGroup
		for i := range 2 { // they are in flight, and the next ones gather
			others.Go(func() { must(g.batcher.Submit(t.Context(), echo(fmt.Sprint("first ", i))))(t) })
		}
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		others.Go(func() {
			if _, err := g.batcher.Submit(short, echo("gives up")); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want that its time was over", err)
			}
		})
		others.Go(func() { must(g.batcher.Submit(t.Context(), echo("goes on")))(t) })
		time.Sleep(2 * time.Second)
		close(g.open)
		others.Wait()
		if names := g.names(t); !slices.Equal(names, []string{"first 0", "first 1", "goes on"}) {
			t.Errorf("there are %q: a job whose caller gave up before it was sent must not be there", names)
		}
	})
}

func TestJobsAreNotSentWhenAllTheirCallersHaveGivenUp(t *testing.T) {
	behindGate(t, client.BatcherConfig{InFlight: 1}, func(t *testing.T, g *gate) {
		var callers sync.WaitGroup
		callers.Go(func() { must(g.batcher.Submit(t.Context(), echo("first")))(t) })
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		for range 2 {
			callers.Go(func() {
				if _, err := g.batcher.Submit(ctx, echo("gives up")); !errors.Is(err, context.Canceled) {
					t.Errorf("%v, want that it was canceled", err)
				}
			})
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		callers.Go(func() { must(g.batcher.Submit(t.Context(), echo("goes on")))(t) })
		synctest.Wait()
		close(g.open)
		callers.Wait()
		if n := g.requests.Load(); n != 2 {
			t.Errorf("%d requests, want 2", n)
		}
		if names := g.names(t); !slices.Equal(names, []string{"first", "goes on"}) {
			t.Errorf("there are %q", names)
		}
	})
}

func TestARequestEndsWhenItsLastCallerGivesUp(t *testing.T) {
	behindGate(t, client.BatcherConfig{InFlight: 1}, func(t *testing.T, g *gate) {
		var callers sync.WaitGroup
		callers.Go(func() { must(g.batcher.Submit(t.Context(), echo("first")))(t) })
		synctest.Wait()
		var giveUp []context.CancelFunc
		for range 2 {
			ctx, cancel := context.WithCancel(t.Context())
			giveUp = append(giveUp, cancel)
			callers.Go(func() {
				if _, err := g.batcher.Submit(ctx, echo("gives up")); !errors.Is(err, context.Canceled) {
					t.Errorf("%v, want that it was canceled", err)
				}
			})
		}
		synctest.Wait()
		g.open <- struct{}{} // the first request is answered, and the shared one reaches the gate
		synctest.Wait()
		for i, cancel := range giveUp {
			if n := g.canceled.Load(); n != 0 {
				t.Errorf("the request ended when %d of 2 callers had given up", i)
			}
			cancel()
			synctest.Wait()
		}
		if n := g.canceled.Load(); n != 1 {
			t.Error("the request goes on for no caller")
		}
		callers.Wait()
		close(g.open)
		must(g.batcher.Submit(t.Context(), echo("last")))(t)
		if names := g.names(t); !slices.Equal(names, []string{"first", "last"}) {
			t.Errorf("there are %q", names)
		}
	})
}

func TestTheConfigBoundsSharedRequests(t *testing.T) {
	for _, c := range []struct {
		name   string
		cfg    client.BatcherConfig
		atOnce int64 // requests for 9 jobs before any is answered
		inAll  int64
	}{
		{name: "defaults", atOnce: 2, inAll: 3},
		{name: "one in flight", cfg: client.BatcherConfig{InFlight: 1}, atOnce: 1, inAll: 2},
		{
			name: "a full request goes at once", cfg: client.BatcherConfig{MaxJobs: 3, InFlight: 1},
			atOnce: 3, inAll: 4,
		},
		{name: "all jobs are large", cfg: client.BatcherConfig{MaxJobBytes: 10}, atOnce: 9, inAll: 9},
		{
			name: "values below the least", cfg: client.BatcherConfig{MaxJobs: -1, InFlight: -1},
			atOnce: 9, inAll: 9,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			behindGate(t, c.cfg, func(t *testing.T, g *gate) {
				var callers sync.WaitGroup
				for _, def := range echoes(9) {
					callers.Go(func() { must(g.batcher.Submit(t.Context(), def))(t) })
				}
				synctest.Wait()
				if n := g.requests.Load(); n != c.atOnce {
					t.Errorf("%d requests before an answer, want %d", n, c.atOnce)
				}
				close(g.open)
				callers.Wait()
				if n := g.requests.Load(); n != c.inAll {
					t.Errorf("%d requests in all, want %d", n, c.inAll)
				}
			})
		})
	}
}

func TestALargeJobIsSentAlone(t *testing.T) {
	behindGate(t, client.BatcherConfig{}, func(t *testing.T, g *gate) {
		defs := echoes(4)
		defs[3].Payload = []byte(`"` + strings.Repeat("x", 20_000) + `"`)
		if _, errs := g.submitAll(t.Context(), defs, g.batcher.Submit); errors.Join(errs...) != nil {
			t.Fatal(errors.Join(errs...))
		}
		if n := g.requests.Load(); n < 4 {
			t.Errorf(
				"%d requests, want one for each: three small ones of which two go at once, and the large one",
				n,
			)
		}
	})
}

func TestNothingIsRepeatedThatWasRefused(t *testing.T) {
	for _, status := range []int{
		http.StatusInternalServerError, http.StatusTooManyRequests, http.StatusRequestTimeout,
		http.StatusUnauthorized,
	} {
		behindGate(t, client.BatcherConfig{}, func(t *testing.T, g *gate) {
			g.status = status
			_, errs := g.submitAll(t.Context(), echoes(10), g.batcher.Submit)
			for i, err := range errs {
				if err == nil {
					t.Errorf("%d: job %d was taken", status, i)
				}
			}
			if n := g.requests.Load(); n != 3 {
				t.Errorf("%d: %d requests, want 3: two that went at once and one for the others", status, n)
			}
		})
	}
}

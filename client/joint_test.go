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
	"github.com/carillon-run/carillon/internal/ledger"
)

// airport is the real API in a bubble: there is no network, and requests wait until the test lets them
// through.
type airport struct {
	*client.Client
	open     chan struct{}
	requests atomic.Int64
	status   int // instead of the API's answer; 0: none
}

func inAir(t *testing.T, play func(t *testing.T, a *airport)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := mem.NewStore()
		door := ledger.New(ledger.Config{Store: store, IDs: carillon.NewIDs(1, carillon.Never)})
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() { ended <- door.Run(ctx) }()
		server := api.New(api.Config{
			Ledger: door, Store: store, Logs: mem.NewLogs(),
			Tokens: map[string]api.Credential{token: {Namespace: carillon.DefaultNamespace, Name: "test"}},
		})
		a := &airport{open: make(chan struct{})}
		way := roundTrip(func(r *http.Request) (*http.Response, error) {
			a.requests.Add(1)
			select {
			case <-a.open:
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
			w := httptest.NewRecorder()
			if a.status != 0 {
				w.WriteHeader(a.status)
			} else {
				server.ServeHTTP(w, r)
			}
			return w.Result(), nil
		})
		var err error
		if a.Client, err = client.New(client.Config{
			URL: "http://carillon", Token: token, HTTP: &http.Client{Transport: way},
		}); err != nil {
			t.Fatal(err)
		}
		play(t, a)
		stop()
		<-ended
	})
}

// submitAll submits jobs at the same time, each from its own caller, and opens the way when all of them wait.
func (a *airport) submitAll(
	ctx context.Context, defs []carillon.Definition,
) (jobs []carillon.Job, errs []error) {
	jobs, errs = make([]carillon.Job, len(defs)), make([]error, len(defs))
	var callers sync.WaitGroup
	for i := range defs {
		callers.Go(func() { jobs[i], errs[i] = a.Submit(ctx, defs[i]) })
	}
	synctest.Wait()
	close(a.open)
	callers.Wait()
	return jobs, errs
}

func echoes(n int) (defs []carillon.Definition) {
	for i := range n {
		defs = append(defs, echo(fmt.Sprint("job ", i)))
	}
	return defs
}

func TestSubmitsAtTheSameTimeTravelTogether(t *testing.T) {
	inAir(t, func(t *testing.T, a *airport) {
		defs := echoes(300)
		jobs, errs := a.submitAll(t.Context(), defs)
		ids := map[carillon.JobID]bool{}
		for i := range defs {
			if errs[i] != nil || jobs[i].Name != defs[i].Name || ids[jobs[i].ID] {
				t.Fatalf("%s came back as %s (%s), %v", defs[i].Name, jobs[i].Name, jobs[i].ID, errs[i])
			}
			ids[jobs[i].ID] = true
		}
		if n := a.requests.Load(); n > 10 {
			t.Errorf("%d requests for %d jobs", n, len(defs))
		}
	})
}

func TestWhatOneSubmitDidWrongIsNoMatterToOthers(t *testing.T) {
	inAir(t, func(t *testing.T, a *airport) {
		defs := echoes(10)
		defs[3].Queue, defs[7].Priority = "no queue", 99
		_, errs := a.submitAll(t.Context(), defs)
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

func TestOneThatIsNextByItselfHearsOfItsOwnField(t *testing.T) {
	inAir(t, func(t *testing.T, a *airport) {
		defs := echoes(3) // two go at once
		for i := range defs {
			defs[i].Queue = "no queue"
		}
		_, errs := a.submitAll(t.Context(), defs)
		for i, err := range errs {
			var problem *client.Problem
			if !errors.As(err, &problem) || problem.Field != "queue" {
				t.Errorf("job %d: %v, want what is wrong with its queue", i, err)
			}
		}
	})
}

func TestACallerThatGivesUpTakesNobodyWithIt(t *testing.T) {
	inAir(t, func(t *testing.T, a *airport) {
		var others sync.WaitGroup
		for i := range 2 { // they are in flight, and the next ones gather
			others.Go(func() { must(a.Submit(t.Context(), echo(fmt.Sprint("first ", i))))(t) })
		}
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		others.Go(func() {
			if _, err := a.Submit(short, echo("gives up")); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v, want that its time was over", err)
			}
		})
		others.Go(func() { must(a.Submit(t.Context(), echo("goes on")))(t) })
		time.Sleep(2 * time.Second)
		close(a.open)
		others.Wait()
		var names []string
		for _, job := range collect(t, a.Jobs(t.Context(), carillon.JobQuery{})) {
			names = append(names, job.Name)
		}
		if slices.Sort(names); !slices.Equal(names, []string{"first 0", "first 1", "goes on"}) {
			t.Errorf("there are %q: what was given up before it went must not be handed in", names)
		}
	})
}

func TestALargeJobTravelsAlone(t *testing.T) {
	inAir(t, func(t *testing.T, a *airport) {
		defs := echoes(4)
		defs[3].Payload = []byte(`"` + strings.Repeat("x", 20_000) + `"`)
		if _, errs := a.submitAll(t.Context(), defs); errors.Join(errs...) != nil {
			t.Fatal(errors.Join(errs...))
		}
		if n := a.requests.Load(); n < 4 {
			t.Errorf(
				"%d requests, want one for each: three small ones of which two go at once, and the large one",
				n,
			)
		}
	})
}

func TestWhereNobodyKnowsWhatHappenedNothingIsRepeated(t *testing.T) {
	for _, status := range []int{
		http.StatusBadGateway, http.StatusTooManyRequests, http.StatusRequestTimeout, http.StatusUnauthorized,
	} {
		inAir(t, func(t *testing.T, a *airport) {
			a.status = status
			_, errs := a.submitAll(t.Context(), echoes(10))
			for i, err := range errs {
				if err == nil {
					t.Errorf("%d: job %d was taken", status, i)
				}
			}
			if n := a.requests.Load(); n != 3 {
				t.Errorf("%d: %d requests, want 3: two that went at once and one for the others", status, n)
			}
		})
	}
}

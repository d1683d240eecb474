package worker_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

// target is a server outside of the bubble, which counts what it is asked.
type target struct {
	*httptest.Server
	mu     sync.Mutex
	answer func(n int) (status int) // to the n-th request
	runs   map[string]int           // requests by run
	sent   int
}

func newTarget(t *testing.T, answer func(int) int) *target {
	s := &target{answer: answer, runs: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sent++
		s.runs[r.Header.Get("Carillon-Run-Id")]++
		w.WriteHeader(s.answer(s.sent))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *target) answers(status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = func(int) int { return status }
}

// requests are how many there were, and how many of them were the first of their run.
func (s *target) requests() (all, first int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent, len(s.runs)
}

// calls defines a job that calls the target. A GET leaves no connection behind, which would keep the time of
// the bubble from passing.
func (s *target) calls(d *carillon.Definition) {
	d.Target = carillon.Target{HTTP: &carillon.HTTP{Method: http.MethodGet, URL: s.URL}}
}

func calling(h *house) {
	h.concurrency = 64
	h.http = executor.NewHTTP(executor.HTTPConfig{
		Allow:  []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Logger: slog.New(slog.DiscardHandler),
	})
}

func TestADeadHostGetsProbesOnlyAndItsRunsWaitWithoutCostUntilItIsBack(t *testing.T) {
	host := newTarget(t, func(int) int { return http.StatusServiceUnavailable })
	in(t, calling, func(h *house) {
		const runs = 300
		jobs := h.submit(runs, host.calls)
		time.Sleep(time.Minute)
		before, _ := h.store.counts()
		time.Sleep(9 * time.Minute)
		after, _ := h.store.counts()
		// At most 64 were under way when the circuit opened, and then there were a few probes, later one a
		// minute.
		if all, _ := host.requests(); all < 10 || all > 64+10+16 {
			t.Errorf("%d requests in ten minutes", all)
		}
		// Each run comes back about once a minute, and costs a claim and an end. The store merges some.
		if commits := after - before; commits > 2*runs*10 {
			t.Errorf("%d commits in 9 minutes for %d runs that wait", commits, runs)
		}
		waiting := 0
		for _, job := range jobs {
			run := h.run(job.ID)
			if run.State != carillon.StateWaiting {
				continue
			}
			if waiting++; run.Attempt != run.Failures+run.Losses || run.Wake <= carillon.Now() ||
				run.Wake.Sub(carillon.Now()) > 2*time.Minute || run.Reason == "" {
				t.Errorf("a run that waits for its host is %+v", run)
			}
		}
		if waiting < runs-50 {
			t.Errorf("%d runs wait, want nearly all %d", waiting, runs)
		}
		host.answers(http.StatusOK)
		time.Sleep(5 * time.Minute)
		failed := 0
		for _, job := range jobs {
			switch run := h.run(job.ID); {
			case run.State == carillon.StateFailed && run.Failures == 3:
				failed++
			case run.State != carillon.StateSucceeded || run.Attempt != run.Failures+run.Losses+1:
				t.Errorf("five minutes after the host is back: %+v", run)
			}
		}
		if failed != runs-waiting {
			t.Errorf("%d runs failed, %d of them while the host was dead", failed, runs-waiting)
		}
	})
}

func TestAHostThatFailsHalfOfItsRequestsGetsATenthMore(t *testing.T) {
	host := newTarget(t, func(n int) int { return []int{http.StatusOK, http.StatusInternalServerError}[n%2] })
	in(t, calling, func(h *house) {
		for range 60 {
			h.submit(50, host.calls)
			time.Sleep(time.Second)
		}
		all, first := host.requests()
		if most := first + first/10 + 10 + 6; first != 3000 || all > most || all < first+first/10 {
			t.Errorf("%d requests for %d runs, want up to %d", all, first, most)
		}
	})
}

package executor

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
)

// to is a task that calls a URL.
func to(at string, failures int32) (Task, *url.URL) {
	u, err := url.Parse(at)
	if err != nil {
		panic(err)
	}
	task, _ := newTask(carillon.Target{HTTP: &carillon.HTTP{URL: at}})
	task.Run.Failures, task.Run.Claimed = failures, task.Run.ID.Due
	return task, u
}

func (hs *hosts) dies(at string) {
	for range maxFailures {
		sent, _ := hs.ask(to(at, 0))
		sent.ended(retriable("connection refused"), nil)
	}
}

func TestAHostIsASchemeANameAndAPortOfANamespace(t *testing.T) {
	for want, urls := range map[address][]string{
		{"default", "http", "example.com", "80"}: {
			"http://example.com", "http://EXAMPLE.com:80/a?b", "http://example.com.:80",
		},
		{"default", "https", "example.com", "443"}:   {"https://example.com/", "https://example.com:443"},
		{"default", "https", "example.com", "80"}:    {"https://example.com:80"},
		{"default", "http", "2001:db8::1", "8080"}:   {"http://[2001:db8::1]:8080/"},
		{"default", "http", "www.example.com", "80"}: {"http://www.example.com"},
	} {
		for _, at := range urls {
			if _, u := to(at, 0); addressOf("default", u) != want {
				t.Errorf("%s is %+v, want %+v", at, addressOf("default", u), want)
			}
		}
	}
	hs := newHosts(0, slog.New(slog.DiscardHandler))
	hs.dies("http://example.com")
	task, u := to("http://EXAMPLE.com/other", 0)
	if _, wait := hs.ask(task, u); wait == nil {
		t.Error("a request to a host that does not answer")
	}
	task.Run.Namespace = "other"
	if _, wait := hs.ask(task, u); wait != nil {
		t.Errorf("another namespace: %+v", wait)
	}
	if _, wait := hs.ask(to("https://example.com", 0)); wait != nil {
		t.Errorf("another port: %+v", wait)
	}
}

func TestWhatAnAnswerSaysAboutTheHost(t *testing.T) {
	status := func(code int) *http.Response { return &http.Response{StatusCode: code} }
	ended := func(kind carillon.OutcomeKind) carillon.Outcome { return carillon.Outcome{Kind: kind} }
	for _, c := range []struct {
		outcome  carillon.Outcome
		response *http.Response
		want     health
	}{
		{ended(carillon.OutcomeSuccess), status(200), healthWell},
		{ended(carillon.OutcomeFatal), status(404), healthWell},
		{ended(carillon.OutcomeFatal), status(301), healthWell},
		{ended(carillon.OutcomeRetriable), status(409), healthIll},
		{ended(carillon.OutcomeRetriable), status(500), healthIll},
		{ended(carillon.OutcomeRetriable), status(200), healthIll}, // Carillon-Outcome
		{ended(carillon.OutcomeRetriable), status(429), healthDead},
		{ended(carillon.OutcomeRetriable), status(502), healthDead},
		{ended(carillon.OutcomeRetriable), status(503), healthDead},
		{ended(carillon.OutcomeRetriable), status(504), healthDead},
		{ended(carillon.OutcomeFatal), status(503), healthWell}, // the program says so: Carillon-Outcome
		{ended(carillon.OutcomeSuccess), status(503), healthWell},
		{ended(carillon.OutcomeRetriable), nil, healthDead}, // no answer, a part of one, timed out
		{ended(carillon.OutcomeFatal), nil, healthUnknown},  // a refused address
		{ended(carillon.OutcomeStopped), nil, healthUnknown},
		{ended(carillon.OutcomeLost), nil, healthUnknown},
	} {
		if got := healthOf(&c.outcome, c.response); got != c.want {
			t.Errorf("%+v, %+v: %d, want %d", c.outcome, c.response, got, c.want)
		}
	}
}

func TestARunThatWaitsForItsHostSaysWhyAndCostsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hs := newHosts(0.07, slog.New(slog.DiscardHandler))
		for range fewTokens {
			if _, wait := hs.ask(to("http://example.com", 1)); wait != nil {
				t.Fatal(wait)
			}
		}
		_, wait := hs.ask(to("http://example.com", 1))
		if wait == nil || wait.RetryAfter < minRetryWait {
			t.Fatalf("a retry without a token: %+v", wait)
		}
		wait.RetryAfter = 0
		same(t, *wait, carillon.Outcome{
			Kind: carillon.OutcomeLost,
			Reason: "example.com:80 gets no further retry now: retries are limited to 7% of its first " +
				"requests",
		})
		hs.dies("https://example.com")
		_, wait = hs.ask(to("https://example.com", 0))
		if wait.RetryAfter < time.Second || wait.RetryAfter > 1100*time.Millisecond {
			t.Errorf("it waits %s", wait.RetryAfter)
		}
		wait.RetryAfter = 0
		same(t, *wait, carillon.Outcome{
			Kind: carillon.OutcomeLost,
			Reason: "example.com:443 gets no request before 2000-01-01T00:00:01Z: the last 10 failed " +
				"(connection refused)",
		})
		late, u := to("https://example.com", 0)
		late.Run.Claimed = late.Run.ID.Due.Add(24*time.Hour + time.Millisecond)
		if _, held := hs.ask(late, u); held.Kind != carillon.OutcomeLost {
			t.Errorf("a run that is old for another reason: %+v", held)
		}
		late.Run.Losses = minLosses
		_, wait = hs.ask(late, u)
		if wait.RetryAfter < time.Second {
			t.Errorf("it waits %s", wait.RetryAfter)
		}
		wait.RetryAfter = 0
		same(t, *wait, carillon.Outcome{
			Kind: carillon.OutcomeRetriable,
			Reason: "not sent, and due more than a day ago: example.com:443 gets no request before " +
				"2000-01-01T00:00:01Z: the last 10 failed (connection refused)",
		})
		if open, waits := hs.figures(); open != 1 || waits != 4 {
			t.Errorf("%d circuits are open, runs had to wait %d times", open, waits)
		}
		time.Sleep(wanted + time.Second)
		if open, waits := hs.figures(); open != 0 || waits != 4 {
			t.Errorf("%d circuits are open, though no run asks; runs had to wait %d times", open, waits)
		}
	})
}

func TestAWorkerSaysOnceThatAHostDoesNotAnswerAndOnceThatItDoes(t *testing.T) {
	var log strings.Builder
	hs := newHosts(0, slog.New(slog.NewTextHandler(&log, nil)))
	sent, _ := hs.ask(to("http://example.com", 0)) // under way all the time
	hs.dies("http://example.com")
	sent.ended(retriable("connection refused"), nil)
	if text := log.String(); strings.Count(text, "\n") != 1 ||
		!strings.Contains(text, "host=example.com:80 namespace=default failures=10") {
		t.Errorf("it said %s", text)
	}
	log.Reset()
	sent.ended(carillon.Outcome{Kind: carillon.OutcomeSuccess}, &http.Response{StatusCode: 200})
	if text := log.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, "answers again") {
		t.Errorf("it said %s", text)
	}
}

func TestAWorkerRemembersTenThousandHosts(t *testing.T) {
	hs := newHosts(0, slog.New(slog.DiscardHandler))
	hs.dies("http://first")
	hs.dies("http://second")
	for i := range maxHosts - 1 {
		hs.ask(to("http://first", 0)) // is in use
		hs.ask(to(fmt.Sprint("http://h", i), 0))
	}
	if len(hs.known) != maxHosts || hs.order.Len() != maxHosts {
		t.Errorf("%d hosts are known, %d in order", len(hs.known), hs.order.Len())
	}
	if _, wait := hs.ask(to("http://first", 0)); wait == nil {
		t.Error("the host that runs ask for all the time is forgotten")
	}
	if _, wait := hs.ask(to("http://second", 0)); wait != nil {
		t.Error("the host that no run asked for is not forgotten")
	}
	hs.ask(to("http://"+strings.Repeat("long.", 100), 0))
	if len(hs.known) != maxHosts || hs.order.Front().Value.(*remembered).name != "second" {
		t.Errorf("%d hosts are known, the last is %v", len(hs.known), hs.order.Front().Value)
	}
}

func TestWithoutARetryBudgetEveryRequestIsSent(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer server.Close()
	for budget, want := range map[float64]int32{-1: 30, 0: maxFailures} {
		requests.Store(0)
		synctest.Test(t, func(t *testing.T) { // the time stands still
			h := NewHTTP(HTTPConfig{
				Allow: loopback.Allow, RetryBudget: budget, Logger: slog.New(slog.DiscardHandler),
			})
			for i := range 30 {
				task, _ := to(server.URL, int32(i))
				task.Job.Target.HTTP.Method = http.MethodGet // leaves no connection behind
				h.Execute(context.Background(), task)
			}
		})
		if got := requests.Load(); got != want {
			t.Errorf("budget %v: %d requests, want %d", budget, got, want)
		}
	}
}

func TestACountOfARequestThatIsAnsweredAllocatesNothing(t *testing.T) {
	hs := newHosts(0, nil)
	task, u := to("https://example.com/path?query", 0)
	success, response := carillon.Outcome{Kind: carillon.OutcomeSuccess}, &http.Response{StatusCode: 200}
	if allocs := testing.AllocsPerRun(1000, func() {
		sent, _ := hs.ask(task, u)
		sent.ended(success, response)
	}); allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/api"
	"github.com/carillon-run/carillon/internal/catalog"
	"github.com/carillon-run/carillon/internal/dispatch"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
)

const (
	token      = "secret-of-blue"
	otherToken = "secret-of-red"
)

// house is the API on a real ledger and a store in memory.
type house struct {
	http.Handler
	t          testing.TB
	store      *mem.Store
	ledger     *ledger.Ledger
	logs       *mem.Logs
	bus        *mem.Bus
	queue      *mem.Queue
	dispatcher *dispatch.Dispatcher
	catalog    *catalog.Catalog
	log        *bytes.Buffer
}

// newHouse starts a house. change, if not nil, changes the configuration first.
func newHouse(t testing.TB, change func(*api.Config)) *house {
	t.Helper()
	h := &house{
		t: t, store: mem.NewStore(), logs: mem.NewLogs(), bus: mem.NewBus(),
		queue: mem.NewQueue(mem.QueueConfig{}), log: &bytes.Buffer{},
	}
	h.ledger = ledger.New(ledger.Config{Store: h.store, IDs: idgen.New(1, carillon.Never)})
	coordinator := mem.NewCoordinator()
	h.dispatcher = dispatch.New(dispatch.Config{
		Store: h.store, Ledger: h.ledger, Queue: h.queue, Logs: h.logs, Coordinator: coordinator,
		Logger: slog.New(slog.DiscardHandler),
		Nodes:  func() []string { return []string{"http://node.test"} },
	})
	h.catalog = catalog.New(catalog.Config{Store: h.store, Ledger: h.ledger})
	h.ledger.UseLimits(h.catalog.LimitsOf)
	h.ledger.UseGates(h.catalog)
	h.ledger.Listen(h.dispatcher.Notice, h.tell)
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error)
	go func() { stopped <- h.ledger.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Errorf("the ledger stopped with %v", err)
		}
	})
	config := api.Config{
		Ledger: h.ledger, Store: h.store, Logs: h.logs, Events: h.bus, Dispatcher: h.dispatcher,
		Members: coordinator.Members, Catalog: h.catalog,
		Tokens: map[string]api.Credential{
			token: {Namespace: "blue", Name: "tester"}, otherToken: {Namespace: "red", Name: "stranger"},
		},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "carillon_up 1\n")
		}),
		Logger: slog.New(slog.NewJSONHandler(h.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&config)
	}
	h.Handler = api.New(config)
	return h
}

func (h *house) tell(changes []carillon.Change) {
	var events []carillon.Event
	for _, c := range changes {
		for _, run := range c.Runs {
			events = append(events, carillon.Event{
				Kind: carillon.EventRun, Namespace: run.Namespace, Run: run, Job: run.ID.Job,
			})
		}
	}
	_ = h.bus.Publish(context.Background(), slices.Values(events))
}

// call is a request with the token of namespace blue, unless a header says otherwise.
func (h *house) call(method, path, body string, headers ...string) answer {
	h.t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		if r.Header.Del(name); value != "" {
			r.Header.Set(name, value)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return answer{h.t, w}
}

type answer struct {
	t testing.TB
	*httptest.ResponseRecorder
}

// is fails the test unless the answer has the status.
func (a answer) is(status int) answer {
	a.t.Helper()
	if a.Code != status {
		a.t.Fatalf("answered %d, want %d: %s", a.Code, status, a.Body)
	}
	return a
}

// json is the answer's body.
func (a answer) json() map[string]any {
	a.t.Helper()
	var v map[string]any
	if err := json.Unmarshal(a.Body.Bytes(), &v); err != nil {
		a.t.Fatalf("answered with what is not JSON: %v: %s", err, a.Body)
	}
	return v
}

// text is a field of the answer, by its dotted path.
func (a answer) text(path string) string {
	a.t.Helper()
	var v any = a.json()
	for name := range strings.SplitSeq(path, ".") {
		fields, ok := v.(map[string]any)
		if !ok {
			a.t.Fatalf("no %s in %s", path, a.Body)
		}
		v = fields[name]
	}
	s, ok := v.(string)
	if !ok {
		a.t.Fatalf("%s is %v, not text, in %s", path, v, a.Body)
	}
	return s
}

// items are the ids of a list's items.
func (a answer) items() (ids []string) {
	a.t.Helper()
	for _, item := range a.json()["items"].([]any) {
		ids = append(ids, item.(map[string]any)["id"].(string))
	}
	return ids
}

// problem checks that the answer is a problem with the status and the field.
func (a answer) problem(status int, field string) answer {
	a.t.Helper()
	a.is(status)
	if media := a.Header().Get("Content-Type"); media != "application/problem+json" {
		a.t.Errorf("the problem is %s", media)
	}
	p := a.json()
	for _, name := range []string{"type", "title", "detail"} {
		if s, _ := p[name].(string); s == "" {
			a.t.Errorf("the problem has no %s: %s", name, a.Body)
		}
	}
	if p["status"] != float64(status) {
		a.t.Errorf("the problem's status is %v, the answer's %d", p["status"], status)
	}
	if got, _ := p["field"].(string); got != field {
		a.t.Errorf("the problem's field is %q, want %q: %s", got, field, a.Body)
	}
	if _, given := p["given"].(string); field != "" && (!given || p["want"] == nil || p["want"] == "") {
		a.t.Errorf("the problem does not say what was given and what is wanted: %s", a.Body)
	}
	return a
}

// submit submits a job and returns its id.
func (h *house) submit(body string) string {
	h.t.Helper()
	return h.call("POST", "/v1/jobs", body).is(201).text("id")
}

// claim gives the earliest waiting run of a job to a worker.
func (h *house) claim(job string) carillon.Run {
	h.t.Helper()
	id, err := carillon.ParseJobID(job)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx := context.Background()
	found, err := h.store.FindRuns(ctx, carillon.RunQuery{
		Namespace: "blue", Job: id, States: []carillon.State{carillon.StateWaiting}, Limit: 100,
	})
	if err != nil || len(found.Runs) == 0 {
		h.t.Fatalf("nothing to claim: %v", err)
	}
	run := found.Runs[len(found.Runs)-1]
	candidates, err := h.ledger.Candidates(ctx, []carillon.Run{run}, "w1")
	if err != nil || len(candidates) != 1 {
		h.t.Fatalf("no decision about %s: %v", run.ID, err)
	}
	verdict, change := candidates[0].Decide(max(carillon.Now(), run.ID.Due))
	if verdict != carillon.VerdictClaim {
		h.t.Fatalf("the verdict on %s is %d", run.ID, verdict)
	}
	if lost, err := h.ledger.Commit(ctx, []carillon.Change{change}); err != nil || len(lost) > 0 {
		h.t.Fatalf("claim lost: %v %v", lost, err)
	}
	return change.Runs[0]
}

// finish ends the attempt that holds a run, as the dispatcher does. The run may have been asked to stop since
// it was claimed.
func (h *house) finish(run carillon.Run, o carillon.Outcome) {
	h.t.Helper()
	ctx := context.Background()
	runs, err := h.store.Runs(ctx, []carillon.RunID{run.ID}, false)
	if err != nil || len(runs) != 1 || runs[0].Attempt != run.Attempt {
		h.t.Fatalf("%s is not held by its attempt %d: %v", run.ID, run.Attempt, err)
	}
	candidates, err := h.ledger.Candidates(ctx, runs, "")
	if err != nil || len(candidates) != 1 {
		h.t.Fatalf("no definition of %s: %v", run.ID, err)
	}
	ended := runs[0].Finish(candidates[0].Job, o, carillon.Now(), 0)
	change := carillon.EndChange(candidates[0].Job, ended, candidates[0].Guards)
	if lost, err := h.ledger.Commit(ctx, []carillon.Change{change}); err != nil || len(lost) > 0 {
		h.t.Fatalf("end lost: %v %v", lost, err)
	}
}

// print writes lines of the run's present attempt to the log.
func (h *house) print(run carillon.Run, offset int64, lines ...string) {
	h.t.Helper()
	chunk := carillon.Chunk{Namespace: run.Namespace, Run: run.ID, Attempt: run.Attempt, Offset: offset}
	for _, text := range lines {
		chunk.Lines = append(chunk.Lines, carillon.Line{At: carillon.Now(), Stream: "stdout", Text: text})
	}
	if err := h.logs.Append(context.Background(), []carillon.Chunk{chunk}); err != nil {
		h.t.Fatal(err)
	}
}

const echo = `{"target":{"command":{"argv":["echo"]}}}`

package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/api"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/internal/dispatch"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
	"github.com/carillon-run/carillon/worker/protocol"
)

// cluster is a real dispatcher behind as many API servers as a test wants.
type cluster struct {
	t          *testing.T
	store      *mem.Store
	door       *ledger.Ledger
	queue      *mem.Queue
	logs       *mem.Logs
	dispatcher *dispatch.Dispatcher
	nodes      atomic.Value // []string: what they advertise
}

func (c *cluster) advertise(nodes ...string) { c.nodes.Store(nodes) }

func (c *cluster) advertised() []string {
	nodes, _ := c.nodes.Load().([]string)
	return nodes
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, store: mem.NewStore(), queue: mem.NewQueue(mem.QueueConfig{}), logs: mem.NewLogs()}
	c.door = ledger.New(ledger.Config{Store: c.store, IDs: idgen.New(1, carillon.Never)})
	c.dispatcher = dispatch.New(dispatch.Config{
		Store: c.store, Ledger: c.door, Queue: c.queue, Logs: c.logs, Coordinator: mem.NewCoordinator(),
		Nodes: c.advertised, Logger: slog.New(slog.DiscardHandler),
	})
	c.door.Listen(c.dispatcher.Notice)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- c.door.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return c
}

// handler is one node's API.
func (c *cluster) handler() http.Handler {
	return api.New(api.Config{
		Ledger: c.door, Store: c.store, Logs: c.logs, Dispatcher: c.dispatcher, Secret: []byte("shared"),
		Tokens: map[string]api.Credential{token: {Namespace: carillon.DefaultNamespace}},
		Members: func(
			context.Context, carillon.MemberQuery,
		) (members []carillon.Member, now carillon.Time, err error) {
			for _, addr := range c.advertised() {
				members = append(members, carillon.Member{ID: addr, Kind: carillon.MemberNode, Addr: addr})
			}
			return members, carillon.Now(), nil
		},
	})
}

// serve starts a node and counts its requests.
func (c *cluster) serve() (*httptest.Server, *atomic.Int32) {
	var calls atomic.Int32
	node := c.handler()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls.Add(1)
		node.ServeHTTP(w, r)
	}))
	c.t.Cleanup(web.Close)
	return web, &calls
}

// due submits a job and brings its run to where workers pull it from.
func (c *cluster) due(def carillon.Definition) carillon.Job {
	c.t.Helper()
	if err := def.Admit(carillon.Now()); err != nil {
		c.t.Fatal(err)
	}
	jobs := must(c.door.Submit(c.t.Context(), carillon.DefaultNamespace, []carillon.Definition{def}))(c.t)
	found := must(c.store.FindRuns(c.t.Context(), carillon.RunQuery{
		Namespace: carillon.DefaultNamespace, Job: jobs[0].ID,
	}))(c.t)
	if _, err := c.queue.Push(c.t.Context(), found.Runs); err != nil {
		c.t.Fatal(err)
	}
	return jobs[0]
}

func newDispatcher(t *testing.T, servers ...string) *client.Dispatcher {
	t.Helper()
	return must(client.NewDispatcher(client.DispatcherConfig{Servers: servers, Token: token}))(t)
}

func mail() carillon.Definition {
	def := carillon.Definition{}
	def.Name, def.Type, def.Target.Handler = `<ü> "x"`, "mail", &carillon.Handler{}
	def.Payload, def.Labels, def.Timeout = []byte(
		`{ "to" : "ann" }`,
	), map[string]string{"a": "b"}, carillon.Duration(time.Minute)
	return def
}

func TestATaskComesOverTheWireWhole(t *testing.T) {
	c, ctx := newCluster(t), t.Context()
	web, _ := c.serve()
	d := newDispatcher(t, web.URL)
	worker := must(d.Register(ctx, protocol.Registration{Name: "test"}))(t)
	command, call := mail(), mail()
	command.Target = carillon.Target{Command: &carillon.Command{
		Argv: []string{"a", "<b>"}, Env: map[string]string{"K": "v"}, Dir: "/", FatalExitCodes: []int{3},
	}}
	least := carillon.Definition{}
	least.Type, least.Queue, least.Target.Handler = "x", "q", &carillon.Handler{}
	call.Target = carillon.Target{
		HTTP: &carillon.HTTP{
			URL: "https://example.com?a&b", Headers: map[string]string{"X": "y"}, Body: "${run.id}",
		},
	}
	for _, def := range []carillon.Definition{mail(), command, call, least} {
		job := c.due(def)
		tasks := must(d.Pull(ctx, protocol.Pull{
			Worker: worker, Want: carillon.Want{Queues: []string{"default=2", "q"}}, Max: 5000,
		}))(t)
		if len(tasks) != 1 {
			t.Fatalf("%d tasks", len(tasks))
		}
		got := tasks[0]
		stored := must(c.store.Runs(ctx, []carillon.RunID{got.Run.ID}, false))(t)[0]
		want := carillon.Run{
			ID: stored.ID, Namespace: stored.Namespace, Queue: stored.Queue, Priority: stored.Priority,
			Covers:  stored.Covers,
			Attempt: 1, State: carillon.StateClaimed, Claimed: stored.Claimed, Worker: worker,
		}
		if diff := cmp.Diff(want, got.Run); diff != "" || got.Run.Fence() != stored.Fence() ||
			got.Token == "" {
			t.Errorf("the run (-want +got):\n%s", diff)
		}
		wantJob := carillon.Job{
			Namespace: job.Namespace, ID: job.ID, State: carillon.JobActive,
			Definition: carillon.Definition{
				Name: job.Name, Type: job.Type, Queue: job.Queue, Priority: job.Priority,
				Payload: job.Payload,
				Target:  job.Target,
				Timeout: job.Timeout, Labels: job.Labels,
			},
		}
		if len(wantJob.Labels) == 0 {
			wantJob.Labels = nil
		}
		if diff := cmp.Diff(&wantJob, got.Job, cmp.AllowUnexported(carillon.Schedule{})); diff != "" {
			t.Errorf("the job (-want +got):\n%s", diff)
		}
	}
}

func TestAReportComesOverTheWireWhole(t *testing.T) {
	c, ctx := newCluster(t), t.Context()
	taken := &taking{Dispatcher: c.dispatcher}
	web := httptest.NewServer(api.New(api.Config{
		Ledger: c.door, Dispatcher: taken, Secret: []byte("shared"),
		Tokens: map[string]api.Credential{token: {Namespace: carillon.DefaultNamespace}},
	}))
	defer web.Close()
	d := newDispatcher(t, web.URL)
	worker := must(d.Register(ctx, protocol.Registration{Name: "test"}))(t)
	c.due(mail())
	task := must(d.Pull(ctx, protocol.Pull{Worker: worker, Max: 1}))(t)[0]
	report := protocol.Report{
		Held: task.Held(), Token: task.Token, Begun: 1_800_000_000_001, Checkpoint: []byte("\xff{"),
		Lines: []carillon.Line{
			{
				At: 1_800_000_000_002, Stream: "stdout", Text: "a \"quoted\" <ü> \x1b\ttext", Attempt: 1,
				Offset: 41,
			},
			{At: 1_800_000_000_003, Stream: "carillon", Text: "", Attempt: 1, Offset: 42},
		},
		End: &carillon.Outcome{
			Kind: carillon.OutcomeRetriable, Reason: "no \n route", Started: 1_800_000_000_001,
			RetryAfter: 1500 * time.Millisecond, Exit: 255, Status: 599,
			Output: &carillon.Output{Result: []byte(`{"a":1,"a":2}` + "\n")},
		},
	}
	for _, kind := range []carillon.OutcomeKind{
		carillon.OutcomeSuccess, carillon.OutcomeRetriable, carillon.OutcomeFatal, carillon.OutcomeStopped,
		carillon.OutcomeLost,
	} {
		end := *report.End
		end.Kind = kind
		report.End = &end
		if _, err := d.Report(ctx, worker, []protocol.Report{report}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]protocol.Report{report}, taken.reports); diff != "" {
			t.Errorf("(-sent +taken):\n%s", diff)
		}
	}
}

// taking remembers the last reports.
type taking struct {
	protocol.Dispatcher
	reports []protocol.Report
}

func (d *taking) Report(_ context.Context, _ string, reports []protocol.Report) ([]protocol.Receipt, error) {
	d.reports = reports
	return make([]protocol.Receipt, len(reports)), nil
}

func TestManyReportsGoInSeveralMessages(t *testing.T) {
	c, ctx := newCluster(t), t.Context()
	web, calls := c.serve()
	d := newDispatcher(t, web.URL)
	worker := must(d.Register(ctx, protocol.Registration{Name: "test"}))(t)
	c.due(mail())
	task := must(d.Pull(ctx, protocol.Pull{Worker: worker, Max: 1}))(t)[0]
	reports := make([]protocol.Report, 10)
	for i := range reports {
		reports[i] = protocol.Report{Held: task.Held(), Token: task.Token}
		for k := range 1000 {
			reports[i].Lines = append(reports[i].Lines, carillon.Line{
				Stream: "stdout", Text: strings.Repeat("x", 1000), Offset: int64(1000*i + k),
			})
		}
	}
	reports[9].Token = "wrong"
	before := calls.Load()
	receipts := must(d.Report(ctx, worker, reports))(t)
	if len(receipts) != 10 || receipts[0] != protocol.ReceiptRecorded ||
		receipts[8] != protocol.ReceiptRecorded || receipts[9] != protocol.ReceiptRefused {
		t.Errorf("receipts are %v", receipts)
	}
	if n := calls.Load() - before; n < 2 || n > 4 {
		t.Errorf("10 MB went in %d messages", n)
	}
	chatty := protocol.Report{
		Held: task.Held(), Token: task.Token, End: &carillon.Outcome{Kind: carillon.OutcomeSuccess},
	}
	for i := range 75 { // 3 MiB of control characters, which are six times as long in JSON
		chatty.Lines = append(chatty.Lines, carillon.Line{
			Stream: "stdout", Text: strings.Repeat("\x01", 40<<10), Offset: int64(20_000 + i),
		})
	}
	if receipts := must(d.Report(ctx, worker, []protocol.Report{
		chatty, reports[9], reports[0],
	}))(t); !cmp.Equal(receipts, []protocol.Receipt{"recorded", "refused", "refused"}) {
		t.Errorf("receipts are %v", receipts)
	}
	if run := must(c.store.Runs(
		ctx, []carillon.RunID{task.Run.ID}, false,
	))(t)[0]; run.State != carillon.StateSucceeded {
		t.Errorf("the run is %s", run.State)
	}
	before = calls.Load()
	if none, err := d.Report(ctx, worker, nil); err != nil || len(none) != 0 || calls.Load() != before {
		t.Errorf("nothing to report: %v %v", none, err)
	}
}

func TestAReportThatIsRefusedHoldsUpNoOther(t *testing.T) {
	c, ctx := newCluster(t), t.Context()
	web, _ := c.serve()
	d := newDispatcher(t, web.URL)
	worker := must(d.Register(ctx, protocol.Registration{Name: "test"}))(t)
	ends := []carillon.Outcome{
		{Kind: carillon.OutcomeSuccess},
		{Kind: carillon.OutcomeSuccess, Output: &carillon.Output{Result: make([]byte, carillon.MaxResult+1)}},
		{Kind: carillon.OutcomeCrashed},
		{},
		{Kind: carillon.OutcomeRetriable, RetryAfter: math.MaxInt64},
		{Kind: carillon.OutcomeSuccess},
	}
	var reports []protocol.Report
	for i := range ends {
		c.due(mail())
		task := must(d.Pull(ctx, protocol.Pull{Worker: worker, Max: 1}))(t)[0]
		reports = append(reports, protocol.Report{
			Held: task.Held(), Token: task.Token, End: &ends[i],
			Lines: []carillon.Line{
				{Stream: "info", Text: "a"}, {Stream: "stderr", Text: "b", Offset: 7},
			},
		})
	}
	receipts := must(d.Report(ctx, worker, reports))(t)
	for i, want := range []carillon.State{
		carillon.StateSucceeded, carillon.StateFailed, carillon.StateFailed, carillon.StateFailed,
		carillon.StateWaiting, carillon.StateSucceeded,
	} {
		run := must(c.store.Runs(ctx, []carillon.RunID{reports[i].Run}, false))(t)[0]
		if run.State != want || receipts[i] != protocol.ReceiptRecorded ||
			(want == carillon.StateFailed) != strings.Contains(run.Reason, ": want ") {
			t.Errorf("the end %+v is %s, the run %s: %s", ends[i], receipts[i], run.State, run.Reason)
		}
		if again := must(d.Report(ctx, worker, reports[i:i+1]))(t); again[0] != protocol.ReceiptRecorded &&
			want == carillon.StateSucceeded {
			t.Errorf("the same end again is %s", again[0])
		}
	}
	if lines := must(c.logs.Read(ctx, carillon.LogQuery{
		Namespace: carillon.DefaultNamespace, Run: reports[0].Run, AfterOffset: -1,
	}))(t); len(lines) != 2 {
		t.Errorf("the log is %+v", lines)
	}
}

func TestANodeThatDoesNotKnowExitAndStatusLearnsTheEnd(t *testing.T) {
	c, ctx := newCluster(t), t.Context()
	present, _ := c.serve()
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && (bytes.Contains(body, []byte(`"exit"`)) || bytes.Contains(body, []byte(`"status"`))) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"type":"urn:carillon:problem:invalid","field":"reports[0].end.exit"}`)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		present.Config.Handler.ServeHTTP(w, r)
	}))
	defer old.Close()
	d := newDispatcher(t, old.URL)
	worker := must(d.Register(ctx, protocol.Registration{Name: "test"}))(t)
	var reports []protocol.Report
	for range 2 {
		c.due(mail())
		task := must(d.Pull(ctx, protocol.Pull{Worker: worker, Max: 1}))(t)[0]
		end := carillon.Outcome{
			Kind: carillon.OutcomeRetriable, Reason: "exit code 75", Exit: 75, Status: 503,
		}
		reports = append(reports, protocol.Report{Held: task.Held(), Token: task.Token, End: &end})
	}
	receipts := must(d.Report(ctx, worker, reports))(t)
	for i := range reports {
		run := must(c.store.Runs(ctx, []carillon.RunID{reports[i].Run}, false))(t)[0]
		if run.State != carillon.StateWaiting || run.Reason != "exit code 75" ||
			receipts[i] != protocol.ReceiptRecorded {
			t.Errorf("the end is %s, the run %s: %s", receipts[i], run.State, run.Reason)
		}
	}
}

func TestOrdersAndTheEndOfASession(t *testing.T) {
	c, ctx := newCluster(t), t.Context()
	web, _ := c.serve()
	d := newDispatcher(t, web.URL)
	worker := must(d.Register(ctx, protocol.Registration{Name: "test"}))(t)
	job := c.due(mail())
	task := must(d.Pull(ctx, protocol.Pull{Worker: worker, Max: 1}))(t)[0]
	if _, err := c.door.CancelRun(ctx, job.Namespace, task.Run.ID); err != nil {
		t.Fatal(err)
	}
	beat := carillon.Beat{ID: worker, Number: 1, Holds: []carillon.Held{task.Held()}}
	must(d.Beat(ctx, beat))(t)
	beat.Number, beat.Heard = 2, 1
	orders := must(d.Beat(ctx, beat))(t)
	if len(orders.Stop) != 1 || orders.Stop[0].Held != task.Held() || orders.Stop[0].Lost {
		t.Errorf("orders are %+v", orders)
	}
	if err := d.Leave(ctx, worker); err != nil {
		t.Fatal(err)
	}
	_, err := d.Pull(ctx, protocol.Pull{Worker: worker, Max: 1})
	if !errors.Is(err, carillon.ErrSessionOver) {
		t.Errorf("a pull after the end: %v", err)
	}
}

func TestAWorkerThatSaysThatItStopsIsGivenNothingMore(t *testing.T) {
	c, ctx := newCluster(t), t.Context()
	web, _ := c.serve()
	d := newDispatcher(t, web.URL)
	worker := must(d.Register(ctx, protocol.Registration{Name: "test"}))(t)
	must(d.Beat(ctx, carillon.Beat{ID: worker, Number: 1, Stopping: true}))(t)
	job := c.due(mail())
	if tasks := must(d.Pull(ctx, protocol.Pull{Worker: worker, Max: 1}))(t); len(tasks) > 0 {
		t.Errorf("it was given %d runs", len(tasks))
	}
	page := must(c.store.FindRuns(ctx, carillon.RunQuery{Namespace: job.Namespace, Job: job.ID, Limit: 2}))(t)
	if len(page.Runs) != 1 || page.Runs[0].State != carillon.StateWaiting || page.Runs[0].Losses > 0 {
		t.Errorf("%+v", page.Runs)
	}
}

func TestEveryCallButAPullGoesOnToTheNextNode(t *testing.T) {
	c, ctx := newCluster(t), t.Context()
	good, calls := c.serve()
	var broken []string
	for _, answer := range []http.HandlerFunc{
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) },
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(504) },
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "99")
			fmt.Fprint(w, `{"worker_id":"`)
		},
	} {
		web := httptest.NewServer(answer)
		defer web.Close()
		broken = append(broken, web.URL)
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	broken = append(broken, gone.URL)
	for _, bad := range broken {
		for range 10 { // each begins with one of the two at random
			d := newDispatcher(t, bad, good.URL)
			worker := must(d.Register(ctx, protocol.Registration{Name: "test"}))(t)
			must(d.Beat(ctx, carillon.Beat{ID: worker, Number: 1}))(t)
			before := calls.Load()
			if _, err := d.Report(ctx, worker, []protocol.Report{
				{Held: carillon.Held{Run: carillon.RunID{Job: 1, Due: 1}, Fence: 1}},
			}); err != nil {
				t.Error(err)
			}
			if err := d.Leave(ctx, worker); err != nil || calls.Load() != before+2 {
				t.Errorf("%d calls: %v", calls.Load()-before, err)
			}
		}
	}
}

func TestARefusalIsNotTakenElsewhere(t *testing.T) {
	c := newCluster(t)
	one, calls1 := c.serve()
	two, calls2 := c.serve()
	d := must(client.NewDispatcher(client.DispatcherConfig{
		Servers: []string{one.URL, two.URL}, Token: "wrong",
	}))(t)
	_, err := d.Register(t.Context(), protocol.Registration{Name: "test"})
	var problem *client.Problem
	if !errors.As(err, &problem) || problem.Status != 401 || calls1.Load()+calls2.Load() != 1 {
		t.Errorf("%d calls: %v", calls1.Load()+calls2.Load(), err)
	}
}

func TestAWorkerSurvivesTheLossOfAllServersItWasGiven(t *testing.T) {
	c, ctx := newCluster(t), t.Context()
	first, _ := c.serve()
	second, _ := c.serve()
	c.advertise(first.URL, second.URL)
	d := newDispatcher(t, first.URL)
	worker := must(d.Register(ctx, protocol.Registration{Name: "test"}))(t)
	first.Close()
	must(d.Beat(ctx, carillon.Beat{ID: worker, Number: 1}))(t)
	c.advertise(second.URL)
	must(d.Beat(ctx, carillon.Beat{ID: worker, Number: 1}))(t)
	c.due(mail())
	if tasks := must(d.Pull(ctx, protocol.Pull{Worker: worker, Max: 1}))(t); len(tasks) != 1 {
		t.Errorf("%d tasks from the second node", len(tasks))
	}
}

// network is nodes inside a bubble, by host name. A missing host swallows requests.
type network map[string]http.Handler

func (n network) RoundTrip(r *http.Request) (*http.Response, error) {
	node, ok := n[r.URL.Host]
	if !ok {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if node == nil {
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	return straight{node}.RoundTrip(r)
}

func TestNodesOutOfReachCostLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newCluster(t), t.Context()
		c.advertise("http://10.0.0.1", "http://10.0.0.2", "http://10.0.0.3")
		nodes := network{"balancer": c.handler()}
		d := must(client.NewDispatcher(client.DispatcherConfig{
			Servers: []string{"http://balancer"}, Token: token, HTTP: &http.Client{Transport: nodes},
		}))(t)
		worker := must(d.Register(ctx, protocol.Registration{Name: "test"}))(t)
		began := time.Now()
		for range 10 {
			must(d.Beat(ctx, carillon.Beat{ID: worker, Number: 1}))(t)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("with all well, beats took %s", took)
		}
		nodes["balancer"] = nil
		if _, err := d.Beat(ctx, carillon.Beat{ID: worker, Number: 1}); err == nil ||
			time.Since(began) != 4500*time.Millisecond {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		nodes["balancer"] = c.handler()
		began = time.Now()
		for range 10 {
			must(d.Beat(ctx, carillon.Beat{ID: worker, Number: 1}))(t)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("after the outage, beats took %s", took)
		}
	})
}

func TestASilentNodeIsLeftAfterOnePull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newCluster(t), t.Context()
		nodes := network{"a": c.handler(), "b": c.handler()}
		d := must(client.NewDispatcher(client.DispatcherConfig{
			Servers: []string{"http://a", "http://b"}, Token: token, HTTP: &http.Client{Transport: nodes},
		}))(t)
		worker := must(d.Register(ctx, protocol.Registration{Name: "test"}))(t)
		whole := network{"a": nodes["a"], "b": nodes["b"]}
		failed := 0
		for _, silent := range []string{"a", "b"} {
			c.due(mail())
			delete(nodes, silent)
			began := time.Now()
			tasks, err := d.Pull(ctx, protocol.Pull{Worker: worker, Max: 1})
			if err != nil {
				failed++
				if time.Since(began) != protocol.PullLate {
					t.Errorf("it waited %s", time.Since(began))
				}
				tasks, err = d.Pull(ctx, protocol.Pull{Worker: worker, Max: 1})
			}
			if err != nil || len(tasks) != 1 {
				t.Errorf("%d tasks, %v", len(tasks), err)
			}
			nodes[silent] = whole[silent]
			time.Sleep(time.Minute) // the failure is forgotten
			worker = must(d.Register(ctx, protocol.Registration{Name: "test"}))(t)
		}
		if failed == 0 {
			t.Error("no pull met the silent node")
		}
	})
}

func TestAnOutageNamesAllServersThatWereTried(t *testing.T) {
	nodes := network{"a": nil, "b": nil}
	d := must(client.NewDispatcher(client.DispatcherConfig{
		Servers: []string{"http://a", "http://b"}, HTTP: &http.Client{Transport: nodes},
	}))(t)
	_, err := d.Register(t.Context(), protocol.Registration{Name: "test"})
	var away *client.Unreachable
	if !errors.As(err, &away) || !strings.Contains(err.Error(), "http://a") ||
		!strings.Contains(err.Error(), "http://b") {
		t.Errorf("%v", err)
	}
}

func TestACallThatIsGivenUpIsNoFailureOfTheNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		nodes := network{}
		d := must(client.NewDispatcher(client.DispatcherConfig{
			Servers: []string{"http://a"}, Token: token, HTTP: &http.Client{Transport: nodes},
		}))(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := d.Pull(ctx, protocol.Pull{
			Worker: "w", Max: 1,
		}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("given up: %v", err)
		}
		if _, err := d.Beat(ctx, carillon.Beat{ID: "w"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("given up: %v", err)
		}
		nodes["a"] = c.handler()
		must(d.Register(t.Context(), protocol.Registration{Name: "test"}))(t)
	})
}

func TestOnlyAddressesMakeADispatcher(t *testing.T) {
	for _, servers := range [][]string{nil, {""}, {"127.0.0.1:8420"}, {"http://a", "ftp://b"}} {
		if _, err := client.NewDispatcher(client.DispatcherConfig{Servers: servers}); err == nil {
			t.Errorf("%q was taken", servers)
		}
	}
}

func TestADispatcherKeepsTheLastNodesThatWereListedAndTriesThemLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newCluster(t), t.Context()
		nodes := network{"a": c.handler(), "former": c.handler(), "new": c.handler()}
		d := must(client.NewDispatcher(client.DispatcherConfig{
			Servers: []string{"http://a"}, Token: token, HTTP: &http.Client{Transport: nodes},
		}))(t)
		c.advertise("http://a", "http://former")
		worker := must(d.Register(ctx, protocol.Registration{Name: "test"}))(t)
		c.advertise("http://a", "http://new")
		must(d.Beat(ctx, carillon.Beat{ID: worker, Number: 1}))(t)
		delete(nodes, "former") // it swallows requests
		nodes["a"] = nil
		began := time.Now()
		must(d.Beat(ctx, carillon.Beat{ID: worker, Number: 1}))(t)
		if took := time.Since(began); took != 0 {
			t.Errorf("the former node was tried before the new one: it took %s", took)
		}
		nodes["new"], nodes["former"] = nil, c.handler()
		must(d.Beat(ctx, carillon.Beat{ID: worker, Number: 1}))(t)
		must(d.Pull(ctx, protocol.Pull{Worker: worker, Max: 1}))(t)
	})
}

func TestOfFormerNodesADispatcherKeepsFewAndTriesTwoAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, ctx := newCluster(t), t.Context()
		tried := map[string]int{}
		nodes := network{"a": c.handler()}
		d := must(client.NewDispatcher(client.DispatcherConfig{
			Servers: []string{"http://a"}, Token: token,
			HTTP: &http.Client{Transport: counting{nodes, tried}},
		}))(t)
		for i := range 40 {
			c.advertise("http://a", fmt.Sprintf("http://node%02d", i))
			must(d.Register(ctx, protocol.Registration{Name: "test"}))(t)
		}
		c.advertise("http://a")
		worker := must(d.Register(ctx, protocol.Registration{Name: "test"}))(t)
		nodes["a"] = nil
		for range 20 {
			began := time.Now()
			if _, err := d.Beat(ctx, carillon.Beat{ID: worker, Number: 1}); err == nil ||
				time.Since(began) > 3*time.Second {
				t.Fatalf("after %s: %v", time.Since(began), err)
			}
		}
		delete(tried, "a")
		for i := range 16 {
			if tried[fmt.Sprintf("node%02d", 39-i)] == 0 {
				t.Errorf("node%02d was not tried", 39-i)
			}
		}
		if len(tried) != 16 {
			t.Errorf("tried %v, want the last 16", tried)
		}
	})
}

// counting counts requests by host.
type counting struct {
	network
	tried map[string]int
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.tried[r.URL.Host]++
	return c.network.RoundTrip(r)
}

func TestANameIsResolvedAnewForEachConnection(t *testing.T) {
	c, ctx := newCluster(t), t.Context()
	var at atomic.Value
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if address != "cluster.example:80" {
			t.Errorf("dialed %s", address)
		}
		return new(net.Dialer).DialContext(ctx, network, at.Load().(string))
	}
	transport := &http.Transport{DialContext: dial}
	defer transport.CloseIdleConnections()
	d := must(client.NewDispatcher(client.DispatcherConfig{
		Servers: []string{"http://cluster.example"}, Token: token, HTTP: &http.Client{Transport: transport},
	}))(t)
	first, second := httptest.NewServer(c.handler()), httptest.NewServer(c.handler())
	defer second.Close()
	at.Store(first.Listener.Addr().String())
	worker := must(d.Register(ctx, protocol.Registration{Name: "test"}))(t)
	first.Close()
	transport.CloseIdleConnections()
	at.Store(second.Listener.Addr().String())
	must(d.Beat(ctx, carillon.Beat{ID: worker, Number: 1}))(t)
}

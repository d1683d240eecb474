package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/api"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/internal/catalog"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
)

const token = "a token of the test"

// server is the real API on a store in memory. No worker runs anything: tests move runs themselves.
type server struct {
	*client.Client
	t     *testing.T
	store *mem.Store
	logs  *mem.Logs
	door  *ledger.Ledger
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{t: t, store: mem.NewStore(), logs: mem.NewLogs()}
	s.door = ledger.New(ledger.Config{Store: s.store, IDs: idgen.New(1, carillon.Never)})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- s.door.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	web := httptest.NewServer(api.New(api.Config{
		Ledger: s.door, Store: s.store, Logs: s.logs,
		Catalog: catalog.New(catalog.Config{Store: s.store, Ledger: s.door}),
		Tokens:  map[string]api.Credential{token: {Namespace: carillon.DefaultNamespace, Name: "test"}},
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("carillon_up 1\n"))
		}),
	}))
	t.Cleanup(web.Close)
	s.Client = newClient(t, web.URL)
	return s
}

func newClient(t *testing.T, url string) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{URL: url, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// echo is a job that is due in an hour.
func echo(name string) carillon.Definition {
	def := carillon.Definition{}
	def.Name, def.Target.Command = name, &carillon.Command{Argv: []string{"echo", name}}
	def.Schedule.After = carillon.Duration(time.Hour)
	return def
}

func (s *server) submit(name string) carillon.Job {
	return must(s.Submit(s.t.Context(), echo(name)))(s.t)
}

// first is the job's only run.
func (s *server) first(job carillon.JobID) carillon.Run {
	s.t.Helper()
	runs := collect(s.t, s.RunsOf(s.t.Context(), carillon.RunQuery{Job: job}))
	if len(runs) != 1 {
		s.t.Fatalf("%d runs, want 1", len(runs))
	}
	return must(s.store.Runs(s.t.Context(), []carillon.RunID{runs[0].ID}, true))(s.t)[0]
}

func (s *server) commit(runs ...carillon.Run) {
	s.t.Helper()
	if lost, err := s.door.Commit(s.t.Context(), []carillon.Change{{Runs: runs}}); err != nil ||
		len(lost) > 0 {
		s.t.Fatal(lost, err)
	}
}

func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func collect[T any](t *testing.T, all iter.Seq2[T, error]) (items []T) {
	t.Helper()
	for item, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, item)
	}
	return items
}

func TestJobsFromSubmitToCancel(t *testing.T) {
	s, ctx := newServer(t), t.Context()
	job := s.submit("hello")
	if job.Name != "hello" || job.Version != 1 || job.State != carillon.JobActive || job.Priority != 5 {
		t.Errorf("submitted %+v", job)
	}
	read := must(s.Job(ctx, job.ID))(t)
	if diff := cmp.Diff(job, read.Job, cmp.AllowUnexported(carillon.Schedule{})); diff != "" ||
		read.LastRun != nil || read.NextRun == nil {
		t.Errorf("read back (-submitted +read):\n%s\nlast %v, next %v", diff, read.LastRun, read.NextRun)
	}
	edited := must(s.Edit(
		ctx, job.ID,
		client.Changes{"priority": 9, "schedule": carillon.Schedule{After: carillon.Duration(2 * time.Hour)}},
		1,
	))(t)
	if edited.Version != 2 || edited.Priority != 9 || edited.Schedule.At <= job.Schedule.At {
		t.Errorf("edited %+v", edited)
	}
	if _, err := s.Edit(
		ctx, job.ID, client.Changes{"priority": 1}, 1,
	); !errors.Is(err, carillon.ErrConflict) {
		t.Errorf("an edit of an older version: %v", err)
	}
	if paused := must(s.Pause(ctx, job.ID))(t); paused.State != carillon.JobPaused {
		t.Errorf("paused: %s", paused.State)
	}
	if resumed := must(s.Resume(ctx, job.ID))(t); resumed.State != carillon.JobActive {
		t.Errorf("resumed: %s", resumed.State)
	}
	run := must(s.RunNow(ctx, job.ID, json.RawMessage(`{"own":1}`)))(t)
	if run.ID.Job != job.ID || run.State != carillon.StateWaiting || run.Output == nil ||
		string(run.Output.Payload) != `{"own":1}` {
		t.Errorf("run now: %+v", run)
	}
	if next := must(s.Next(ctx, job.ID, 3))(t); len(next.Items) != 1 ||
		next.Items[0].Due != edited.Schedule.At {
		t.Errorf("next: %+v", next)
	}
	if canceled := must(s.Cancel(ctx, job.ID, true))(t); canceled.State != carillon.JobCanceled {
		t.Errorf("canceled: %s", canceled.State)
	}
	if canceled := must(s.Cancel(ctx, job.ID, false))(t); canceled.State != carillon.JobCanceled {
		t.Errorf("canceled twice: %s", canceled.State)
	}
}

func TestNextKnowsTheZone(t *testing.T) {
	s, def := newServer(t), echo("daily")
	def.Schedule = carillon.Schedule{Cron: "@daily", Timezone: "Asia/Tokyo"}
	job := must(s.Submit(t.Context(), def))(t)
	next := must(s.Next(t.Context(), job.ID, 2))(t)
	if next.Timezone != "Asia/Tokyo" || len(next.Items) != 2 || next.Items[0].Offset != "+09:00" ||
		!strings.Contains(next.Items[0].Local, "T00:00:00") {
		t.Errorf("%+v", next)
	}
}

func TestListsGoOverAllPages(t *testing.T) {
	s, ctx := newServer(t), t.Context()
	defs := []carillon.Definition{echo("a"), echo("b"), echo("c")}
	defs[1].Labels, defs[1].Owner, defs[1].Type = map[string]string{"team": "blue"}, "billing", "report"
	if jobs := must(s.SubmitMany(ctx, defs))(t); len(jobs) != 3 || jobs[2].Name != "c" {
		t.Fatalf("submitted %+v", jobs)
	}
	names := func(q carillon.JobQuery) (all string) {
		for _, job := range collect(t, s.Jobs(ctx, q)) {
			all += job.Name
		}
		return all
	}
	hour := carillon.Now().Add(time.Hour)
	for want, q := range map[string]carillon.JobQuery{
		"cba": {Limit: 1},
		"b": {
			Owner: "billing", Type: "report", Name: "b",
			Labels: []carillon.Label{{Key: "team", Value: "blue"}}, CreatedTo: hour,
			States: []carillon.JobState{carillon.JobActive, carillon.JobPaused},
			Latest: []carillon.LatestState{carillon.LatestPending},
		},
		"": {CreatedFrom: hour},
	} {
		if got := names(q); got != want {
			t.Errorf("%+v: %q, want %q", q, got, want)
		}
	}
	if got := len(collect(
		t,
		s.Runs(ctx, carillon.RunQuery{
			States: []carillon.State{carillon.StateWaiting}, From: 1, To: hour.Add(time.Hour), Limit: 2,
		}),
	)); got != 3 {
		t.Errorf("%d waiting runs, want 3", got)
	}
	for range s.Jobs(ctx, carillon.JobQuery{Limit: 1}) {
		break // an early end is no trouble
	}
	for _, err := range s.RunsOf(ctx, carillon.RunQuery{Job: 1}) {
		if !errors.Is(err, carillon.ErrNotFound) {
			t.Errorf("runs of no job: %v", err)
		}
	}
}

func TestJSONIsSentAsItIs(t *testing.T) {
	s, ctx := newServer(t), t.Context()
	def := []byte(`{"target":{"command":{"argv":["echo","<&>"]}},"payload":{ "a" : 1 }}`)
	if job := must(s.SubmitJSON(ctx, def))(t); job.Type != "command" || string(job.Payload) == "" {
		t.Errorf("submitted %+v", job)
	}
	if jobs := must(s.SubmitManyJSON(ctx, [][]byte{def, def}))(t); len(jobs) != 2 {
		t.Errorf("submitted %d jobs", len(jobs))
	}
	_, err := s.SubmitManyJSON(ctx, [][]byte{def, []byte(`{"target":{"command":{"argv":[]}}}`)})
	var problem *client.Problem
	if !errors.As(err, &problem) || !errors.Is(err, carillon.ErrInvalid) ||
		!strings.HasPrefix(problem.Field, "jobs[1].target") {
		t.Errorf("an invalid job: %v", err)
	}
}

func TestADefinitionMayLeaveTheDefaultsToTheServer(t *testing.T) {
	s := newServer(t)
	job, err := s.Submit(t.Context(), carillon.Definition{
		Target: carillon.Target{HTTP: &carillon.HTTP{URL: "https://example.com"}},
	})
	if err != nil || job.Owner != "default" || job.Retry.MaxAttempts != 3 ||
		job.Overlap != carillon.OverlapSkip || job.Priority != 5 ||
		job.Timeout != carillon.Duration(30*time.Second) {
		t.Errorf("%+v, %v", job, err)
	}
}

func TestRunsAreCanceledRetriedAndGiven(t *testing.T) {
	s, ctx := newServer(t), t.Context()
	job := s.submit("hello")
	id := s.first(job.ID).ID
	if run := must(s.CancelRun(ctx, id))(t); run.State != carillon.StateCanceled {
		t.Errorf("canceled: %s", run.State)
	}
	again := must(s.RetryRun(ctx, id))(t)
	if again.RetryOf != id.Due || again.State != carillon.StateWaiting {
		t.Errorf("retried: %+v", again)
	}
	if _, err := s.RetryRun(ctx, again.ID); !errors.Is(err, carillon.ErrConflict) {
		t.Errorf("retry of a waiting run: %v", err)
	}
	if _, err := s.RetryDeadLetter(ctx, id, nil); !errors.Is(err, carillon.ErrNotFound) {
		t.Errorf("retry of no dead letter: %v", err)
	}
}

func TestDeadLettersAndCheckpoints(t *testing.T) {
	s, ctx := newServer(t), t.Context()
	job := s.submit("doomed")
	claimed := s.first(job.ID).Claim("worker_1", carillon.Now())
	s.commit(claimed)
	if err := s.SaveCheckpoint(ctx, claimed.ID, claimed.Fence(), []byte(`{"page":17}`)); err != nil {
		t.Fatal(err)
	}
	if err := s.SaveCheckpoint(
		ctx, claimed.ID, claimed.Fence()-1, []byte("x"),
	); !errors.Is(err, carillon.ErrLost) {
		t.Errorf("an old fence: %v", err)
	}
	held := must(s.Run(ctx, claimed.ID))(t)
	if held.Output == nil || string(held.Output.Checkpoint) != `{"page":17}` || held.Worker != "worker_1" {
		t.Errorf("held %+v", held)
	}
	s.commit(s.first(job.ID).Finish(
		&job, carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: "no"}, carillon.Now(), 0,
	))
	dead := collect(t, s.DeadLetters(ctx, carillon.DeadFilter{}, 1))
	if len(dead) != 1 || dead[0].ID != claimed.ID || dead[0].Reason != "no" {
		t.Fatalf("dead letters %+v", dead)
	}
	print, _ := carillon.FingerprintOf("no")
	now := carillon.Now()
	for _, f := range []carillon.DeadFilter{
		{Job: job.ID, Type: job.Type, Owner: job.Owner, Queue: job.Queue, Labels: job.Labels, Error: "n"},
		{Fingerprint: print, From: now.Add(-time.Hour), To: now.Add(time.Hour)},
	} {
		if found := collect(t, s.DeadLetters(ctx, f, 0)); len(found) != 1 {
			t.Errorf("%+v finds %+v", f, found)
		}
	}
	if found := collect(t, s.DeadLetters(ctx, carillon.DeadFilter{Queue: "other"}, 0)); len(found) != 0 {
		t.Errorf("another queue has %+v", found)
	}
	groups := must(s.DeadGroups(ctx, job.Type, 5))(t)
	if len(groups) != 1 || groups[0].Fingerprint != print || groups[0].Count != 1 {
		t.Errorf("groups %+v", groups)
	}
	letter := must(s.DeadLetter(ctx, claimed.ID))(t)
	if string(letter.Output.Checkpoint) != `{"page":17}` || letter.JobDefinition.Name != "doomed" ||
		letter.ExpiresAt != dead[0].ExpiresAt || letter.ExpiresAt <= now || letter.Error != "no" {
		t.Errorf("letter %+v", letter)
	}
	run := must(s.RetryDeadLetter(ctx, claimed.ID, []byte(`{"page":18}`)))(t)
	if run.RetryOf != claimed.ID.Due || string(run.Output.Payload) != `{"page":18}` {
		t.Errorf("retried %+v", run)
	}
	if dead := collect(t, s.DeadLetters(ctx, carillon.DeadFilter{}, 0)); len(dead) != 0 {
		t.Errorf("still dead: %+v", dead)
	}
}

func TestLogsOfARealServer(t *testing.T) {
	s, ctx := newServer(t), t.Context()
	run := s.first(s.submit("chatty").ID)
	lines := []carillon.Line{
		{At: 1000, Stream: "stdout", Text: "one", Attempt: 1},
		{At: 2000, Stream: "stderr", Text: "two", Attempt: 1, Offset: 1},
	}
	chunk := carillon.Chunk{Namespace: run.Namespace, Run: run.ID, Attempt: 1, Lines: lines}
	if err := s.logs.Append(ctx, []carillon.Chunk{chunk}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(lines, collect(t, s.Logs(ctx, run.ID, client.LogQuery{Attempt: 1}))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.commit(run.End(carillon.StateCanceled, "", carillon.Now()))
	if got := collect(t, s.Logs(ctx, run.ID, client.LogQuery{Follow: true})); len(got) != 2 {
		t.Errorf("followed %d lines, want 2", len(got))
	}
}

func TestTheServerItself(t *testing.T) {
	s, ctx := newServer(t), t.Context()
	if err := errors.Join(s.Healthy(ctx), s.Ready(ctx)); err != nil {
		t.Error(err)
	}
	if text := must(s.Metrics(ctx))(t); string(text) != "carillon_up 1\n" {
		t.Errorf("metrics: %q", text)
	}
	if doc := must(s.OpenAPI(ctx))(t); !strings.Contains(string(doc), `"openapi"`) {
		t.Errorf("openapi: %.80s", doc)
	}
}

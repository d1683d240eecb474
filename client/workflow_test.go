package client_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/workflow"
)

// start starts the run of a workflow, as a conductor does.
func (s *server) start(job carillon.JobID) carillon.Run {
	s.t.Helper()
	ctx := s.t.Context()
	run := s.first(job)
	candidates := must(s.door.Candidates(ctx, []carillon.Run{run}, carillon.Unattended))(s.t)
	now := max(carillon.Now(), run.ID.Due)
	_, change := candidates[0].Decide(now)
	change.Runs[0] = change.Runs[0].Begin(now, now)
	change.Folds = append(change.Folds, carillon.StartOf(candidates[0].Job, &change.Runs[0], job+1000))
	if lost, err := s.door.Commit(ctx, []carillon.Change{change}); err != nil || len(lost) > 0 {
		s.t.Fatal(lost, err)
	}
	return change.Runs[0]
}

// end ends a run, and with it the node whose run it is.
func (s *server) end(run carillon.Run, o carillon.Outcome) {
	s.t.Helper()
	ctx := s.t.Context()
	stored := func() []carillon.Run {
		return must(s.store.Runs(ctx, []carillon.RunID{run.ID}, true))(s.t)
	}
	if run.State == carillon.StateWaiting {
		s.commit(stored()[0].Claim("worker_1", max(carillon.Now(), run.ID.Due)))
	}
	of := must(s.door.Candidates(ctx, stored(), ""))(s.t)[0]
	change := carillon.EndChange(of.Job, of.Run.Finish(of.Job, o, carillon.Now(), 0), of.Guards)
	if lost, err := s.door.Commit(ctx, []carillon.Change{change}); err != nil || len(lost) > 0 {
		s.t.Fatal(lost, err)
	}
}

func TestAWorkflowIsBuiltFollowedAndSteered(t *testing.T) {
	s, ctx := newServer(t), t.Context()
	wf := workflow.New("nightly").Deadline(time.Hour)
	list := wf.Command("list", "list-files").Edit(func(d *carillon.Definition) { d.Retry.MaxAttempts = 1 })
	load := wf.Handler("load", "file.load").After(list).Map(list.Result("files"))
	wf.Signal("approve", "approved", 0).After(load)
	wf.HTTP("alarm", "https://example.com/alarm").AfterFailure(list)
	job := must(s.Submit(ctx, must(wf.Definition())(t)))(t)
	if nodes := job.Target.Workflow.Nodes; len(nodes) != 4 || nodes[0].Retry.MaxAttempts != 1 ||
		nodes[1].Map != "${nodes.list.result.files}" || nodes[3].After[0].On != carillon.OnFailure {
		t.Fatalf("submitted %+v", nodes)
	}
	run := s.start(job.ID)
	flow := must(s.Workflow(ctx, run.ID))(t)
	if flow.Nodes != 4 || flow.Run.ID != run.ID || flow.Deadline < run.Started.Add(time.Hour) ||
		!cmp.Equal(flow.Counts, map[string]int{"active": 1, "pending": 3}) {
		t.Errorf("begun: %+v", flow)
	}
	states := func() (all []string) {
		t.Helper()
		for _, node := range collect(t, s.Nodes(ctx, run.ID, client.NodeQuery{Limit: 3})) {
			all = append(all, node.Name+" "+node.State.String())
		}
		return all
	}
	first := must(s.NodePage(ctx, run.ID, client.NodeQuery{Limit: 1}, ""))(t)
	if len(first.Items) != 1 || first.Next == "" || first.Items[0].Run == nil || first.Items[0].Name != "list" {
		t.Fatalf("the first page: %+v", first)
	}
	s.end(*first.Items[0].Run, carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: "no"})
	want := []string{"list failed", "load skipped", "approve skipped", "alarm active"}
	if diff := cmp.Diff(want, states()); diff != "" {
		t.Errorf("after the failure (-want +got):\n%s", diff)
	}
	skipped := client.NodeQuery{States: []carillon.NodeState{carillon.NodeSkipped}, Limit: 1}
	if some := collect(t, s.Nodes(ctx, run.ID, skipped)); len(some) != 2 || some[1].Name != "approve" {
		t.Errorf("the skipped nodes: %+v", some)
	}
	if _, err := s.RetryNode(ctx, run.ID, "load"); !errors.Is(err, carillon.ErrConflict) {
		t.Errorf("retry of a skipped node: %v", err)
	}
	if _, err := s.SkipNode(ctx, run.ID, "laod"); !errors.Is(err, carillon.ErrNotFound) {
		t.Errorf("skip of no node: %v", err)
	}
	if again := must(s.RetryNode(ctx, run.ID, "list"))(t); again.RetryOf == 0 || again.ID == run.ID {
		t.Errorf("retried in %+v", again)
	}
	if got := strings.Join(states(), ", "); !strings.HasPrefix(got, "list active, load pending, approve p") {
		t.Errorf("after the retry: %s", got)
	}
	must(s.SkipNode(ctx, run.ID, "load"))(t)
	if got := states(); got[1] != "load passed" {
		t.Errorf("after the skip: %s", got)
	}
	if _, err := s.Signal(ctx, run.ID, "aproved", nil); !errors.Is(err, carillon.ErrInvalid) {
		t.Errorf("a signal that no node waits for: %v", err)
	}
	must(s.Signal(ctx, run.ID, "approved", json.RawMessage(`{"who":"ann"}`)))(t)
	if _, err := s.Signal(ctx, run.ID, "approved", nil); !errors.Is(err, carillon.ErrConflict) {
		t.Errorf("a signal that was sent: %v", err)
	}
	if _, err := s.ResumeRun(ctx, run.ID); !errors.Is(err, carillon.ErrConflict) {
		t.Errorf("resumed while it goes on: %v", err)
	}
}

func TestAWorkflowThatFailedIsResumed(t *testing.T) {
	s, ctx := newServer(t), t.Context()
	wf := workflow.New("nightly")
	wf.Command("a", "true")
	job := must(s.Submit(ctx, must(wf.Definition())(t)))(t)
	run := s.start(job.ID)
	node := collect(t, s.Nodes(ctx, run.ID, client.NodeQuery{}))[0]
	s.end(*node.Run, carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: "no"})
	open := must(s.store.Runs(ctx, []carillon.RunID{run.ID}, false))(t)[0]
	s.end(open, carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: "did not succeed: a"})
	resumed := must(s.ResumeRun(ctx, run.ID))(t)
	if resumed.ID == run.ID || resumed.State != carillon.StateWaiting || resumed.RetryOf != run.ID.Due {
		t.Errorf("resumed: %+v", resumed)
	}
	again := collect(t, s.Nodes(ctx, resumed.ID, client.NodeQuery{}))[0]
	if again.State != carillon.NodePending || again.Run != nil {
		t.Errorf("its node: %+v", again)
	}
}

func TestARunOfAnotherJobIsNoWorkflow(t *testing.T) {
	s, ctx := newServer(t), t.Context()
	id := s.first(s.submit("plain").ID).ID
	if _, err := s.Workflow(ctx, id); !errors.Is(err, carillon.ErrConflict) {
		t.Errorf("%v", err)
	}
	for _, err := range s.Nodes(ctx, id, client.NodeQuery{}) {
		if !errors.Is(err, carillon.ErrConflict) {
			t.Errorf("%v", err)
		}
	}
}

package api_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
)

// withParts submits a workflow of two nodes and starts it, and submits a job of the type of a node.
func withParts(h *house) (workflow, other, run string) {
	h.t.Helper()
	workflow = h.submit(`{"name":"flow","target":{"workflow":{"nodes":[
		{"name":"a","type":"mail","labels":{"team":"blue"},"target":{"handler":{}}},
		{"name":"b","type":"mail","target":{"handler":{}}}]}}}`)
	other = h.submit(`{"name":"other","type":"mail","labels":{"team":"blue"},"target":{"handler":{}}}`)
	return workflow, other, h.start(workflow).ID.String()
}

// start starts the run of a workflow, as the conductor does.
func (h *house) start(workflow string) carillon.Run {
	h.t.Helper()
	ctx := context.Background()
	id, _ := carillon.ParseJobID(workflow)
	found, err := h.store.FindRuns(ctx, carillon.RunQuery{Namespace: "blue", Job: id})
	if err != nil || len(found.Runs) != 1 {
		h.t.Fatalf("%d runs of %s: %v", len(found.Runs), workflow, err)
	}
	candidates, err := h.ledger.Candidates(ctx, found.Runs, carillon.Unattended)
	if err != nil || len(candidates) != 1 {
		h.t.Fatalf("no decision about %s: %v", workflow, err)
	}
	now := max(carillon.Now(), found.Runs[0].ID.Due)
	_, change := candidates[0].Decide(now)
	change.Runs[0] = change.Runs[0].Begin(now, now)
	change.Folds = append(change.Folds, carillon.StartOf(candidates[0].Job, &change.Runs[0], id+1000))
	if lost, err := h.ledger.Commit(ctx, []carillon.Change{change}); err != nil || len(lost) > 0 {
		h.t.Fatalf("start lost: %v %v", lost, err)
	}
	return change.Runs[0]
}

func TestPartsOfWorkflowsAreListedOnlyIfTheyAreAskedFor(t *testing.T) {
	h := newHouse(t, nil)
	workflow, other, run := withParts(h)
	list := func(query string) []string {
		t.Helper()
		return h.call("GET", "/v1/jobs?"+query, "").is(200).items()
	}
	if got := list(""); !slices.Equal(got, []string{other, workflow}) {
		t.Errorf("listed %v", got)
	}
	all := list("parts=true")
	if len(all) != 4 || !slices.Contains(all, other) || !slices.Contains(all, workflow) {
		t.Errorf("with parts: %v", all)
	}
	parts := list("label=" + carillon.WorkflowLabel + ":" + run)
	if len(parts) != 2 || slices.Contains(parts, other) || slices.Contains(parts, workflow) {
		t.Errorf("the parts of the run: %v", parts)
	}
	if got := list("label=team:blue&parts=false"); !slices.Equal(got, []string{other}) {
		t.Errorf("of a team: %v", got)
	}
	if got := list("label=team:blue&parts=true"); len(got) != 2 {
		t.Errorf("of a team, with parts: %v", got)
	}
	h.call("GET", "/v1/jobs?parts=yes", "").problem(400, "parts")
}

func TestAnOperationLeavesPartsOfWorkflowsAlone(t *testing.T) {
	h := newHouse(t, nil)
	_, _, run := withParts(h)
	for filter, want := range map[string]float64{
		`"type":"mail"`:     1,
		`"all":true`:        2,
		`"type":"m*"`:       1,
		`"name":"a"`:        0,
		`"owner":"default"`: 2,
		`"labels":{"carillon/workflow":"` + run + `"}`: 2,
	} {
		body := `{"kind":"pause","dry_run":true,"filter":{` + filter + `}}`
		if got := h.call("POST", "/v1/operations", body).is(200).json()["total"]; got != want {
			t.Errorf("%s: %v jobs, want %v", filter, got, want)
		}
	}
}

// largeWorkflow is a workflow with a payload of 1000 bytes in each node.
func largeWorkflow(nodes int) string {
	var b strings.Builder
	b.WriteString(`{"name":"large","target":{"workflow":{"nodes":[`)
	for i := range nodes {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"n%d","type":"t","payload":"%s","target":{"handler":{}}}`, i, strings.Repeat("x", 1000))
	}
	b.WriteString(`]}}}`)
	return b.String()
}

func TestAWorkflowCanBeLargerThanOtherJobs(t *testing.T) {
	h := newHouse(t, nil)
	large := largeWorkflow(7000)
	if len(large) < 7<<20 {
		t.Fatalf("the workflow has only %d bytes", len(large))
	}
	h.submit(large)
	refused := func(body string, status int, field, want string) {
		t.Helper()
		if a := h.call("POST", "/v1/jobs", body).problem(status, field); !strings.Contains(a.text("want"), want) {
			t.Errorf("it does not say %q: %s", want, a.Body)
		}
	}
	refused(largeWorkflow(8500), 400, "target.workflow", "8 MiB")
	blanks := strings.Repeat(" ", 1<<20)
	refused(blanks+echo, 413, "body", "1024 KiB") // it is no workflow
	h.call("POST", "/v1/jobs", blanks+largeWorkflow(1)).is(201)

	// Without a length the load counts 1 MiB.
	r := httptest.NewRequest("POST", "/v1/jobs", struct{ *strings.Reader }{strings.NewReader(large)})
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.ContentLength = -1
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	answer{t, w}.problem(413, "body")
}

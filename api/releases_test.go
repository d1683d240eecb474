package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

// hold makes some due runs wait for a gate, as the scheduler does.
func (h *house) hold(gate string, n int) {
	h.t.Helper()
	for i := range n {
		h.submit(fmt.Sprintf(`{"type":"held","name":"%d","target":{"handler":{}}}`, i))
	}
	page, err := h.store.FindRuns(context.Background(), carillon.RunQuery{
		Namespace: "blue", States: []carillon.State{carillon.StateWaiting}, Limit: 100,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	var changes []carillon.Change
	for _, run := range page.Runs {
		if run.Hold == "" {
			run.Hold, run.Wake = "gate/"+gate, carillon.Never
			changes = append(changes, carillon.Change{Runs: []carillon.Run{run}})
		}
	}
	if lost, err := h.ledger.Commit(context.Background(), changes); err != nil || len(lost) > 0 {
		h.t.Fatal(lost, err)
	}
}

func (h *house) readOperation(id carillon.OperationID) (op carillon.Operation) {
	h.t.Helper()
	rec := h.call("GET", "/v1/operations/"+id.String(), "").is(200)
	if err := json.Unmarshal(rec.Body.Bytes(), &op); err != nil {
		h.t.Fatal(err)
	}
	return op
}

func TestTheAnswerToOpeningAGateNamesItsRelease(t *testing.T) {
	h := newHouse(t, nil)
	id := h.gate("POST", "/v1/gates", `{"match": {"type": "held"}, "reason": "why"}`, 201).ID
	h.hold(id, 3)
	opened := h.call("POST", "/v1/gates/"+id+"/open", `{"rate": "90/m"}`, key).is(200)
	same(t, "repeated", opened, h.call("POST", "/v1/gates/"+id+"/open", `{"rate": "90/m"}`, key))
	var gate wire.Gate
	if err := json.Unmarshal(opened.Body.Bytes(), &gate); err != nil || gate.Operation == 0 {
		t.Fatal(gate, err)
	}
	op := h.readOperation(gate.Operation)
	if op.Kind != carillon.OperationRelease || op.Release == nil || op.Release.Gate != id ||
		op.Release.Rate.String() != "90/m" || op.Rate != 2 || op.By != "tester" ||
		op.State != carillon.OperationCounting {
		t.Errorf("%+v", op)
	}
	if list := h.call("GET", "/v1/operations?state=counting", "").is(200).items(); len(list) != 1 {
		t.Errorf("listed: %s", list)
	}
	faster := h.gate("POST", "/v1/gates/"+id+"/open", `{"rate": "5/s"}`, 200)
	if op := h.readOperation(gate.Operation); faster.Operation != op.ID || op.Rate != 5 {
		t.Errorf("%+v, %+v", faster, op)
	}
	if shown := h.gate("GET", "/v1/gates/"+id, "", 200); shown.Operation != gate.Operation {
		t.Errorf("%+v", shown)
	}
}

func TestACancelOfAReleaseClosesTheGateAgain(t *testing.T) {
	h := newHouse(t, nil)
	id := h.gate("POST", "/v1/gates", `{"match": {"type": "held"}, "reason": "why"}`, 201).ID
	h.hold(id, 3)
	first := h.gate("POST", "/v1/gates/"+id+"/open", "", 200).Operation
	path := "/v1/operations/" + first.String() + "/cancel"
	h.call("POST", path, "", "Authorization: Bearer "+otherToken).problem(404, "")
	canceled := h.call("POST", path, "", key).is(200)
	if canceled.text("state") != "canceled" || canceled.text("ended_at") == "" ||
		canceled.text("reason") != "gate "+id+" was closed again by tester" {
		t.Errorf("%s", canceled.Body)
	}
	same(t, "repeated", canceled, h.call("POST", path, "", key))
	if again := h.call("POST", path, "").is(200); again.text("state") != "canceled" {
		t.Errorf("again: %s", again.Body)
	}
	closed := h.gate("GET", "/v1/gates/"+id, "", 200)
	if closed.State != carillon.GateClosed || closed.Reason != "why" || closed.By != "tester" ||
		closed.Operation != 0 || *closed.Held != 3 {
		t.Errorf("%+v", closed)
	}
	second := h.gate("POST", "/v1/gates/"+id+"/open", "", 200).Operation
	if second == 0 || second == first {
		t.Errorf("opened again: %s after %s", second, first)
	}
	if err := h.catalog.ForgetGate(t.Context(), h.catalog.GateOf("blue", id)); err != nil {
		t.Fatal(err)
	}
	if op := h.readOperation(second); op.State != carillon.OperationDone || op.Reason != "" {
		t.Errorf("%+v", op)
	}
	h.call("POST", "/v1/operations/"+second.String()+"/cancel", "").problem(409, "")
}

func TestAQueueThatIsPausedWhileItIsResumedCancelsTheRelease(t *testing.T) {
	h := newHouse(t, nil)
	h.gate("POST", "/v1/queues/mail/pause", "", 200)
	h.hold("queue/mail", 2)
	op := h.gate("POST", "/v1/queues/mail/resume", `{"rate": "1/s"}`, 200).Operation
	paused := h.gate("POST", "/v1/queues/mail/pause", "", 200)
	if paused.State != carillon.GateClosed || paused.Operation != 0 {
		t.Errorf("%+v", paused)
	}
	if op := h.readOperation(op); op.State != carillon.OperationCanceled ||
		op.Reason != "gate queue/mail was closed again by tester" {
		t.Errorf("%+v", op)
	}
	open, err := h.store.Guards(t.Context(), carillon.OpenReleaseQuery())
	if err != nil || len(open) > 0 {
		t.Errorf("%v, %v", open, err)
	}
}

func TestADryRunOfOpeningAGateCountsTheRuns(t *testing.T) {
	h := newHouse(t, nil)
	h.gate("POST", "/v1/queues/mail/pause", "", 200)
	h.hold("queue/mail", 4)
	for _, path := range []string{"/v1/gates/queue%2Fmail/open", "/v1/queues/mail/resume"} {
		would := h.gate("POST", path, `{"rate": "5/s", "dry_run": true}`, 200)
		if would.WouldRelease == nil || *would.WouldRelease != 4 || would.State != carillon.GateClosed {
			t.Errorf("%s: %+v", path, would)
		}
		h.call("POST", path, `{"rate": "fast", "dry_run": true}`).problem(400, "rate")
	}
	h.call("POST", "/v1/gates/gate_0000000000/open", `{"dry_run": true}`).problem(404, "")
	h.call("POST", "/v1/queues/other/resume", `{"dry_run": true}`).problem(409, "")
	if list := h.call("GET", "/v1/operations", "").is(200).items(); len(list) > 0 {
		t.Errorf("operations: %s", list)
	}
	rec := h.call("POST", "/v1/operations", `{"kind":"release","filter":{"all":true}}`)
	if rec.problem(400, "kind"); !strings.Contains(rec.Body.String(), "when a gate opens") {
		t.Errorf("%s", rec.Body)
	}
}

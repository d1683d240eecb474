package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

func (h *house) gate(method, path, body string, want int) (gate wire.Gate) {
	h.t.Helper()
	rec := h.call(method, path, body).is(want)
	if err := json.Unmarshal(rec.Body.Bytes(), &gate); err != nil {
		h.t.Fatal(err)
	}
	return gate
}

func TestAGateIsClosedShownAndOpened(t *testing.T) {
	h := newHouse(t, nil)
	closed := h.gate("POST", "/v1/gates", `{"match": {"type": "report.*", "labels": {"tier": "1"}},
		"reason": "maintenance", "expires_at": "2100-01-01T00:00:00Z", "running": "stop"}`, 201)
	if closed.State != carillon.GateClosed || closed.By != "tester" || closed.At == 0 ||
		closed.Mode != carillon.GateHold || !strings.HasPrefix(closed.ID, "gate_") {
		t.Errorf("closed as %+v", closed)
	}
	shown := h.gate("GET", "/v1/gates/"+closed.ID, "", 200)
	if shown.Held == nil || *shown.Held != 0 || shown.Reason != "maintenance" {
		t.Errorf("shown as %+v", shown)
	}
	var list wire.List[wire.Gate]
	rec := h.call("GET", "/v1/gates", "")
	if err := json.Unmarshal(rec.Body.Bytes(), &list); err != nil || len(list.Items) != 1 {
		t.Errorf("%s", rec.Body)
	}
	opened := h.gate("POST", "/v1/gates/"+closed.ID+"/open", `{"rate": "5000/s"}`, 200)
	if opened.State != carillon.GateOpening || opened.OpenedBy != "tester" ||
		opened.Rate.String() != "5000/s" {
		t.Errorf("opened as %+v", opened)
	}
	again := h.gate("POST", "/v1/gates/"+closed.ID+"/open", "", 200)
	if again.Opened != opened.Opened || again.Rate.Starts != 0 {
		t.Errorf("opened again as %+v", again)
	}
	h.gate("POST", "/v1/gates/gate_0000000000/open", "", 404)
	h.gate("GET", "/v1/gates/gate_0000000000", "", 404)
}

func TestAGateThatIsNotValidIsRefusedByField(t *testing.T) {
	h := newHouse(t, nil)
	for _, test := range []struct{ body, field string }{
		{`{}`, "match"},
		{`{"match": {}}`, "match"},
		{`{"match": {"labels": {}}}`, "match"},
		{`{"match": {"type": "*"}}`, "match"},
		{`{"match": {"type": ""}}`, "match.type"},
		{`{"match": {"all": true, "queue": "mail"}}`, "match.all"},
		{`{"match": {"namespace": "red"}}`, "match.namespace"},
		{`{"match": {"typ": "a"}}`, "match.typ"},
		{`{"match": {"type": "a"}, "mode": "shut"}`, "mode"},
		{`{"match": {"type": "a"}, "running": "kill"}`, "running"},
		{`{"match": {"type": "a"}, "expires_at": "2001-01-01T00:00:00Z"}`, "expires_at"},
		{`{"match": {"type": "a"}, "expires_at": "soon"}`, "expires_at"},
		{`{"match": {"type": "a"}, "reason": "a\nb"}`, "reason"},
	} {
		rec := h.call("POST", "/v1/gates", test.body)
		var said struct{ Field string }
		if err := json.Unmarshal(rec.Body.Bytes(), &said); err != nil || rec.Code != http.StatusBadRequest ||
			said.Field != test.field {
			t.Errorf("%s: %d %s", test.body, rec.Code, rec.Body)
		}
	}
	if rec := h.call("GET", "/v1/gates", ""); strings.TrimSpace(rec.Body.String()) != `{"items":[]}` {
		t.Errorf("stored: %s", rec.Body)
	}
	id := h.gate("POST", "/v1/gates", `{"match": {"all": true}}`, 201).ID
	if rec := h.call("POST", "/v1/gates/"+id+"/open", `{"rate": "fast"}`); rec.Code != 400 {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
}

func TestADryRunOfAGateSaysWhatItWouldStop(t *testing.T) {
	h := newHouse(t, nil)
	for _, job := range []string{
		`{"type": "report.a", "target": {"handler": {}}, "labels": {"tier": "1"}}`,
		`{"type": "report.b", "target": {"handler": {}}}`,
		`{"type": "mail", "target": {"handler": {}}}`,
		`{"type": "report.a", "target": {"handler": {}}, "schedule": {"every": "10m"}}`,
		`{"type": "report.a", "target": {"handler": {}}, "schedule": {"cron": "* * * * *"},
			"labels": {"tier": "1"}}`,
	} {
		if rec := h.call("POST", "/v1/jobs", job); rec.Code != 201 {
			t.Fatal(rec.Body)
		}
	}
	for _, test := range []struct {
		match           string
		waiting, hourly int
	}{
		{`{"type": "report.*"}`, 2, 66},
		{`{"type": "mail"}`, 1, 0},
		{`{"labels": {"tier": "1"}}`, 1, 60},
		{`{"all": true}`, 3, 66},
		{`{"queue": "none"}`, 0, 0},
	} {
		got := h.gate("POST", "/v1/gates", `{"match": `+test.match+`, "dry_run": true}`, 200)
		if got.Would == nil || got.Would.Waiting != test.waiting || got.Would.Hourly != test.hourly ||
			got.ID != "" || got.Would.WaitingAtLeast || got.Would.HourlyAtLeast {
			t.Errorf("%s: %+v %+v", test.match, got, got.Would)
		}
	}
	if len(h.catalog.AllGates()) > 0 {
		t.Error("a dry run closed a gate")
	}
}

func TestAQueueIsPausedDrainedAndResumed(t *testing.T) {
	h := newHouse(t, nil)
	paused := h.gate("POST", "/v1/queues/mail%2Fout/pause", `{"reason": "relay"}`, 200)
	if paused.ID != "queue/mail/out" || paused.Active == nil || *paused.Active != 0 {
		t.Errorf("%+v", paused)
	}
	rec := h.call("POST", "/v1/queues/mail%2Fout/pause", "")
	if rec.Code != 409 || !strings.Contains(rec.Body.String(), "paused already, by tester") {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	if again := h.gate("POST", "/v1/queues/mail%2Fout/drain", "", 200); again.At != paused.At {
		t.Errorf("a drain closes it anew: %+v", again)
	}
	var queues wire.List[wire.Queue]
	rec = h.call("GET", "/v1/queues", "")
	if err := json.Unmarshal(rec.Body.Bytes(), &queues); err != nil || len(queues.Items) != 1 ||
		queues.Items[0].Gate == nil || queues.Items[0].Gate.State != carillon.GateClosed {
		t.Errorf("%s", rec.Body)
	}
	h.gate("GET", "/v1/gates/queue%2Fmail%2Fout", "", 200)
	resumed := h.gate("POST", "/v1/queues/mail%2Fout/resume", `{"rate": "100/s"}`, 200)
	if resumed.State != carillon.GateOpening {
		t.Errorf("%+v", resumed)
	}
	if again := h.gate("POST", "/v1/queues/mail%2Fout/pause", "", 200); again.State != carillon.GateClosed {
		t.Errorf("%+v", again)
	}
	h.gate("POST", "/v1/queues/other/resume", "", 409)
}

func TestAGateClosedTwiceWithOneKeyIsClosedOnce(t *testing.T) {
	h := newHouse(t, nil)
	key := wire.IdempotencyHeader + ": k1"
	first := h.call("POST", "/v1/gates", `{"match": {"all": true}}`, key)
	second := h.call("POST", "/v1/gates", `{"match": {"all": true}}`, key)
	if first.Code != 201 || second.Code != 201 || first.Body.String() != second.Body.String() {
		t.Errorf("%d %s\n%d %s", first.Code, first.Body, second.Code, second.Body)
	}
	if n := len(h.catalog.AllGates()); n != 1 {
		t.Errorf("%d gates", n)
	}
}

package api_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/api"
	"github.com/carillon-run/carillon/internal/catalog"
)

func (h *house) routes() []api.RouteInfo {
	return api.Routes(api.Config{Ledger: h.ledger, Store: h.store, Logs: h.logs})
}

func TestEveryRouteButHealthNeedsTheToken(t *testing.T) {
	h := newHouse(t, nil)
	var public []string
	for _, rt := range h.routes() {
		if rt.Public {
			public = append(public, rt.Pattern)
			h.call(rt.Method, rt.Path, "", "Authorization: ").is(200)
			continue
		}
		for _, header := range []string{
			"Authorization: ", "Authorization: Bearer wrong", "Authorization: Bearer",
			"Authorization: Bearer  ",
			"Authorization: Basic " + token, "Authorization: " + token,
			"Authorization: Bearer " + token + "x",
			"Authorization: Bearer " + token[1:], "Authorization: Bearer " + strings.ToUpper(token),
		} {
			a := h.call(rt.Method, rt.Path, "", header).problem(401, "")
			if a.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s does not say what it wants", rt.Method, rt.Pattern)
			}
		}
		if a := h.call(rt.Method, rt.Path+"?token="+token, "", "Authorization: "); a.Code != 401 {
			t.Errorf("%s %s takes a token from the query: %d", rt.Method, rt.Pattern, a.Code)
		}
		if a := h.call(rt.Method, rt.Path, ""); a.Code == 401 || a.Code >= 500 {
			t.Errorf("%s %s answers %d with the token", rt.Method, rt.Pattern, a.Code)
		}
	}
	if want := []string{"/healthz", "/readyz"}; !slices.Equal(public, want) {
		t.Errorf("public are %v, want %v", public, want)
	}
}

func TestWithoutTokensNoRequestGetsIn(t *testing.T) {
	for name, tokens := range map[string]map[string]api.Credential{
		"none": nil, "an empty one": {"": {Namespace: "blue"}},
		"one without a namespace": {"x": {Name: "unknown"}},
		"one of the nodes' own":   {"x": {Namespace: carillon.SystemNamespace}},
		"one of the catalog's":    {"x": {Namespace: catalog.Space}},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHouse(t, func(c *api.Config) { c.Tokens = tokens })
			for _, header := range []string{
				"Authorization: ", "Authorization: Bearer ", "Authorization: Bearer x",
			} {
				h.call("GET", "/v1/jobs", "", header).problem(401, "")
			}
		})
	}
}

func TestPathsThatDoNotExist(t *testing.T) {
	h := newHouse(t, nil)
	for _, path := range []string{
		"/", "/v1", "/v2/jobs", "/v1/jobs/", "/v1//jobs", "//healthz", "/healthz/", "/v1/jobs/../jobs",
		"/v1/runs/a/b",
		"/v1/jobs/%2e%2e%2fetc", "/admin", "/debug/pprof/", "*", "/*", "/v1/jobs/job_0000000000001/",
	} {
		h.call("GET", path, "", "Authorization: ").problem(401, "")
		h.call("GET", path, "").problem(404, "")
	}
}

func TestAWrongMethodIsToldTheRightOnes(t *testing.T) {
	h := newHouse(t, nil)
	job := "/v1/jobs/job_0000000000001"
	for _, c := range []struct{ method, path, allow string }{
		{"PUT", "/v1/jobs", "GET, HEAD, POST"},
		{"POST", job, "DELETE, GET, HEAD, PATCH"},
		{"PUT", "/v1/jobs/batch", "DELETE, GET, HEAD, PATCH, POST"},
		{"GET", job + "/pause", "POST"},
		{"DELETE", "/v1/runs/x/logs", "GET, HEAD"},
		{"POST", "/healthz", "GET, HEAD"},
		{"GET", "/v1/runs/x/checkpoint", "PUT"},
		{"BREW", "/v1/jobs", "GET, HEAD, POST"},
		{"OPTIONS", "/v1/jobs", "GET, HEAD, POST"},
	} {
		h.call(c.method, c.path, "", "Authorization: ").problem(401, "")
		if a := h.call(c.method, c.path, "").problem(405, ""); a.Header().Get("Allow") != c.allow {
			t.Errorf("%s %s: Allow is %q, want %q", c.method, c.path, a.Header().Get("Allow"), c.allow)
		}
	}
}

func TestTheLogNamesTheRouteAndNoneWhereThereIsNone(t *testing.T) {
	h := newHouse(t, nil)
	h.call("GET", "/v1/jobs/job_0000000000001", "").is(404)
	h.call("PUT", "/v1/jobs", "").is(405)
	h.call("GET", "/nowhere", "").is(404)
	var routes []string
	for line := range strings.Lines(h.log.String()) {
		var entry struct{ Route string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Fatal(err)
		}
		routes = append(routes, entry.Route)
	}
	if want := []string{"GET /v1/jobs/{id}", "", ""}; !slices.Equal(routes, want) {
		t.Errorf("the log names the routes %q, want %q", routes, want)
	}
}

func TestUnknownParametersAndBodiesAreRefused(t *testing.T) {
	h := newHouse(t, nil)
	for _, rt := range h.routes() {
		h.call(rt.Method, rt.Path+"?colour=red", "").problem(400, "colour")
		for _, name := range rt.Query {
			h.call(rt.Method, rt.Path+"?"+name+"=1&"+name+"=2", "").problem(400, name)
			h.call(rt.Method, rt.Path+"?"+name+"=", "").problem(400, name)
		}
		if rt.Method == "PUT" || rt.Method == "PATCH" || rt.Pattern == "/v1/jobs" ||
			rt.Pattern == "/v1/jobs/batch" || rt.Method+rt.Pattern == "POST/v1/operations" ||
			rt.Method+rt.Pattern == "POST/v1/gates" {
			continue
		}
		h.call(rt.Method, rt.Path, `{"force":true}`).problem(400, "force")
		h.call(rt.Method, rt.Path, `force`, "Content-Type: text/plain").problem(415, "Content-Type")
		if a := h.call(rt.Method, rt.Path, `{}`); a.Code == 400 && rt.Pattern != "/v1/workers/{id}/beat" {
			t.Errorf("%s %s refuses an empty object: %s", rt.Method, rt.Path, a.Body)
		}
	}
	h.call("GET", "/v1/jobs?a=%zz", "").problem(400, "query")
	h.call("GET", "/v1/jobs?a;b", "").problem(400, "query")
	if a := h.call("GET", "/v1/jobs?stauts=active", ""); !strings.HasSuffix(
		a.text("want"), "did you mean status?",
	) {
		t.Errorf("no hint in %s", a.Body)
	}
}

func TestParametersOutOfRangeAreRefused(t *testing.T) {
	h := newHouse(t, nil)
	job, run := "/v1/jobs/job_0000000000001", "/v1/runs/run_00000000000010000000001"
	for path, field := range map[string]string{
		"/v1/jobs?status=idle": "status", "/v1/jobs?status=active,": "status", "/v1/jobs?limit=0": "limit",
		"/v1/jobs?limit=1001": "limit",
		"/v1/jobs?limit=ten":  "limit", "/v1/jobs?limit=-1": "limit", "/v1/jobs?cursor=x": "cursor",
		"/v1/jobs?cursor=AAAAAAAAAAAAAAAA": "cursor",
		"/v1/jobs?label=team":              "label", "/v1/jobs?label=a:b&label=": "label",
		"/v1/jobs?name=a&name=b": "name", "/v1/jobs?label=:blue": "label",
		"/v1/jobs?created_from=yesterday": "created_from",
		"/v1/jobs?created_to=2030-01-01":  "created_to", "/v1/runs?state=happy": "state",
		"/v1/runs?state=queued,": "state", "/v1/runs?job_id=5": "job_id", "/v1/runs?job_id=run_1": "job_id",
		"/v1/runs?due_from=1": "due_from", "/v1/runs?due_to=1": "due_to", "/v1/runs?cursor=%00": "cursor",
		"/v1/dead-letters?limit=1e3": "limit", "/v1/operations?state=waiting": "state",
		"/v1/operations?state=done,": "state", "/v1/operations/1": "id",
		job + "/next?n=0": "n", job + "/next?n=1001": "n", run + "/logs?follow=yes": "follow",
		run + "/logs?attempt=0":          "attempt",
		run + "/logs?attempt=9999999999": "attempt", "/v1/jobs/1": "id", "/v1/jobs/JOB_0000000000001": "id",
		"/v1/jobs/job_000000000000i": "id",
		"/v1/runs/job_0000000000001": "id", "/v1/runs/run_1/logs": "id",
	} {
		h.call("GET", path, "").problem(400, field)
	}
	h.call("DELETE", job+"?running=kill", "").problem(400, "running")
}

func TestTheDescriptionHasEveryRoute(t *testing.T) {
	h := newHouse(t, nil)
	var doc struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct{ Schemas map[string]json.RawMessage }
	}
	text := h.call("GET", "/v1/openapi.json", "").is(200).Body.Bytes()
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	described := 0
	for _, path := range doc.Paths {
		described += len(path)
	}
	routes := h.routes()
	if described != len(routes) {
		t.Errorf("%d routes are described, there are %d", described, len(routes))
	}
	for _, rt := range routes {
		operation := string(doc.Paths[rt.Pattern][strings.ToLower(rt.Method)])
		for _, name := range rt.Query {
			if !strings.Contains(operation, `"name": "`+name+`"`) {
				t.Errorf("%s %s: %s is not described", rt.Method, rt.Pattern, name)
			}
		}
		if public := strings.Contains(operation, `"security": []`); operation == "" || public != rt.Public {
			t.Errorf("%s %s is not described, or not as what it is", rt.Method, rt.Pattern)
		}
	}
	for part := range strings.SplitSeq(string(text), `"#/components/schemas/`) {
		name, _, _ := strings.Cut(part, `"`)
		if _, ok := doc.Components.Schemas[name]; !ok && part != string(text) &&
			!strings.HasPrefix(part, "{") {
			t.Errorf("%s is referred to and not described", name)
		}
	}
	for _, name := range []string{
		"Definition", "Job", "JobDetail", "Run", "ListedJobPage", "RunPage", "Problem", "Schedule", "Target",
		"Retry", "Task", "Report", "ReportLine",
	} {
		if doc.Components.Schemas[name] == nil {
			t.Errorf("%s is not described", name)
		}
	}
}

func TestTheDescriptionOfARunIsWhatARunIs(t *testing.T) {
	h := newHouse(t, nil)
	run := carillon.Run{
		ID: carillon.RunID{Job: 1, Due: 2}, Covers: 2, Until: 3, Worker: "w", Reason: "r", RetryOf: 1,
		State: carillon.StateWaiting,
		Flags: carillon.FlagStop, About: &carillon.About{Name: "n", Type: "t", Owner: "o"},
		Output: &carillon.Output{Result: []byte("1"), Checkpoint: []byte("2"), Payload: []byte("3")},
	}
	held := carillon.Run{State: carillon.StateWaiting, Hold: "limit/key/a", Wake: carillon.Never}
	text, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	var doc struct {
		Components struct {
			Schemas struct {
				Run struct{ Properties map[string]any }
			}
		}
	}
	if err := errors.Join(
		json.Unmarshal(text, &fields),
		json.Unmarshal(h.call("GET", "/v1/openapi.json", "").Body.Bytes(), &doc),
	); err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(held); err != nil || json.Unmarshal(text, &fields) != nil {
		t.Fatal(string(text), err)
	}
	described := doc.Components.Schemas.Run.Properties
	for name := range fields {
		if described[name] == nil {
			t.Errorf("%s is not described", name)
		}
	}
	if len(described) != len(fields) {
		t.Errorf("%d fields are described, a run has %d", len(described), len(fields))
	}
}

func TestTheManualHasEveryRouteAndParameter(t *testing.T) {
	manual, err := os.ReadFile("../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, rt := range newHouse(t, nil).routes() {
		if line := "| " + rt.Method + " | `" + rt.Pattern + "` |"; !strings.Contains(string(manual), line) {
			t.Errorf("docs/api.md has no line %s", line)
		}
		for _, name := range rt.Query {
			if !strings.Contains(string(manual), "`"+name+"`") &&
				!strings.Contains(string(manual), name+"=") {
				t.Errorf("docs/api.md does not know the parameter %s", name)
			}
		}
	}
}

func TestHealth(t *testing.T) {
	var ready error
	h := newHouse(t, func(c *api.Config) { c.Ready = func() error { return ready } })
	if got := h.call("GET", "/healthz", "", "Authorization: ").is(200).text("status"); got != "ok" {
		t.Errorf("healthz says %s", got)
	}
	if got := h.call("GET", "/readyz", "", "Authorization: ").is(200).text("status"); got != "ready" {
		t.Errorf("readyz says %s", got)
	}
	ready = errors.Join(errors.New("store: no answer"), errors.New("node number: lease ran out"))
	a := h.call("GET", "/readyz", "", "Authorization: ").problem(503, "")
	if got, _ := json.Marshal(
		a.json()["reasons"],
	); string(got) != `["store: no answer","node number: lease ran out"]` {
		t.Errorf("the reasons are %s", got)
	}
}

func TestMetricsAreNotFoundWithoutAny(t *testing.T) {
	h := newHouse(t, nil)
	if got := h.call("GET", "/metrics", "").is(200).Body.String(); got != "carillon_up 1\n" {
		t.Errorf("metrics are %q", got)
	}
	h = newHouse(t, func(c *api.Config) { c.Metrics = nil })
	h.call("GET", "/metrics", "").problem(404, "")
}

func TestAnswersCannotBeGuessedStoredOrFramed(t *testing.T) {
	h := newHouse(t, nil)
	for _, path := range []string{"/healthz", "/v1/jobs", "/nowhere"} {
		a := h.call("GET", path, "")
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
		} {
			if got := a.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		if a.Header().Get("X-Request-Id") == "" {
			t.Errorf("%s has no request id", path)
		}
	}
}

func TestAWebPageOfAnotherOriginIsRefused(t *testing.T) {
	h := newHouse(t, nil)
	h.call("POST", "/v1/jobs", echo, "Sec-Fetch-Site: cross-site").problem(403, "")
	h.call("POST", "/v1/jobs", echo, "Origin: https://evil.example").problem(403, "")
	h.empty()
	h.call("POST", "/v1/jobs", echo, "Sec-Fetch-Site: same-origin").is(201)
}

func TestAPanicIsAnAnswerWithoutInternals(t *testing.T) {
	h := newHouse(t, func(c *api.Config) {
		c.Metrics = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("the inner secret") })
	})
	a := h.call("GET", "/metrics", "").problem(500, "")
	if strings.Contains(a.Body.String(), "inner secret") ||
		!strings.Contains(h.log.String(), "inner secret") {
		t.Errorf("answered %s, logged %s", a.Body, h.log)
	}
	if id := a.Header().Get("X-Request-Id"); !strings.Contains(h.log.String(), id) ||
		!strings.Contains(a.Body.String(), id) {
		t.Errorf("request %s is not in %s and %s", id, a.Body, h.log)
	}
}

func TestTokensPayloadsAndQueriesAreNotLogged(t *testing.T) {
	h := newHouse(t, nil)
	h.call("POST", "/v1/jobs", with(`"payload":"sesame"`)).is(201)
	h.call("POST", "/v1/jobs", with(`"payload":"sesame","x":1`)).is(400)
	h.call("GET", "/v1/jobs?owner=sesame", "").is(200)
	h.call("GET", "/v1/jobs", "", "Authorization: Bearer sesame").is(401)
	if logged := h.log.String(); strings.Contains(logged, "sesame") || strings.Contains(logged, token) ||
		strings.Count(logged, "\n") != 4 {
		t.Errorf("logged %s", logged)
	}
}

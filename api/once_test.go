package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/api"
)

// same fails the test unless two answers are the same, byte for byte.
func same(t *testing.T, what string, first, again answer) {
	t.Helper()
	if first.Code != again.Code || first.Body.String() != again.Body.String() {
		t.Errorf("%s: %d %s\nthen %d %s", what, first.Code, first.Body, again.Code, again.Body)
	}
	for _, name := range []string{"Location", "ETag", "Content-Type"} {
		if a, b := first.Header().Get(name), again.Header().Get(name); a != b {
			t.Errorf("%s: %s %q, then %q", what, name, a, b)
		}
	}
}

func (h *house) jobs() int {
	h.t.Helper()
	return len(h.call("GET", "/v1/jobs", "").is(200).items())
}

const key = "Idempotency-Key: k-1"

// An answer is the same a day later, also if the job has run and was forgotten, and its ends_at has passed.
func TestARepeatedSubmitGetsTheSameAnswer(t *testing.T) {
	for what, body := range map[string]string{
		"now":   echo,
		"after": `{"target":{"command":{"argv":["echo","<&>"]}},"schedule":{"after":"90s"},"payload":{"b": 1, "a":"<"}}`,
		"until": `{"target":{"handler":{}},"type":"t","schedule":{"every":"1m","ends_at":"2000-01-01T01:00:00Z"}}`,
	} {
		for path, body := range map[string]string{
			"/v1/jobs": body, "/v1/jobs/batch": `{"jobs":[` + body + `,` + body + `]}`,
		} {
			t.Run(what+path, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { // begins in the year 2000
					h := newHouse(t, nil)
					first := h.call("POST", path, body, key).is(201)
					n := h.jobs()
					same(t, "at once", first, h.call("POST", path, body, key))
					time.Sleep(23 * time.Hour)
					same(t, "later", first, h.call("POST", path, body, key))
					if again := h.jobs(); again != n {
						t.Errorf("%d jobs, then %d", n, again)
					}
					if what == "until" {
						return // too late to be submitted again
					}
					time.Sleep(time.Hour)
					if other := h.call("POST", path, body, key).is(201); other.Body.String() == first.Body.String() {
						t.Error("the key is in force after a day")
					}
				})
			})
		}
	}
}

func TestAKeyBelongsToOneRequest(t *testing.T) {
	h := newHouse(t, nil)
	first := h.call("POST", "/v1/jobs", echo, key).is(201)
	other := `{"target":{"command":{"argv":["other"]}}}`
	for what, a := range map[string]answer{
		"another body": h.call("POST", "/v1/jobs", other, key),
		"another path": h.call("POST", "/v1/jobs/batch", `{"jobs":[`+echo+`]}`, key),
		"another way":  h.call("DELETE", "/v1/jobs/"+first.text("id"), "", key),
		"not valid":    h.call("POST", "/v1/jobs", `{"target":{}}`, key),
	} {
		a.problem(422, "")
		if a.text("type") != "urn:carillon:problem:idempotency-key-reused" ||
			!strings.Contains(a.text("detail"), first.text("created_at")) {
			t.Errorf("%s: %s", what, a.Body)
		}
	}
	same(t, "the same", first, h.call("POST", "/v1/jobs", echo, key))
	h.call("POST", "/v1/jobs", other, "Idempotency-Key: k-2").is(201)
	h.call("POST", "/v1/jobs", other, key, "Authorization: Bearer "+otherToken).is(201)
	if n := h.jobs(); n != 2 {
		t.Errorf("%d jobs in the namespace", n)
	}
}

func TestABadKeyIsRefusedAndNothingIsStored(t *testing.T) {
	h := newHouse(t, nil)
	for _, key := range []string{strings.Repeat("k", 1024), strings.Repeat("k", 256), "é", "a\x01b"} {
		h.call("POST", "/v1/jobs", echo, "Idempotency-Key: "+key).problem(400, "Idempotency-Key")
	}
	for _, keys := range [][]string{{""}, {"a", "b"}} {
		r := httptest.NewRequest("POST", "/v1/jobs", strings.NewReader(echo))
		r.Header = http.Header{
			"Authorization": {"Bearer " + token}, "Content-Type": {"application/json"},
			"Idempotency-Key": keys,
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		answer{t, w}.problem(400, "Idempotency-Key")
	}
	if n := h.jobs(); n != 0 {
		t.Errorf("%d jobs", n)
	}
	guards, err := h.store.Guards(t.Context(), carillon.GuardQuery{Namespace: "blue"})
	if err != nil || len(guards) != 0 {
		t.Errorf("%v %v", guards, err)
	}
}

// A command that is sent again is answered as before, whatever has happened to the job since then.
func TestARepeatedCommandGetsTheSameAnswer(t *testing.T) {
	recurring := `{"target":{"command":{"argv":["<"]}},"schedule":{"every":"1h"},"payload":{"a": "<&>"}}`
	for what, c := range map[string]struct {
		method, path, body string
		status             int
		header             string
	}{
		"pause":           {"POST", "/v1/jobs/{job}/pause", "", 200, ""},
		"cancel":          {"DELETE", "/v1/jobs/{job}?running=keep", "", 200, ""},
		"edit":            {"PATCH", "/v1/jobs/{job}", `{"name":"new"}`, 200, ""},
		"edit a version":  {"PATCH", "/v1/jobs/{job}", `{"name":"new"}`, 200, `If-Match: "1"`},
		"run now":         {"POST", "/v1/jobs/{job}/run", `{"payload":{"own": "<"}}`, 201, ""},
		"run, no payload": {"POST", "/v1/jobs/{job}/run", "", 201, ""},
		"cancel a run":    {"POST", "/v1/runs/{run}/cancel", "", 200, ""},
		"retry":           {"POST", "/v1/runs/{dead}/retry", "", 201, ""},
		"redrive":         {"POST", "/v1/dead-letters/{dead}/retry", "", 201, ""},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, nil)
				job := h.submit(recurring)
				run := h.call("GET", "/v1/jobs/"+job, "").is(200).text("next_run.id")
				dead := h.claim(h.submit(echo))
				h.finish(dead, carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: "no"})
				names := strings.NewReplacer("{job}", job, "{run}", run, "{dead}", dead.ID.String())
				path := names.Replace(c.path)
				call := func() answer { return h.call(c.method, path, c.body, key, c.header) }
				first := call().is(c.status)
				same(t, "at once", first, call())
				time.Sleep(2 * time.Hour)
				h.call("POST", "/v1/jobs/"+job+"/resume", "")
				h.call("DELETE", "/v1/jobs/"+job, "").is(200)
				same(t, "later", first, call())
				other := `{"name":"other"}`
				if !strings.Contains(c.body, "name") {
					other = `{}`
				}
				h.call(c.method, path, other, key, c.header).problem(422, "")
			})
		})
	}
}

func TestAResumedJobIsAsTheAnswerSays(t *testing.T) {
	h := newHouse(t, nil)
	job := h.submit(`{"target":{"command":{"argv":["x"]}},"schedule":{"every":"1h"}}`)
	h.call("POST", "/v1/jobs/"+job+"/pause", "").is(200)
	first := h.call("POST", "/v1/jobs/"+job+"/resume", "", key).is(200)
	h.call("POST", "/v1/jobs/"+job+"/pause", "").is(200)
	same(t, "resume", first, h.call("POST", "/v1/jobs/"+job+"/resume", "", key))
	if state := h.call("GET", "/v1/jobs/"+job, "").text("state"); state != "paused" {
		t.Errorf("a repeated resume was performed: %s", state)
	}
}

func TestARefusedRequestIsNotRemembered(t *testing.T) {
	h := newHouse(t, nil)
	job := h.submit(`{"target":{"command":{"argv":["x"]}},"schedule":{"every":"1h"}}`)
	h.call("POST", "/v1/jobs/"+job+"/resume", "", key).problem(409, "")
	h.call("POST", "/v1/jobs/"+job+"/pause", "").is(200)
	h.call("POST", "/v1/jobs/"+job+"/resume", "", key).is(200)
	h.call("POST", "/v1/jobs", `{"target":{}}`, "Idempotency-Key: k-2").problem(400, "target")
	h.call("POST", "/v1/jobs", echo, "Idempotency-Key: k-2").is(201)
}

func TestOf64RequestsWithOneKeyOneIsPerformed(t *testing.T) {
	h := newHouse(t, nil)
	job := h.submit(`{"target":{"command":{"argv":["x"]}},"schedule":{"every":"1h"},"overlap":"allow"}`)
	for path, body := range map[string]string{
		"/v1/jobs": echo, "/v1/jobs/batch": `{"jobs":[` + echo + `,` + echo + `]}`, "/v1/jobs/" + job + "/run": "",
	} {
		answers := make([]answer, 64)
		var callers sync.WaitGroup
		for i := range answers {
			callers.Go(func() { answers[i] = h.call("POST", path, body, "Idempotency-Key: "+path) })
		}
		callers.Wait()
		for i := range answers {
			same(t, fmt.Sprint(path, " ", i), answers[0].is(201), answers[i])
		}
	}
	if n := h.jobs(); n != 1+1+2 {
		t.Errorf("%d jobs", n)
	}
	if runs := h.call("GET", "/v1/jobs/"+job+"/runs", "").items(); len(runs) != 2 {
		t.Errorf("runs %v", runs)
	}
}

// Workers have fences; every other write takes a key, and the description says so.
func TestEveryWriteOfPeopleTakesAKey(t *testing.T) {
	h := newHouse(t, nil)
	var described struct {
		Paths map[string]map[string]struct {
			Parameters []struct{ Name, In string }
			Responses  map[string]any
		}
	}
	if err := json.Unmarshal(h.call("GET", "/v1/openapi.json", "").is(200).Body.Bytes(), &described); err != nil {
		t.Fatal(err)
	}
	keyed := 0
	for path, methods := range described.Paths {
		for method, route := range methods {
			want := method != "get" && !strings.HasPrefix(path, "/v1/workers") &&
				!strings.HasSuffix(path, "/checkpoint")
			got := false
			for _, p := range route.Parameters {
				got = got || p.Name == "Idempotency-Key" && p.In == "header"
			}
			if _, answered := route.Responses["422"]; got != want || answered != want {
				t.Errorf("%s %s: the key is described: %v, want %v", method, path, got, want)
			}
			if got {
				keyed++
			}
		}
	}
	if keyed < 10 {
		t.Errorf("only %d routes take a key", keyed)
	}
}

// lostGuard is a ledger whose store cannot read the guard of a key.
type lostGuard struct{ api.Ledger }

func (lostGuard) Used(context.Context, string) error { return errors.New("the store is away") }

func TestARefusalThatMayBeWrongIsNotGiven(t *testing.T) {
	h := newHouse(t, func(c *api.Config) { c.Ledger = lostGuard{c.Ledger} })
	id := h.submit(`{"target":{"command":{"argv":["true"]}},"schedule":{"every":"1h"}}`)
	pause := func() int {
		return h.call("POST", "/v1/jobs/"+id+"/pause", "", "Idempotency-Key: p").Code
	}
	if code := pause(); code != 200 {
		t.Fatal(code)
	}
	// It was performed before, so it is refused now; the guard would tell, but cannot be read.
	if code := pause(); code != 503 {
		t.Errorf("the repeated pause is answered with %d", code)
	}
}

func TestAKeyBelongsToOneVersion(t *testing.T) {
	h := newHouse(t, nil)
	id := h.submit(`{"target":{"command":{"argv":["true"]}},"schedule":{"every":"1h"}}`)
	edit := func(version string) int {
		return h.call(
			"PATCH", "/v1/jobs/"+id, `{"name":"new"}`, "Idempotency-Key: e", `If-Match: "`+version+`"`,
		).Code
	}
	if first, again, other := edit("1"), edit("1"), edit("2"); first != 200 || again != 200 || other != 422 {
		t.Errorf("answered with %d, the same with %d, another version with %d", first, again, other)
	}
}

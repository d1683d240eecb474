package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
)

func TestARunIsAskedForWithAPayloadOfItsOwn(t *testing.T) {
	h := newHouse(t, nil)
	path := "/v1/jobs/" +
		h.submit(with(`"payload":"the job's","overlap":"allow","schedule":{"every":"1h"}`)) + "/run"
	payload := func(a answer) string {
		var run map[string]json.RawMessage
		if err := json.Unmarshal(a.Body.Bytes(), &run); err != nil {
			t.Fatal(err)
		}
		return string(run["payload"])
	}
	for _, c := range []struct{ body, want string }{
		{"", ""},
		{"{}", ""},
		{`{"payload":{"n":12345678901234567890}}`, `{"n":12345678901234567890}`},
		{`{"payload":null}`, `null`},
		{
			`{"payload":"` + strings.Repeat("x", carillon.MaxPayload-2) + `"}`,
			`"` + strings.Repeat("x", carillon.MaxPayload-2) + `"`,
		},
	} {
		made := h.call("POST", path, c.body).is(201)
		read := h.call("GET", "/v1/runs/"+made.text("id"), "").is(200)
		for _, a := range []answer{made, read} {
			if got := payload(a); got != c.want {
				t.Errorf("%.60s: answered with payload %.60s, want %.60s", c.body, got, c.want)
			}
		}
	}
	h.call("POST", path, `{"payload":{}}`, "Content-Type: text/plain").problem(415, "Content-Type")
	for body, field := range map[string]string{
		`{"payload":{}`:             "body",
		`{"payload":nothing}`:       "body",
		`{"payload":{"a":1,"a":2}}`: "payload.a",
		`{"paylaod":{}}`:            "paylaod",
		`[]`:                        "body",
		`{"payload":"` + strings.Repeat("x", carillon.MaxPayload-1) + `"}`: "payload",
	} {
		h.call("POST", path, body).problem(400, field)
	}
	h.call("POST", path, `{"payload":"`+strings.Repeat("x", 1<<20)+`"}`).problem(413, "body")
}

func TestARetryShowsThePayloadThatItRepeats(t *testing.T) {
	h := newHouse(t, nil)
	job := h.submit(with(`"overlap":"allow","schedule":{"every":"1h"}`))
	first := h.call("POST", "/v1/jobs/"+job+"/run", `{"payload":[1]}`).is(201).text("id")
	h.finish(h.claim(job), carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: "no"})
	again := h.call("POST", "/v1/dead-letters/"+first+"/retry", "").is(201).text("id")
	if got, _ := h.call("GET", "/v1/runs/"+again, "").is(200).json()["payload"].([]any); len(got) != 1 {
		t.Errorf("the payload is %v", got)
	}
}

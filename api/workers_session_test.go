package api_test

import (
	"strings"
	"testing"

	"github.com/carillon-run/carillon/api"
)

// One credential is of another namespace, the other one of the same.
func TestAWorkerCannotSpeakForTheSessionOfAnotherCredential(t *testing.T) {
	const colleague = "another-secret-of-blue"
	h := newHouse(t, func(c *api.Config) {
		c.Tokens[colleague] = api.Credential{Namespace: "blue", Name: "tester"}
	})
	worker := h.register()
	task := h.pull(worker, mail)
	for _, other := range []string{otherToken, colleague} {
		as := "Authorization: Bearer " + other
		h.call("POST", worker+"/pull", `{}`, as).problem(410, "")
		h.call("POST", worker+"/beat", `{"number":1,"heard":0,"holds":[]}`, as).problem(410, "")
		h.call("DELETE", worker, "", as).problem(410, "")
	}
	h.call("POST", worker+"/beat", `{"number":1,"heard":0,"holds":[]}`).is(200)
	if got := h.report(worker, task.report(`,"end":{"outcome":"success"}`)); got != `{"receipts":["recorded"]}` {
		t.Error(got)
	}
	h.call("DELETE", worker, "").is(204)
}

func TestAWorkerGetsOnlyRunsOfItsTokensNamespaceAndOfItsKindsAndTypes(t *testing.T) {
	h := newHouse(t, nil)
	stranger := "Authorization: Bearer " + otherToken
	theirs, _ := h.call("POST", "/v1/workers", `{}`, stranger).is(201).json()["worker_id"].(string)
	worker := h.register()
	h.push(h.submit(mail))
	tasks := func(path, body string, headers ...string) int {
		t.Helper()
		return strings.Count(h.call("POST", path+"/pull", body, headers...).is(200).Body.String(), `"run_id":`)
	}
	if tasks("/v1/workers/"+theirs, `{}`, stranger) > 0 {
		t.Error("a worker of another namespace got the run")
	}
	for _, body := range []string{
		`{"kinds":["command","http"]}`, `{"kinds":["handler"],"types":["sms"]}`, `{"types":["sms"]}`,
	} {
		if tasks(worker, body) > 0 {
			t.Errorf("%s got a run with a handler for mail", body)
		}
	}
	h.call("POST", worker+"/pull", `{"namespaces":["red"]}`).problem(400, "namespaces[0]")
	if tasks(worker, `{"namespaces":["blue"],"kinds":["handler"],"types":["sms","mail"]}`) != 1 {
		t.Error("the worker did not get its run")
	}
}

package api_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// die submits a job whose run fails for good, and returns the run.
func (h *house) die(def, reason string) carillon.Run {
	h.t.Helper()
	run := h.claim(h.submit(def))
	h.finish(run, carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: reason})
	return run
}

const mailJob = `{"name":"a","type":"mail","owner":"ann","queue":"slow","labels":{"team":"blue"},
	"target":{"handler":{}},"payload":{"n":1},"retention":{"dead_letters":"1d"}}`

func TestDeadLettersAreFoundByWhatTheyAre(t *testing.T) {
	h := newHouse(t, nil)
	first := h.die(mailJob, "dial tcp 10.0.0.1:25: connection refused").ID.String()
	second := h.die(echo, "exit status 3").ID.String()
	print, _ := carillon.FingerprintOf("exit status 1")
	soon := url.QueryEscape(carillon.Now().Add(time.Hour).String())
	for query, want := range map[string]string{
		"": second + " " + first, "type=mail": first, "type=m*": first, "type=none": "", "owner=ann": first,
		"queue=slow": first, "label=team:blue": first, "label=team:red": "", "error=REFUSED": first,
		"error=exit": second, "fingerprint=" + print.String(): second, "from=" + soon: "",
		"to=" + soon: second + " " + first, "type=mail&error=exit": "",
	} {
		got := strings.Join(h.call("GET", "/v1/dead-letters?"+query, "").is(200).items(), " ")
		if got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
	for query, field := range map[string]string{
		"fingerprint=12": "fingerprint", "label=team": "label", "label=:a": "label", "from=soon": "from",
		"from=" + soon + "&to=" + soon: "to", "error=%00": "error", "label=a:1&label=a:2": "label",
	} {
		h.call("GET", "/v1/dead-letters?"+query, "").problem(400, field)
	}
	list := h.call("GET", "/v1/dead-letters?type=mail", "").json()["items"].([]any)
	letter := list[0].(map[string]any)
	ended, err := carillon.ParseTime(letter["ended_at"].(string))
	if err != nil {
		t.Fatal(err)
	}
	if want := ended.Add(24 * time.Hour).String(); letter["expires_at"] != want {
		t.Errorf("it expires at %v, want %s", letter["expires_at"], want)
	}
}

func TestDeadLettersAreGroupedByTheirErrors(t *testing.T) {
	h := newHouse(t, nil)
	for i := range 3 {
		h.die(echo, fmt.Sprintf("open /tmp/%d: no such file", i))
	}
	h.die(mailJob, "exit status 1")
	var got struct{ Items []carillon.DeadGroup }
	answer := h.call("GET", "/v1/dead-letters/groups", "").is(200)
	if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Items) != 2 || got.Items[0].Count != 3 || got.Items[0].Error != "open /…: no such file" ||
		got.Items[0].Sample != "open /tmp/2: no such file" || got.Items[1].Types[0] != "mail" {
		t.Errorf("groups are %+v", got.Items)
	}
	for query, want := range map[string]int{"?limit=1": 1, "?type=mail": 1, "?type=none": 0} {
		answer := h.call("GET", "/v1/dead-letters/groups"+query, "").is(200)
		if items := answer.json()["items"].([]any); len(items) != want {
			t.Errorf("%s: %v", query, items)
		}
	}
	h.call("GET", "/v1/dead-letters/groups?type=m*", "").problem(400, "type")
}

func TestADeadLetterIsShownWithEverythingNeededToUnderstandIt(t *testing.T) {
	h := newHouse(t, nil)
	run := h.claim(h.submit(mailJob))
	var lines []string
	for i := range 150 {
		lines = append(lines, fmt.Sprint("line ", i))
	}
	h.print(run, 0, lines...)
	h.call("PATCH", "/v1/jobs/"+run.ID.Job.String(), `{"payload":{"n":2}}`).is(200)
	h.finish(run, carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: "exit status 1", Output: &carillon.Output{Result: []byte("out")}})
	path := "/v1/dead-letters/" + run.ID.String()
	var got struct {
		ID, Reason, Error, Fingerprint, Result string
		ExpiresAt                              string `json:"expires_at"`
		Version                                int
		Definition                             struct {
			Type    string
			Payload json.RawMessage
		}
		Attempts []struct {
			Attempt int
			Outcome string
		}
		Log []carillon.Line
	}
	if err := json.Unmarshal(h.call("GET", path, "").is(200).Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	print, text := carillon.FingerprintOf("exit status 1")
	if got.ID != run.ID.String() || got.Version != 1 || got.Definition.Type != "mail" ||
		string(got.Definition.Payload) != `{"n":1}` || got.Error != text ||
		got.Fingerprint != print.String() || got.Result != "out" || got.ExpiresAt == "" {
		t.Errorf("it is %+v", got)
	}
	if len(got.Attempts) != 1 || got.Attempts[0].Attempt != 1 || got.Attempts[0].Outcome != "fatal" {
		t.Errorf("its attempts are %+v", got.Attempts)
	}
	if len(got.Log) != 100 || got.Log[99].Text != "line 149" || got.Log[0].Text != "line 50" {
		t.Errorf("%d lines, from %+v", len(got.Log), got.Log[:min(1, len(got.Log))])
	}
	h.call("POST", path+"/retry", "").is(201)
	h.call("GET", path, "").is(404)
	h.call("GET", "/v1/dead-letters/run_1", "").is(400)
}

func TestADeadLetterIsRetriedWithAnotherPayloadAndTheOldOneIsKept(t *testing.T) {
	h := newHouse(t, nil)
	job := h.submit(with(`"overlap":"allow","schedule":{"every":"1h"}`))
	old := h.call("POST", "/v1/jobs/"+job+"/run", `{"payload":{"month":2}}`).is(201).text("id")
	h.finish(h.claim(job), carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: "no month 2"})
	retry := "/v1/dead-letters/" + old + "/retry"
	for body, field := range map[string]string{
		`{"payload":nothing}`: "body", `{"paylaod":{}}`: "paylaod",
		`{"payload":"` + strings.Repeat("x", carillon.MaxPayload) + `"}`: "payload",
	} {
		h.call("POST", retry, body).problem(400, field)
	}
	fresh := h.call("POST", retry, `{"payload":{"month":3}}`).is(201).text("id")
	for id, want := range map[string]string{old: "map[month:2]", fresh: "map[month:3]"} {
		run := h.call("GET", "/v1/runs/"+id, "").is(200).json()
		if got := fmt.Sprint(run["payload"]); got != want {
			t.Errorf("%s has the payload %s, want %s", id, got, want)
		}
		if id == fresh && run["retry_of"] != old || id == old && run["reason"] != "no month 2" {
			t.Errorf("%s repeats %v, reason %v", id, run["retry_of"], run["reason"])
		}
	}
	h.call("POST", retry, `{"payload":{"month":3}}`).is(404)
}

func TestARedriveIsBegunAndCountedBefore(t *testing.T) {
	h := newHouse(t, nil)
	for range 3 {
		h.die(mailJob, "exit status 1")
	}
	h.die(echo, "exit status 1")
	counted := h.call(
		"POST", "/v1/operations", `{"kind":"redrive","dead":{"type":"mail"},"dry_run":true}`,
	).is(200).json()
	if counted["total"] != 3.0 || len(counted["letters"].([]any)) != 3 {
		t.Errorf("counted %v", counted)
	}
	began := h.call("POST", "/v1/operations", `{"kind":"redrive","dead":{"type":"mail"},"rate":1000}`).is(201)
	if got := began.json(); got["dead"].(map[string]any)["type"] != "mail" || got["rate"] != 1000.0 ||
		got["filter"] != nil {
		t.Errorf("began %v", got)
	}
	for body, field := range map[string]string{
		`{"kind":"redrive"}`:                                         "dead",
		`{"kind":"redrive","dead":{}}`:                               "dead",
		`{"kind":"redrive","filter":{"all":true}}`:                   "filter",
		`{"kind":"redrive","dead":{"all":true,"type":"a"}}`:          "dead.all",
		`{"kind":"redrive","dead":{"labels":{}}}`:                    "dead.labels",
		`{"kind":"redrive","dead":{"fingerprint":"x"}}`:              "dead.fingerprint",
		`{"kind":"redrive","dead":{"typ":"x"}}`:                      "dead.typ",
		`{"kind":"pause","filter":{"all":true},"dead":{"all":true}}`: "dead",
	} {
		h.call("POST", "/v1/operations", body).problem(400, field)
	}
}

package api_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
)

// invoice is a job with a unique key, and more fields of it.
func invoice(name, more string) string {
	return with(`"name":"` + name + `","schedule":{"after":"1h"},"unique":{"key":"invoice/7"` + more + `}`)
}

func TestASubmitWhoseUniqueKeyIsHeldGetsThatJob(t *testing.T) {
	h := newHouse(t, nil)
	first := h.call("POST", "/v1/jobs", invoice("first", "")).is(201)
	id, _ := first.json()["id"].(string)
	if _, said := first.json()["existing"]; said {
		t.Errorf("a new job: %s", first.Body)
	}
	again := h.call("POST", "/v1/jobs", invoice("again", "")).is(200)
	if again.json()["id"] != id || again.json()["existing"] != true || again.json()["name"] != "first" ||
		again.Header().Get("Location") != "/v1/jobs/"+id {
		t.Errorf("again: %s", again.Body)
	}
	replaced := h.call("POST", "/v1/jobs", invoice("replaced", `,"on_conflict":"replace"`)).is(200)
	if replaced.json()["id"] != id || replaced.json()["name"] != "replaced" ||
		replaced.Header().Get("ETag") != `"2"` {
		t.Errorf("replaced: %s", replaced.Body)
	}
	refused := h.call("POST", "/v1/jobs", invoice("refused", `,"on_conflict":"refuse"`)).is(409)
	if want := id + " holds the unique key invoice/7 until it has ended"; refused.json()["detail"] != want {
		t.Errorf("refused: %s", refused.Body)
	}
	read := h.call("GET", "/v1/jobs/"+id, "").is(200)
	if _, said := read.json()["existing"]; said || read.json()["unique"] == nil {
		t.Errorf("read: %s", read.Body)
	}
	if n := h.jobs(); n != 1 {
		t.Errorf("%d jobs", n)
	}
}

func TestAJobThatHoldsItsKeyForATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		h.call("POST", "/v1/jobs", invoice("first", `,"for":"10m"`)).is(201)
		refused := h.call("POST", "/v1/jobs", invoice("second", `,"on_conflict":"refuse"`)).is(409)
		if detail, _ := refused.json()["detail"].(string); !strings.HasSuffix(
			detail, "holds the unique key invoice/7 until 2000-01-01T00:10:00.000Z",
		) {
			t.Errorf("refused: %s", refused.Body)
		}
		time.Sleep(10 * time.Minute)
		h.call("POST", "/v1/jobs", invoice("third", `,"on_conflict":"refuse"`)).is(201)
	})
}

func TestABatchWithUniqueKeys(t *testing.T) {
	h := newHouse(t, nil)
	batch := func(jobs ...string) string { return `{"jobs":[` + strings.Join(jobs, ",") + `]}` }
	h.call("POST", "/v1/jobs", invoice("first", "")).is(201)
	mixed := h.call("POST", "/v1/jobs/batch", batch(invoice("again", ""), echo)).is(201)
	var jobs struct{ Items []carillon.Job }
	if err := json.Unmarshal(mixed.Body.Bytes(), &jobs); err != nil || !jobs.Items[0].Existing ||
		jobs.Items[0].Name != "first" || jobs.Items[1].Existing {
		t.Errorf("%s, %v", mixed.Body, err)
	}
	h.call("POST", "/v1/jobs/batch", batch(invoice("again", ""), invoice("again", ""))).is(200)
	n := h.jobs()
	refused := h.call("POST", "/v1/jobs/batch", batch(echo, invoice("no", `,"on_conflict":"refuse"`))).is(409)
	if detail, _ := refused.json()["detail"].(string); !strings.HasPrefix(detail, "jobs[1]: job_") {
		t.Errorf("%s", refused.Body)
	}
	if now := h.jobs(); now != n {
		t.Errorf("%d jobs of a request that was refused", now-n)
	}
}

// A repeated request gets the first answer, also if the job that it found is gone or has changed since.
func TestARepeatedSubmitOfAJobThatExistedGetsTheSameAnswer(t *testing.T) {
	for on, want := range map[string]int{"return": 200, "replace": 200} {
		t.Run(on, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHouse(t, nil)
				id, _ := h.call("POST", "/v1/jobs", invoice("first", "")).is(201).json()["id"].(string)
				time.Sleep(time.Second)
				body := invoice("second", `,"on_conflict":"`+on+`"`)
				said := h.call("POST", "/v1/jobs", body, key).is(want)
				list := h.call("POST", "/v1/jobs/batch", `{"jobs":[`+echo+`,`+body+`]}`, "Idempotency-Key: k-2").is(201)
				time.Sleep(time.Second)
				same(t, "at once", said, h.call("POST", "/v1/jobs", body, key))
				h.call("PATCH", "/v1/jobs/"+id, `{"name":"third"}`).is(200)
				h.call("DELETE", "/v1/jobs/"+id, "").is(200)
				same(t, "after an edit and a cancel", said, h.call("POST", "/v1/jobs", body, key))
				same(t, "a batch", list, h.call(
					"POST", "/v1/jobs/batch", `{"jobs":[`+echo+`,`+body+`]}`, "Idempotency-Key: k-2",
				))
				refused := invoice("no", `,"on_conflict":"refuse"`)
				made := h.call("POST", "/v1/jobs", refused, "Idempotency-Key: k-3").is(201)
				same(t, "one that now conflicts with itself", made, h.call(
					"POST", "/v1/jobs", refused, "Idempotency-Key: k-3",
				))
			})
		})
	}
}

func TestAnEditCannotChangeAUniqueKey(t *testing.T) {
	h := newHouse(t, nil)
	id, _ := h.call("POST", "/v1/jobs", invoice("first", "")).is(201).json()["id"].(string)
	plain, _ := h.call("POST", "/v1/jobs", echo).is(201).json()["id"].(string)
	for body, field := range map[string]string{
		`{"unique":{"key":"another"}}`: "unique.key", `{"unique":{"for":"5m"}}`: "unique.for",
	} {
		if got := h.call("PATCH", "/v1/jobs/"+id, body).is(400); got.json()["field"] != field {
			t.Errorf("%s: %s", body, got.Body)
		}
	}
	if got := h.call("PATCH", "/v1/jobs/"+plain, `{"unique":{"key":"k"}}`).is(400); got.json()["field"] != "unique.key" {
		t.Errorf("a job without a key: %s", got.Body)
	}
	h.call("PATCH", "/v1/jobs/"+id, `{"unique":{"on_conflict":"refuse"},"name":"x"}`).is(200)
}

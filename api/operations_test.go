package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/operations"
)

// operating runs a test in a bubble, on a house with jobs of two types, whose operations are performed.
func operating(t *testing.T, play func(h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		for i := range 30 {
			h.submit(fmt.Sprintf(
				`{"name":"job %d","type":"%s","owner":"%s","queue":"%s","labels":{"n":"%d"},"schedule":{"every":"1h"},"target":{"handler":{}}}`,
				i, []string{"report.day", "report.week", "mail"}[i%3], []string{"ann", "bob"}[i%2],
				[]string{"default", "other"}[i%5/4], i%10,
			))
		}
		loop := operations.New(operations.Config{
			Store: h.store, Ledger: h.ledger, Logger: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error)
		go func() { done <- loop.Run(ctx) }()
		play(h)
		cancel()
		<-done
	})
}

func TestAnOperationPausesTheJobsThatMatch(t *testing.T) {
	operating(t, func(h *house) {
		body := `{"kind":"pause","filter":{"type":"report.*","owner":"ann"}}`
		began := h.call("POST", "/v1/operations", body).is(201)
		path := began.Header().Get("Location")
		if want := "/v1/operations/" + began.text("id"); path != want || began.text("state") != "counting" ||
			began.text("by") != "tester" || began.json()["rate"] != 100.0 {
			t.Errorf("began at %q with %s", path, began.Body)
		}
		h.call("GET", path, "", "Authorization: Bearer "+otherToken).problem(404, "")
		time.Sleep(5 * time.Second)
		op := h.call("GET", path, "").is(200)
		if op.text("state") != "done" || op.json()["total"] != 10.0 || op.json()["done"] != 10.0 {
			t.Errorf("after 5 seconds: %s", op.Body)
		}
		for _, job := range h.call("GET", "/v1/jobs", "").json()["items"].([]any) {
			job := job.(map[string]any)
			paused := strings.HasPrefix(job["type"].(string), "report.") && job["owner"] == "ann"
			if (job["state"] == "paused") != paused {
				t.Errorf("%s of %s and %s is %s", job["name"], job["type"], job["owner"], job["state"])
			}
		}
		h.call("POST", path+"/cancel", "").problem(409, "")
	})
}

func TestADryRunCountsAndChangesNothing(t *testing.T) {
	operating(t, func(h *house) {
		for filter, want := range map[string]float64{
			`"all":true`:                              30,
			`"type":"report.*"`:                       20,
			`"name":"job 1*"`:                         11,
			`"queue":"other","type":"mail"`:           2,
			`"labels":{"n":"3"}`:                      3,
			`"labels":{"n":"3"},"owner":"ann"`:        0,
			`"type":"report.day","states":["active"]`: 10,
		} {
			a := h.call("POST", "/v1/operations", `{"kind":"run","filter":{`+filter+`},"dry_run":true}`).is(200)
			sample, _ := a.json()["sample"].([]any)
			if a.json()["total"] != want || len(sample) != min(int(want), 10) || a.json()["dry_run"] != true {
				t.Errorf("%s: %s", filter, a.Body)
			}
		}
		time.Sleep(time.Minute)
		if list := h.call("GET", "/v1/operations", "").is(200).items(); len(list) > 0 {
			t.Errorf("operations: %s", list)
		}
	})
}

func TestARequestForAnOperationSaysWhichFieldIsWrong(t *testing.T) {
	h := newHouse(t, nil)
	for body, field := range map[string]string{
		`{}`: "kind", `{"kind":"stop","filter":{"all":true}}`: "kind", `{"kind":"pause"}`: "filter",
		`{"kind":"pause","filter":{}}`:                                          "filter",
		`{"kind":"pause","filter":{"all":false}}`:                               "filter",
		`{"kind":"pause","filter":{"typ":"a"}}`:                                 "filter.typ",
		`{"kind":"pause","filter":{"type":""}}`:                                 "filter.type",
		`{"kind":"pause","filter":{"type":null}}`:                               "filter.type",
		`{"kind":"pause","filter":{"labels":{}}}`:                               "filter.labels",
		`{"kind":"pause","filter":{"all":true,"states":[]}}`:                    "filter.states",
		`{"kind":"pause","filter":{"all":true,"states":["idle"]}}`:              "filter.states[0]",
		`{"kind":"pause","filter":{"all":true,"states":["paused"]}}`:            "filter.states",
		`{"kind":"pause","filter":{"all":true,"type":"a"}}`:                     "filter.all",
		`{"kind":"pause","filter":{"all":true},"rate":-1}`:                      "rate",
		`{"kind":"pause","filter":{"all":true},"rate":"fast"}`:                  "rate",
		`{"kind":"pause","filter":{"all":true},"keep_running":true}`:            "keep_running",
		`{"kind":"pause","filter":{"all":true},"dryrun":true}`:                  "dryrun",
		`{"kind":"pause","filter":{"owner":"` + strings.Repeat("a", 65) + `"}}`: "filter.owner",
	} {
		h.call("POST", "/v1/operations", body).problem(400, field)
	}
}

func TestARepeatedRequestBeginsOneOperation(t *testing.T) {
	operating(t, func(h *house) {
		body := `{"kind":"run","filter":{"type":"mail"},"rate":0}`
		first := h.call("POST", "/v1/operations", body, key).is(201)
		same(t, "at once", first, h.call("POST", "/v1/operations", body, key))
		time.Sleep(time.Minute)
		same(t, "after its end", first, h.call("POST", "/v1/operations", body, key))
		h.call("POST", "/v1/operations", `{"kind":"run","filter":{"all":true}}`, key).is(422)
		if list := h.call("GET", "/v1/operations", "").is(200).items(); len(list) != 1 {
			t.Errorf("operations: %s", list)
		}
		for _, job := range h.call("GET", "/v1/jobs?type=mail", "").is(200).items() {
			if runs := h.call("GET", "/v1/jobs/"+job+"/runs", "").is(200).items(); len(runs) != 2 {
				t.Errorf("%s has the runs %s", job, runs)
			}
		}
	})
}

func TestACanceledOperationStaysCanceled(t *testing.T) {
	operating(t, func(h *house) {
		path := h.call("POST", "/v1/operations", `{"kind":"cancel","filter":{"all":true},"rate":1}`).is(201).
			Header().Get("Location")
		time.Sleep(5 * time.Second)
		first := h.call("POST", path+"/cancel", "", "Idempotency-Key: c").is(200)
		time.Sleep(time.Minute)
		same(t, "with its key", first, h.call("POST", path+"/cancel", "", "Idempotency-Key: c"))
		op := h.call("POST", path+"/cancel", "").is(200)
		if canceled := len(h.call("GET", "/v1/jobs?status=canceled", "").is(200).items()); canceled < 3 ||
			canceled > 6 || op.json()["done"] != float64(canceled) || op.text("state") != "canceled" {
			t.Errorf("%d jobs were canceled: %s", canceled, op.Body)
		}
		h.call("POST", "/v1/operations/op_0000000000001/cancel", "").problem(404, "")
	})
}

func TestOperationsAreListedNewestFirstInPages(t *testing.T) {
	operating(t, func(h *house) {
		var began []string
		for range 5 {
			time.Sleep(time.Second)
			began = append(began, h.call(
				"POST", "/v1/operations", `{"kind":"pause","filter":{"type":"none"}}`,
			).is(201).text("id"))
		}
		slices.Reverse(began)
		time.Sleep(time.Minute)
		h.call("POST", "/v1/operations", `{"kind":"pause","filter":{"all":true},"rate":1}`).is(201)
		time.Sleep(2 * time.Second)
		if n := len(h.call("GET", "/v1/operations?state=counting,running", "").is(200).items()); n != 1 {
			t.Errorf("%d are running", n)
		}
		var list []string
		for path := "/v1/operations?state=done&limit=2"; path != ""; {
			page := h.call("GET", path, "").is(200)
			list = append(list, page.items()...)
			cursor, more := page.json()["next_cursor"].(string)
			if path = ""; more {
				path = "/v1/operations?state=done&limit=2&cursor=" + cursor
			}
		}
		if !slices.Equal(list, began) {
			t.Errorf("listed %s, want %s", list, began)
		}
		if other := h.call("GET", "/v1/operations", "", "Authorization: Bearer "+otherToken); len(
			other.is(200).items(),
		) > 0 {
			t.Errorf("another namespace sees %s", other.Body)
		}
	})
}

func TestABrokenRecordHidesNoOtherOperation(t *testing.T) {
	h := newHouse(t, nil)
	id := h.call("POST", "/v1/operations", `{"kind":"pause","filter":{"all":true}}`).is(201).text("id")
	if _, err := h.store.Commit(t.Context(), []carillon.Change{{Guards: []carillon.Guard{{
		Namespace: carillon.DefaultNamespace, Key: carillon.OperationID(1).Key(), Value: []byte(`{"id":`),
	}}}}); err != nil {
		t.Fatal(err)
	}
	items := h.call("GET", "/v1/operations", "").is(200).json()["items"].([]any)
	if len(items) != 1 || items[0].(map[string]any)["id"] != id {
		t.Errorf("%v", items)
	}
}

func TestTooManyOpenOperationsAreRefused(t *testing.T) {
	h := newHouse(t, nil) // on which no loop performs them
	const body = `{"kind":"pause","filter":{"all":true}}`
	first := h.call("POST", "/v1/operations", body, key).is(201)
	for range 99 {
		h.call("POST", "/v1/operations", body).is(201)
	}
	refused := h.call("POST", "/v1/operations", body).problem(409, "")
	if !strings.Contains(refused.text("detail"), "100 operations of the namespace are open") {
		t.Error(refused.text("detail"))
	}
	again := h.call("POST", "/v1/operations", body, key).is(201)
	if again.text("id") != first.text("id") {
		t.Errorf("a repeated request began %s, then %s", first.text("id"), again.text("id"))
	}
	h.call("POST", "/v1/operations", body, "Authorization: Bearer "+otherToken).is(201)
	h.call("POST", "/v1/operations/"+first.text("id")+"/cancel", "").is(200)
	h.call("POST", "/v1/operations", body).is(201)
}

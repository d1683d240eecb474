package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-run/carillon"
)

// attempts reads a page of the attempts of a run.
func (h *house) attempts(run carillon.RunID, query string) (items []carillon.Attempt, next string) {
	h.t.Helper()
	var page struct {
		Items []carillon.Attempt `json:"items"`
		Next  string             `json:"next_cursor"`
	}
	a := h.call("GET", "/v1/runs/"+run.String()+"/attempts"+query, "").is(200)
	if err := json.Unmarshal(a.Body.Bytes(), &page); err != nil {
		h.t.Fatal(err)
	}
	return page.Items, page.Next
}

func TestTheAttemptsOfARunAreListedInPages(t *testing.T) {
	h := newHouse(t, nil)
	id := h.submit(with(`"retry":{"delay":"0s"}`))
	first := h.claim(id)
	want := []carillon.Attempt{{
		Run: first.ID, Number: 1, Worker: "w1", Claimed: first.Claimed, Outcome: carillon.OutcomeRetriable,
		Reason: "exit code 75", Exit: 75,
	}}
	present := want[0]
	present.Outcome, present.Reason, present.Exit = 0, "", 0
	if got, next := h.attempts(first.ID, ""); next != "" || !cmp.Equal(got, []carillon.Attempt{present}) {
		t.Errorf("while the first goes on: %+v, then %q", got, next)
	}
	h.finish(first, carillon.Outcome{Kind: carillon.OutcomeRetriable, Reason: "exit code 75", Exit: 75})
	second := h.claim(id)
	h.finish(second, carillon.Outcome{Kind: carillon.OutcomeLost, Reason: "the worker was shutting down"})
	third := h.claim(id)
	want = append(want, carillon.Attempt{
		Run: first.ID, Number: 2, Worker: "w1", Claimed: second.Claimed, Outcome: carillon.OutcomeLost,
		Reason: "the worker was shutting down",
	}, carillon.Attempt{Run: first.ID, Number: 3, Worker: "w1", Claimed: third.Claimed})
	check := func(when string) {
		t.Helper()
		var got []carillon.Attempt
		for query := "?limit=1"; ; {
			page, next := h.attempts(first.ID, query)
			for _, a := range page {
				if a.Outcome != 0 && a.Ended < a.Claimed {
					t.Errorf("%s: it ended before it began: %+v", when, a)
				}
				a.Ended = 0
				got = append(got, a)
			}
			if next == "" {
				break
			}
			query = "?limit=1&cursor=" + next
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
	}
	check("while the third goes on")
	h.finish(third, carillon.Outcome{Kind: carillon.OutcomeSuccess})
	want[2].Outcome = carillon.OutcomeSuccess
	check("after the third")
}

func TestTheOnlyAttemptOfARunThatSucceededIsThatOfTheRun(t *testing.T) {
	h := newHouse(t, nil)
	run := h.claim(h.submit(with(`"name":"a"`)))
	h.finish(run, carillon.Outcome{Kind: carillon.OutcomeSuccess})
	got, _ := h.attempts(run.ID, "")
	if len(got) != 1 || got[0].Ended == 0 {
		t.Fatalf("%+v", got)
	}
	want := carillon.Attempt{
		Run: run.ID, Number: 1, Worker: "w1", Claimed: run.Claimed, Ended: got[0].Ended,
		Outcome: carillon.OutcomeSuccess,
	}
	if got[0] != want {
		t.Errorf("%+v", got)
	}
	if records, err := h.store.Attempts(t.Context(), run.ID, 0, 0); err != nil || len(records) > 0 {
		t.Errorf("the store has records: %+v, %v", records, err)
	}
}

func TestAttemptsOfWhatIsNotThere(t *testing.T) {
	h := newHouse(t, nil)
	job := h.submit(with(`"schedule":{"after":"1h"}`))
	run := h.call("GET", "/v1/jobs/"+job+"/runs", "").is(200).items()[0]
	id, err := carillon.ParseRunID(run)
	if err != nil {
		t.Fatal(err)
	}
	if got, next := h.attempts(id, ""); len(got) > 0 || next != "" {
		t.Errorf("of a run that has not begun: %+v", got)
	}
	id.Due++
	h.call("GET", "/v1/runs/"+id.String()+"/attempts", "").problem(404, "")
	h.call("GET", "/v1/runs/nonsense/attempts", "").problem(400, "id")
	h.call("GET", "/v1/runs/"+run+"/attempts?cursor=x", "").problem(400, "cursor")
	h.call("GET", "/v1/runs/"+run+"/attempts?limit=0", "").problem(400, "limit")
}

func TestAJobSaysWhyCarillonPausedIt(t *testing.T) {
	h := newHouse(t, nil)
	job := h.submit(with(`"pause_after":1`))
	h.finish(h.claim(job), carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: "no luck"})
	id, err := carillon.ParseJobID(job)
	if err != nil {
		t.Fatal(err)
	}
	if paused, err := h.ledger.PauseFailing(t.Context(), "blue", id); err != nil || !paused {
		t.Fatal(paused, err)
	}
	if a := h.call("GET", "/v1/jobs/"+job, "").is(200); a.text("state") != "paused" ||
		a.text("reason") != "its last run failed: no luck" {
		t.Errorf("%s", a.Body)
	}
	h.call("POST", "/v1/jobs/"+job+"/resume", "").is(200)
	h.call("POST", "/v1/jobs/"+job+"/pause", "").is(200)
	if a := h.call("GET", "/v1/jobs/"+job, "").is(200); a.text("state") != "paused" ||
		strings.Contains(a.Body.String(), "its last run failed") {
		t.Errorf("a caller paused it: %s", a.Body)
	}
}

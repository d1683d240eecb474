package api_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/api"
)

func TestADueRunThatNoLiveWorkerTakesSaysSoInItsReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		alive := []carillon.Member{{ID: "w", Kind: carillon.MemberWorker}}
		present, reads := alive, 0
		h := newHouse(t, func(c *api.Config) {
			c.Alive = func() []carillon.Member { return alive }
			c.Members = lists(func() ([]carillon.Member, error) { reads++; return present, nil })
		})
		h.submitMany(20, `"needs":{"gpu":"true"},"priority":3`)
		job := h.submit(with(`"needs":{"gpu":"true"}`))
		plain, later := h.submit(with(`"name":"plain"`)), h.submit(with(
			`"needs":{"gpu":"true"},"schedule":{"at":"2030-01-01T00:00:00Z"}`,
		))
		paused := h.submit(with(`"needs":{"gpu":"true"}`))
		h.call("POST", "/v1/jobs/"+paused+"/pause", "").is(200)
		want := `no live worker that serves the queue "default" has the label gpu=true; 1 worker serves it`
		reasons := func(path string) (reasons []any) {
			for _, item := range h.call("GET", path, "").is(200).json()["items"].([]any) {
				reasons = append(reasons, item.(map[string]any)["reason"])
			}
			return reasons
		}
		time.Sleep(time.Second)
		reads = 0
		unserved := 0
		for _, reason := range reasons("/v1/runs?state=waiting") {
			if reason == want {
				unserved++
			}
		}
		if unserved != 21 || reads != 1 {
			t.Errorf("%d runs say so, after %d reads of the members", unserved, reads)
		}
		for job, want := range map[string]any{job: want, plain: nil, later: nil, paused: nil} {
			if got := reasons("/v1/jobs/" + job + "/runs"); got[0] != want {
				t.Errorf("in the list of its job: %q, want %q", got, want)
			}
			next := h.call("GET", "/v1/jobs/"+job, "").is(200).json()["next_run"].(map[string]any)
			if next["reason"] != want {
				t.Errorf("as the next run of its job: %q, want %q", next["reason"], want)
			}
			alone := h.call("GET", "/v1/runs/"+next["id"].(string), "").is(200).json()
			if alone["reason"] != want {
				t.Errorf("alone: %q, want %q", alone["reason"], want)
			}
		}
		present = []carillon.Member{{
			ID: "gpu", Kind: carillon.MemberWorker, Profile: carillon.Profile{
				Want: carillon.Want{Labels: map[string]string{"gpu": "true"}},
			},
		}}
		time.Sleep(time.Second) // the list of members is a second old at most
		if got := reasons("/v1/jobs/" + job + "/runs"); got[0] != nil {
			t.Errorf("when a worker has come: %q", got)
		}
	})
}

func TestBadNeedsAreRefusedByFieldAndNothingIsStored(t *testing.T) {
	h := newHouse(t, nil)
	for body, want := range map[string][2]string{
		`"needs":{"g p u":"true"}`: {"needs", `needs: "g p u" is not valid: want keys of 1 to 64 characters of ` +
			`a-z A-Z 0-9 . _ - / @`},
		`"needs":{"gpu":"a\u0007"}`: {"needs.gpu", `needs.gpu: "a\a" is not valid: want at most 128 printable characters`},
		`"needs":{"gpu":true}`:      {"needs.gpu", `needs.gpu: true is a boolean: want text, in quotes: "true"`},
		`"needs":["gpu"]`:           {"needs", ""},
		`"need":{"gpu":"true"}`:     {"need", ""},
	} {
		a := h.call("POST", "/v1/jobs", with(body)).is(400)
		if a.text("field") != want[0] || want[1] != "" && a.text("detail") != want[1] {
			t.Errorf("%s: %s: %s", body, a.text("field"), a.text("detail"))
		}
	}
	if items := h.call("GET", "/v1/jobs", "").is(200).json()["items"].([]any); len(items) > 0 {
		t.Errorf("stored: %v", items)
	}
}

func TestAnEditReplacesNeeds(t *testing.T) {
	h := newHouse(t, nil)
	job := h.submit(with(`"needs":{"gpu":"true","zone":"eu"},"schedule":{"every":"1h"}`))
	a := h.call("PATCH", "/v1/jobs/"+job, `{"needs":{"zone":"us"}}`).is(200)
	if diff := cmp.Diff(map[string]any{"zone": "us"}, a.json()["needs"]); diff != "" {
		t.Error(diff)
	}
	if a := h.call("PATCH", "/v1/jobs/"+job, `{"needs":{}}`).is(200); a.json()["needs"] != nil {
		t.Errorf("%v", a.json()["needs"])
	}
}

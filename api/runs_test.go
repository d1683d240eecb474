package api_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-run/carillon"
)

func TestARunIsReadWithItsResultAndCheckpoint(t *testing.T) {
	h := newHouse(t, nil)
	id := h.submit(with(`"name":"a"`))
	run := h.claim(id)
	path, fence := "/v1/runs/"+run.ID.String(), "Carillon-Fence: "+strconv.FormatInt(run.Fence(), 10)
	h.call("PUT", path+"/checkpoint", `{"page":17}`, fence, "Content-Type: text/plain").is(204)
	h.finish(run, carillon.Outcome{
		Kind:   carillon.OutcomeSuccess,
		Output: &carillon.Output{Result: []byte(`{"sum":12345678901234567890}`)},
	})
	a := h.call("GET", path, "").is(200)
	if !strings.Contains(a.Body.String(), `"result":{"sum":12345678901234567890}`) ||
		!strings.Contains(a.Body.String(), `"checkpoint":{"page":17}`) {
		t.Errorf("read %s", a.Body)
	}
	if a.text("state") != "succeeded" || a.text("fence") != strconv.FormatInt(run.Fence(), 10) ||
		a.text("worker_id") != "w1" || a.text("name") != "a" {
		t.Errorf("read %s", a.Body)
	}
	list := h.call("GET", "/v1/jobs/"+id+"/runs", "").is(200)
	if strings.Contains(list.Body.String(), "checkpoint") ||
		!slices.Equal(list.items(), []string{run.ID.String()}) ||
		!strings.Contains(list.Body.String(), `"next_cursor":null`) {
		t.Errorf("listed %s", list.Body)
	}
}

func TestACheckpointNeedsTheFenceOfThePresentAttempt(t *testing.T) {
	h := newHouse(t, nil)
	id := h.submit(with(`"retry":{"delay":"0s"}`))
	first := h.claim(id)
	path := "/v1/runs/" + first.ID.String() + "/checkpoint"
	fence := func(n int64) string { return "Carillon-Fence: " + strconv.FormatInt(n, 10) }
	h.call("PUT", path, "a").problem(400, "Carillon-Fence")
	h.call("PUT", path, "a", "Carillon-Fence: first").problem(400, "Carillon-Fence")
	h.call("PUT", path, "a", "Carillon-Fence: -1").problem(400, "Carillon-Fence")
	h.call("PUT", path, "", fence(first.Fence())).problem(400, "body")
	h.call("PUT", path, strings.Repeat("a", 64<<10), fence(first.Fence())).is(204)
	h.call("PUT", path, strings.Repeat("a", 64<<10+1), fence(first.Fence())).problem(413, "body")
	h.call("PUT", path, "a", fence(first.Fence()+1)).problem(409, "")
	h.finish(first, carillon.Outcome{Kind: carillon.OutcomeRetriable, Reason: "again"})
	second := h.claim(id)
	if a := h.call(
		"PUT", path, "old", fence(first.Fence()),
	).problem(409, ""); a.text("type") != "urn:carillon:problem:lost" {
		t.Errorf("a stale fence is %s", a.Body)
	}
	h.call("PUT", path, "new", fence(second.Fence())).is(204)
	if got := h.call("GET", "/v1/runs/"+first.ID.String(), "").text("checkpoint"); got != "new" {
		t.Errorf("the checkpoint is %q", got)
	}
}

func TestRunsAreCanceledAndRetried(t *testing.T) {
	h := newHouse(t, nil)
	waiting := h.submit(schedule(`"at":"2030-01-01T00:00:00Z"`))
	planned := h.call("GET", "/v1/jobs/"+waiting, "").text("next_run.id")
	h.call("POST", "/v1/runs/"+planned+"/retry", "").problem(409, "")
	if got := h.call("POST", "/v1/runs/"+planned+"/cancel", "").is(200).text("state"); got != "canceled" {
		t.Errorf("a waiting run is %s", got)
	}
	h.call("POST", "/v1/runs/"+planned+"/cancel", "").problem(409, "")
	again := h.call("POST", "/v1/runs/"+planned+"/retry", "").is(201)
	if again.text("retry_of") != planned || again.Header().Get("Location") != "/v1/runs/"+again.text("id") {
		t.Errorf("retried: %v %s", again.Header(), again.Body)
	}
	h.claim(waiting)
	if a := h.call(
		"POST", "/v1/runs/"+again.text("id")+"/cancel", "",
	).is(200); a.json()["stopping"] != true ||
		a.text("state") != "claimed" {
		t.Errorf("a running run is %s", a.Body)
	}
}

func TestARetryOfARunThatWaitsForItsNextAttemptAnswersWithTheSameRun(t *testing.T) {
	h := newHouse(t, nil)
	run := h.claim(h.submit(with(`"retry":{"delay":"1h"}`)))
	h.finish(run, carillon.Outcome{Kind: carillon.OutcomeRetriable, Reason: "again"})
	path := "/v1/runs/" + run.ID.String() + "/retry"
	a := h.call("POST", path, "").is(200)
	if _, located := a.Header()["Location"]; located || a.text("id") != run.ID.String() {
		t.Errorf("retried: %v %s", a.Header(), a.Body)
	}
	var described struct {
		Paths map[string]map[string]struct{ Responses map[string]any }
	}
	if err := json.Unmarshal(
		h.call("GET", "/v1/openapi.json", "").is(200).Body.Bytes(), &described,
	); err != nil {
		t.Fatal(err)
	}
	answers := slices.Sorted(maps.Keys(described.Paths["/v1/runs/{id}/retry"]["post"].Responses))
	if !slices.Equal(answers, []string{"200", "201", "422", "default"}) {
		t.Errorf("the description has the answers %v", answers)
	}
}

func TestADeadLetterIsRetriedOnce(t *testing.T) {
	h := newHouse(t, nil)
	id := h.submit(with(`"retry":{"max_attempts":1}`))
	run := h.claim(id)
	letter := "/v1/dead-letters/" + run.ID.String() + "/retry"
	h.call("POST", letter, "").problem(404, "")
	h.finish(run, carillon.Outcome{Kind: carillon.OutcomeRetriable, Reason: "exit code 1"})
	list := h.call("GET", "/v1/dead-letters", "").is(200)
	if !slices.Equal(list.items(), []string{run.ID.String()}) ||
		!strings.Contains(list.Body.String(), `"reason":"exit code 1"`) {
		t.Errorf("dead letters are %s", list.Body)
	}
	if again := h.call("POST", letter, "").is(201); again.text("retry_of") != run.ID.String() {
		t.Errorf("retried: %s", again.Body)
	}
	h.call("POST", letter, "").problem(404, "")
	if got := h.call("GET", "/v1/dead-letters", "").items(); len(got) > 0 {
		t.Errorf("still dead: %v", got)
	}
	h.call("GET", "/v1/runs/"+run.ID.String(), "").is(200)
}

func TestRunsAreFoundByWhatTheyAre(t *testing.T) {
	h := newHouse(t, nil)
	later := h.submit(schedule(`"at":"2030-01-01T00:00:00Z"`))
	planned := h.call("GET", "/v1/jobs/"+later, "").text("next_run.id")
	done := h.claim(h.submit(echo))
	h.finish(done, carillon.Outcome{Kind: carillon.OutcomeSuccess})
	job := h.submit(echo)
	running := h.claim(job)
	for query, want := range map[string][]string{
		"":                                   {running.ID.String(), done.ID.String()},
		"state=waiting":                      {planned},
		"state=claimed,succeeded":            {running.ID.String(), done.ID.String()},
		"state=waiting,succeeded":            {planned, done.ID.String()},
		"worker_id=w1&state=claimed":         {running.ID.String()},
		"worker_id=w2":                       nil,
		"job_id=" + job:                      {running.ID.String()},
		"job_id=" + later:                    nil,
		"job_id=" + later + "&state=waiting": {planned},
		"job_id=job_0000000000001":           nil,
		"due_from=2029-01-01T00:00:00Z":      nil,
		"due_from=2029-01-01T00:00:00Z&state=waiting": {planned},
		"due_to=2020-01-01T00:00:00Z":                 nil,
		"due_to=2031-01-01T00:00:00Z":                 {running.ID.String(), done.ID.String()},
	} {
		if diff := cmp.Diff(want, h.call("GET", "/v1/runs?"+query, "").is(200).items()); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
	if got := h.call(
		"GET", "/v1/jobs/"+later+"/runs", "",
	).is(200).items(); !slices.Equal(got, []string{planned}) {
		t.Errorf("the job's own runs are %v", got)
	}
}

func TestARunThatGoesOnIsListedWhereItsNameIsAheadOfTheClock(t *testing.T) {
	h := newHouse(t, nil)
	soon := h.claim(h.submit(schedule(`"after":"10s"`)))
	h.submit(schedule(`"after":"20s"`)) // it waits
	for _, query := range []string{"", "state=stopping", "state=queued,stopping"} {
		if query != "" {
			h.call("POST", "/v1/runs/"+soon.ID.String()+"/cancel", "")
		}
		if got := h.call("GET", "/v1/runs?"+query, "").is(200).items(); !slices.Equal(
			got, []string{soon.ID.String()},
		) {
			t.Errorf("%s: %v, want %s", query, got, soon.ID)
		}
	}
}

func TestRunsAreFoundByTheWordThatIsShownForThem(t *testing.T) {
	h := newHouse(t, nil)
	queued := h.run(h.submit(with(`"name":"queued"`)))
	future := h.submit(schedule(`"at":"2030-01-01T00:00:00Z"`))
	h.call("POST", "/v1/jobs/"+future+"/pause", "").is(200)
	h.submit(schedule(`"at":"2031-01-01T00:00:00Z"`))
	running := h.claim(h.submit(with(`"name":"running"`)))
	stopping := h.claim(h.submit(with(`"name":"stopping"`)))
	h.call("POST", "/v1/runs/"+stopping.ID.String()+"/cancel", "").is(200)
	paused := h.run(future)
	for words, want := range map[string][]string{
		"queued": {queued}, "paused": {paused}, "stopping": {stopping.ID.String()},
		"claimed":         {running.ID.String(), stopping.ID.String()},
		"queued,stopping": {queued, stopping.ID.String()}, "stopping,paused": {stopping.ID.String(), paused},
		"running": nil,
	} {
		a := h.call("GET", "/v1/runs?state="+words, "").is(200)
		if got := a.items(); !slices.Equal(got, want) {
			t.Errorf("%s: found %v, want %v", words, got, want)
		}
		if one := strings.Count(words, ",") == 0 && words != "claimed"; one && len(want) > 0 &&
			!strings.Contains(a.Body.String(), `"status":"`+words+`"`) {
			t.Errorf("%s is not what is shown: %s", words, a.Body)
		}
	}
	if got := h.call(
		"GET", "/v1/jobs/"+future+"/runs?state=paused", "",
	).is(200).items(); !slices.Equal(got, []string{paused}) {
		t.Errorf("of one job: %v", got)
	}
}

// run is the id of a job's one run.
func (h *house) run(job string) string {
	h.t.Helper()
	ids := h.call("GET", "/v1/jobs/"+job+"/runs", "").is(200).items()
	if len(ids) != 1 {
		h.t.Fatalf("the job has the runs %v", ids)
	}
	return ids[0]
}

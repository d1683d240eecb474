package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/api"
)

func TestASubmittedJobIsReadBackWithItsDefaults(t *testing.T) {
	h := newHouse(t, nil)
	submitted := h.call("POST", "/v1/jobs", `{"name":"hello","type":"demo.hello","target":{"command":{"argv":["echo","<hello>"]}},
		"schedule":{"at":"2030-01-01T00:00:00+01:00"},"payload":{"n":12345678901234567890},"retention":{"logs":"1d"},"misfire":"skip"}`).is(201)
	id := submitted.text("id")
	if submitted.Header().Get("Location") != "/v1/jobs/"+id || submitted.Header().Get("ETag") != `"1"` {
		t.Errorf("headers are %v", submitted.Header())
	}
	read := h.call("GET", "/v1/jobs/"+id, "").is(200)
	if !strings.Contains(read.Body.String(), `"payload":{"n":12345678901234567890}`) ||
		!strings.Contains(read.Body.String(), "<hello>") {
		t.Errorf("the payload or the argument changed: %s", read.Body)
	}
	got := read.json()
	next := got["next_run"].(map[string]any)
	for _, name := range []string{"created_at", "updated_at", "payload", "next_run"} {
		delete(got, name)
	}
	var want map[string]any
	if err := json.Unmarshal([]byte(`{"namespace":"blue","id":"`+id+`","version":1,"state":"active","name":"hello","type":"demo.hello",
		"owner":"default","labels":{},"queue":"default","priority":5,"fair_weight":1,"schedule":{"at":"2029-12-31T23:00:00.000Z"},
		"target":{"command":{"argv":["echo","<hello>"]}},"timeout":"0s","overlap":"skip",
		"retry":{"max_attempts":3,"backoff":"exponential","delay":"1s","max_delay":"10m","jitter":0.2,"max_crashes":5},
		"misfire":{"policy":"skip","max":100,"window":"1d"},"retention":{"runs":"30d","logs":"1d","dead_letters":"90d"},"last_run":null}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if next["job_id"] != id || next["state"] != "waiting" || next["due_at"] != "2029-12-31T23:00:00.000Z" {
		t.Errorf("the next run is %v", next)
	}
}

func TestABatchKeepsItsOrder(t *testing.T) {
	h := newHouse(t, nil)
	a := h.call(
		"POST", "/v1/jobs/batch",
		`{"jobs":[`+with(`"name":"a"`)+","+with(`"name":"b"`)+","+with(`"name":"c"`)+`]}`,
	).is(201)
	var names []string
	for _, item := range a.json()["items"].([]any) {
		names = append(names, item.(map[string]any)["name"].(string))
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, names); diff != "" {
		t.Error(diff)
	}
	h.call("POST", "/v1/jobs/batch", `{"jobs":[`+strings.Repeat(echo+",", 999)+echo+`]}`).is(201)
}

func TestAJobShowsItsLastAndNextRunAndWhenItIsFinished(t *testing.T) {
	h := newHouse(t, nil)
	once := h.submit(echo)
	run := h.claim(once)
	if a := h.call("GET", "/v1/jobs/"+once, "").is(200); a.text("last_run.state") != "claimed" ||
		a.text("state") != "active" || a.json()["next_run"] != nil {
		t.Errorf("while it runs: %s", a.Body)
	}
	h.finish(run, carillon.Outcome{Kind: carillon.OutcomeSuccess})
	if a := h.call("GET", "/v1/jobs/"+once, "").is(200); a.text("last_run.state") != "succeeded" ||
		a.text("state") != "finished" {
		t.Errorf("after it ran: %s", a.Body)
	}
	if a := h.call("PATCH", "/v1/jobs/"+once, `{"name":"old"}`).is(200); a.text("state") != "finished" {
		t.Errorf("edited after it ran: %s", a.Body)
	}
	again := h.submit(schedule(`"every":"1h"`))
	run = h.claim(again)
	h.finish(run, carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: "broken"})
	a := h.call("GET", "/v1/jobs/"+again, "").is(200)
	if a.text("last_run.state") != "failed" || a.text("last_run.reason") != "broken" ||
		a.text("next_run.state") != "waiting" || a.text("state") != "active" {
		t.Errorf("between two runs: %s", a.Body)
	}
}

func TestJobsAreFoundByWhatTheyAre(t *testing.T) {
	h := newHouse(t, nil)
	failed := h.submit(with(
		`"name":"a","owner":"ann","type":"mail","labels":{"team":"red"},"retry":{"max_attempts":1}`,
	))
	h.finish(h.claim(failed), carillon.Outcome{Kind: carillon.OutcomeRetriable, Reason: "no"})
	done := h.submit(with(`"name":"b","owner":"bob","labels":{"team":"blue"}`))
	h.finish(h.claim(done), carillon.Outcome{Kind: carillon.OutcomeSuccess})
	running := h.submit(with(
		`"name":"b","labels":{"team":"blue","url":"a:b","flag":""},"schedule":{"every":"1h"}`,
	))
	h.claim(running)
	paused := h.submit(schedule(`"every":"1h"`))
	h.call("POST", "/v1/jobs/"+paused+"/pause", "").is(200)
	canceled := h.submit(schedule(`"every":"1h"`))
	h.call("DELETE", "/v1/jobs/"+canceled, "").is(200)
	for query, want := range map[string][]string{
		"":                               {canceled, paused, running, done, failed},
		"status=active":                  {running},
		"status=paused":                  {paused},
		"status=canceled,paused":         {canceled, paused},
		"status=finished":                {done, failed},
		"status=failed":                  {failed},
		"status=succeeded":               {done},
		"status=running":                 {running},
		"status=finished,failed":         {failed},
		"status=running,succeeded":       {running, done},
		"owner=ann":                      {failed},
		"type=mail":                      {failed},
		"name=b":                         {running, done},
		"name=b&owner=bob":               {done},
		"label=team:blue":                {running, done},
		"label=team:blue&label=url:a:b":  {running},
		"label=team:red&label=url:a:b":   nil,
		"label=team:blue&label=team:red": nil,
		"label=url:a:b":                  {running},
		"label=flag:":                    {running},
		"label=team:":                    nil,
		"label=other:":                   nil,
		"label=flag:&label=team:blue":    {running},
		"created_from=2001-01-01T00:00:00Z&name=a":                                           {failed},
		"created_to=2001-01-01T00:00:00Z":                                                    nil,
		"created_from=2001-01-01T00:00:00%2B02:00&created_to=2999-01-01T00:00:00Z&owner=bob": {done},
		"owner=unknown": nil,
	} {
		if diff := cmp.Diff(want, h.call("GET", "/v1/jobs?"+query, "").is(200).items()); diff != "" {
			t.Errorf("%s: %s", query, diff)
		}
	}
}

// walk reads all pages of a list.
func (h *house) walk(path string, limit int) (ids []string) {
	h.t.Helper()
	cursor := ""
	for pages := 0; ; pages++ {
		page := h.call("GET", fmt.Sprintf("%s&limit=%d%s", path, limit, cursor), "").is(200)
		if len(page.items()) > limit || pages > 100 {
			h.t.Fatalf("page %d of %s has %d items", pages, path, len(page.items()))
		}
		ids = append(ids, page.items()...)
		next, ok := page.json()["next_cursor"].(string)
		if !ok {
			return ids
		}
		cursor = "&cursor=" + next
	}
}

func TestPagesPutTogetherAreTheWholeList(t *testing.T) {
	h := newHouse(t, nil)
	var jobs, red, runs, dead []string
	for i := range 25 {
		color := []string{"red", "green"}[i%2]
		job := h.submit(with(`"labels":{"color":"` + color + `"},"retry":{"max_attempts":1}`))
		run := h.claim(job)
		h.finish(run, carillon.Outcome{
			Kind: []carillon.OutcomeKind{carillon.OutcomeSuccess, carillon.OutcomeFatal}[i%2],
		})
		jobs, runs = append(jobs, job), append(runs, run.ID.String())
		if color == "red" {
			red = append(red, job)
		} else {
			dead = append(dead, run.ID.String())
		}
	}
	busy := h.submit(with(`"overlap":"allow"`))
	var busyRuns []string
	for range 12 {
		busyRuns = append(busyRuns, h.call("POST", "/v1/jobs/"+busy+"/run", "").is(201).text("id"))
	}
	jobs = append(jobs, busy)
	for _, list := range [][]string{jobs, red, runs, dead, busyRuns} {
		slices.Reverse(list)
	}
	for _, limit := range []int{1, 2, 3, 7, 25, 100, 1000} {
		for path, want := range map[string][]string{
			"/v1/jobs?": jobs, "/v1/jobs?label=color:red": red, "/v1/runs?state=succeeded,failed": runs,
			"/v1/dead-letters?": dead,
		} {
			if diff := cmp.Diff(want, h.walk(path, limit)); diff != "" {
				t.Errorf("%s in pages of %d: %s", path, limit, diff)
			}
		}
		ofJob := h.walk("/v1/jobs/"+busy+"/runs?state=waiting", limit)
		if len(ofJob) != 13 || !slices.Equal(ofJob[:12], busyRuns) {
			t.Errorf("runs of one job in pages of %d: %v, want %v and the first", limit, ofJob, busyRuns)
		}
		if all := h.walk("/v1/runs?", limit); len(all) < 25 || len(all) > 25+13 {
			t.Errorf("%d runs in pages of %d", len(all), limit)
		}
	}
}

func TestACursorBelongsToItsList(t *testing.T) {
	h := newHouse(t, nil)
	for range 3 {
		h.submit(echo)
	}
	cursor := h.call("GET", "/v1/jobs?limit=1&owner=default", "").is(200).text("next_cursor")
	h.call("GET", "/v1/jobs?owner=default&limit=2&cursor="+cursor, "").is(200)
	h.call("GET", "/v1/jobs?cursor="+cursor, "").problem(400, "cursor")
	h.call("GET", "/v1/jobs?owner=other&cursor="+cursor, "").problem(400, "cursor")
	h.call("GET", "/v1/runs?cursor="+cursor, "").problem(400, "cursor")
	h.call("GET", "/v1/jobs?owner=default&cursor="+cursor[:len(cursor)-2], "").problem(400, "cursor")
	h.call(
		"GET", "/v1/jobs?owner=default&cursor="+cursor, "", "Authorization: Bearer "+otherToken,
	).problem(400, "cursor")
}

func TestAnEditChangesWhatIsGiven(t *testing.T) {
	h := newHouse(t, nil)
	id := h.submit(with(
		`"name":"a","labels":{"x":"1"},"schedule":{"cron":"0 3 * * *","timezone":"Europe/Berlin"},"retry":{"max_attempts":7}`,
	))
	a := h.call(
		"PATCH", "/v1/jobs/"+id,
		`{"schedule":{"every":"1m"},"retry":{"delay":"5s"},"labels":{},"priority":9}`, `If-Match: "1"`,
	).is(200)
	got := a.json()
	schedule := got["schedule"].(map[string]any)
	retry := got["retry"].(map[string]any)
	if a.Header().Get("ETag") != `"2"` || got["version"] != 2.0 || got["name"] != "a" ||
		got["priority"] != 9.0 || len(got["labels"].(map[string]any)) != 0 ||
		schedule["every"] != "1m" || schedule["cron"] != nil || schedule["timezone"] != nil ||
		retry["max_attempts"] != 7.0 || retry["delay"] != "5s" {
		t.Errorf("edited to %s", a.Body)
	}
	h.call("PATCH", "/v1/jobs/"+id, `{"name":"b"}`, `If-Match: "1"`).problem(412, "")
	h.call("PATCH", "/v1/jobs/"+id, `{"name":"b"}`, `If-Match: latest`).problem(400, "If-Match")
	h.call("PATCH", "/v1/jobs/"+id, `{"name":"b"}`, `If-Match: 2`).is(200)
	h.call("PATCH", "/v1/jobs/"+id, `{"name":"c"}`, `If-Match: *`).is(200)
	h.call("PATCH", "/v1/jobs/"+id, `{"schedule":{"cron":"* * *"}}`).problem(400, "schedule.cron")
	h.call("PATCH", "/v1/jobs/"+id, `{"schedule":{"at":"2030-01-01T00:00:00Z"}}`).problem(400, "schedule")
	h.call("PATCH", "/v1/jobs/"+id, `{"target":{}}`).problem(400, "target")
	h.call("PATCH", "/v1/jobs/"+id, `{"state":"paused"}`).problem(400, "state")
	h.call("PATCH", "/v1/jobs/"+id, ``).problem(415, "Content-Type")
	h.call("PATCH", "/v1/jobs/job_0000000000001", `{"name":"b"}`).problem(404, "")
	if a := h.call("GET", "/v1/jobs/"+id, ""); a.text("name") != "c" || a.json()["version"] != 4.0 {
		t.Errorf("refused edits left %s", a.Body)
	}
	h.call("DELETE", "/v1/jobs/"+id, "").is(200)
	h.call("PATCH", "/v1/jobs/"+id, `{"name":"b"}`).problem(409, "")
}

// racing lets another caller edit the job just before an edit is decided.
type racing struct {
	api.Ledger
	before func()
}

func (l racing) EditJob(
	ctx context.Context, ns string, id carillon.JobID, edit func(*carillon.Definition) error,
) (carillon.Job, error) {
	l.before()
	return l.Ledger.EditJob(ctx, ns, id, edit)
}

func TestAnEditWithAVersionLosesToOneThatCameBetween(t *testing.T) {
	var h *house
	var id string
	h = newHouse(t, func(c *api.Config) {
		c.Ledger = racing{c.Ledger, func() {
			job, _ := carillon.ParseJobID(id)
			if _, err := h.ledger.EditJob(
				context.Background(), "blue", job,
				func(d *carillon.Definition) error { d.Priority++; return nil },
			); err != nil {
				t.Error(err)
			}
		}}
	})
	id = h.submit(schedule(`"every":"1h"`))
	h.call("PATCH", "/v1/jobs/"+id, `{"name":"b"}`, `If-Match: "1"`).problem(412, "")
	a := h.call("PATCH", "/v1/jobs/"+id, `{"name":"b"}`).is(200)
	if got := a.json(); got["name"] != "b" || got["priority"] != 7.0 || got["version"] != 4.0 {
		t.Errorf("the other edits were lost: %s", a.Body)
	}
}

func TestAJobIsPausedResumedRunAndCanceled(t *testing.T) {
	h := newHouse(t, nil)
	id := h.submit(schedule(`"every":"1h"`))
	job := "/v1/jobs/" + id
	if got := h.call("POST", job+"/pause", "").is(200).text("state"); got != "paused" {
		t.Errorf("paused: %s", got)
	}
	h.call("POST", job+"/pause", "").problem(409, "")
	if got := h.call("POST", job+"/resume", "{}").is(200).text("state"); got != "active" {
		t.Errorf("resumed: %s", got)
	}
	h.call("POST", job+"/resume", "").problem(409, "")
	run := h.call("POST", job+"/run", "").is(201)
	if run.Header().Get("Location") != "/v1/runs/"+run.text("id") || run.text("job_id") != id {
		t.Errorf("run now: %v %s", run.Header(), run.Body)
	}
	running := h.claim(id)
	if got := h.call("DELETE", job+"?running=keep", "").is(200).text("state"); got != "canceled" {
		t.Errorf("canceled: %s", got)
	}
	if a := h.call("GET", "/v1/runs/"+running.ID.String(), "").is(200); a.text("state") != "claimed" ||
		a.json()["stopping"] != nil {
		t.Errorf("kept: %s", a.Body)
	}
	h.call("DELETE", job, "").is(200)
	if a := h.call("GET", "/v1/runs/"+running.ID.String(), "").is(200); a.json()["stopping"] != true {
		t.Errorf("canceled again, without keep: %s", a.Body)
	}
	h.call("POST", job+"/run", "").problem(409, "")
}

func TestTheNextDueTimesFollowTheSchedule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC)))
		h := newHouse(t, nil)
		for _, c := range []struct{ schedule, query, want string }{
			{`"cron":"0 3 * * *","timezone":"Europe/Berlin"`, "n=3", `{"timezone":"Europe/Berlin","items":[` +
				`{"due_at":"2026-03-28T02:00:00.000Z","local":"2026-03-28T03:00:00.000+01:00","offset":"+01:00"},` +
				`{"due_at":"2026-03-29T01:00:00.000Z","local":"2026-03-29T03:00:00.000+02:00","offset":"+02:00"},` +
				`{"due_at":"2026-03-30T01:00:00.000Z","local":"2026-03-30T03:00:00.000+02:00","offset":"+02:00"}]}`},
			{
				`"every":"1h","max_runs":2`, "n=5",
				`{"items":[{"due_at":"2026-03-27T13:00:00.000Z"},{"due_at":"2026-03-27T14:00:00.000Z"}]}`,
			},
			{
				`"every":"1h","ends_at":"2026-03-27T13:30:00Z"`, "n=5",
				`{"items":[{"due_at":"2026-03-27T13:00:00.000Z"}]}`,
			},
			{`"at":"2026-04-01T00:00:00Z"`, "n=5", `{"items":[{"due_at":"2026-04-01T00:00:00.000Z"}]}`},
		} {
			id := h.submit(schedule(c.schedule))
			if got := strings.TrimSpace(
				h.call("GET", "/v1/jobs/"+id+"/next?"+c.query, "").is(200).Body.String(),
			); got != c.want {
				t.Errorf("%s: %s, want %s", c.schedule, got, c.want)
			}
		}
		id := h.submit(schedule(`"every":"1h"`))
		if n := len(h.call("GET", "/v1/jobs/"+id+"/next", "").is(200).json()["items"].([]any)); n != 10 {
			t.Errorf("%d by default", n)
		}
		h.call("POST", "/v1/jobs/"+id+"/pause", "").is(200)
		time.Sleep(90 * time.Minute)
		if got := h.call(
			"GET", "/v1/jobs/"+id+"/next?n=1", "",
		).Body.String(); got != `{"items":[{"due_at":"2026-03-27T14:00:00.000Z"}]}`+"\n" {
			t.Errorf("while paused: %s", got)
		}
		h.call("DELETE", "/v1/jobs/"+id, "").is(200)
		if got := h.call("GET", "/v1/jobs/"+id+"/next", "").Body.String(); got != `{"items":[]}`+"\n" {
			t.Errorf("after the cancel: %s", got)
		}
	})
}

// broken is a store that cannot be reached. Its error contains details that no caller may read.
type broken struct{ carillon.Store }

var errBroken = errors.New("dial tcp 10.1.2.3:5432: password is hunter2")

func (broken) Jobs(context.Context, []carillon.JobVersion) ([]carillon.Job, error) {
	return nil, errBroken
}

func (broken) FindJobs(context.Context, carillon.JobQuery) (carillon.JobPage, error) {
	return carillon.JobPage{}, errBroken
}

func (broken) FindRuns(context.Context, carillon.RunQuery) (carillon.RunPage, error) {
	return carillon.RunPage{}, errBroken
}

func (broken) Runs(context.Context, []carillon.RunID, bool) ([]carillon.Run, error) {
	return nil, errBroken
}

func TestAnOutageIsAnAnswerWithoutInternals(t *testing.T) {
	h := newHouse(t, func(c *api.Config) { c.Store = broken{c.Store} })
	for _, path := range []string{
		"/v1/jobs", "/v1/jobs/job_0000000000001", "/v1/jobs/job_0000000000001/next",
		"/v1/jobs/job_0000000000001/runs", "/v1/runs",
		"/v1/runs/run_00000000000010000000001", "/v1/runs/run_00000000000010000000001/logs",
		"/v1/dead-letters",
	} {
		a := h.call("GET", path, "").problem(503, "")
		if strings.Contains(a.Body.String(), "hunter2") || a.Header().Get("Retry-After") == "" {
			t.Errorf("%s: %v %s", path, a.Header(), a.Body)
		}
		if got, want := a.text("detail"), "the store does not answer now; try again"; got != want {
			t.Errorf("%s: a read says %q, want %q", path, got, want)
		}
	}
	if !strings.Contains(h.log.String(), "hunter2") {
		t.Error("the cause is not logged")
	}
}

func TestAnotherNamespaceSeesNothing(t *testing.T) {
	h := newHouse(t, nil)
	id := h.submit(with(`"schedule":{"every":"1h"},"retry":{"max_attempts":1}`))
	failed := h.claim(id)
	h.print(failed, 0, "secret")
	h.finish(failed, carillon.Outcome{Kind: carillon.OutcomeFatal, Reason: "secret"})
	stranger := "Authorization: Bearer " + otherToken
	run := "/v1/runs/" + failed.ID.String()
	op := h.call("POST", "/v1/operations", `{"kind":"run","filter":{"all":true}}`).is(201).text("id")
	for _, rt := range h.routes() {
		path := strings.NewReplacer(
			"/v1/jobs/{id}", "/v1/jobs/"+id, "/v1/operations/{id}", "/v1/operations/"+op,
			"{id}", failed.ID.String(),
		).Replace(rt.Pattern)
		if !strings.Contains(rt.Pattern, "{id}") || strings.HasPrefix(rt.Pattern, "/v1/workers/") {
			// Sessions of workers belong to no namespace; tokens decide what workers may say about runs.
			continue
		}
		body, fence := "", "Carillon-Fence: 1"
		if rt.Method == "PATCH" || rt.Method == "PUT" || strings.HasSuffix(rt.Pattern, "/signal") {
			body = `{"name":"mine"}`
		}
		h.call(rt.Method, path, body, stranger, fence).problem(404, "")
	}
	for _, path := range []string{
		"/v1/jobs", "/v1/runs", "/v1/runs?job_id=" + id, "/v1/dead-letters", "/v1/operations",
	} {
		if got := h.call("GET", path, "", stranger).is(200).items(); len(got) > 0 {
			t.Errorf("%s shows %v", path, got)
		}
	}
	if a := h.call("GET", "/v1/jobs/"+id, ""); a.text("state") != "active" || a.json()["version"] != 1.0 {
		t.Errorf("a stranger changed it: %s", a.Body)
	}
	h.call("GET", run, "").is(200)
}

func TestTheLastRunOfAJobIsTheOneThatTheListShows(t *testing.T) {
	h := newHouse(t, nil)
	job := h.submit(with(`"schedule":{"every":"1h"},"overlap":"allow","retry":{"delay":"1h"}`))
	same := func(moment string, want carillon.Run) {
		t.Helper()
		one := h.call("GET", "/v1/jobs/"+job, "").is(200)
		list := h.call(
			"GET", "/v1/jobs", "",
		).is(200).json()["items"].([]any)[0].(map[string]any)["last_run"].(map[string]any)
		if one.text("last_run.id") != want.ID.String() || list["id"] != want.ID.String() ||
			one.text("last_run.name") == "" {
			t.Errorf("%s: %s; the list has %v, want %s", moment, one.Body, list["id"], want.ID)
		}
	}
	first := h.claim(job)
	h.finish(first, carillon.Outcome{Kind: carillon.OutcomeSuccess})
	second := h.claim(job)
	same("the second is claimed", second)
	h.finish(second, carillon.Outcome{Kind: carillon.OutcomeRetriable, Reason: "again"})
	same("the second waits for its next attempt", second)
	third := h.call("POST", "/v1/jobs/"+job+"/run", "").is(201).text("id")
	same("another run waits to begin", second)
	h.call("POST", "/v1/runs/"+third+"/cancel", "").is(200)
	same("it was canceled before it began", second)
}

func TestAListOfJobsHasTheLastRunOfEach(t *testing.T) {
	h := newHouse(t, nil)
	h.submit(with(`"name":"none"`))
	failed := h.claim(h.submit(with(`"name":"failed","retry":{"max_attempts":1}`)))
	h.finish(failed, carillon.Outcome{Kind: carillon.OutcomeRetriable, Reason: "exit code 3"})
	running := h.claim(h.submit(with(`"name":"running"`)))
	type last struct{ ID, State, Reason string }
	var page struct {
		Items []struct {
			Name string
			Last *last `json:"last_run"`
		}
	}
	a := h.call("GET", "/v1/jobs", "").is(200)
	if err := json.Unmarshal(a.Body.Bytes(), &page); err != nil {
		t.Fatal(err)
	}
	got := map[string]*last{}
	for _, item := range page.Items {
		got[item.Name] = item.Last
	}
	want := map[string]*last{
		"none": nil, "failed": {failed.ID.String(), "failed", "exit code 3"},
		"running": {running.ID.String(), "claimed", ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(a.Body.String(), `"last_run":null`) {
		t.Errorf("a job that has not run does not say so: %s", a.Body)
	}
}

package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/api"
	"github.com/carillon-run/carillon/worker/protocol"
)

// register opens a session and returns the path of the worker.
func (h *house) register() string {
	h.t.Helper()
	return "/v1/workers/" + h.call("POST", "/v1/workers", `{"name":"test:1"}`).is(201).text("worker_id")
}

// push puts the waiting run of a job into the queue that workers pull from.
func (h *house) push(job string) {
	h.t.Helper()
	id, err := carillon.ParseJobID(job)
	if err != nil {
		h.t.Fatal(err)
	}
	found, err := h.store.FindRuns(context.Background(), carillon.RunQuery{
		Namespace: "blue", Job: id, States: []carillon.State{carillon.StateWaiting},
	})
	if err == nil {
		_, err = h.queue.Push(context.Background(), found.Runs)
	}
	if err != nil || len(found.Runs) == 0 {
		h.t.Fatalf("nothing to push: %v", err)
	}
}

type wireTask struct {
	Run          string `json:"run_id"`
	Fence, Token string
	Attempt      int
}

// pull submits a job and pulls its run.
func (h *house) pull(worker, job string) wireTask {
	h.t.Helper()
	h.push(h.submit(job))
	var got struct{ Tasks []wireTask }
	a := h.call("POST", worker+"/pull", `{"max":10}`).is(200)
	if err := json.Unmarshal(a.Body.Bytes(), &got); err != nil || len(got.Tasks) != 1 {
		h.t.Fatalf("%v: %s", err, a.Body)
	}
	return got.Tasks[0]
}

func (t wireTask) report(fields string) string {
	return fmt.Sprintf(`{"run_id":%q,"fence":%q,"token":%q%s}`, t.Run, t.Fence, t.Token, fields)
}

func (h *house) report(worker string, reports ...string) string {
	h.t.Helper()
	a := h.call("POST", worker+"/report", `{"reports":[`+strings.Join(reports, ",")+`]}`).is(200)
	return strings.TrimSpace(a.Body.String())
}

const mail = `{"name":"Grüße \"x\"","type":"mail","target":{"handler":{}},"payload":{ "a" : 1 },"labels":{"k":"v"},"timeout":"30s"}`

func TestAWorkerRegistersAndIsTold(t *testing.T) {
	h := newHouse(t, nil)
	got := h.call("POST", "/v1/workers", `{"name":"host:1"}`).is(201).json()
	worker, _ := got["worker_id"].(string)
	wait := carillon.Duration(protocol.PullWait).String()
	want := map[string]any{
		"worker_id": worker, "nodes": []any{}, "beat_every": "1s", "lease": "5s", "pull_wait": wait,
		"pull_late": "3s",
	}
	if diff := cmp.Diff(want, got); diff != "" || !strings.HasPrefix(worker, "worker_") {
		t.Error(diff)
	}
	members := h.members()
	if len(members) != 1 {
		t.Fatalf("members are %v", members)
	}
	times := members[0]
	want = map[string]any{
		"id": worker, "kind": "worker", "addr": "host:1", "joined_at": times["joined_at"],
		"beat_at": times["beat_at"], "used": 0.0, "namespaces": []any{"blue"},
	}
	if diff := cmp.Diff(want, members[0]); diff != "" {
		t.Error(diff)
	}
	h.call("DELETE", "/v1/workers/"+worker, "").is(204)
	h.call("DELETE", "/v1/workers/"+worker, "").is(204)
	if members := h.call("GET", "/v1/members", "").is(200).items(); len(members) > 0 {
		t.Errorf("%v have not left", members)
	}
	h.call("POST", "/v1/workers/"+worker+"/pull", `{}`).problem(410, "")
}

// members are the nodes and workers as the API shows them.
func (h *house) members(headers ...string) (list []map[string]any) {
	h.t.Helper()
	for _, item := range h.call("GET", "/v1/members", "", headers...).is(200).json()["items"].([]any) {
		list = append(list, item.(map[string]any))
	}
	return list
}

func TestAListOfWorkersHasWhatTheyToldAndWhatTheyHold(t *testing.T) {
	h := newHouse(t, nil)
	body := `{"name":"mail-7","host":"a.example","version":"v1.2.3","queues":["mail=3","default"],"slots":8,` +
		`"kinds":["handler"],"types":["mail"],"labels":{"zone":"b"}}`
	worker := h.call("POST", "/v1/workers", body).is(201).text("worker_id")
	h.push(h.submit(mail))
	a := h.call("POST", "/v1/workers/"+worker+"/pull", `{"max":5}`).is(200)
	var got struct{ Tasks []wireTask }
	if err := json.Unmarshal(a.Body.Bytes(), &got); err != nil || len(got.Tasks) != 1 {
		t.Fatalf("%v: %s", err, a.Body)
	}
	task := got.Tasks[0]
	h.call(
		"POST", "/v1/workers/"+worker+"/beat",
		fmt.Sprintf(`{"number":1,"heard":0,"holds":[{"run_id":"%s","fence":"%s"}]}`, task.Run, task.Fence),
	).is(200)

	members := h.members()
	if len(members) != 1 {
		t.Fatalf("members are %v", members)
	}
	times := members[0]
	want := map[string]any{
		"id": worker, "kind": "worker", "addr": "mail-7", "host": "a.example", "version": "v1.2.3",
		"queues": []any{"mail=3", "default"}, "namespaces": []any{"blue"}, "kinds": []any{"handler"},
		"types": []any{"mail"}, "labels": map[string]any{"zone": "b"},
		"slots": 8.0, "used": 1.0, "joined_at": times["joined_at"], "beat_at": times["beat_at"],
		"running": []any{map[string]any{
			"run_id": task.Run, "attempt": 1.0, "name": `Grüße "x"`, "state": "claimed",
			"claimed_at": h.call("GET", "/v1/runs/"+task.Run, "").text("claimed_at"),
		}},
	}
	if diff := cmp.Diff(want, members[0]); diff != "" {
		t.Error(diff)
	}
	stranger := h.members("Authorization: Bearer " + otherToken)
	if len(stranger) != 1 || stranger[0]["used"] != 1.0 || stranger[0]["running"] != nil {
		t.Errorf("another namespace sees %v", stranger)
	}
}

func TestANodeSaysHowManyShardsItSeesTo(t *testing.T) {
	h := newHouse(t, func(c *api.Config) {
		c.Members = lists(func() ([]carillon.Member, error) {
			return []carillon.Member{
				{ID: "node_1", Kind: carillon.MemberNode}, {ID: "node_2", Kind: carillon.MemberNode},
			}, nil
		})
	})
	sum := 0.0
	for _, m := range h.members() {
		shards, _ := m["shards"].(float64)
		sum += shards
	}
	if sum != carillon.Shards {
		t.Errorf("nodes see to %v shards of %d", sum, carillon.Shards)
	}
}

func TestARegistrationIsChecked(t *testing.T) {
	h := newHouse(t, nil)
	for body, field := range map[string]string{
		`{"host":"a\u0007"}`: "host", `{"version":"` + strings.Repeat("v", 201) + `"}`: "version",
		`{"slots":-1}`:    "slots",
		`{"slots":50001}`: "slots", `{"queues":["mail","mail=2"]}`: "queues[1]",
		`{"queues":["a b"]}`: "queues[0]",
	} {
		h.call("POST", "/v1/workers", body).problem(400, field)
	}
}

func TestARegistrationTellsOfAllNodesThoseThatBeatLatelyFirst(t *testing.T) {
	members := []carillon.Member{
		{ID: "node_1", Kind: carillon.MemberNode, Addr: "http://a"},
		{ID: "node_2", Kind: carillon.MemberNode},
		{ID: "worker_1", Kind: carillon.MemberWorker, Addr: "x"},
		{ID: "node_3", Kind: carillon.MemberNode, Addr: "http://c", Beat: carillon.Now().Add(time.Minute)},
	}
	var away error
	h := newHouse(t, func(c *api.Config) {
		c.Members = lists(func() ([]carillon.Member, error) { return members, away })
	})
	if got := h.call("POST", "/v1/workers", `{}`).is(201).json()["nodes"]; !cmp.Equal(got, []any{
		"http://c", "http://a",
	}) {
		t.Errorf("nodes are %v", got)
	}
	away, members = errors.New("coordinator away"), nil
	if got := h.call("POST", "/v1/workers", `{}`).is(201).json()["nodes"]; !cmp.Equal(got, []any{}) {
		t.Errorf("nodes are %v", got)
	}
	h.call("GET", "/v1/members", "").problem(503, "")
}

func TestATaskHasWhatItsWorkerNeeds(t *testing.T) {
	h := newHouse(t, nil)
	worker := h.register()
	h.push(h.submit(mail))
	a := h.call("POST", worker+"/pull", `{"queues":["default=3","other"],"max":5}`).is(200)
	var got struct{ Tasks []map[string]any }
	if err := json.Unmarshal(a.Body.Bytes(), &got); err != nil || len(got.Tasks) != 1 {
		t.Fatalf("%v: %s", err, a.Body)
	}
	if !strings.Contains(a.Body.String(), `"payload":{ "a" : 1 }`) {
		t.Errorf("the payload is not what was submitted: %s", a.Body)
	}
	task := got.Tasks[0]
	id, err := carillon.ParseRunID(task["run_id"].(string))
	if err != nil {
		t.Fatal(err)
	}
	runs, err := h.store.Runs(t.Context(), []carillon.RunID{id}, false)
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	run := runs[0]
	want := map[string]any{
		"run_id": id.String(), "fence": fmt.Sprint(run.Fence()), "attempt": 1.0, "token": task["token"],
		"namespace": "blue",
		"job_id":    id.Job.String(), "name": `Grüße "x"`, "type": "mail", "queue": "default",
		"priority":  5.0,
		"due_at":    id.Due.String(),
		"covers_at": id.Due.String(), "timeout": "30s", "payload": map[string]any{"a": 1.0},
		"target": map[string]any{"handler": map[string]any{}}, "labels": map[string]any{"k": "v"},
	}
	if diff := cmp.Diff(want, task); diff != "" {
		t.Error(diff)
	}
}

func TestAPullWithNothingToDoIsAnEmptyAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, nil)
		worker, began := h.register(), time.Now()
		a := h.call("POST", worker+"/pull", `{}`).is(200)
		if got := strings.TrimSpace(a.Body.String()); got != `{"tasks":[]}` ||
			time.Since(began) != protocol.PullWait {
			t.Errorf("%s after %s", got, time.Since(began))
		}
	})
}

func TestWhatAWorkerReportsIsRecorded(t *testing.T) {
	h := newHouse(t, nil)
	worker := h.register()
	task := h.pull(worker, mail)
	if got := h.report(
		worker,
		task.report(`,"lines":[{"text":"one"},{"stream":"stderr","text":"two"}],"checkpoint":{"page": 7}`),
	); got != `{"receipts":["recorded"]}` {
		t.Error(got)
	}
	end := task.report(`,"lines":[{"text":"two again","offset":1},{"text":"three"}],` +
		`"end":{"outcome":"retriable","reason":"no route","retry_after":"1s","started_at":"2026-01-01T00:00:00Z"}`)
	for range 2 { // the second time because the answer was lost
		if got := h.report(worker, end); got != `{"receipts":["recorded"]}` {
			t.Error(got)
		}
	}
	run := h.call("GET", "/v1/runs/"+task.Run, "").is(200).json()
	if run["state"] != "waiting" || run["reason"] != "no route" || run["failures"] != 1.0 ||
		!cmp.Equal(run["checkpoint"], map[string]any{"page": 7.0}) {
		t.Errorf("the run is %v", run)
	}
	if got := h.call("GET", "/v1/runs/"+task.Run+"/logs", "").Body.String(); got != "one\ntwo\nthree\n" {
		t.Errorf("the log is %q", got)
	}
}

func TestResultsAndCheckpointsMayBeAnyBytes(t *testing.T) {
	h := newHouse(t, nil)
	worker := h.register()
	for fields, want := range map[string]any{
		`"result":{"n":  1}`:             map[string]any{"n": 1.0},
		`"result":"text"`:                "text",
		`"result_base64":"aGVsbG8K"`:     "hello\n",
		`"result":null`:                  nil,
		`"result_base64":"eyJuIjoxfQ=="`: map[string]any{"n": 1.0},
	} {
		task := h.pull(worker, mail)
		if got := h.report(
			worker, task.report(`,"end":{"outcome":"success",`+fields+`}`),
		); got != `{"receipts":["recorded"]}` {
			t.Error(got)
		}
		run := h.call("GET", "/v1/runs/"+task.Run, "").is(200).json()
		if run["state"] != "succeeded" || !cmp.Equal(run["result"], want) {
			t.Errorf("%s: %v is %v, want %v", fields, run["state"], run["result"], want)
		}
	}
}

func TestTheNextAttemptGetsTheCheckpoint(t *testing.T) {
	h := newHouse(t, nil)
	worker := h.register()
	for saved, want := range map[string]string{
		`"checkpoint":{"page":  7}`:          `"checkpoint":{"page":  7}}`,
		`"checkpoint_base64":"eyJwIjo3fQo="`: `"checkpoint_base64":"eyJwIjo3fQo="}`, // JSON and a line feed
		`"checkpoint_base64":"/w=="`:         `"checkpoint_base64":"/w=="}`,
	} {
		task := h.pull(worker, mail)
		h.report(worker, task.report(`,`+saved+`,"end":{"outcome":"lost"}`))
		h.push("job_" + task.Run[4:17])
		if a := h.call("POST", worker+"/pull", `{}`).is(200); !strings.Contains(a.Body.String(), want) {
			t.Errorf("%s: %s", saved, a.Body)
		}
	}
}

func TestAReportWithoutTheTokenOfItsAttemptIsRefusedAlone(t *testing.T) {
	h := newHouse(t, nil)
	worker := h.register()
	one, two := h.pull(worker, mail), h.pull(worker, mail)
	const success = `,"end":{"outcome":"success"}`
	wrong, cut, none, other := one, one, one, one
	wrong.Token, cut.Token, none.Token, other.Token = strings.Repeat("A", 22), one.Token[1:], "", two.Token
	got := h.report(
		worker, wrong.report(success), cut.report(success), none.report(success), two.report(success),
		other.report(success),
	)
	if want := `{"receipts":["refused","refused","refused","recorded","refused"]}`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if state := h.call("GET", "/v1/runs/"+one.Run, "").text("state"); state != "claimed" {
		t.Errorf("the run is %s", state)
	}
	stranger := "Authorization: Bearer " + otherToken
	a := h.call("POST", worker+"/report", `{"reports":[`+one.report(success)+`]}`, stranger).is(200)
	if got := strings.TrimSpace(a.Body.String()); got != `{"receipts":["refused"]}` {
		t.Errorf("a token of another namespace: %s", got)
	}
}

func TestNodesThatShareTheSecretTakeEachOthersTokens(t *testing.T) {
	secrets := map[string]bool{"the secret of the cluster": true, "another": false}
	for secret, same := range secrets {
		h := newHouse(t, func(c *api.Config) { c.Secret = []byte("the secret of the cluster") })
		worker := h.register()
		task := h.pull(worker, mail)
		h.Handler = api.New(api.Config{
			Ledger: h.ledger, Store: h.store, Logs: h.logs, Dispatcher: h.dispatcher, Secret: []byte(secret),
			Tokens: map[string]api.Credential{token: {Namespace: "blue"}},
		})
		got := h.report(worker, task.report(`,"end":{"outcome":"success"}`))
		if taken := got == `{"receipts":["recorded"]}`; taken != same {
			t.Errorf("with %q: %s", secret, got)
		}
	}
}

func TestABeatTellsWhatToStop(t *testing.T) {
	h := newHouse(t, nil)
	worker := h.register()
	one, two := h.pull(worker, mail), h.pull(worker, mail)
	h.call("POST", "/v1/runs/"+one.Run+"/cancel", "").is(200)
	h.report(worker, two.report(`,"end":{"outcome":"success"}`))
	beat := func(number int) string {
		return fmt.Sprintf(
			`{"number":%d,"heard":%d,"holds":[{"run_id":%q,"fence":%q},{"run_id":%q,"fence":%q}]}`,
			number, number-1, one.Run, one.Fence, two.Run, two.Fence,
		)
	}
	h.call("POST", worker+"/beat", beat(1)).is(200)
	var got struct {
		Stop []struct {
			Run           string `json:"run_id"`
			Fence, Reason string
			Lost          bool
		}
		Nodes []string
	}
	a := h.call("POST", worker+"/beat", beat(2)).is(200)
	if err := json.Unmarshal(a.Body.Bytes(), &got); err != nil || len(got.Stop) != 2 || len(got.Nodes) != 1 {
		t.Fatalf("%v: %s", err, a.Body)
	}
	if got.Stop[0].Run != one.Run { // in no promised order
		got.Stop[0], got.Stop[1] = got.Stop[1], got.Stop[0]
	}
	if s := got.Stop[0]; s.Run != one.Run || s.Fence != one.Fence || s.Lost {
		t.Errorf("the canceled one: %+v", s)
	}
	if s := got.Stop[1]; s.Run != two.Run || s.Fence != two.Fence || !s.Lost || s.Reason == "" {
		t.Errorf("the ended one: %+v", s)
	}
}

func TestAnOutageIs503AndSaysWhenToComeBack(t *testing.T) {
	secret := []byte("of both servers")
	worker := newHouse(t, func(c *api.Config) { c.Secret = secret }).register()
	h := newHouse(t, func(c *api.Config) { c.Dispatcher, c.Secret = outage{c.Dispatcher}, secret })
	for path, body := range map[string]string{
		"/v1/workers": `{}`, worker + "/pull": `{}`, worker + "/beat": `{"number":1,"heard":0}`,
	} {
		if a := h.call("POST", path, body).problem(503, ""); a.Header().Get("Retry-After") == "" {
			t.Errorf("%s does not say when to try again", path)
		} else if !strings.Contains(a.text("detail"), "does not know whether it changed something") {
			t.Errorf("%s does not say that it may have taken place: %s", path, a.Body)
		}
	}
}

func TestAFullDiskIsNamed(t *testing.T) {
	h := newHouse(t, func(c *api.Config) { c.Dispatcher = noRoom{c.Dispatcher} })
	a := h.call("POST", "/v1/workers", `{}`).problem(503, "")
	if a.text("type") != "urn:carillon:problem:full" || a.Header().Get("Retry-After") == "" {
		t.Errorf("%v %s", a.Header(), a.Body)
	}
}

// noRoom is a dispatcher whose store has no room.
type noRoom struct{ protocol.Dispatcher }

func (noRoom) Register(context.Context, protocol.Registration) (string, error) {
	return "", fmt.Errorf("commit: %w", carillon.ErrFull)
}

// outage is a dispatcher whose store is away.
type outage struct{ protocol.Dispatcher }

var errAway = errors.New("store away")

func (outage) Register(context.Context, protocol.Registration) (string, error) { return "", errAway }

func (outage) Pull(context.Context, protocol.Pull) ([]protocol.Task, error) { return nil, errAway }

func (outage) Beat(context.Context, carillon.Beat) (protocol.Orders, error) {
	return protocol.Orders{}, errAway
}

func TestWithoutADispatcherWorkersAreNotFound(t *testing.T) {
	h := newHouse(t, func(c *api.Config) { c.Dispatcher, c.Members = nil, nil })
	for path, body := range map[string]string{
		"": `{}`, "/worker_1/pull": `{}`, "/worker_1/report": `{}`, "/worker_1/beat": `{"number":1,"heard":0}`,
	} {
		h.call("POST", "/v1/workers"+path, body).problem(404, "")
	}
	h.call("DELETE", "/v1/workers/worker_1", "").problem(404, "")
	if got := h.call("GET", "/v1/members", "").is(200).items(); len(got) > 0 {
		t.Errorf("members are %v", got)
	}
}

func TestNoRequestSpeaksForANodeOrTheWorkerInsideOfOne(t *testing.T) {
	h := newHouse(t, nil)
	for _, id := range []string{"node_1", "inner_1", "w"} {
		h.call("POST", "/v1/workers/"+id+"/pull", `{}`).problem(404, "")
		h.call("POST", "/v1/workers/"+id+"/beat", `{"number":1,"heard":0,"holds":[]}`).problem(404, "")
		h.call("DELETE", "/v1/workers/"+id, "").problem(404, "")
	}
}

package client

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/api"
)

// given is a dispatcher that returns some tasks.
type given struct {
	carillon.Dispatcher
	tasks []carillon.Task
}

func (g given) Pull(context.Context, carillon.Pull) ([]carillon.Task, error) { return g.tasks, nil }

// answer is what a server writes for tasks.
func answer(t *testing.T, tasks ...carillon.Task) []byte {
	t.Helper()
	web := api.New(api.Config{
		Dispatcher: given{tasks: tasks}, Ledger: struct{ api.Ledger }{},
		Tokens: map[string]api.Credential{"secret": {Namespace: "default"}},
	})
	req := httptest.NewRequest("POST", "/v1/workers/worker_1/pull", strings.NewReader(`{"max":100}`))
	req.Header.Set("Authorization", "Bearer secret")
	req.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	web.ServeHTTP(w, req)
	if w.Code != 200 {
		t.Fatal(w.Code, w.Body)
	}
	return w.Body.Bytes()
}

func task(edit func(*carillon.Job, *carillon.Run)) carillon.Task {
	job := &carillon.Job{ID: 1 << 40, Namespace: "default", Definition: carillon.NewDefinition()}
	job.Name, job.Type, job.Target.Handler, job.Payload = "a mail", "email.send", &carillon.Handler{}, []byte(
		`{"to":"ann","list":[1,{"x":"}\""}]}`,
	)
	job.Timeout = 0
	run := carillon.NewRun(job, 1_800_000_000_000).Claim("worker_1", 1_800_000_000_001)
	run.Covers = run.ID.Due
	if edit != nil {
		edit(job, &run)
	}
	return carillon.Task{Run: run, Job: job}
}

func TestTheQuickWayReadsWhatTheServerWritesAsTheSlowWayDoes(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(*carillon.Job, *carillon.Run)
		quick bool
	}{
		"as most are":       {nil, true},
		"without a payload": {func(j *carillon.Job, _ *carillon.Run) { j.Payload = nil }, true},
		"a list as payload": {
			func(j *carillon.Job, _ *carillon.Run) { j.Payload = []byte(`[[],{}]`) }, true,
		},
		"a manual run":         {func(_ *carillon.Job, r *carillon.Run) { r.Covers = 0 }, true},
		"a number as payload":  {func(j *carillon.Job, _ *carillon.Run) { j.Payload = []byte(`17`) }, false},
		"a text as payload":    {func(j *carillon.Job, _ *carillon.Run) { j.Payload = []byte(`"{"`) }, false},
		"a name with a quote":  {func(j *carillon.Job, _ *carillon.Run) { j.Name = `say "hi"` }, false},
		"a name in German":     {func(j *carillon.Job, _ *carillon.Run) { j.Name = `Übung` }, false},
		"another covered time": {func(_ *carillon.Job, r *carillon.Run) { r.Covers -= 5 }, false},
		"a timeout":            {func(j *carillon.Job, _ *carillon.Run) { j.Timeout = 5e9 }, false},
		"labels": {
			func(j *carillon.Job, _ *carillon.Run) { j.Labels = map[string]string{"a": "b"} }, false,
		},
		"another kind of target": {func(j *carillon.Job, _ *carillon.Run) {
			j.Target = carillon.Target{Command: &carillon.Command{Argv: []string{"echo"}}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			body := answer(t, task(nil), task(c.edit), task(nil))
			got, ok := quickTasks(body)
			if ok != c.quick {
				t.Fatalf("read the quick way: %t\n%s", ok, body)
			}
			var want tasksJSON
			if err := json.Unmarshal(body, &want); err != nil {
				t.Fatal(err)
			}
			for i := range want.Tasks {
				if string(want.Tasks[i].Payload) == "null" {
					want.Tasks[i].Payload = nil
				}
			}
			if ok && !reflect.DeepEqual(got, want.Tasks) {
				t.Errorf("%+v, want %+v", got, want.Tasks)
			}
			tasks, err := readTasks(body, "worker_1")
			if err != nil || len(tasks) != 3 || tasks[1].Job.Name != want.Tasks[1].Name {
				t.Errorf("%+v, %v", tasks, err)
			}
		})
	}
}

func TestAnAnswerThatIsCutOffIsNotReadTheQuickWay(t *testing.T) {
	body := answer(t, task(nil), task(nil))
	whole := strings.TrimSpace(string(body))
	for n := range len(whole) {
		if _, ok := quickTasks(body[:n]); ok {
			t.Fatalf("%d of %d bytes pass for an answer", n, len(whole))
		}
	}
}

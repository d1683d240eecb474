package api

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/jobjson"
)

func TestATaskIsWrittenAsItIsDescribed(t *testing.T) {
	s := &server{seal: newSeal([]byte("secret"))}
	at := carillon.Time(1_800_000_000_000)
	for name, c := range map[string]carillon.Definition{
		"the least": {Target: carillon.Target{Handler: &carillon.Handler{}}},
		"a command": {
			Name: `a "b" \ ü` + "\u2028",
			Target: carillon.Target{
				Command: &carillon.Command{Argv: []string{"<&>"}, Env: map[string]string{"A": "b"}},
			},
		},
		"a request": {
			Target: carillon.Target{HTTP: &carillon.HTTP{Method: "GET", URL: "https://example.com/?a=1&b=2"}},
		},
		"with labels": {
			Type: "t", Labels: map[string]string{"a": "1", "b": "2"}, Timeout: 30e9,
			Target: carillon.Target{Handler: &carillon.Handler{}},
		},
		"a payload": {
			Payload: []byte(`{"a":[1,2,"<"]}`), Target: carillon.Target{Handler: &carillon.Handler{}},
		},
	} {
		for _, checkpoint := range []string{"", `{"a":1}`, "7", "text", " 7", "\xff"} {
			job := &carillon.Job{ID: 7, Definition: c}
			run := carillon.Run{
				ID: carillon.RunID{Job: 7, Due: at}, Namespace: "blue", Queue: "q", Priority: 3, Attempt: 2,
			}
			if c.Timeout != 0 {
				run.Covers = at
			}
			given := carillon.Task{Run: run, Job: job, Checkpoint: []byte(checkpoint)}
			var got, described any
			text := s.appendTask(nil, "blue", &given)
			if err := json.Unmarshal(text, &got); err != nil {
				t.Fatalf("%s: %v: %s", name, err, text)
			}
			reference, err := json.Marshal(s.described(&given))
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(reference, &described); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(described, got); diff != "" {
				t.Errorf("%s with checkpoint %q (-described +written):\n%s", name, checkpoint, diff)
			}
		}
	}
}

// described is the task as encoding/json would write it.
func (s *server) described(t *carillon.Task) task {
	v := task{
		Run: t.Run.ID, Fence: fenceOf(t.Held()), Attempt: t.Run.Attempt,
		Token: s.seal.token(t.Run.Namespace, t.Held()), Namespace: t.Run.Namespace,
		Job: t.Run.ID.Job, Name: t.Job.Name, Type: t.Job.Type, Queue: t.Run.Queue, Priority: t.Run.Priority,
		Due:    t.Run.ID.Due,
		Covers: t.Run.Covers, Timeout: t.Job.Timeout, Payload: t.Job.Payload, Target: t.Job.Target,
		Labels: t.Job.Labels,
	}
	switch string(t.Checkpoint) {
	case "text", " 7", "\xff":
		v.CheckpointBase64 = map[string]string{
			"text": "dGV4dA==", " 7": "IDc=", "\xff": "/w==",
		}[string(t.Checkpoint)]
	default:
		v.Checkpoint = t.Checkpoint
	}
	return v
}

const (
	quickRun = `{"run":"run_00000000000010000000001","fence":"1048577","token":"abc"`
	quickEnd = `,"end":{"outcome":"success","started_at":"2026-01-01T00:00:00.000Z"}}`
)

var quick = []string{
	quickRun + "}",
	quickRun + quickEnd,
	quickRun + `,"begun_at":"2026-01-01T00:00:00Z"` + quickEnd,
	quickRun + `,"end":{"outcome":"fatal","reason":"no such user"}}`,
	quickRun + quickEnd + "," + quickRun + "}," + quickRun + quickEnd,
}

func TestWhatIsReadQuicklyIsReadAlike(t *testing.T) {
	for _, items := range quick {
		compareReaders(t, `{"reports":[`+items+`]}`, true)
	}
	for _, body := range []string{
		``, `{}`, `{"reports":[]}`, `{"reports":[` + quickRun + `}]} `, `{"reports":[` + quickRun + `}]}x`,
		`{"reports":[` + quickRun + `},]}`,
		`{"reports":[` + quickRun + ` }]}`,
		`{"reports":[` + strings.Replace(quickRun, "abc", `a\"c`, 1) + `}]}`,
		`{"reports":[` + strings.Replace(quickRun, "abc", "ü", 1) + `}]}`,
		`{"reports":[` + quickRun + `,"end":{"outcome":"success","result":1}}]}`,
		`{"reports":[` + quickRun + `,"begun_at":"soon"}]}`, `{"reports":[` + quickRun,
	} {
		compareReaders(t, body, false)
	}
}

// compareReaders fails the test if the quick reader accepts a body that the strict one refuses, or reads it
// differently.
func compareReaders(t *testing.T, body string, want bool) {
	t.Helper()
	all, ok := quickReports([]byte(body))
	if ok != want {
		t.Errorf("read quickly is %t: %s", ok, body)
	}
	if !ok {
		return
	}
	var strict reports
	if err := jobjson.Decode([]byte(body), &strict); err != nil {
		t.Errorf("%v: %s", err, body)
	}
	if diff := cmp.Diff(strict.Reports, all); diff != "" {
		t.Errorf("%s (-strict +quick):\n%s", body, diff)
	}
}

func FuzzQuickReports(f *testing.F) {
	for _, items := range quick {
		f.Add([]byte(`{"reports":[` + items + `]}`))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		_, ok := quickReports(body)
		compareReaders(t, string(body), ok)
	})
}

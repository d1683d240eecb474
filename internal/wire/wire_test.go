package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/jobjson"
	"github.com/carillon-run/carillon/worker/protocol"
)

const now = carillon.Time(1_800_000_000_000)

func token(b []byte, t *protocol.Task) []byte { return append(b, t.Token...) }

// fullTask has a value for every field of a message but one of the two checkpoints.
func fullTask() protocol.Task {
	job := &carillon.Job{ID: 1 << 40, Namespace: "blue", State: carillon.JobActive}
	job.Name, job.Type, job.Queue, job.Priority = "a mail", "email.send", "mail", 3
	job.Timeout, job.Labels = carillon.Duration(time.Minute), map[string]string{"a": "1", "b": "2"}
	job.Payload, job.Target = []byte(`{"to":"ann"}`), carillon.Target{Handler: &carillon.Handler{}}
	run := carillon.Run{
		ID: carillon.RunID{Job: job.ID, Due: now}, Namespace: "blue", Queue: "mail", Priority: 3,
		Covers: now - 5, Attempt: 2, State: carillon.StateClaimed, Claimed: now + 1, Worker: "worker_1",
	}
	return protocol.Task{Run: run, Job: job, Token: "x0Jt3", Checkpoint: []byte(`{"at":7}`)}
}

// fullReport has a value for every field of a message that appendReport writes.
func fullReport() protocol.Report {
	task := fullTask()
	return protocol.Report{
		Held: task.Held(), Token: "x0Jt3", Begun: now + 2, Checkpoint: []byte("half"),
		Lines: []carillon.Line{
			{At: now + 3, Stream: "stderr", Text: "a", Attempt: 2, Offset: 41},
			{At: now + 4, Stream: "stdout", Text: "b", Attempt: 2, Offset: 42},
		},
		End: &carillon.Outcome{
			Kind: carillon.OutcomeRetriable, Reason: "no route", Started: now + 2, RetryAfter: time.Second,
			Exit: 75, Status: 503,
			Output: &carillon.Output{Result: []byte("done")},
		},
	}
}

// One field that was added to a type, but not to its writer or to its quick reader, fails this test: the
// message would lose it, or take the slow way. Its fix is a line in each, and in fullTask or fullReport.
func TestAFieldOfAMessageIsWrittenAndReadQuickly(t *testing.T) {
	inBase64 := fullTask()
	inBase64.Checkpoint = []byte("half")
	for _, c := range []struct {
		task    protocol.Task
		without string
	}{{fullTask(), "CheckpointBase64"}, {inBase64, "Checkpoint"}} {
		body := AppendTasks(nil, []protocol.Task{c.task}, token)
		quick, ok := quickTasks(body)
		if !ok {
			t.Fatalf("quickTasks does not read it: %s", body)
		}
		compareJSON(t, Tasks{quick}, body)
		compareFields(t, quick[0], c.without)
		slow := Tasks{}
		if err := json.Unmarshal(body, &slow); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(slow.Tasks, quick); diff != "" {
			t.Errorf("(-slow +quick):\n%s", diff)
		}
	}
	body, _ := AppendReports(nil, []protocol.Report{fullReport()})
	quick, ok := quickReports(body)
	if !ok {
		t.Fatalf("quickReports does not read it: %s", body)
	}
	compareJSON(t, Reports{quick}, body)
	compareFields(t, quick[0], "Checkpoint") // only workers of other people write JSON
	compareFields(t, quick[0].Lines[0])
	compareFields(t, *quick[0].End, "Result")
	compareReports(t, string(body), true)
}

// compareJSON fails the test if encoding/json, which goes by the type alone, writes other text.
func compareJSON(t *testing.T, message any, written []byte) {
	t.Helper()
	want, err := json.Marshal(message)
	if err != nil || string(want) != strings.TrimSpace(string(written)) {
		t.Errorf("by its type, and written by hand: %v\n%s\n%s", err, want, written)
	}
}

// compareFields fails the test if a field has no value.
func compareFields(t *testing.T, message any, without ...string) {
	t.Helper()
	v := reflect.ValueOf(message)
	for field, value := range v.Fields() {
		if value.IsZero() != slices.Contains(without, field.Name) {
			t.Errorf("%s.%s is %v", v.Type(), field.Name, value)
		}
	}
}

func TestATaskIsReadAsItWasWritten(t *testing.T) {
	for name, c := range map[string]struct {
		edit  func(*protocol.Task)
		quick bool
	}{
		"with all":             {func(*protocol.Task) {}, true},
		"the least":            {least, true},
		"a list as payload":    {func(t *protocol.Task) { t.Job.Payload = []byte(`[[],{"x":"}\""}]`) }, true},
		"a manual run":         {func(t *protocol.Task) { t.Run.Covers = 0 }, true},
		"the due time covered": {func(t *protocol.Task) { t.Run.Covers = t.Run.ID.Due }, true},
		"a name in German":     {func(t *protocol.Task) { t.Job.Name = `Übung` }, true},
		"a separator of lines": {func(t *protocol.Task) { t.Job.Type = "\u2028<&>" }, false},
		"a name with a quote":  {func(t *protocol.Task) { t.Job.Name = `say "hi" \ ` }, false},
		"a number as payload":  {func(t *protocol.Task) { t.Job.Payload = []byte(`17`) }, false},
		"a text as payload":    {func(t *protocol.Task) { t.Job.Payload = []byte(`"{"`) }, false},
		"a text in checkpoint": {func(t *protocol.Task) { t.Checkpoint = []byte(`"{"`) }, false},
		"null as checkpoint":   {func(t *protocol.Task) { t.Checkpoint = []byte(`null`) }, false},
		"blanks in checkpoint": {func(t *protocol.Task) { t.Checkpoint = []byte(" 7") }, true},
		"bytes as checkpoint":  {func(t *protocol.Task) { t.Checkpoint = []byte("\xff") }, true},
		"a command": {func(t *protocol.Task) {
			t.Job.Target = carillon.Target{
				Command: &carillon.Command{Argv: []string{`<&>"ü`}, Env: map[string]string{"A": "b"}},
			}
		}, true},
		"a request": {func(t *protocol.Task) {
			t.Job.Target = carillon.Target{
				HTTP: &carillon.HTTP{Method: "GET", URL: "https://example.com/?a=1&b=2"},
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			edited := fullTask()
			c.edit(&edited)
			tasks := []protocol.Task{fullTask(), edited, fullTask()}
			body := AppendTasks(nil, tasks, token)
			if _, ok := quickTasks(body); ok != c.quick {
				t.Errorf("read quickly is %t\n%s", ok, body)
			}
			compareTasks(t, body)
			got, err := ReadTasks(body, "worker_1")
			diff := cmp.Diff(tasks, got, cmp.AllowUnexported(carillon.Schedule{}), cmpopts.EquateEmpty())
			if err != nil || diff != "" {
				t.Errorf("%v (-written +read):\n%s", err, diff)
			}
		})
	}
}

func least(t *protocol.Task) {
	t.Run.Covers, t.Checkpoint, t.Token = 0, nil, ""
	t.Job.Definition = carillon.Definition{
		Queue: t.Run.Queue, Priority: int(t.Run.Priority),
		Target: carillon.Target{Handler: &carillon.Handler{}},
	}
}

func TestAnAnswerThatIsCutOffIsNotReadQuickly(t *testing.T) {
	tasks := bytes.TrimSpace(AppendTasks(nil, []protocol.Task{fullTask(), fullTask()}, token))
	for n := range len(tasks) {
		if _, ok := quickTasks(tasks[:n]); ok {
			t.Errorf("%d of %d bytes pass for tasks", n, len(tasks))
		}
	}
	reports, _ := AppendReports(nil, []protocol.Report{fullReport(), fullReport()})
	for n := range len(reports) {
		if _, ok := quickReports(reports[:n]); ok {
			t.Errorf("%d of %d bytes pass for reports", n, len(reports))
		}
	}
}

// compareTasks fails the test if the quick reader reads a body differently than encoding/json. The writer has
// checked payloads; so a body that is not JSON is of no interest.
func compareTasks(t *testing.T, body []byte) {
	t.Helper()
	quick, ok := quickTasks(body)
	if !ok || !json.Valid(body) {
		return
	}
	var slow Tasks
	if err := json.Unmarshal(body, &slow); err != nil {
		t.Errorf("%v: %s", err, body)
	}
	for i := range slow.Tasks {
		if string(slow.Tasks[i].Payload) == "null" {
			slow.Tasks[i].Payload = nil
		}
	}
	if diff := cmp.Diff(slow.Tasks, quick, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-slow +quick):\n%s", body, diff)
	}
}

const (
	quickRun = `{"run_id":"run_00000000000010000000001","fence":"1048577","token":"abc"`
	quickEnd = `,"end":{"outcome":"success","started_at":"2026-01-01T00:00:00.000Z"}}`
)

var quickItems = []string{
	quickRun + "}",
	quickRun + quickEnd,
	quickRun + `,"begun_at":"2026-01-01T00:00:00Z"` + quickEnd,
	quickRun + `,"end":{"outcome":"fatal","reason":"no such user: ü"}}`,
	quickRun + `,"lines":[{"stream":"stdout","text":"a","offset":7}],"checkpoint_base64":"aGFsZg=="}`,
	quickRun + quickEnd + "," + quickRun + "}," + quickRun + quickEnd,
}

func TestReportsThatAreReadQuicklyAreReadAlike(t *testing.T) {
	for _, items := range quickItems {
		compareReports(t, `{"reports":[`+items+`]}`, true)
	}
	for _, body := range []string{
		``, `{}`, `{"reports":[]}`, `{"reports":[` + quickRun + `}]} `, `{"reports":[` + quickRun + `}]}x`,
		`{"reports":[` + quickRun + `},]}`,
		`{"reports":[` + quickRun + ` }]}`,
		`{"reports":[` + strings.Replace(quickRun, "abc", `a\"c`, 1) + `}]}`,
		`{"reports":[` + strings.Replace(quickRun, "abc", "\xff", 1) + `}]}`,
		`{"reports":[` + quickRun + `,"end":{"outcome":"success","result":1}}]}`,
		`{"reports":[` + quickRun + `,"lines":[]}]}`,
		`{"reports":[` + quickRun + `,"lines":[{"stream":"stdout","text":"a","offset":07}]}]}`,
		`{"reports":[` + quickRun + `,"begun_at":"soon"}]}`, `{"reports":[` + quickRun,
	} {
		compareReports(t, body, false)
	}
}

// compareReports fails the test if the quick reader accepts a body that the strict one refuses, or reads it
// differently.
func compareReports(t *testing.T, body string, want bool) {
	t.Helper()
	quick, ok := quickReports([]byte(body))
	if ok != want {
		t.Errorf("read quickly is %t: %s", ok, body)
	}
	if !ok {
		return
	}
	var strict Reports
	if err := jobjson.Decode([]byte(body), &strict); err != nil {
		t.Errorf("%v: %s", err, body)
	}
	if diff := cmp.Diff(strict.Reports, quick); diff != "" {
		t.Errorf("%s (-strict +quick):\n%s", body, diff)
	}
}

func TestABeatAndOrdersAreReadAsTheyWereWritten(t *testing.T) {
	held := []carillon.Held{fullReport().Held, {Run: carillon.RunID{Job: 7, Due: 9}, Fence: 1<<20 + 1}}
	for _, beat := range []carillon.Beat{
		{Number: 1, Holds: []carillon.Held{}}, {Number: 7, Heard: 6, Holds: held, Stopping: true},
	} {
		body := AppendBeat(nil, &beat)
		var message Beat
		if err := jobjson.Decode(body, &message); err != nil {
			t.Fatal(err)
		}
		if message.Holds == nil {
			message.Holds = []Hold{}
		}
		compareJSON(t, message, body)
		if got, err := ReadBeat(body); err != nil || !cmp.Equal(got, beat) {
			t.Errorf("%s is read as %+v, %v", body, got, err)
		}
	}
	orders := protocol.Orders{Nodes: []string{"http://a"}, Stop: []protocol.Order{
		{Held: held[0], Reason: "asked to"}, {Held: held[1], Lost: true},
	}}
	body, err := json.Marshal(NewOrders(orders))
	var message Orders
	if err != nil || json.Unmarshal(body, &message) != nil || !cmp.Equal(message.Orders(), orders) {
		t.Errorf("%s, %v: read as %+v", body, err, message)
	}
}

func TestABeatCanListTheAttemptsInAllSlotsAndThoseThatHaveEnded(t *testing.T) {
	if room := jobjson.MaxItems - maxSlots; room < 10_000 {
		t.Errorf("beside the attempts in all slots a beat has room for %d", room)
	}
	for _, more := range []int{0, 1} {
		registration, err := json.Marshal(Registration{Slots: maxSlots + more})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := ReadRegistration(registration); (err == nil) != (more == 0) {
			t.Errorf("a registration with %d slots: %v", maxSlots+more, err)
		}
		beat := carillon.Beat{Number: 1, Holds: make([]carillon.Held, jobjson.MaxItems+more)}
		for i := range beat.Holds {
			beat.Holds[i] = carillon.Held{
				Run: carillon.RunID{Job: 1<<61 + carillon.JobID(i), Due: 1e12}, Fence: int64(1e12)<<20 | 1,
			}
		}
		body := AppendBeat(nil, &beat)
		if len(body) > MaxLargeBody {
			t.Errorf("a beat of %d attempts has %d bytes", len(beat.Holds), len(body))
		}
		if _, err := ReadBeat(body); (err == nil) != (more == 0) {
			t.Errorf("a beat of %d attempts: %v", len(beat.Holds), err)
		}
	}
}

func TestARegistrationAndAPullAreReadAsTheyWereWritten(t *testing.T) {
	want := carillon.Want{
		Namespaces: []string{"default"}, Queues: []string{"mail=3", "x"}, Kinds: []string{"http", "handler"},
		Types: []string{"mail.send"}, Labels: map[string]string{"zone": "b"},
	}
	r := protocol.Registration{Name: "a:1", Profile: carillon.Profile{
		Host: "a", Version: "v1", Want: want, Slots: 8,
	}}
	body, _ := json.Marshal(NewRegistration(r))
	compareFields(t, NewRegistration(r))
	if got, err := ReadRegistration(body); err != nil || !cmp.Equal(got, r) {
		t.Errorf("%s is read as %+v, %v", body, got, err)
	}
	p := protocol.Pull{Want: want, Max: 17, Lone: true}
	body, _ = json.Marshal(NewPull(p))
	compareFields(t, NewPull(p))
	if got, err := ReadPull(body); err != nil || !cmp.Equal(got, p) {
		t.Errorf("%s is read as %+v, %v", body, got, err)
	}
}

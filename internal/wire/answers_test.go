package wire

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/jobjson"
)

func TestAnAnswerIsReadAsItWasWritten(t *testing.T) {
	run := carillon.Run{
		ID: carillon.RunID{Job: 7, Due: now}, Namespace: "blue", State: carillon.StateRunning, Queue: "mail",
	}
	job := carillon.Job{ID: 7, Namespace: "blue", State: carillon.JobActive, Definition: definitionOfAll(t)}
	seven := 7
	for _, answer := range []any{
		&JobDetail{Job: job, LastRun: &run, NextRun: &run, Reason: "its last 3 runs failed"},
		&ListedJob{Job: job, LastRun: &run},
		&RunDetail{Run: run, WaitsFor: &Wait{Kind: WaitUnknown}},
		&DeadLetter{Run: run, DeadFacts: DeadFacts{Fingerprint: 7, ExpiresAt: now}},
		&DeadLetterDetail{
			Run: run, DeadFacts: DeadFacts{Fingerprint: 7, ExpiresAt: now},
			DeadStory: DeadStory{
				Error: "a", JobDefinition: &job.Definition,
				Log: []carillon.Line{{At: now, Stream: "stdout", Text: "b", Attempt: 1}},
			},
		},
		&DueTimes{Timezone: "UTC", Items: []DueTime{{Due: now, Local: "then", Offset: "+00:00"}}},
		&RunRequest{Payload: []byte(`{"a":1}`)},
		&Refusal{ID: 7, At: now, Reason: "no", Job: []byte(`{}`)},
		&Member{
			ID: "a", Kind: carillon.MemberWorker, Addr: "b", Joined: now, Beat: now, Shards: &seven,
			Profile: carillon.Profile{
				Host: "c", Version: "d", Slots: 8,
				Want: carillon.Want{
					Namespaces: []string{"g"}, Queues: []string{"e"}, Kinds: []string{"h"},
					Types: []string{"i"}, Labels: map[string]string{"k": "l"},
				},
			}, Used: &seven,
			Running: []Running{{Run: run.ID, Attempt: 1, Name: "f", State: run.State, Claimed: now}},
		},
		&Problem{
			Type: "a", Title: "b", Status: 400, Detail: "c", Field: "d", Given: "e", Want: "f",
			Reasons: []string{"g"},
		},
		&Page[int]{Items: []int{1}, Next: "x"},
		&List[int]{Items: []int{1}},
	} {
		v := reflect.ValueOf(answer)
		name := v.Elem().Type().Name()
		without := []string{"RequestID", "RetryAfter"} // are in headers
		if name != "Problem" {
			without = nil
		}
		compareFields(t, v.Elem().Interface(), without...)
		body, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(name, err)
		}
		got := reflect.New(v.Elem().Type())
		if err := json.Unmarshal(body, got.Interface()); err != nil {
			t.Fatal(name, err)
		}
		again, err := json.Marshal(got.Interface())
		if err != nil || string(again) != string(body) {
			t.Errorf("%s, read and written again:\n%s\n%s\n%v", name, body, again, err)
		}
		if diff := cmp.Diff(answer, got.Interface(), cmp.AllowUnexported(carillon.Schedule{})); diff != "" {
			t.Errorf("%s (-written +read):\n%s", name, diff)
		}
	}
}

func TestWhatIsEmptyInAnAnswer(t *testing.T) {
	for _, c := range []struct {
		answer any
		want   string
	}{
		{NewPage[int](nil, ""), `{"items":[],"next_cursor":null}`},
		{
			Problem{Type: "a", Title: "b", Status: 400, Detail: "<c>", Field: "d", Want: "e"},
			`{"type":"a","title":"b","status":400,"detail":"<c>","field":"d","want":"e","given":""}`,
		},
		{Problem{Title: "b", Status: 404}, `{"type":"","title":"b","status":404,"detail":""}`},
	} {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(c.answer); err != nil || strings.TrimSpace(b.String()) != c.want {
			t.Errorf("%s, %v, want %s", b.String(), err, c.want)
		}
	}
}

// definitionOfAll has a value in every field.
func definitionOfAll(t *testing.T) carillon.Definition {
	t.Helper()
	def, err := jobjson.Define([]byte(`{"name":"n","type":"t","owner":"o","labels":{"a":"b"},"queue":"q","priority":7,
		"needs":{"gpu":"true"},"fair_by":"f","fair_weight":2,"pause_after":3,
		"limits":[{"key":"a","concurrency":3,"rate":"10/m","burst":5,"weight":2}],
		"unique":{"key":"k","for":"5s"},
		"payload":{"a":[1]},"timeout":"5s","schedule":{"cron":"0 3 * * *"},"target":{"handler":{}},
		"retry":{"max_attempts":3},"overlap":"queue","misfire":"once","retention":{"runs":"1d"},
		"on_failure":{"job":{"priority":0,"target":{"command":{"shell":"true"}},"retry":{"jitter":0}}},
		"on_success":{"webhook":{"url":"https://x.test","secret":"0123456789012345678901234"}},
		"late":{"after":"5m","job":{"type":"p","target":{"handler":{}},"payload":{"a":1}}}}`), now)
	if err != nil {
		t.Fatal(err)
	}
	compareFields(t, def)
	return def
}

func TestADefinitionIsReadAsItWasWritten(t *testing.T) {
	least := carillon.Definition{}
	least.Type, least.Target.Handler = "t", &carillon.Handler{}
	for _, def := range []carillon.Definition{definitionOfAll(t), least} {
		body, err := MarshalDefinition(&def)
		if err != nil {
			t.Fatal(err)
		}
		if err := def.Admit(now); err != nil {
			t.Fatal(err)
		}
		got, err := jobjson.DefineBatch(AppendBatch(nil, [][]byte{body, body}), now)
		want := []carillon.Definition{def, def}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(carillon.Schedule{})); err != nil || diff != "" {
			t.Errorf("%s: %v (-written +read):\n%s", body, err, diff)
		}
	}
}

func TestLinesAreReadAsTheyWereWritten(t *testing.T) {
	lines := []carillon.Line{
		{At: now, Stream: "stdout", Text: "a <b>", Attempt: 1},
		{At: now, Stream: "stderr", Attempt: 1, Offset: 1},
	}
	body := []byte(LinesBegin)
	for i := range lines {
		var err error
		if body, err = AppendLine(body, &lines[i], i == 0); err != nil {
			t.Fatal(err)
		}
	}
	body = append(body, LinesEnd...)
	var list List[carillon.Line]
	if err := json.Unmarshal(body, &list); err != nil || !cmp.Equal(list.Items, lines) {
		t.Errorf("%s is read as %+v, %v", body, list, err)
	}
	var got []carillon.Line
	take := func(line carillon.Line) bool { got = append(got, line); return true }
	if err := ReadLines(strings.NewReader(string(body)), take); err != nil || !cmp.Equal(got, lines) {
		t.Errorf("%s is read as %+v, %v", body, got, err)
	}
	for n := range len(strings.TrimSpace(string(body))) - 1 {
		if err := ReadLines(strings.NewReader(string(body[:n])), take); err == nil {
			t.Errorf("a log that is cut off after %d bytes has no error", n)
		}
	}
}

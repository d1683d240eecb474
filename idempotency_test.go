package carillon_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
)

func keyed(t *testing.T, key, request string) *carillon.Once {
	t.Helper()
	o, err := carillon.NewOnce("Idempotency-Key", key)
	if err != nil {
		t.Fatal(err)
	}
	o.Request = request
	return o
}

func TestAnIdempotencyKeyIsShortPrintableText(t *testing.T) {
	for _, key := range []string{
		"a", "8e03978e-40d5-43e8-bc93-6894a57f9324", `"quoted"`, "a b", strings.Repeat("~", 255),
	} {
		if _, err := carillon.NewOnce("Idempotency-Key", key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
	for key, want := range map[string]string{
		"":     "Idempotency-Key: it is empty: want 1 to 255 printable ASCII characters, without a space at either end",
		" a":   `Idempotency-Key: " a" is not valid: want 1 to 255 printable ASCII characters, without a space at either end`,
		"a ":   `Idempotency-Key: "a " is not valid: want 1 to 255 printable ASCII characters, without a space at either end`,
		"a\tb": `Idempotency-Key: "a\tb" is not valid: want 1 to 255 printable ASCII characters, without a space at either end`,
		"é":    `Idempotency-Key: "é" is not valid: want 1 to 255 printable ASCII characters, without a space at either end`,
		strings.Repeat("k", 1024): "Idempotency-Key: it has 1024 characters: want 1 to 255 printable ASCII characters, " +
			"without a space at either end",
	} {
		var fault *carillon.FieldError
		if _, err := carillon.NewOnce("Idempotency-Key", key); !errors.As(err, &fault) || err.Error() != want {
			t.Errorf("%q: %v, want %s", key, err, want)
		}
	}
}

func TestAKeyIsFreeUntilItIsUsedAndAgainOnceItHasExpired(t *testing.T) {
	const now = carillon.Time(1_800_000_000_000)
	o := keyed(t, "k", "r")
	use := carillon.Use{At: now - 5, Jobs: []carillon.JobID{7}}
	guard := o.Guard(carillon.Guard{Namespace: "a"}, use, now)
	end := now.Add(carillon.IdempotencyTime)
	if guard.Namespace != "a" || guard.Rev != 0 || guard.Expires != end ||
		guard.Kind() != carillon.GuardIdempotency || guard.RulesRuns() {
		t.Fatalf("guard %+v", guard)
	}
	if guard.Key != "idempotency/k" || guard.Key == keyed(t, "K", "r").Key() {
		t.Errorf("the guard's key is %s", guard.Key)
	}
	for what, c := range map[string]struct {
		request string
		guard   *carillon.Guard
		now     carillon.Time
		want    string // of the error
	}{
		"never used":                     {"r", nil, now, ""},
		"the same request":               {"r", &guard, now, "repeated"},
		"the same request a day later":   {"r", &guard, end - 1, "repeated"},
		"the same request after the day": {"r", &guard, end, ""},
		"another request":                {"other", &guard, now, "reused"},
		"another request after the day":  {"other", &guard, end, ""},
	} {
		err := keyed(t, "k", c.request).Used(c.guard, c.now)
		var repeated *carillon.RepeatedError
		var reused *carillon.KeyReusedError
		got := ""
		switch {
		case errors.As(err, &repeated):
			got = "repeated"
			if repeated.Use.At != use.At || len(repeated.Use.Jobs) != 1 || repeated.Use.Jobs[0] != 7 {
				t.Errorf("%s: %+v", what, repeated.Use)
			}
		case errors.As(err, &reused) && errors.Is(err, carillon.ErrInvalid):
			got = "reused"
			if !strings.Contains(err.Error(), use.At.String()) {
				t.Errorf("%s: %v does not say when", what, err)
			}
		case err != nil:
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
	guard.Rev = 3
	again := o.Guard(guard, use, end)
	if again.Rev != 3 || again.Expires != end.Add(carillon.IdempotencyTime) {
		t.Errorf("an expired guard becomes %+v", again)
	}
}

func TestAContextCarriesTheKey(t *testing.T) {
	o := keyed(t, "k", "r")
	if got := carillon.OnceOf(o.Context(t.Context())); got != o {
		t.Errorf("got %v", got)
	}
	if got := carillon.OnceOf(context.Background()); got != nil {
		t.Errorf("got %v without a key", got)
	}
}

// Everything in an admitted definition follows from what was given and from the time, so a repeated submit
// needs no stored answer.
func TestDefinitionsThatAreAdmittedAgainAtTheSameTimeGiveTheSameJobs(t *testing.T) {
	const at = carillon.Time(1_800_000_000_000)
	for _, text := range []string{
		`{"target":{"command":{"argv":["true"]}}}`,
		`{"target":{"command":{"argv":["true"]}},"schedule":{"after":"90s"},"labels":{"b":"1","a":"2"}}`,
		`{"target":{"http":{"url":"https://example.com"}},"schedule":{"every":"1m"},"payload":{"b":1,"a":[2]}}`,
		`{"target":{"handler":{}},"type":"t","schedule":{"cron":"0 3 * * *","timezone":"Europe/Berlin"}}`,
	} {
		var first, second []byte
		for _, into := range []*[]byte{&first, &second} {
			var def carillon.Definition
			if err := json.Unmarshal([]byte(text), &def); err != nil {
				t.Fatal(err)
			}
			if err := def.Admit(at); err != nil {
				t.Fatal(err)
			}
			use := carillon.Use{At: at, Jobs: []carillon.JobID{4711}}
			if into == &first {
				job := &carillon.Job{Namespace: "a", ID: 4711, Definition: def}
				carillon.Submit(job, at)
				*into, _ = json.Marshal(job)
				continue
			}
			*into, _ = json.Marshal(use.Submitted("a", []carillon.Definition{def}, nil)[0])
		}
		if string(first) != string(second) {
			t.Errorf("%s\nthen %s", first, second)
		}
	}
}

func TestAJobIsFinishedAfterTheChangeThatEndsItsLastRun(t *testing.T) {
	waiting := carillon.Run{ID: carillon.RunID{Job: 1, Due: 5}, Rev: 1, State: carillon.StateWaiting}
	ended, added := waiting, waiting
	ended.State, added.Rev = carillon.StateCanceled, 0
	paused := carillon.Job{State: carillon.JobPaused}
	for what, c := range map[string]struct {
		runs   []carillon.Run
		change carillon.Change
		want   carillon.JobState
	}{
		"nothing left":          {[]carillon.Run{waiting}, carillon.Change{Runs: []carillon.Run{ended}}, carillon.JobFinished},
		"another run is left":   {[]carillon.Run{waiting, waiting}, carillon.Change{Runs: []carillon.Run{ended}}, carillon.JobActive},
		"a run comes":           {nil, carillon.Change{Runs: []carillon.Run{added}}, carillon.JobActive},
		"a run stays":           {[]carillon.Run{waiting}, carillon.Change{Runs: []carillon.Run{waiting}}, carillon.JobActive},
		"the job is paused":     {nil, carillon.Change{Job: &paused}, carillon.JobPaused},
		"a record, and no run":  {nil, carillon.Change{Runs: []carillon.Run{{State: carillon.StateSkipped}}}, carillon.JobFinished},
		"one ends, one follows": {[]carillon.Run{waiting}, carillon.Change{Runs: []carillon.Run{ended, added}}, carillon.JobActive},
	} {
		w := carillon.JobSnapshot{Job: carillon.Job{State: carillon.JobActive}, Runs: c.runs}
		if got := w.After(&c.change); got.State != c.want {
			t.Errorf("%s: %s, want %s", what, got.State, c.want)
		}
	}
}

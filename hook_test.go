package carillon_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/jobjson"
	"github.com/carillon-run/carillon/internal/wire"
	"github.com/google/go-cmp/cmp"
)

const hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// hookedJob is an admitted job from JSON.
func hookedJob(t *testing.T, fields string) *carillon.Job {
	t.Helper()
	def, err := jobjson.Define([]byte(`{"target": {"command": {"shell": "true"}}, `+fields+`}`), 1)
	if err != nil {
		t.Fatal(err)
	}
	return &carillon.Job{Namespace: "default", ID: 7, Version: 1, Definition: def}
}

func endOf(job *carillon.Job, kind carillon.OutcomeKind, now carillon.Time) carillon.Change {
	run := carillon.NewRun(job, now-5000).Claim("worker_1", now-3000)
	return carillon.EndChange(job, run.Finish(
		job, carillon.Outcome{Kind: kind, Reason: "exit code 1", Started: now - 2000}, now, 0,
	), nil)
}

func TestTheEndOfARunSubmitsTheJobOfItsHook(t *testing.T) {
	const now = carillon.Time(2_000_000_000_000)
	job := hookedJob(t, `"name": "nightly", "owner": "ann", "queue": "q", "priority": 0,
  "labels": {"team": "a"}, "retention": {"runs": "7d"}, "fair_by": "owner",
  "on_failure": {"job": {"type": "page", "target": {"handler": {}}, "labels": {"b": "c"},
    "payload": {"channel": 1}, "retry": {"max_attempts": 9, "jitter": 0}}}`)
	c := endOf(job, carillon.OutcomeFatal, now)
	if len(c.Hooks) != 1 {
		t.Fatalf("%d hooks, want one", len(c.Hooks))
	}
	got, run := *c.Hooks[0], c.Runs[0].ID
	var facts any
	if err := json.Unmarshal(got.Payload, &facts); err != nil {
		t.Fatal(err)
	}
	wantFacts := map[string]any{
		"type": "run.failed", "timestamp": now.String(), "payload": map[string]any{"channel": 1.0},
		"data": map[string]any{
			"labels": map[string]any{"team": "a"},
			"run": map[string]any{
				"id": run.String(), "job_id": job.ID.String(), "namespace": "default", "name": "nightly",
				"type": "command", "owner": "ann", "queue": "q", "version": 1.0, "state": "failed",
				"reason": "exit code 1", "attempt": 1.0, "failures": 1.0, "losses": 0.0,
				"due_at": (now - 5000).String(), "started_at": (now - 2000).String(),
				"ended_at": now.String(), "worker_id": "worker_1",
			},
		},
	}
	if diff := cmp.Diff(facts, any(wantFacts)); diff != "" {
		t.Errorf("the payload differs (-got +want):\n%s", diff)
	}
	got.Payload = nil
	want := carillon.Job{Namespace: "default", Definition: carillon.Definition{
		Name: "on_failure: nightly", Type: "page", Owner: "ann", Queue: "q", Priority: 0,
		Labels: map[string]string{"b": "c", carillon.HookLabel: run.String()},
		FairBy: "owner", FairWeight: 1, Target: carillon.Target{Handler: &carillon.Handler{}},
		Schedule: carillon.Schedule{At: now}, Overlap: carillon.OverlapSkip, Misfire: job.Misfire,
		Retry: carillon.Retry{
			MaxAttempts: 9, MaxCrashes: 5, Backoff: carillon.BackoffExponential,
			Delay: carillon.Duration(time.Second), MaxDelay: carillon.Duration(10 * time.Minute),
		},
		Retention: carillon.Retention{Runs: carillon.Duration(7 * 24 * time.Hour)},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the job of the hook is\n%+v, want\n%+v", got, want)
	}
}

func TestAWebhookIsASignedRequestWithTheFacts(t *testing.T) {
	job := hookedJob(t, `"on_success": {"webhook": {"url": "https://x.test/a", "secret": "`+hookSecret+`"}}`)
	c := endOf(job, carillon.OutcomeSuccess, 2_000_000_000_000)
	want := carillon.Target{HTTP: &carillon.HTTP{
		Method: "POST", URL: "https://x.test/a", Sign: &carillon.Sign{Secret: hookSecret},
	}}
	if got := c.Hooks[0]; !reflect.DeepEqual(got.Target, want) || got.Type != "http" ||
		got.Timeout != carillon.Duration(30*time.Second) || !json.Valid(got.Payload) {
		t.Errorf("got %+v", got)
	}
}

func TestWhichEndsOfRunsHaveWhichHooks(t *testing.T) {
	job := hookedJob(t, `"retry": {"max_attempts": 2},
  "on_failure": {"job": {"name": "failed", "target": {"command": {"shell": "true"}}}},
  "on_success": {"job": {"name": "done", "target": {"command": {"shell": "true"}}}}`)
	for kind, want := range map[carillon.OutcomeKind]string{
		carillon.OutcomeSuccess: "done", carillon.OutcomeFatal: "failed", carillon.OutcomeRetriable: "",
		carillon.OutcomeStopped: "", carillon.OutcomeLost: "", carillon.OutcomeCrashed: "",
	} {
		got := ""
		for _, hook := range endOf(job, kind, 2_000_000_000_000).Hooks {
			got += hook.Name
		}
		if got != want {
			t.Errorf("%s: got the hooks %q, want %q", kinds[kind], got, want)
		}
	}
}

func TestARunIsToldToBeLateOnce(t *testing.T) {
	const due = carillon.Time(2_000_000_000_000)
	job := hookedJob(t, `"late": {"after": "5m", "job": {"target": {"command": {"shell": "true"}}}}`)
	late := due.Add(5 * time.Minute)
	d := carillon.Candidate{Job: job, Run: carillon.NewRun(job, due)}
	if _, at, is := d.Late(late - 1); is || at != late {
		t.Errorf("before its time: at %s, %v; want %s", at, is, late)
	}
	c, _, is := d.Late(late)
	if !is || len(c.Hooks) != 1 || len(c.Runs) != 1 || c.Runs[0].Has(carillon.FlagLate) {
		t.Fatalf("late: %+v, %v", c, is)
	}
	told := d
	told.Run = c.Runs[0]
	if _, at, is := told.Late(late + 1); is || at != 0 {
		t.Errorf("told again: at %s, %v", at, is)
	}
	for name, c := range map[string]struct {
		d    carillon.Candidate
		now  carillon.Time
		want int
	}{
		"a start in time": {d, late - 1, 0}, "a late start": {d, late, 1},
		"a late start that was told before": {told, late + 1, 0},
	} {
		c.d.Worker = "worker_1"
		verdict, change := c.d.Decide(c.now)
		if verdict != carillon.VerdictClaim || len(change.Hooks) != c.want ||
			change.Runs[0].Has(carillon.FlagLate) {
			t.Errorf("%s: %d hooks, want %d", name, len(change.Hooks), c.want)
		}
	}
	d.Run.Flags |= carillon.FlagOnHold
	if _, at, is := d.Late(late); is || at != 0 {
		t.Errorf("a paused job: at %s, %v", at, is)
	}
}

func TestAnEditLetsWaitingRunsBeLateOrNot(t *testing.T) {
	const hook = `"late": {"after": "5m", "job": {"target": {"command": {"shell": "true"}}}}`
	with, without := hookedJob(t, hook), hookedJob(t, `"name": "x"`)
	for _, c := range []struct {
		from, to *carillon.Job
		told     bool
		want     bool
	}{
		{without, with, false, true},
		{with, without, false, false},
		{with, with, false, true},
		{with, with, true, false},
	} {
		run := carillon.NewRun(c.from, 5000)
		if c.told {
			run.Flags &^= carillon.FlagLate
		}
		c.to.Schedule = c.from.Schedule
		change, err := carillon.JobSnapshot{Job: *c.from, Runs: []carillon.Run{run}}.Edit(c.to.Definition, 10)
		if err != nil || change.Runs[0].Has(carillon.FlagLate) != c.want {
			t.Errorf("%+v: %v, %v", c, change.Runs, err)
		}
	}
}

func TestAHookThatIsWrongIsRefusedAndItsSecretNotShown(t *testing.T) {
	const run = `{"target": {"command": {"shell": "true"}}}`
	for hook, want := range map[string]string{
		`"on_failure": {"job": ` + run + `, "webhook": {"url": "http://x.test", "secret": "` + hookSecret + `"}}`: "on_failure: both job and webhook",
		`"on_failure": {"job": ` + run + `, "after": "5m"}`:                                                       "on_failure.after: it is given",
		`"late": {"job": ` + run + `}`:                                                                            "late.after",
		`"late": {"after": "5m"}`:                                                                                 "late: neither job nor webhook",
		`"late": {"after": "100ms", "job": ` + run + `}`:                                                          "late.after",
		`"on_success": {"job": {"target": {"handler": {}}}}`:                                                      "on_success.job.type",
		`"on_success": {"job": {"target": {}}}`:                                                                   "on_success.job.target",
		`"on_success": {"job": {"target": {"wait": {"for": "1s"}}}}`:                                              "on_success.job.target: a hook cannot",
		`"on_success": {"job": {"schedule": {}, "target": {}}}`:                                                   "on_success.job.schedule: unknown field",
		`"on_success": {"job": {"labels": {"carillon/x": "y"}, "target": {"command": {"shell": "a"}}}}`:           "on_success.job.labels",
		`"on_failure": {"webhook": {"url": "nonsense", "secret": "` + hookSecret + `"}}`:                          "on_failure.webhook.url",
		`"on_failure": {"webhook": {"url": "http://x.test", "secret": "too-short-a-secret"}}`:                     "on_failure.webhook.secret: it is no such secret",
		`"on_failure": {"webhook": {"url": "http://x.test", "secret": "********"}}`:                               "on_failure.webhook.secret: ******** stands for",
		`"on_failure": {"webhook": {"url": "http://x.test"}}`:                                                     "on_failure.webhook.secret: it is empty",
	} {
		_, err := jobjson.Define([]byte(`{"target": {"command": {"shell": "true"}}, `+hook+`}`), 1)
		if !errors.Is(err, carillon.ErrInvalid) || !strings.HasPrefix(err.Error(), want) ||
			strings.Contains(err.Error(), "too-short-a-secret") {
			t.Errorf("%s\n: got %v, want %s", hook, err, want)
		}
	}
}

func TestAnEmptyHookIsNone(t *testing.T) {
	if job := hookedJob(t, `"on_failure": {}`); job.OnFailure != nil {
		t.Errorf("got %+v", job.OnFailure)
	}
}

func TestHooksMeanTheSameInGoAndInJSON(t *testing.T) {
	hook := func() *carillon.Hook {
		return &carillon.Hook{After: carillon.Duration(time.Minute), Job: &carillon.HookJob{
			Name: "n", Type: "page", Owner: "o", Labels: map[string]string{"a": "b"}, Queue: "q",
			Needs: map[string]string{"gpu": "yes"}, Priority: carillon.Zero, Payload: []byte(`{"a":1}`),
			Limits: []carillon.Limit{{Key: "k", Concurrency: 2}}, Timeout: carillon.Zero,
			Target: carillon.Target{HTTP: &carillon.HTTP{URL: "http://x.test"}},
			Retry:  carillon.Retry{MaxAttempts: 7, Delay: carillon.Zero, Jitter: carillon.Zero},
		}}
	}
	def := carillon.Definition{Late: hook()}
	def.Target.Workflow = &carillon.Workflow{Nodes: []carillon.WorkflowNode{{Definition: carillon.Definition{
		Name: "a", Target: carillon.Target{Command: &carillon.Command{Shell: "true"}}, Late: hook(),
	}}}}
	body, err := wire.MarshalDefinition(&def)
	if err != nil {
		t.Fatal(err)
	}
	got, err := jobjson.Define(body, 1)
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	if !reflect.DeepEqual(got.Late, hook()) || !reflect.DeepEqual(got.Target.Workflow.Nodes[0].Late, hook()) {
		t.Errorf("%s became %+v", body, got.Late.Job)
	}
	text, _ := json.Marshal(got) // as a store writes it
	var stored carillon.Definition
	if err := json.Unmarshal(text, &stored); err != nil || !reflect.DeepEqual(stored.Late, hook()) ||
		!reflect.DeepEqual(stored.Target.Workflow.Nodes[0].Late, hook()) {
		t.Errorf("%s became %+v, %v", text, stored.Late, err)
	}
}

func TestSecretsAreMaskedAndAnEditWithTheMaskKeepsThem(t *testing.T) {
	const fields = `"on_failure": {"webhook": {"url": "https://x.test/a", "secret": "` + hookSecret + `"}},
  "late": {"after": "5m", "job": {"target": {"http": {"url": "https://x.test/b", "sign": {"secret": "` + hookSecret + `"}}}}}`
	const node = `{"name": "a", "target": {"http": {"url": "https://x.test/c", "sign": {"secret": "` +
		hookSecret + `"}}}, ` + fields + `}`
	def, err := jobjson.Define([]byte(`{`+fields+`, "target": {"workflow": {"nodes": [`+node+`]}}}`), 1)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := json.Marshal(def)
	masked, _ := json.Marshal(def.Masked())
	if n := strings.Count(string(masked), carillon.SecretMask); n != 5 ||
		strings.Contains(string(masked), hookSecret) {
		t.Errorf("%d masks, want 5: %s", n, masked)
	}
	if after, _ := json.Marshal(def); string(after) != string(before) {
		t.Errorf("the mask changed the job: %s", after)
	}
	edited := def
	for _, field := range []string{"target", "on_failure", "late"} {
		var all map[string]json.RawMessage
		if err := json.Unmarshal(masked, &all); err != nil {
			t.Fatal(err)
		}
		body := `{"` + field + `": ` + string(all[field]) + `}`
		if err := jobjson.Decode([]byte(body), &edited); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if err := edited.AdmitEdit(&def, 1); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
	}
	if after, _ := json.Marshal(edited); string(after) != string(before) {
		t.Errorf("an edit made\n%s of\n%s", after, before)
	}
}

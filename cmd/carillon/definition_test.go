package main

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/porttest"
)

// parsed is the JSON that results from flags and arguments.
func parsed(t *testing.T, a *app, edit bool, args ...string) (doc, string) {
	t.Helper()
	cmd := &cobra.Command{Use: "test", SilenceErrors: true, SilenceUsage: true}
	cmd.Flags().SetInterspersed(false)
	def := a.definitionFlags(cmd, edit)
	var given doc
	cmd.RunE = func(_ *cobra.Command, argv []string) error {
		given = def.given(argv)
		if edit {
			return nil
		}
		return a.resolveTimes(given, nil)
	}
	cmd.SetArgs(args)
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(given)
	if err != nil {
		t.Fatal(err)
	}
	return given, string(text)
}

// withoutFlag are the fields that submit and edit have no flag for: argv is the arguments, secrets do not
// belong on a command line, and the others are for files and the API, because few jobs need them.
var withoutFlag = []string{
	"target.command.argv", "retry.jitter", "retry.max_crashes", "misfire.max", "misfire.window",
	"retention.runs", "retention.logs", "retention.dead_letters", "unique.until",
	"target.workflow.nodes", "target.workflow.deadline", "target.wait.for", "target.wait.signal",
	"target.wait.timeout", "target.http.sign.secret",
	"on_failure.job", "on_failure.webhook.url", "on_failure.webhook.secret", "on_failure.after",
	"on_success.job", "on_success.webhook.url", "on_success.webhook.secret", "on_success.after",
	"late.job", "late.webhook.url", "late.webhook.secret", "late.after",
}

func TestEveryFieldHasAFlagOrAReason(t *testing.T) {
	def := new(app).definitionFlags(&cobra.Command{Use: "test"}, false)
	for _, path := range porttest.DefinitionFields() {
		flagged := slices.ContainsFunc(def.fields, func(f *fieldFlag) bool { return f.path == path })
		if flagged == slices.Contains(withoutFlag, path) {
			t.Errorf("%s: want a flag in definition.go, or its name in withoutFlag, and not both", path)
		}
	}
}

func TestEveryKindOfTargetIsShown(t *testing.T) {
	kinds := reflect.TypeFor[carillon.Target]()
	for i := range kinds.NumField() {
		var target carillon.Target
		reflect.ValueOf(&target).Elem().Field(i).Set(reflect.New(kinds.Field(i).Type.Elem()))
		if lines := targetLines(&target); slices.Equal(lines, []string{"-"}) {
			t.Errorf("targetLines (job.go) shows nothing of a target %s", kinds.Field(i).Name)
		}
	}
}

func TestFlagsBecomeFieldsAndOnlyThoseGiven(t *testing.T) {
	payload := filepath.Join(t.TempDir(), "payload.json")
	writeTestFile(t, payload, `{"from":"file"}`)
	for _, c := range []struct {
		args string
		want string
	}{
		{`date`, `{"target":{"command":{"argv":["date"]}}}`},
		{`echo --name x`, `{"target":{"command":{"argv":["echo","--name","x"]}}}`},
		{`--priority 0 -- date -u`, `{"priority":0,"target":{"command":{"argv":["date","-u"]}}}`},
		{
			`--shell date --env A=b --env C=d=e --dir /tmp --fatal-exit-codes 3,4`,
			`{"target":{"command":{"dir":"/tmp","env":{"A":"b","C":"d=e"},"fatal_exit_codes":[3,4],"shell":"date"}}}`,
		},
		{
			`--http https://x.org --method put --header A:b --body hi`,
			`{"target":{"http":{"body":"hi","headers":{"A":"b"},"method":"PUT","url":"https://x.org"}}}`,
		},
		{
			`--handler --type email.send --name n --owner o --queue q`,
			`{"name":"n","owner":"o","queue":"q","target":{"handler":{}},"type":"email.send"}`,
		},
		{`--label a=b --label c= --payload {"n":1}`, `{"labels":{"a":"b","c":""},"payload":{"n":1}}`},
		{`--needs gpu=true --needs zone=eu`, `{"needs":{"gpu":"true","zone":"eu"}}`},
		{`--payload @` + payload, `{"payload":{"from":"file"}}`},
		{`--payload -`, `{"payload":["standard","input"]}`},
		{`--after 90s`, `{"schedule":{"after":"90s"}}`},
		{`--at 2026-03-29T02:30:00+01:00`, `{"schedule":{"at":"2026-03-29T02:30:00+01:00"}}`},
		{`--at 2026-03-29T02:30`, `{"schedule":{"at":"2026-03-29T02:30:00Z"}}`},
		{
			`--cron @daily --tz Europe/Berlin --starts-at 2026-04-01 --ends-at 2026-05-01 --max-runs 3`,
			`{"schedule":{"cron":"@daily","ends_at":"2026-05-01T00:00:00+02:00","max_runs":3,"starts_at":"2026-04-01T00:00:00+02:00","timezone":"Europe/Berlin"}}`,
		},
		{`--every 30d --timeout 0s`, `{"schedule":{"every":"30d"},"timeout":"0s"}`},
		{
			`--max-attempts 5 --backoff fixed --retry-delay 2s --retry-max-delay 1m`,
			`{"retry":{"backoff":"fixed","delay":"2s","max_attempts":5,"max_delay":"1m"}}`,
		},
		{
			`--retry-rule exit=75,exit=76,after=5m --retry-rule status=4xx,fatal ` +
				`--retry-rule status=404,retry --retry-rule max_attempts=10,match=a,b=c`,
			`{"retry":{"rules":[{"after":"5m","exit":[75,76]},{"fatal":true,"status":["4xx"]},` +
				`{"retry":true,"status":["404"]},{"match":"a,b=c","max_attempts":10}]}}`,
		},
		{
			`--unique k --unique-for 10m --on-conflict replace`,
			`{"unique":{"for":"10m","key":"k","on_conflict":"replace"}}`,
		},
		{`--overlap queue_all --misfire all`, `{"misfire":{"policy":"all"},"overlap":"queue_all"}`},
	} {
		a, _ := offline()
		a.in = strings.NewReader(`["standard","input"]`)
		if _, got := parsed(t, a, false, strings.Fields(c.args)...); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.args, got, c.want)
		}
	}
}

func TestAnEditSendsWholeWhatTheServerReplacesWhole(t *testing.T) {
	was := carillon.Definition{}
	was.Labels = map[string]string{"team": "blue", "old": "1"}
	was.Needs = map[string]string{"gpu": "true", "zone": "eu"}
	was.Schedule = carillon.Schedule{Cron: "@daily", Timezone: "Europe/Berlin", MaxRuns: 7}
	was.Target.Command = &carillon.Command{
		Argv: []string{"date"}, Env: map[string]string{"A": "b", "C": "d"}, Dir: "/tmp",
	}
	for _, c := range []struct {
		args string
		want string
	}{
		{`--priority 9`, `{"priority":9}`},
		{`--max-attempts 5`, `{"retry":{"max_attempts":5}}`},
		{`--label team=red --label old-`, `{"labels":{"team":"red"}}`},
		{`--needs gpu- --needs zone=us`, `{"needs":{"zone":"us"}}`},
		{`--tz UTC`, `{"schedule":{"cron":"@daily","max_runs":7,"timezone":"UTC"}}`},
		{`--cron @hourly`, `{"schedule":{"cron":"@hourly","max_runs":7,"timezone":"Europe/Berlin"}}`},
		{`--every 5m`, `{"schedule":{"every":"5m","max_runs":7}}`},
		{`--env A=z --env C-`, `{"target":{"command":{"argv":["date"],"dir":"/tmp","env":{"A":"z"}}}}`},
		{`--shell uptime`, `{"target":{"command":{"dir":"/tmp","env":{"A":"b","C":"d"},"shell":"uptime"}}}`},
		{
			`-- uptime -p`,
			`{"target":{"command":{"argv":["uptime","-p"],"dir":"/tmp","env":{"A":"b","C":"d"}}}}`,
		},
		{`--http https://x.org`, `{"target":{"http":{"url":"https://x.org"}}}`},
		{`--handler`, `{"target":{"handler":{}}}`},
		{`--payload {"a":null}`, `{"payload":{"a":null}}`},
	} {
		a, _ := offline()
		given, _ := parsed(t, a, true, strings.Fields(c.args)...)
		changes, err := changesTo(was, given)
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(changes)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.args, diff)
		}
	}
}

package carillon_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func TestEveryDefaultIsFilledIn(t *testing.T) {
	want := carillon.Definition{
		Name: "test", Type: "test", Owner: "default", Labels: map[string]string{}, Queue: "default",
		Priority: 5,
		Schedule: carillon.Schedule{At: epoch}, Target: carillon.Target{Handler: &carillon.Handler{}},
		Retry: carillon.Retry{
			MaxAttempts: 3, Backoff: carillon.BackoffExponential, Delay: carillon.Duration(time.Second),
			MaxDelay: carillon.Duration(10 * time.Minute), Jitter: 0.2, MaxCrashes: 5,
		},
		FairWeight: 1,
		Overlap:    carillon.OverlapSkip,
		Misfire: carillon.Misfire{
			Policy: carillon.MisfireOnce, Max: 100, Window: carillon.Duration(24 * time.Hour),
		},
	}
	got := define(t, nil)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(carillon.Schedule{})); diff != "" {
		t.Errorf("the defaults (-want +got):\n%s", diff)
	}
}

func TestDefaultsThatFollowFromTheTarget(t *testing.T) {
	for name, c := range map[string]struct {
		target   carillon.Target
		wantType string
		timeout  time.Duration
	}{
		"a command may take its time": {
			carillon.Target{Command: &carillon.Command{Argv: []string{"true"}}}, "command", 0,
		},
		"a request may not": {
			carillon.Target{HTTP: &carillon.HTTP{URL: "http://localhost/"}}, "http", 30 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			def := carillon.Definition{}
			def.Target, def.Payload = c.target, []byte("null")
			if err := def.Admit(epoch); err != nil {
				t.Fatal(err)
			}
			if def.Type != c.wantType || def.Name != c.wantType || def.Timeout.Std() != c.timeout ||
				def.Payload != nil {
				t.Errorf(
					"type %q, name %q, timeout %s, payload %s", def.Type, def.Name, def.Timeout, def.Payload,
				)
			}
			if c.target.HTTP != nil && c.target.HTTP.Method != "POST" {
				t.Errorf("method %q", c.target.HTTP.Method)
			}
			again := def
			if err := again.Admit(epoch + 5000); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(def, again, cmpopts.IgnoreUnexported(carillon.Schedule{})); diff != "" {
				t.Errorf("admitted twice (-once +twice):\n%s", diff)
			}
		})
	}
	def := define(t, func(d *carillon.Definition) {
		d.Retry.Delay, d.Retry.MaxDelay = carillon.Duration(time.Hour), 0
	})
	if def.Retry.MaxDelay.Std() != time.Hour {
		t.Errorf("a delay of 1h is capped at %s", def.Retry.MaxDelay)
	}
	def = define(t, func(d *carillon.Definition) {
		d.Timeout = carillon.Zero
		d.Target = carillon.Target{HTTP: &carillon.HTTP{URL: "http://x/"}}
	})
	if def.Timeout != 0 {
		t.Errorf("a timeout of none became %s", def.Timeout)
	}
}

func TestEachBadFieldIsNamed(t *testing.T) {
	type D = carillon.Definition
	const year = carillon.Duration(365 * 24 * time.Hour)
	long := strings.Repeat("x", 65)
	command := func(c carillon.Command) func(*D) {
		return func(d *D) { d.Target = carillon.Target{Command: &c} }
	}
	request := func(h carillon.HTTP) func(*D) {
		return func(d *D) { d.Target = carillon.Target{HTTP: &h} }
	}
	labels := map[string]string{}
	for i := range 33 {
		labels["k"+strings.Repeat("k", i)] = ""
	}
	for _, c := range []struct {
		field, given, want string
		edit               func(*D)
	}{
		{"target", "", "exactly one of", func(d *D) { d.Target = carillon.Target{} }},
		{
			"target", "command and handler", "exactly one of",
			func(d *D) { d.Target.Command = &carillon.Command{Shell: "true"} },
		},
		{"target", "bytes", "64 KiB", command(carillon.Command{Shell: strings.Repeat("x", 65<<10)})},
		{"target", "bytes", "64 KiB", command(carillon.Command{Shell: strings.Repeat("<", 11<<10)})},
		{"target", "bytes", "64 KiB", command(carillon.Command{Argv: append([]string{"a"}, make([]string, 22_000)...)})},
		{"target.command", "", "either", command(carillon.Command{})},
		{"target.command", "a b", "either", command(carillon.Command{Argv: []string{"a"}, Shell: " b"})},
		{"target.command.argv", "", "program", command(carillon.Command{Argv: []string{""}})},
		{"target.command.argv", "a\x00", "NUL", command(carillon.Command{Argv: []string{"a\x00"}})},
		{
			"target.command.env", "A=B", "'='",
			command(carillon.Command{Shell: "x", Env: map[string]string{"A=B": "1"}}),
		},
		{
			"target.command.env", "CARILLON_X", "CARILLON_",
			command(carillon.Command{Shell: "x", Env: map[string]string{"CARILLON_X": "1"}}),
		},
		{"target.command.dir", "tmp", "absolute", command(carillon.Command{Shell: "x", Dir: "tmp"})},
		{
			"target.command.fatal_exit_codes", "0", "1 to 255",
			command(carillon.Command{Shell: "x", FatalExitCodes: []int{2, 0}}),
		},
		{"target.http.method", "get", "GET", request(carillon.HTTP{URL: "http://x/", Method: "get"})},
		{"target.http.url", "", "absolute", request(carillon.HTTP{})},
		{"target.http.url", "ftp://x/", "absolute", request(carillon.HTTP{URL: "ftp://x/"})},
		{
			"target.http.url", "http://me:xxxxx@x/", "Authorization",
			request(carillon.HTTP{URL: "http://me:secret@x/"}),
		},
		{
			"target.http.headers", "a b", "header",
			request(carillon.HTTP{URL: "http://x/", Headers: map[string]string{"a b": "1"}}),
		},
		{
			"target.http.headers", "A", "one line",
			request(carillon.HTTP{URL: "http://x/", Headers: map[string]string{"A": "1\r\nB: 2"}}),
		},
		{
			"target.http.headers", "carillon-run", "Carillon-",
			request(carillon.HTTP{URL: "http://x/", Headers: map[string]string{"carillon-run": "1"}}),
		},
		{
			"target.http.body", "${nothing}", "one of ${run.id}",
			request(carillon.HTTP{URL: "http://x/", Body: "${nothing}"}),
		},
		{"type", "", "registered", func(d *D) { d.Type = "" }},
		{"type", "a b", "1 to 64", func(d *D) { d.Type = "a b" }},
		{"type", ".a", "letter or digit", func(d *D) { d.Type = ".a" }},
		{"type", long, "1 to 64", func(d *D) { d.Type = long }},
		{"queue", "größe", "1 to 64", func(d *D) { d.Queue = "größe" }},
		{"name", "a\nb", "printable", func(d *D) { d.Name = "a\nb" }},
		{"name", "\xff", "printable", func(d *D) { d.Name = "\xff" }},
		{"name", "job_06w1zyvjw0000", "id of a job", func(d *D) { d.Name = "job_06w1zyvjw0000" }},
		{
			"name", "run_06w201zb4000001m7g2kev2", "id of a job or run",
			func(d *D) { d.Name = "run_06w201zb4000001m7g2kev2" },
		},
		{"name", "x", "200", func(d *D) { d.Name = strings.Repeat("x", 201) }},
		{"name", "é", "1 to 200 printable characters", func(d *D) { d.Name = strings.Repeat("é", 201) }},
		{
			"labels.a", "é", "at most 128 printable characters",
			func(d *D) { d.Labels = map[string]string{"a": strings.Repeat("é", 129)} },
		},
		{"labels", "33", "32", func(d *D) { d.Labels = labels }},
		{"labels", "a b", "keys", func(d *D) { d.Labels = map[string]string{"a b": ""} }},
		{"labels.a", "\x00", "128", func(d *D) { d.Labels = map[string]string{"a": "\x00"} }},
		{
			"payload", "262145 bytes", "256 KiB",
			func(d *D) { d.Payload = []byte(`"` + strings.Repeat("x", 256<<10-1) + `"`) },
		},
		{"payload", "{", "valid JSON", func(d *D) { d.Payload = []byte("{") }},
		{"priority", "10", "0 to 9", func(d *D) { d.Priority = 10 }},
		{"priority", "-2", "0 to 9", func(d *D) { d.Priority = -2 }},
		{"fair_by", "a b", "at most 64 characters", func(d *D) { d.FairBy = "a b" }},
		{"fair_by", "a*3", "at most 64 characters", func(d *D) { d.FairBy = "a*3" }},
		{"fair_by", strings.Repeat("k", 65), "at most 64", func(d *D) { d.FairBy = strings.Repeat("k", 65) }},
		{"fair_weight", "0", "1 to 100", func(d *D) { d.FairWeight = carillon.Zero }},
		{"fair_weight", "101", "1 to 100", func(d *D) { d.FairWeight = 101 }},
		{"timeout", "366d", "365d", func(d *D) { d.Timeout = year + carillon.Duration(24*time.Hour) }},
		{"timeout", "1ns", "1ms", func(d *D) { d.Timeout = 1 }},
		{
			"timeout", "1.0000001s", "whole milliseconds",
			func(d *D) { d.Timeout = carillon.Duration(time.Second + 100) },
		},
		{"overlap", "never", "queue_all", func(d *D) { d.Overlap = "never" }},
		{"retention.runs", "73000d", "36500d", func(d *D) { d.Retention.Runs = 200 * year }},
		{"retention.logs", "73000d", "36500d", func(d *D) { d.Retention.Logs = 200 * year }},
		{"retention.dead_letters", "73000d", "36500d", func(d *D) { d.Retention.DeadLetters = 200 * year }},
		{
			"retention.runs", "-1s", "not negative",
			func(d *D) { d.Retention.Runs = carillon.Duration(-time.Second) },
		},
		{"retry.max_attempts", "0", "1 to 1000", func(d *D) { d.Retry.MaxAttempts = carillon.Zero }},
		{"retry.max_attempts", "1001", "1 to 1000", func(d *D) { d.Retry.MaxAttempts = 1001 }},
		{"retry.max_crashes", "0", "1 to 1000", func(d *D) { d.Retry.MaxCrashes = carillon.Zero }},
		{"retry.backoff", "linear", "exponential or fixed", func(d *D) { d.Retry.Backoff = "linear" }},
		{
			"retry.delay", "366d", "365d",
			func(d *D) { d.Retry.Delay = year + carillon.Duration(24*time.Hour) },
		},
		{
			"retry.delay", "-1s", "not negative",
			func(d *D) { d.Retry.Delay = carillon.Duration(-time.Second) },
		},
		{
			"retry.max_delay", "366d", "365d",
			func(d *D) { d.Retry.MaxDelay = year + carillon.Duration(24*time.Hour) },
		},
		{
			"retry.max_delay", "500ms", "at least retry.delay, which is 1s",
			func(d *D) { d.Retry.MaxDelay = carillon.Duration(500 * time.Millisecond) },
		},
		{"retry.jitter", "1.1", "0 to 1", func(d *D) { d.Retry.Jitter = 1.1 }},
		{"retry.jitter", "-0.1", "0 to 1", func(d *D) { d.Retry.Jitter = -0.1 }},
		{"retry.jitter", "NaN", "0 to 1", func(d *D) { d.Retry.Jitter = math.NaN() }},
		{"misfire.policy", "twice", "skip, once or all", func(d *D) { d.Misfire.Policy = "twice" }},
		{"misfire.max", "0", "1 to 1000", func(d *D) { d.Misfire.Max = carillon.Zero }},
		{"misfire.max", "1001", "1 to 1000", func(d *D) { d.Misfire.Max = 1001 }},
		{"misfire.window", "0s", "more than 0s", func(d *D) { d.Misfire.Window = carillon.Zero }},
		{
			"misfire.window", "367d", "366d",
			func(d *D) { d.Misfire.Window = carillon.Duration(367 * 24 * time.Hour) },
		},
	} {
		t.Run(c.field+" "+c.given[:min(len(c.given), 12)], func(t *testing.T) {
			def := carillon.Definition{}
			def.Type, def.Target.Handler = "test", &carillon.Handler{}
			c.edit(&def)
			expectFieldError(t, def.Admit(epoch), c.field, c.given, c.want)
		})
	}
}

func TestWhatIsJustAllowed(t *testing.T) {
	def := define(t, func(d *carillon.Definition) {
		d.Name = strings.Repeat("ü", 200)
		d.Type = "9" + strings.Repeat("/", 63)
		d.Queue, d.Owner = "a.b_c-d/e@f", "A"
		d.Labels = map[string]string{"k": strings.Repeat("é", 128), "empty": ""}
		d.Payload = []byte(`"` + strings.Repeat("x", 256<<10-2) + `"`)
		d.Priority, d.Timeout = 9, carillon.Duration(365*24*time.Hour)
		d.Retry = carillon.Retry{
			MaxAttempts: 1000, Backoff: carillon.BackoffFixed, MaxCrashes: 1000, Jitter: 1,
		}
		d.Misfire = carillon.Misfire{
			Policy: carillon.MisfireAll, Max: 1000, Window: carillon.Duration(366 * 24 * time.Hour),
		}
		d.Retention.Runs = carillon.Duration(36500 * 24 * time.Hour)
		d.Target = carillon.Target{Command: &carillon.Command{Shell: strings.Repeat("<", 10_915)}}
	})
	written, err := json.Marshal(def)
	if err != nil {
		t.Fatal(err)
	}
	read := carillon.Definition{}
	if err := json.Unmarshal(written, &read); err != nil {
		t.Fatal(err)
	}
	if err := read.Admit(epoch + 1000); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(def, read, cmpopts.IgnoreUnexported(carillon.Schedule{})); diff != "" {
		t.Errorf("what is written is read and admitted as it was (-want +got):\n%s", diff)
	}
}

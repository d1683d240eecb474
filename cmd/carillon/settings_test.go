package main

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// settled is the settings of serve, by name, that result from a command line, an environment and a file.
func settled(t *testing.T, args []string, env map[string]string, file string) (map[string]string, error) {
	t.Helper()
	cmd, _, err := newApp().root().Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	config := ""
	if file != "" {
		config = filepath.Join(t.TempDir(), "carillon.yaml")
		writeTestFile(t, config, file)
	}
	_, err = settle(cmd.Flags(), config, func(key string) (string, bool) { v, ok := env[key]; return v, ok })
	values := map[string]string{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if isSetting(f) {
			values[f.Name] = f.Value.String()
		}
	})
	return values, err
}

// settings are all settings of serve, each with three values other than the default: for the file, the
// environment and the command line.
var settings = map[string][3]string{
	"allow-setuid":           {"true", "false", "true"},
	"advertise":              {"http://file", "http://env", "http://flag"},
	"carrier":                {"file", "env", "flag"},
	"concurrency":            {"11", "12", "13"},
	"coordinator":            {"postgres://file", "postgres://env", "postgres://flag"},
	"data":                   {"/file", "/env", "/flag"},
	"drain":                  {"11s", "12s", "13s"},
	"http-allow":             {"10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"},
	"keep":                   {"1", "2", "3"},
	"label":                  {"gpu=file", "gpu=env", "gpu=flag"},
	"listen":                 {"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"},
	"log-format":             {"json", "JSON", "text2"},
	"log-level":              {"warn", "error", "debug"},
	"logs":                   {"disk:/file", "disk:/env", "disk:/flag"},
	"max-processes":          {"11", "12", "13"},
	"queues":                 {"file", "env", "flag"},
	"retention-dead-letters": {"11h", "12h", "13h"},
	"retention-logs":         {"14h", "15h", "16h"},
	"retention-runs":         {"17h", "18h", "19h"},
	"retry-budget":           {"11%", "12%", "off"},
	"store":                  {"sqlite:/file", "sqlite:/env", "sqlite:/flag"},
	"store-listen":           {"postgres://file", "postgres://env", "postgres://flag"},
	"store-replica":          {"postgres://file", "postgres://env", "postgres://flag"},
	"timeline":               {"file", "env", "flag"},
}

func TestEverySettingCanComeFromTheFlagTheEnvironmentAndTheFile(t *testing.T) {
	defaults, err := settled(t, nil, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(
		defaults,
	)), slices.Sorted(maps.Keys(settings)); !slices.Equal(got, want) {
		t.Fatalf("settings %q, want %q", got, want)
	}
	for name, values := range settings {
		t.Run(name, func(t *testing.T) {
			file := strings.ReplaceAll(name, "-", "_") + ": " + values[0] + "\n"
			env := map[string]string{envName(name): values[1]}
			args := []string{"--" + name, values[2]}
			for i, given := range []struct {
				args []string
				env  map[string]string
				file string
			}{{nil, nil, file}, {nil, env, ""}, {nil, env, file}, {args, nil, ""}, {args, nil, file}, {args, env, file}} {
				got, err := settled(t, given.args, given.env, given.file)
				want := values[[]int{0, 1, 1, 2, 2, 2}[i]]
				if err != nil || strings.Trim(got[name], "[]") != want {
					t.Errorf("%+v: %q, %v; want %q", given, got[name], err, want)
				}
				delete(got, name)
				for other, value := range got {
					if value != defaults[other] {
						t.Errorf("%+v sets %s to %q, too", given, other, value)
					}
				}
			}
		})
	}
}

func TestListsAreWrittenAsYAMLListsOrWithCommas(t *testing.T) {
	for _, file := range []string{"queues: [a, b]\n", "queues:\n  - a\n  - b\n", "queues: a,b\n"} {
		if got, err := settled(t, nil, nil, file); err != nil || got["queues"] != "[a,b]" {
			t.Errorf("%q: %s, %v", file, got["queues"], err)
		}
	}
}

func TestWhatIsWrongWithASettingIsSaidWithItsPlace(t *testing.T) {
	for name, c := range map[string]struct {
		env  map[string]string
		file string
		want []string
	}{
		"an unknown key": {
			nil, "concurency: 3\n", []string{"carillon.yaml", `"concurency"`, "concurrency, coordinator, data"},
		},
		"a key with -": {
			nil, "http-allow: 10.0.0.0/8\n", []string{"carillon.yaml", `"http-allow"`, "http_allow"},
		},
		"a flag that is no setting": {
			nil, "config: other.yaml\n", []string{"carillon.yaml", `"config"`},
		},
		"a token, which is for clients": {nil, "token: abc\n", []string{"carillon.yaml", `"token"`}},
		"a mapping": {
			nil, "retention_runs:\n  days: 3\n", []string{"carillon.yaml", "retention_runs", "mapping"},
		},
		"a word for a number": {
			nil, "concurrency: many\n", []string{"carillon.yaml", "concurrency", `"many"`},
		},
		"a list for a number": {
			nil, "concurrency: [1, 2]\n", []string{"carillon.yaml", "concurrency", `"1,2"`},
		},
		"a number for a duration": {nil, "drain: 10\n", []string{"carillon.yaml", "drain", `"10"`}},
		"nothing for a number":    {nil, "concurrency:\n", []string{"carillon.yaml", "concurrency"}},
		"nothing for a text":      {nil, "listen:\n", []string{"carillon.yaml", "listen"}},
		"a list of mappings": {
			nil, "queues:\n  - name: a\n", []string{"carillon.yaml", "queues"},
		},
		"a list for one text": {nil, "listen: [a, b]\n", []string{"carillon.yaml", "listen"}},
		"a truth for a text":  {nil, "store: true\n", []string{"carillon.yaml", "store"}},
		"a word for a truth": {
			nil, "allow_setuid: maybe\n",
			[]string{"carillon.yaml", "allow-setuid", `"maybe"`, "want true or false"},
		},
		"no mapping at all": {nil, "- a\n- b\n", []string{"carillon.yaml"}},
		"the same key twice": {
			nil, "drain: 1s\ndrain: 2s\n", []string{"carillon.yaml", "drain"},
		},
		"a bad number in the environment": {
			map[string]string{"CARILLON_CONCURRENCY": "many"},
			"",
			[]string{"CARILLON_CONCURRENCY", "concurrency", `"many"`},
		},
		"a bad duration in environment": {
			map[string]string{"CARILLON_RETENTION_RUNS": "x"},
			"",
			[]string{"CARILLON_RETENTION_RUNS", "retention-runs", `"x"`},
		},
		"a bad value that the env hides": {
			map[string]string{"CARILLON_DRAIN": "1s"},
			"drain: x\nconcurrency: y\n",
			[]string{"concurrency", `"y"`},
		},
		"a config file that is not there": {
			map[string]string{"CARILLON_CONFIG": "/nowhere/carillon.yaml"},
			"",
			[]string{"/nowhere/carillon.yaml"},
		},
		"two mistakes are both named once": {
			map[string]string{"CARILLON_DRAIN": "x"},
			"concurrency: y\n",
			[]string{"drain", "concurrency", `"x"`, `"y"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := settled(t, nil, c.env, c.file)
			if err == nil {
				t.Fatal("it is taken")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %s", err, want)
				}
			}
		})
	}
}

// refuse calls the command itself, with settings that it must refuse before it opens anything. If the command
// accepts them, it stops at once, because its context is canceled.
func refuse(t *testing.T, args ...string) (message string) {
	t.Helper()
	var out, errs bytes.Buffer
	a := newApp()
	a.out, a.err = &out, &errs
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	args = append([]string{"serve", "--data", filepath.Join(t.TempDir(), "data")}, args...)
	if code := a.run(ctx, args); code != exitUsage {
		t.Errorf("%q: exit code %d: %s", args, code, errs.String())
	}
	return errs.String()
}

func TestBadValuesAreRefusedWithWhatIsWanted(t *testing.T) {
	for _, c := range [][3]string{
		{"concurrency", "100001", "from 0 to 100000"},
		{"concurrency", "-1", "from 0 to 100000"},
		{"http-allow", "10.0.0.0/99", "10.0.0.0/8"},
		{"http-allow", "example.com", "a network"},
		{"log-level", "loud", "debug, info, warn or error"},
		{"log-format", "xml", "text or json"},
		{"listen", "8420", "host:port"},
		{"drain", "-5s", "drain"},
		{"retention-runs", "-5s", "retention-runs"},
		{"retry-budget", "0%", "0.1% to 100%, or off"},
		{"retry-budget", "0.1", "0.1% to 100%, or off"},
		{"retry-budget", "101%", "0.1% to 100%, or off"},
		{"retry-budget", "NaN%", "0.1% to 100%, or off"},
	} {
		t.Run(c[0]+" "+c[1], func(t *testing.T) {
			message := refuse(t, "--"+c[0]+"="+c[1])
			for _, want := range []string{c[0], c[1], c[2]} {
				if !strings.Contains(message, want) {
					t.Errorf("%q does not say %q", message, want)
				}
			}
		})
	}
}

func TestARetryBudgetIsAPercentageOrOff(t *testing.T) {
	for given, want := range map[string]float64{"10%": 0.1, "2.5%": 0.025, "100%": 1, "off": -1} {
		if got, err := retryBudget(given); got != want || err != nil {
			t.Errorf("%s is %v, %v, want %v", given, got, err, want)
		}
	}
}

func TestABadValueFromTheFileIsRefusedWithItsPlace(t *testing.T) {
	config := filepath.Join(t.TempDir(), "carillon.yaml")
	for key, value := range map[string]string{
		"concurrency": "-3", "log_level": "loud", "http_allow": "[10.0.0.0/99]", "listen": "\"8420\"",
	} {
		writeTestFile(t, config, key+": "+value+"\n")
		message := refuse(t, "--config", config)
		for _, want := range []string{strings.ReplaceAll(key, "_", "-"), strings.Trim(value, `[]"`), config} {
			if !strings.Contains(message, want) {
				t.Errorf("%q does not say %q", message, want)
			}
		}
	}
}

func TestHelpListsEverySetting(t *testing.T) {
	var out bytes.Buffer
	a := newApp()
	a.out, a.err = &out, &out
	if code := a.run(t.Context(), []string{"serve", "--help"}); code != exitOK {
		t.Errorf("exit code %d", code)
	}
	for name := range settings {
		if !strings.Contains(out.String(), "--"+name+" ") {
			t.Errorf("--%s is not in the help", name)
		}
	}
	for _, want := range []string{"--config ", "CARILLON_HTTP_ALLOW", "http_allow"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%s is not in the help", want)
		}
	}
}

func TestAVariableThatIsNoSettingIsNamed(t *testing.T) {
	a, out := offline()
	cmd, _, err := a.root().Find([]string{"serve"})
	if err != nil {
		t.Fatal(err)
	}
	cmd.Root().SetErr(out)
	noteUnknown(cmd, []string{
		"CARILLON_LISTEN=127.0.0.1:1", "CARILLON_TOKEN=x", "CARILLON_CONFIG=y", "CARILLON_RUN_ID=run_1",
		"CARILLONS=1", "PATH=/bin", "CARILLON_TEST_REQUIRE=all",
		"CARILLON_CONCURENCY=3", "CARILLON_COLOUR_OF_BELLS=blue",
	})
	want := `carillon: warning: the environment variable CARILLON_CONCURENCY is not a setting of Carillon; did you mean CARILLON_CONCURRENCY?
carillon: warning: the environment variable CARILLON_COLOUR_OF_BELLS is not a setting of Carillon
`
	if out.String() != want {
		t.Errorf("%s\nwant %s", out, want)
	}
}

func TestAnErrorNamesTheFlagOrWhereElseTheValueComesFrom(t *testing.T) {
	bad := errors.New(`listen: "x" is not valid: want host:port`)
	for from, want := range map[string]string{
		"":         `--listen: "x" is not valid: want host:port`,
		"the file": `listen: "x" is not valid: want host:port (from the file)`,
	} {
		set := origins{}
		if from != "" {
			set["listen"] = from
		}
		if got := set.explain(bad).Error(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

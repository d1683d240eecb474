package main

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-run/carillon"
)

// get is the API's answer, unchanged.
func (h *house) get(path string) any {
	h.t.Helper()
	request, err := http.NewRequestWithContext(h.t.Context(), "GET", "http://carillon.test"+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+testToken)
	answer, err := h.app.http.Do(request)
	if err != nil {
		h.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.decoded(string(text))
}

func (h *house) decoded(text string) (value any) {
	h.t.Helper()
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		h.t.Fatalf("%v: %s", err, text)
	}
	return value
}

func TestJSONOfTheCommandLineIsThatOfTheAPI(t *testing.T) {
	inHouse(t, "", func(h *house) {
		h.run("submit", "-q", "--name", "bad", "--max-attempts", "1", "--", "fail", "no")
		h.run(
			"submit", "-q", "--name", "good", "--label", "a=b", "--payload", `{"n":1}`, "--cron", "@daily",
			"--", "echo", "yes",
		)
		h.later(time.Second)
		h.run("run", "--now", "good")
		h.later(time.Second)
		out, _ := h.run("jobs", "--name", "good")
		job := idIn(out, "job_")
		out, _ = h.run("runs", "good", "--state", "succeeded")
		run := idIn(out, "run_")
		for command, path := range map[string]string{
			"jobs":                   "/v1/jobs",
			"jobs --limit 1":         "/v1/jobs?limit=1",
			"job good":               "/v1/jobs/" + job,
			"next good -n 2":         "/v1/jobs/" + job + "/next?n=2",
			"runs":                   "/v1/runs",
			"runs --state succeeded": "/v1/runs?state=succeeded",
			"runs good":              "/v1/jobs/" + job + "/runs",
			"runs good --limit 1":    "/v1/jobs/" + job + "/runs?limit=1",
			"run " + run:             "/v1/runs/" + run,
			"dead":                   "/v1/dead-letters",
			"dead --type none":       "/v1/dead-letters?type=none",
			"dead groups":            "/v1/dead-letters/groups",
			"refused":                "/v1/refused",
		} {
			out, code := h.run(append(strings.Fields(command), "-o", "json")...)
			out, _, _ = strings.Cut(out, "! carillon: there are more")
			if diff := cmp.Diff(h.get(path), h.decoded(out)); diff != "" || code != 0 {
				t.Errorf("%s, exit code %d (-%s +):\n%s", command, code, path, diff)
			}
		}
	})
}

func TestAListGoesOnAtItsCursor(t *testing.T) {
	inHouse(t, "", func(h *house) {
		for _, name := range []string{"a", "b", "c"} {
			h.run("submit", "-q", "--name", name, "--every", "1h", "--", "echo")
		}
		out, _ := h.run("jobs", "--limit", "2", "-o", "json")
		out, _, _ = strings.Cut(out, "! carillon")
		first := h.decoded(out).(map[string]any)
		out, _ = h.run("jobs", "--limit", "2", "-o", "json", "--cursor", first["next_cursor"].(string))
		rest := h.decoded(out).(map[string]any)
		if items := rest["items"].([]any); len(items) != 1 || items[0].(map[string]any)["name"] != "a" ||
			rest["next_cursor"] != nil {
			t.Errorf("%v", rest)
		}
		if out, _ = h.run(
			"jobs", "--limit", "3", "-o", "json",
		); h.decoded(out).(map[string]any)["next_cursor"] != nil {
			t.Errorf("all are shown, and yet: %s", out)
		}
		if out, code := h.run("jobs", "--limit", "-1"); code != exitUsage ||
			!strings.Contains(out, "0 means all") {
			t.Errorf("%d: %s", code, out)
		}
	})
}

func TestATableFitsTheTerminalAndNothingIsCutElsewhere(t *testing.T) {
	reason := strings.Repeat("a very long reason ", 20)
	run := carillon.Run{ID: carillon.RunID{Job: 1, Due: 1000}, State: carillon.StateFailed, Reason: reason}
	for _, c := range []struct {
		terminal bool
		format   string
		whole    bool
	}{{true, "table", false}, {true, "wide", true}, {false, "table", true}} {
		a, out := offline()
		a.terminal, a.width, a.format, a.noColor = c.terminal, 120, c.format, true
		a.runTable([]carillon.Run{run}, false)
		widest := 0
		for line := range strings.Lines(out.String()) {
			widest = max(widest, utf8.RuneCountInString(strings.TrimSuffix(line, "\n")))
		}
		if whole := strings.Contains(out.String(), strings.TrimSpace(reason)); whole != c.whole ||
			!whole && widest != 120 {
			t.Errorf("%+v: %d columns:\n%s", c, widest, out)
		}
	}
}

func TestJobsAreFoundByALabelWithAnEmptyValue(t *testing.T) {
	inHouse(t, "", func(h *house) {
		h.run("submit", "-q", "--name", "flagged", "--label", "flag=", "--", "true")
		h.run("submit", "-q", "--name", "other", "--label", "flag=red", "--", "true")
		if out, code := h.run("jobs", "--label", "flag="); code != 0 || !strings.Contains(out, "flagged") ||
			strings.Contains(out, "other") {
			t.Errorf("%d, %s", code, out)
		}
		for _, wrong := range []string{"flag", "=red"} {
			if out, code := h.run("jobs", "--label", wrong); code != exitUsage {
				t.Errorf("%s: %d, %s", wrong, code, out)
			}
		}
	})
}

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatJobPrintsCanBeSubmittedAgain(t *testing.T) {
	inHouse(t, "", func(h *house) {
		for _, target := range []string{
			`{"command":{"shell":"set -e\n  date\n","env":{"A":"yes","B":"1e3","C":" x "},"dir":"/tmp","fatal_exit_codes":[3,4]}}`,
			`{"command":{"argv":["echo","","~","- a","0x10","a\r\nb","\u0007"]}}`,
			`{"http":{"url":"https://example.com/?a=b","method":"PUT","headers":{"X-A":"b: c"},"body":"{\"n\": ${payload.n}}"}}`,
			`{"handler":{}}`,
		} {
			h.in = `{"name":"# 1: a","type":"demo","owner":"ann","labels":{"null":"true","no":"","a":"1"},"queue":"mail","priority":0,"fair_by":"acme","fair_weight":3,
				"payload":{"big":123456789012345678901234567890,"small":1.10,"n":1e3,"list":[[],{},[1,[2]],{"a":null}],"text":"é\u2028\u0000 \"q\" "},
				"schedule":{"cron":"0 3 * * *","timezone":"Europe/Berlin","starts_at":"2027-01-01T00:00:00Z","ends_at":"2028-01-01T00:00:00Z","max_runs":7},
				"target":` + target + `,"timeout":"90s","retry":{"max_attempts":5,"backoff":"fixed","delay":"2s","max_delay":"1m","jitter":0.5,"max_crashes":2},
				"overlap":"queue_all","misfire":{"policy":"all","max":7,"window":"1h"},"retention":{"runs":"1d","logs":"2d","dead_letters":"3d"}}`
			first, code := h.run("submit", "-q", "-f", "-")
			if code != 0 {
				t.Fatal(first)
			}
			for _, format := range []string{"yaml", "json"} {
				h.in, _ = h.run("job", idIn(first, "job_"), "-o", format)
				again, code := h.run("submit", "-q", "-f", "-")
				if code != 0 {
					t.Fatalf("%s\nis refused: %s", h.in, again)
				}
				was, is := h.defined(idIn(first, "job_")), h.defined(idIn(again, "job_"))
				if diff := cmp.Diff(was, is); diff != "" {
					t.Errorf(
						"%s changed by the way through %s (-was +is):\n%s\n%s", target, format, diff, h.in,
					)
				}
			}
		}
		h.in, _ = h.run("jobs", "-o", "json")
		if out, code := h.run("submit", "-q", "-f", "-"); code != 0 || strings.Count(out, "\njob_") != 12 {
			t.Errorf("a whole list: %d, %s", code, out)
		}
		h.in = `{"state":"paused","target":{"handler":{}},"type":"x"}`
		if out, code := h.run("submit", "-f", "-"); code != exitUsage || !strings.Contains(out, "state") {
			t.Errorf("a state in a definition that no server printed: %d, %s", code, out)
		}
	})
}

// defined is the definition of a job, byte for byte.
func (h *house) defined(id string) map[string]string {
	h.t.Helper()
	out, code := h.run("job", id, "-o", "json")
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(out), &fields); err != nil || code != 0 {
		h.t.Fatal(code, out)
	}
	texts := map[string]string{}
	for name, value := range fields {
		if !readOnly[name] {
			texts[name] = string(value)
		}
	}
	if len(texts) != 16 {
		h.t.Fatalf("%d fields: %v", len(texts), texts)
	}
	return texts
}

func TestAFileOfAnyNumberOfJobs(t *testing.T) {
	inHouse(t, "bulk", func(h *house) {
		lines := func(n int, bad int, wrong string) string {
			var b strings.Builder
			for i := 1; i <= n; i++ {
				argv := "argv"
				if i == bad {
					argv = wrong
				}
				fmt.Fprintf(
					&b, `{"name":"n%d","target":{"command":{"%s":["echo"]}},"schedule":{"after":"30d"}}`+"\n",
					i, argv,
				)
			}
			return b.String()
		}
		h.in = lines(2500, 0, "")
		if out, code := h.run("submit", "-q", "-f", "-"); code != 0 || strings.Count(out, "job_") != 2500 {
			t.Errorf("%d, %d ids", code, strings.Count(out, "job_"))
		}
		h.in = lines(2500, 2100, "agrv")
		out, code := h.run("submit", "-q", "-f", "-")
		if code != exitUsage || strings.Count(out, "job_") != 2000 {
			t.Errorf("%d, %d ids", code, strings.Count(out, "job_"))
		}
		h.text.WriteString("$ carillon submit -q -f - < 2500 lines\n" + out[strings.Index(out, "! "):])
		h.in = lines(3, 3, "agrv")
		h.carillon("submit", "-f", "-")
		h.in = lines(2, 0, "") + `{"name": x}` + "\n"
		h.carillon("submit", "-f", "-")
		h.in = "[" + strings.ReplaceAll(strings.TrimSpace(lines(2, 2, "agrv")), "\n", ",\n") + "]"
		h.carillon("submit", "-f", "-")
	})
}

func TestErrorsInAFileNameTheLine(t *testing.T) {
	inHouse(t, "lines", func(h *house) {
		for _, text := range []string{
			"# jobs\nname: a\ntarget:\n  command: {argv: [echo]}\n---\n- name: b\n  target:\n    command:\n      argv:\n        - sleep\n        - 3\n",
			"name: a\ntarget: {handler: {}}\ntype: demo\nschedule:\n  every: 1h\n  cron: 61 * * * *\n",
			"{\n  \"name\": \"a\",\n  \"target\": {\"command\": {\"argv\": [\"echo\"]}},\n  \"priority\": 12\n}\n",
			"- name: a\n  target: {command: {argv: [date]}}\n- name: b\n  priority: 3\n",
			"base: &base {target: {handler: {}}}\n",
			"name: a\n\ttab: 1\n",
			"x: 1\nmax: .inf\n",
		} {
			h.in = text
			fmt.Fprintf(&h.text, "%s\n", strings.TrimRight(text, "\n"))
			h.carillon("submit", "-f", "-")
		}
		h.in = "- &a {name: a, target: {command: {argv: [echo]}}, priority: 0x3}\n- <<: *a\n  type: b\n"
		h.carillon("submit", "-q", "-f", "-")
		h.carillon("jobs")
	})
}

func TestWhatStandsBetweenTheJobsOfAFileIsNotGuessed(t *testing.T) {
	inHouse(t, "", func(h *house) {
		const job = `{"target":{"command":{"argv":["true"]}}}`
		for text, jobs := range map[string]int{
			job + "\n" + job: 2, job + job: 2, "\ufeff" + job + "\r\n" + job: 2,
			"[" + job + " , " + job + "]": 2, `{"items" : [` + job + "," + job + "]}": 2,
			job + "\n---\n" + job: 2, job + "\n--- # two\ntarget: {command: {argv: [date]}}\n": 2,
			"---\n" + job: 1,
			"items:\n- &a {target: {command: {argv: [echo]}}}\n- *a\n":      2,
			"items: [{target: {command: {argv: [echo]}}, priority: 0x3}]\n": 1,
			job + "," + job: 0, "," + job: 0, job + ",": 0, job + ":" + job: 0, ":" + job: 0,
			job + "\n---\n{\n": 0, job + " x": 0,
		} {
			h.in = text
			out, code := h.run("submit", "-q", "-f", "-")
			if got := strings.Count(out, "job_"); got != jobs || jobs == 0 && code != exitUsage {
				t.Errorf("%q: %d jobs, want %d: %d, %s", text, got, jobs, code, out)
			}
		}
	})
}

func TestYAMLIsTheSameJSON(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, `null`, `{"a":[],"b":{},"c":[{}],"d":[[1,2],[[]]],"e":[{"f":[{"g":1,"h":"i"},2]},"j"]}`,
		`{"a":12345678901234567890123,"b":1.0,"c":1e3,"d":1e400,"e":-0.0,"f":1.10,"g":true,"h":null}`,
		`{"":"","1":"1","true":"true","- a":"- a","a: b":"a: b","#":"#"," x ":" x ","multi\nline":"multi\nline\n","<<":"<<","null":"~"}`,
	} {
		sameInYAML(t, text)
	}
	for _, s := range []string{
		"1", "1e3", ".inf", ".nan", "0x10", "0o14", "1_000", "2026-01-01", "12:30:45", "yes", "No", "null",
		"NULL", "~", "a b", "a #b", "a: b", "a:", ":a",
		"'q'", `"q"`, `\`, "\t", "a\tb", "a\r\nb", "a\n", "a\n\n", "\na", "a\n b\n", " a\nb", "a \nb",
		"a\n\nb", "|", ">", "%", "@", "`", "!t", "&a", "*a", "---", "...",
		"\u0000", "\u0007", "\u2028", "\u00a0", "\u0085", "\ufeff", "é", "😀", "a,b", "[a", "{a", "a]", "?",
		"? a", "-", "-a", "=", "<<", "a\n---\nb", "a\n# b", "e", "E1", "inf", "NaN",
	} {
		quoted, _ := json.Marshal(map[string]any{"a": s, "b": []string{s, s}, "c": map[string]string{s: s}})
		sameInYAML(t, string(quoted))
	}
}

func sameInYAML(t *testing.T, text string) {
	t.Helper()
	out, err := toYAML([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defs, err := yamlDefinitions(append(
		[]byte("- x\n- "), bytes.ReplaceAll(out, []byte("\n"), []byte("\n  "))...,
	))
	if err != nil || len(defs) != 2 {
		t.Errorf("%s\nis not read again: %v, %d:\n%s", text, err, len(defs), out)
		return
	}
	if diff := cmp.Diff(canonical(t, text), canonical(t, string(defs[1].body))); diff != "" {
		t.Errorf("%s by way of\n%s(-was +is):\n%s", text, out, diff)
	}
}

// canonical keeps numbers as they are written.
func canonical(t *testing.T, text string) (value any) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}

func TestTheFieldsThatAServerFillsInAreReadOnly(t *testing.T) {
	want := map[string]bool{}
	for _, name := range []string{
		"namespace", "id", "version", "state", "created_at", "updated_at", "last_run", "next_run",
	} {
		want[name] = true
	}
	for name := range want {
		if !readOnly[name] {
			t.Errorf("%s is not read-only", name)
		}
	}
	for _, name := range []string{"name", "payload", "schedule", "retention"} {
		if readOnly[name] {
			t.Errorf("%s is read-only", name)
		}
	}
}

package carillon

import (
	"encoding/json"
	"strings"
	"testing"
)

func templateCase() (*Run, *Job) {
	job := &Job{ID: 42, Definition: Definition{Name: `the "big" one`, Type: "report.make"}}
	job.Payload = json.RawMessage(`{"z":1,"name":"Ann \"A\" <b> É\n","big":12345678901234567890,"f":1.50,"no":null,"yes":true,
		"list":[1,"two",{"three":3}],"deep":{"a-b":{"c_d":[[7]]}},"":"empty","s":"\ud83d\ude00"}`)
	run := NewRun(job, 1_774_000_000_000)
	run.Attempt, run.Covers, run.Claimed = 3, run.ID.Due, run.ID.Due
	return &run, job
}

func TestTemplatesExpand(t *testing.T) {
	run, job := templateCase()
	for template, want := range map[string]string{
		"":                                  "",
		"plain $ $$ { } $}":                 "plain $ $$ { } $}",
		"${run.id}":                         run.ID.String(),
		"${run.attempt}/${run.fence}":       "3/1860173824000000003",
		"${run.due_at} ${run.covers_at}":    "2026-03-20T09:46:40.000Z 2026-03-20T09:46:40.000Z",
		"${job.id}":                         job.ID.String(),
		`{"name":"${job.name}"}`:            `{"name":"the \"big\" one"}`,
		"${job.type}":                       "report.make",
		"${payload}":                        string(job.Payload),
		`"${payload.name}"`:                 `"Ann \"A\" <b> É\n"`,
		"${payload.big} ${payload.f}":       "12345678901234567890 1.50",
		"${payload.no} ${payload.yes}":      "null true",
		"${payload.list}":                   `[1,"two",{"three":3}]`,
		"${payload.list[0]}":                "1",
		"${payload.list[1]}":                "two",
		"${payload.list[2].three}":          "3",
		"${payload.list[3]}":                "null",
		"${payload.list.three}":             "null",
		"${payload[0]}":                     "null",
		"${payload.deep.a-b.c_d[0][0]}":     "7",
		"${payload.deep}":                   `{"a-b":{"c_d":[[7]]}}`,
		"${payload.name.more} ${payload.x}": "null null",
		"${payload.s}":                      "😀",
		"$${run.id}":                        "${run.id}",
		"$$${run.id}":                       "$${run.id}",
		"$${${run.attempt}}":                "${3}",
		"$${":                               "${",
	} {
		parsed, err := parseTemplate(template)
		if err != nil {
			t.Errorf("%s: %v", template, err)
			continue
		}
		if got, err := parsed.expand(run, job); err != nil || string(got) != want {
			t.Errorf("%s: got %s %v, want %s", template, got, err, want)
		}
	}
}

func TestTemplatesWithoutAPayloadOrACoveredTime(t *testing.T) {
	run, job := templateCase()
	job.Payload, run.Covers = nil, 0
	for payload, want := range map[string]string{
		"": "null null []", ` "text" `: "text null []", "17": "17 null []",
	} {
		job.Payload = json.RawMessage(payload)
		parsed, _ := parseTemplate("${payload} ${payload.a} [${run.covers_at}]")
		if got, err := parsed.expand(run, job); err != nil || string(got) != want {
			t.Errorf("%q: got %s %v, want %s", payload, got, err, want)
		}
	}
}

func TestTemplatesAreChecked(t *testing.T) {
	known := "want one of ${run.id}, ${run.attempt}, ${run.fence}, ${run.due_at}, ${run.covers_at}, ${job.id}, ${job.name}, ${job.type}, " +
		"${payload} and paths into it such as ${payload.a.b[0]}"
	for template, want := range map[string]string{
		"${run.name}": "unknown placeholder ${run.name}: " + known,
		"${}":         "unknown placeholder ${}: " + known,
		"${run.ids}":  "unknown placeholder ${run.ids}: " + known + "; did you mean ${run.id}?",
		"${paylod.x}": "unknown placeholder ${paylod.x}: " + known +
			"; did you mean ${payload.x}?",
		"${payloads}":            "unknown placeholder ${payloads}: " + known + "; did you mean ${payload}?",
		"a ${run.id":             `a ${ has no closing }: want a } for the ${ before "run.id", or $${ for a literal ${`,
		"${ run.id }":            "unknown placeholder ${ run.id }",
		"${payload.}":            "unknown placeholder ${payload.}",
		"${payload..a}":          "unknown placeholder ${payload..a}",
		"${payload[}":            "unknown placeholder ${payload[}",
		"${payload[a]}":          "unknown placeholder ${payload[a]}",
		"${payload[-1]}":         "unknown placeholder ${payload[-1]}",
		"${payload[0}":           "unknown placeholder ${payload[0}",
		"${payload[0]a}":         "unknown placeholder ${payload[0]a}",
		"${payload.a b}":         "unknown placeholder ${payload.a b}",
		"${payload[4294967296]}": "unknown placeholder ${payload[4294967296]}",
		"${env.HOME}":            "unknown placeholder ${env.HOME}",
		"${payload" + strings.Repeat(".a", maxTemplateSteps+1) + "}": "unknown placeholder ${payload.a.a",
		strings.Repeat(
			"${run.id}", maxPlaceholders+1,
		): "too many placeholders: want at most 100",
	} {
		if _, err := parseTemplate(template); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", template, err, want)
		}
	}
}

func TestAnExpandedTemplateIsBounded(t *testing.T) {
	run, job := templateCase()
	job.Payload = json.RawMessage(`"` + strings.Repeat("x", MaxPayload-2) + `"`)
	parsed, err := parseTemplate(strings.Repeat("${payload}", maxPlaceholders))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parsed.expand(run, job); err == nil ||
		!strings.Contains(err.Error(), "larger than 1048576 bytes") {
		t.Error(err)
	}
}

// FuzzTemplate: no template and no payload makes it panic, and a placeholder for text between quotes is
// always JSON.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{
		"${payload.a[0].b}", "$${run.id}", "${", "$$${payload}", "x${run.fence}y}", "${payload.a-b_c}",
	} {
		f.Add(s, `{"a":[{"b":"\u0000\"\\"}],"a-b_c":"\ud800"}`, "na\"me")
	}
	f.Fuzz(func(t *testing.T, template, payload, name string) {
		run, job := templateCase()
		job.Name = name
		if job.Payload = json.RawMessage(payload); !json.Valid(job.Payload) {
			job.Payload = nil
		}
		parsed, err := parseTemplate(template)
		if err == nil {
			out, err := parsed.expand(run, job)
			if err == nil && !strings.Contains(template, "${") && string(out) != template {
				t.Fatalf("%q became %q", template, out)
			}
		}
		for _, quoted := range []string{`"${job.name}"`, `{"x":${payload}}`} {
			parsed, err := parseTemplate(quoted)
			if err != nil {
				t.Fatal(err)
			}
			out, err := parsed.expand(run, job)
			bare := strings.HasPrefix(strings.TrimSpace(payload), `"`) // text comes without its quotes
			if err == nil && !json.Valid(out) && !(bare && strings.Contains(quoted, "payload")) {
				t.Fatalf("%s became %s", quoted, out)
			}
		}
	})
}

package carillon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/carillon-run/carillon/internal/suggest"
)

// template is text with placeholders such as ${run.id} or ${payload.user.emails[0]}, for JSON bodies. A
// placeholder stands for JSON as it is, except that text comes without its quotes, escaped: "${payload.name}"
// between quotes is right for any name. A payload path that leads nowhere is null. $${ is a literal ${.
// Nothing is ever evaluated.
type template struct{ parts []templatePart }

// templatePart is literal text, or a placeholder.
type templatePart struct {
	literal string
	name    string // "run.id"; "payload", "item" or "nodes" with steps
	node    string // of "nodes": whose result
	steps   []templateStep
}

// text is the placeholder as it was written.
func (p *templatePart) text() string {
	text := "${" + p.name
	if p.name == nodesPlaceholder {
		text += "." + p.node + "." + resultWord
	}
	for _, step := range p.steps {
		if step.key != "" {
			text += "." + step.key
		} else {
			text += "[" + strconv.Itoa(step.index) + "]"
		}
	}
	return text + "}"
}

// templateStep is one step into the payload: a key, or an index when key is empty.
type templateStep struct {
	key   string
	index int
}

// Limits on the work that a small template can cause: without them 64 KiB of "${payload}" would be 1.6 GB of
// body.
const (
	maxPlaceholders  = 100
	maxTemplateSteps = 32
	maxExpanded      = 1 << 20
)

var placeholders = []string{
	"run.id", "run.attempt", "run.fence", "run.due_at", "run.covers_at", "job.id", "job.name", "job.type",
}

const (
	payloadPlaceholder = "payload"
	// These are for nodes of workflows: see workflow_values.go.
	nodesPlaceholder = "nodes"
	itemPlaceholder  = "item"
	indexPlaceholder = "index"
	// dollarPlaceholder is a $ in a text that is filled more than once: no value can make a placeholder with
	// what stands beside it.
	dollarPlaceholder = "dollar"
	resultWord        = "result"
)

// templateError says what is wrong with a template, and what would be right.
type templateError struct{ wrong, want string }

func (e *templateError) Error() string { return e.wrong + ": want " + e.want }

func badTemplate(wrong, want string, args ...any) error {
	return &templateError{wrong: wrong, want: fmt.Sprintf(want, args...)}
}

// ExpandBody fills the placeholders of Body in for one attempt.
func (h *HTTP) ExpandBody(run *Run, job *Job) ([]byte, error) {
	t, err := parseTemplate(h.Body)
	if err != nil {
		return nil, err
	}
	return t.expand(run, job)
}

// parseTemplate reads a template. The error names the wrong placeholder and lists the existing ones.
func parseTemplate(s string) (template, error) {
	var t template
	for count := 0; s != ""; {
		literal, rest, found := cutPlaceholder(s)
		if literal != "" {
			t.parts = append(t.parts, templatePart{literal: literal})
		}
		if !found {
			break
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			return template{}, badTemplate(
				"a ${ has no closing }", "a } for the ${ before %q, or $${ for a literal ${", head(rest),
			)
		}
		if name == dollarPlaceholder {
			t.parts, s = append(t.parts, templatePart{name: name}), after
			continue
		}
		if count++; count > maxPlaceholders {
			return template{}, badTemplate("too many placeholders", "at most %d", maxPlaceholders)
		}
		part, err := parsePlaceholder(name)
		if err != nil {
			return template{}, err
		}
		t.parts, s = append(t.parts, part), after
	}
	return t, nil
}

// cutPlaceholder returns the literal text up to the next ${, with $${ turned into ${, and the text after that
// ${.
func cutPlaceholder(s string) (literal, rest string, found bool) {
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		switch {
		case i < 0:
			b.WriteString(s)
			return b.String(), "", false
		case i == 0 || s[i-1] != '$':
			b.WriteString(s[:i])
			return b.String(), s[i+2:], true
		}
		b.WriteString(s[:i-1] + "${")
		s = s[i+2:]
	}
}

func parsePlaceholder(name string) (templatePart, error) {
	if slices.Contains(placeholders, name) {
		return templatePart{name: name}, nil
	}
	if part, is := parseNodePlaceholder(name); is {
		return part, nil
	}
	path, ok := strings.CutPrefix(name, payloadPlaceholder)
	steps, valid := parseSteps(path)
	if !ok || !valid {
		return templatePart{}, badTemplate("unknown placeholder ${"+head(name)+"}",
			"one of ${%s}, ${payload} and paths into it such as ${payload.a.b[0]}%s", strings.Join(
				placeholders, "}, ${",
			), placeholderLike(name))
	}
	return templatePart{name: payloadPlaceholder, steps: steps}, nil
}

// placeholderLike is a hint at the placeholder that was probably meant; a path into the payload keeps its
// steps.
func placeholderLike(name string) string {
	like := suggest.Nearest(name, placeholders)
	if end := strings.IndexAny(name+".", ".["); like == "" &&
		suggest.Nearest(name[:end], []string{payloadPlaceholder}) != "" {
		if _, valid := parseSteps(name[end:]); valid {
			like = payloadPlaceholder + name[end:]
		}
	}
	if like == "" {
		return ""
	}
	return "; did you mean ${" + like + "}?"
}

// parseSteps reads ".a.b[0]".
func parseSteps(path string) (steps []templateStep, ok bool) {
	for path != "" {
		end := strings.IndexAny(path[1:], ".[") + 1
		if end == 0 {
			end = len(path)
		}
		step, valid := parseStep(path[:end])
		if !valid || len(steps) == maxTemplateSteps {
			return nil, false
		}
		steps, path = append(steps, step), path[end:]
	}
	return steps, true
}

func parseStep(s string) (templateStep, bool) {
	if key, ok := strings.CutPrefix(s, "."); ok {
		odd := func(r rune) bool {
			return r != '_' && r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') &&
				(r < 'A' || r > 'Z')
		}
		return templateStep{key: key}, key != "" && strings.IndexFunc(key, odd) < 0
	}
	digits, closed := strings.CutSuffix(s[1:], "]")
	n, err := strconv.ParseUint(digits, 10, 31)
	return templateStep{index: int(n)}, s[0] == '[' && closed && err == nil
}

// expand fills the placeholders in for one attempt.
func (t template) expand(run *Run, job *Job) ([]byte, error) {
	var b bytes.Buffer
	var payload any // decoded once, however many paths lead into it
	for _, part := range t.parts {
		switch {
		case part.name == "":
			b.WriteString(part.literal)
		case part.name == dollarPlaceholder:
			b.WriteByte('$')
		case part.ofNode():
			b.WriteString("null") // the node that handed the run out has filled it in
		case part.name != payloadPlaceholder:
			b.WriteString(jsonText(fact(part.name, run, job)))
		case len(job.Payload) == 0:
			b.WriteString("null")
		case len(part.steps) == 0 && !bytes.HasPrefix(bytes.TrimSpace(job.Payload), []byte{'"'}):
			b.Write(job.Payload) // as it was given, its keys in their order
		default:
			if payload == nil {
				d := json.NewDecoder(bytes.NewReader(job.Payload))
				d.UseNumber() // 12345678901234567890 must come out as it went in
				if err := d.Decode(&payload); err != nil {
					return nil, fmt.Errorf("payload: %w", err)
				}
			}
			b.WriteString(jsonText(walk(payload, part.steps)))
		}
		if b.Len() > maxExpanded {
			return nil, fmt.Errorf("the expanded template is larger than %d bytes", maxExpanded)
		}
	}
	return b.Bytes(), nil
}

// fact is the value of every placeholder outside the payload.
func fact(name string, run *Run, job *Job) any {
	switch name {
	case "run.id":
		return run.ID.String()
	case "run.attempt":
		return run.Attempt
	case "run.fence":
		return run.Fence()
	case "run.due_at":
		return run.ID.Due.String()
	case "run.covers_at":
		if run.Covers == 0 {
			return ""
		}
		return run.Covers.String()
	case "job.id":
		return job.ID.String()
	case "job.name":
		return job.Name
	case "job.type":
		return job.Type
	}
	panic("unknown placeholder " + name) // parseTemplate refuses it
}

func walk(v any, steps []templateStep) any {
	for _, step := range steps {
		if list, ok := v.([]any); ok && step.key == "" && step.index < len(list) {
			v = list[step.index]
		} else if object, ok := v.(map[string]any); ok && step.key != "" {
			v = object[step.key] // nil, hence null, if it is not there
		} else {
			return nil
		}
	}
	return v
}

// jsonText is v as JSON, a string without its quotes.
func jsonText(v any) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return "null" // cannot happen: decoded JSON, numbers and strings can be encoded
	}
	s := strings.TrimSuffix(b.String(), "\n")
	if _, ok := v.(string); ok {
		s = s[1 : len(s)-1]
	}
	return s
}

func head(s string) string {
	if len(s) > 40 {
		return strings.ToValidUTF8(s[:40], "") + "…"
	}
	return s
}

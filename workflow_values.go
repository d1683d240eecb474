package carillon

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// texts calls f with every text in a decoded payload. f returns what takes its place.
func texts(v any, f func(text string) (any, error)) (any, error) {
	var err error
	switch v := v.(type) {
	case string:
		if !strings.Contains(v, "$") {
			return v, nil
		}
		return f(v)
	case []any:
		for i := range v {
			if v[i], err = texts(v[i], f); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for key := range v {
			if v[key], err = texts(v[key], f); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func decodeNumbers(b []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber() // 12345678901234567890 must come out as it went in
	err = d.Decode(&v)
	return v, err
}

// hasTemplate says that a payload may have placeholders. Most have none, and are not decoded to find out.
func hasTemplate(payload []byte) bool { return bytes.Contains(payload, []byte("${")) }

// Values are what the placeholders of a node stand for. A result that is not there is nil, and so null.
type Values struct {
	Payload []byte            // of the workflow's run
	Results map[string][]byte // by node
	// Item and Index are of one item of a node that maps over a list; Item nil: they stay as they are.
	Item  []byte
	Index int

	decoded map[string]any
}

func (v *Values) get(part *templatePart) (value any, known bool) {
	var of []byte
	switch part.name {
	case indexPlaceholder:
		return json.Number(strconv.Itoa(v.Index)), v.Item != nil
	case itemPlaceholder:
		of, known = v.Item, v.Item != nil
	case nodesPlaceholder:
		of, known = v.Results[part.node], v.Results != nil
	case payloadPlaceholder:
		of, known = v.Payload, v.Results != nil
	}
	if !known || len(of) == 0 {
		return nil, known
	}
	key := part.name + "." + part.node
	whole, done := v.decoded[key]
	if !done {
		var err error
		if whole, err = decodeNumbers(of); err != nil || !json.Valid(of) {
			whole = strings.ToValidUTF8(string(of), "\uFFFD") // a result can be any text
		}
		if v.decoded == nil {
			v.decoded = map[string]any{}
		}
		v.decoded[key] = whole
	}
	return walk(whole, part.steps), true
}

// NeedsValues says which values the definition of a node needs when a run is handed out: the results of
// nodes, and the payload of the workflow.
func (d *Definition) NeedsValues() (nodes []string, needs bool) {
	if !hasTemplate(d.Payload) && (d.Target.HTTP == nil || !strings.Contains(d.Target.HTTP.Body, "${")) {
		return nil, false
	}
	n := WorkflowNode{Definition: *d}
	needs = hasTemplate(d.Payload) // perhaps only for $${
	_ = n.eachPlaceholder(func(_ string, part *templatePart) *FieldError {
		if part.name == nodesPlaceholder && !slices.Contains(nodes, part.node) {
			nodes = append(nodes, part.node)
		}
		needs = needs || part.name == nodesPlaceholder
		return nil
	})
	return nodes, needs
}

// Fill puts values in the place of placeholders: in the texts of the payload, and in the body of an HTTP
// request. A text of the payload that is one placeholder becomes the value, whatever it is. Placeholders
// without a value stay.
func (d *Definition) Fill(v *Values) error {
	if hasTemplate(d.Payload) {
		payload, err := decodeNumbers(d.Payload)
		if err != nil {
			return fmt.Errorf("payload: %w", err)
		}
		if payload, err = texts(payload, v.fillText); err != nil {
			return err
		}
		b, err := marshal(payload)
		if err != nil {
			return err
		}
		if len(b) > MaxPayload {
			return fmt.Errorf("the payload has %s with its values: at most 256 KiB", byteCount(len(b)))
		}
		if d.Payload = b; string(b) == "null" {
			d.Payload = nil
		}
	}
	if h := d.Target.HTTP; h != nil && strings.Contains(h.Body, "${") {
		t, err := parseTemplate(h.Body)
		if err != nil {
			return err
		}
		filled := *h
		filled.Body = t.fill(func(part *templatePart) (any, bool) {
			if !part.ofNode() {
				return nil, false
			}
			return v.get(part)
		})
		if len(filled.Body) > maxExpanded {
			return fmt.Errorf("the body has %s with its values: at most 1 MiB", byteCount(len(filled.Body)))
		}
		d.Target.HTTP = &filled
	}
	return nil
}

// fillText fills one text of a payload.
func (v *Values) fillText(text string) (any, error) {
	t, err := parseTemplate(text)
	if err != nil {
		return nil, err
	}
	if len(t.parts) == 1 && t.parts[0].name != "" {
		if value, known := v.get(&t.parts[0]); known {
			if v.Results == nil {
				value = escaped(value)
			}
			return value, nil
		}
	}
	var b strings.Builder
	for i := range t.parts {
		part := &t.parts[i]
		value, known := any(nil), false
		if part.name != "" {
			value, known = v.get(part)
		}
		switch {
		case part.name == "" && v.Results != nil:
			b.WriteString(part.literal) // the last time: $${ becomes ${
		case part.name == "":
			b.WriteString(escapeText(part.literal))
		case part.name == dollarPlaceholder && v.Results != nil:
			b.WriteByte('$')
		case !known:
			b.WriteString(part.text())
		default:
			b.WriteString(plainText(value, v.Results == nil))
		}
		if b.Len() > maxExpanded {
			return nil, fmt.Errorf("a text of the payload is larger than %d bytes", maxExpanded)
		}
	}
	return b.String(), nil
}

// plainText is a value inside of a text: a text as it is, all else as JSON. If the text is filled again, a ${
// in the value must not be taken for a placeholder.
func plainText(value any, again bool) string {
	text, is := value.(string)
	if !is {
		b, _ := marshal(value)
		text = string(b)
	}
	if again {
		text = escapeText(text)
	}
	return text
}

// escaped is a value that will be filled again, in which nothing is a placeholder.
func escaped(value any) any {
	copied, _ := decodeNumbers(must(marshal(value))) // others use the value too
	copied, _ = texts(copied, func(text string) (any, error) {
		return escapeText(text), nil
	})
	return copied
}

// escapeText is a text that will be filled again, in which nothing is a placeholder, whatever stands
// beside it.
func escapeText(text string) string { return strings.ReplaceAll(text, "$", "${"+dollarPlaceholder+"}") }

func must(b []byte, err error) []byte {
	if err != nil {
		return []byte("null") // cannot happen: decoded JSON can be encoded
	}
	return b
}

// fill returns the template with some placeholders filled in, and all else as it was.
func (t template) fill(value func(part *templatePart) (any, bool)) string {
	var b strings.Builder
	for i := range t.parts {
		part := &t.parts[i]
		if part.name == "" {
			b.WriteString(escapeText(part.literal))
			continue
		}
		if v, known := value(part); known {
			b.WriteString(escapeText(jsonText(v)))
		} else {
			b.WriteString(part.text())
		}
	}
	return b.String()
}

func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// List is the list that a map stands for, each item as JSON.
func (v *Values) List(text string) ([]json.RawMessage, error) {
	t, err := parseTemplate(text)
	if err != nil || len(t.parts) != 1 {
		return nil, fmt.Errorf("map: %s is no placeholder", cut(text))
	}
	value, _ := v.get(&t.parts[0])
	list, is := value.([]any)
	if !is {
		return nil, fmt.Errorf("map: %s is no list: it is %s", text, kindOf(value))
	}
	if len(list) > MaxWorkflowNodes {
		return nil, fmt.Errorf("map: %s has %d items: at most %d", text, len(list), MaxWorkflowNodes)
	}
	items := make([]json.RawMessage, len(list))
	for i := range list {
		if items[i], err = marshal(list[i]); err != nil {
			return nil, err
		}
	}
	return items, nil
}

func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "text"
	case bool:
		return "true or false"
	case map[string]any:
		return "an object"
	}
	return "a number"
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

// written is one job of a file, and its place in the file.
type written struct {
	body []byte   // JSON
	line int      // where it begins
	node ast.Node // the YAML it came from; nil: JSON
	// listed says that the job is an item of a list: the answer is then a list too, even if it is the only
	// item.
	listed bool
}

// separator is a line between two YAML documents. No line of JSON begins with it.
var separator = regexp.MustCompile(`(?m)^---(\s|$)`)

// readDefinitions reads one job, a list of jobs, a list as the API answers with, or any number of these: one
// JSON value after another, or YAML documents.
func (a *app) readDefinitions(file string) ([]written, error) {
	text, err := a.readFile(file)
	if err != nil {
		return nil, usage("-f: %v", err)
	}
	defs, complete, err := jsonDefinitions(text)
	// Not even one value is JSON, or JSON is one YAML document of several.
	if err != nil && (complete == 0 || separator.Match(text)) {
		if defs, err = yamlDefinitions(text); err != nil {
			err = yamlFault(err)
		}
	}
	if err != nil {
		return nil, usage("-f: %s: %v", fileName(file), err)
	}
	if len(defs) == 0 {
		return nil, usage("-f: %s has no job", fileName(file))
	}
	printed := 0
	for i := range defs {
		if rest, ok := withoutReadOnly(defs[i].body); ok {
			defs[i].body = rest
			printed++
		}
	}
	if printed > 0 {
		fmt.Fprintf(a.err,
			"carillon: -f: %s has %s in the form that Carillon prints; they are submitted as new jobs, "+
				"without their ids and states\n",
			fileName(file), count(printed, "job"))
	}
	return defs, nil
}

// yamlFault names the line of a syntax error in the same way as the other errors about a file.
func yamlFault(err error) error {
	var fault yaml.Error
	if errors.As(err, &fault) && fault.GetToken() != nil {
		return fmt.Errorf("line %d: not YAML: %s", fault.GetToken().Position.Line, fault.GetMessage())
	}
	return errors.New(yaml.FormatError(err, false, false))
}

func (a *app) readFile(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(a.in)
	}
	return os.ReadFile(file)
}

// jsonDefinitions reads JSON values, one after the other. complete is how many of them it read before an
// error.
func jsonDefinitions(text []byte) (defs []written, complete int, err error) {
	lines := lineCounter{text: text}
	for at := 0; ; complete++ {
		at += len(text[at:]) - len(bytes.TrimLeft(text[at:], " \t\r\n\ufeff"))
		if at == len(text) {
			return defs, complete, nil
		}
		dec := json.NewDecoder(bytes.NewReader(text[at:]))
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, complete, fmt.Errorf(
				"line %d: not JSON: %w", lines.at(at+int(dec.InputOffset())), err,
			)
		}
		for _, offset := range itemOffsets(value) {
			var def json.RawMessage
			// There is no error: it is a part of a value that was decoded.
			_ = json.NewDecoder(bytes.NewReader(value[offset:])).Decode(&def)
			defs = append(defs, written{body: def, line: lines.at(at + offset), listed: offset > 0})
		}
		at += int(dec.InputOffset())
	}
}

// itemOffsets are the offsets of the jobs in a value: of the items of a list, or of the value itself.
func itemOffsets(value []byte) (offsets []int) {
	dec := json.NewDecoder(bytes.NewReader(value))
	switch first, _ := dec.Token(); first {
	case json.Delim('['):
	case json.Delim('{'):
		if key, _ := dec.Token(); key != "items" {
			return []int{0}
		}
		if list, _ := dec.Token(); list != json.Delim('[') {
			return []int{0}
		}
	default:
		return []int{0}
	}
	for dec.More() {
		at := int(dec.InputOffset())
		offsets = append(offsets, at+spaceBefore(value[at:]))
		var skipped json.RawMessage
		_ = dec.Decode(&skipped)
	}
	return offsets
}

// spaceBefore counts the bytes before an item of a list in valid JSON: space, and the comma after the
// previous item.
func spaceBefore(text []byte) int { return len(text) - len(bytes.TrimLeft(text, " \t\r\n,")) }

// lineCounter turns offsets into line numbers. Offsets must rise.
type lineCounter struct {
	text  []byte
	seen  int
	lines int
}

func (l *lineCounter) at(offset int) int {
	offset = min(offset, len(l.text))
	l.lines += bytes.Count(l.text[l.seen:offset], []byte("\n"))
	l.seen = offset
	return l.lines + 1
}

// readOnly are the fields of a job that the server fills in: a job has them and a definition does not.
var readOnly = func() map[string]bool {
	fields := map[string]bool{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[client.JobDetail]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name] = true
	}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[carillon.Definition]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		delete(fields, name)
	}
	return fields
}()

// withoutReadOnly removes the read-only fields from a job that "job -o yaml" printed; such a job has the id
// of a job. In any other definition it keeps such a field: it is a wish that the server cannot grant, and the
// server refuses it.
func withoutReadOnly(body []byte) (rest []byte, printed bool) {
	dec := json.NewDecoder(bytes.NewReader(body))
	if first, err := dec.Token(); err != nil || first != json.Delim('{') {
		return body, false
	}
	kept := [][]byte{}
	for dec.More() {
		key, _ := dec.Token()
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return body, false
		}
		name, _ := key.(string)
		if name == "id" {
			var id carillon.JobID
			printed = json.Unmarshal(value, &id) == nil && id != 0
		}
		if !readOnly[name] {
			quoted, _ := json.Marshal(name)
			kept = append(kept, bytes.Join([][]byte{quoted, value}, []byte(":")))
		}
	}
	if !printed {
		return body, false
	}
	return append(append([]byte("{"), bytes.Join(kept, []byte(","))...), '}'), true
}

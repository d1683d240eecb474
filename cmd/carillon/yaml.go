package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/carillon-run/carillon"
)

// yamlDefinitions reads the jobs of all documents.
func yamlDefinitions(text []byte) (defs []written, err error) {
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		return nil, err
	}
	for i, document := range file.Docs {
		// An empty document: nothing between two separators.
		if document.Body == nil || document.Body.Type() == ast.NullType ||
			document.Body.Type() == ast.CommentType {
			continue
		}
		for _, node := range yamlItems(document.Body) {
			var b bytes.Buffer
			if err := writeJSON(&b, node); errors.Is(err, errReference) {
				return referenced(text)
			} else if err != nil {
				return nil, fmt.Errorf("document %d, %w", i+1, err)
			}
			defs = append(defs, written{
				body: b.Bytes(), line: lineOf(node), node: node, listed: node != document.Body,
			})
		}
	}
	return defs, nil
}

// yamlItems are the jobs of a document: the items of a list, or the single one.
func yamlItems(body ast.Node) []ast.Node {
	if entries := entriesOf(body); len(entries) > 0 && keyOf(entries[0]) == "items" {
		body = entries[0].Value
	}
	if list, ok := body.(*ast.SequenceNode); ok {
		return list.Values
	}
	return []ast.Node{body}
}

// entriesOf are the fields of a mapping. The library has another kind of node for a mapping with only one
// field.
func entriesOf(node ast.Node) []*ast.MappingValueNode {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

func keyOf(entry *ast.MappingValueNode) string {
	if text, ok := entry.Key.(*ast.StringNode); ok {
		return text.Value
	}
	return entry.Key.GetToken().Value
}

func lineOf(node ast.Node) int {
	if entry, ok := node.(*ast.MappingValueNode); ok {
		return entry.Key.GetToken().Position.Line
	}
	if entries := entriesOf(node); len(entries) > 0 {
		return lineOf(entries[0])
	}
	return node.GetToken().Position.Line
}

var errReference = errors.New("anchors, aliases and tags")

// writeJSON keeps the order of fields, and numbers as they are written: the target gets a payload exactly as
// the user wrote it.
func writeJSON(b *bytes.Buffer, node ast.Node) error {
	switch n := node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return writeObject(b, entriesOf(n))
	case *ast.SequenceNode:
		b.WriteByte('[')
		for i, item := range n.Values {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := writeJSON(b, item); err != nil {
				return err
			}
		}
		b.WriteByte(']')
	case *ast.StringNode:
		// The library takes 1e3 and large numbers for texts.
		if n.Token.Type == token.StringType && isNumber(n.Value) {
			b.WriteString(n.Value)
			return nil
		}
		b.Write(jsonText(n.Value))
	case *ast.LiteralNode:
		b.Write(jsonText(n.Value.Value))
	case *ast.BoolNode:
		b.WriteString(strconv.FormatBool(n.Value))
	case *ast.NullNode:
		b.WriteString("null")
	case *ast.IntegerNode, *ast.FloatNode:
		if text := n.GetToken().Value; json.Valid([]byte(text)) {
			b.WriteString(text)
			return nil
		}
		return errReference // 0x10, 1_000: the library reads all of these
	case *ast.InfinityNode, *ast.NanNode:
		return fmt.Errorf("line %d: %s is a value that JSON does not have", lineOf(n), n.GetToken().Value)
	default:
		return errReference
	}
	return nil
}

// isNumber says that both YAML 1.2 and JSON read a text without quotes as a number.
func isNumber(s string) bool {
	return s != "" && (s[0] == '-' || s[0] >= '0' && s[0] <= '9') && json.Valid([]byte(s))
}

func writeObject(b *bytes.Buffer, entries []*ast.MappingValueNode) error {
	b.WriteByte('{')
	for i, entry := range entries {
		if entry.Key.IsMergeKey() {
			return errReference
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(jsonText(keyOf(entry)))
		b.WriteByte(':')
		if err := writeJSON(b, entry.Value); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

func jsonText(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // encoding a string cannot fail
	return bytes.TrimSpace(b.Bytes())
}

// referenced reads, with the library, documents with anchors, aliases, tags and numbers that only YAML has.
func referenced(text []byte) (defs []written, err error) {
	var documents []any
	decoder := yaml.NewDecoder(bytes.NewReader(text), yaml.UseOrderedMap())
	for {
		var value any
		if err := decoder.Decode(&value); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, err
		}
		if fields, ok := value.(yaml.MapSlice); ok && len(fields) > 0 && fields[0].Key == "items" {
			value = fields[0].Value
		}
		if list, ok := value.([]any); ok {
			documents = append(documents, list...)
		} else if value != nil {
			documents = append(documents, value)
		}
	}
	for i, value := range documents {
		document, err := yaml.MarshalWithOptions(value, yaml.JSON())
		if err != nil || !json.Valid(document) {
			return nil, fmt.Errorf("job %d has a value that JSON does not have", i+1)
		}
		defs = append(defs, written{body: bytes.TrimSpace(document)})
	}
	return defs, nil
}

// lineAt is the line of a field, or of the nearest written parent; 0 if that is not known either.
func (w *written) lineAt(path string) int {
	line, node := w.line, w.node
	if node == nil && w.line > 0 {
		if file, err := parser.ParseBytes(w.body, 0); err == nil && len(file.Docs) == 1 {
			return w.line + (&written{line: 1, node: file.Docs[0].Body}).lineAt(path) - 1
		}
	}
	for _, name := range strings.FieldsFunc(path, func(r rune) bool {
		return r == '.' || r == '[' || r == ']'
	}) {
		var next ast.Node
		if list, ok := node.(*ast.SequenceNode); ok {
			if i, err := strconv.Atoi(name); err == nil && i < len(list.Values) {
				next = list.Values[i]
				line = lineOf(next)
			}
		}
		for _, entry := range entriesOf(node) {
			if keyOf(entry) == name {
				next, line = entry.Value, lineOf(entry)
			}
		}
		if next == nil {
			break
		}
		node = next
	}
	return line
}

// toYAML writes JSON as YAML with the same names, order, texts and numbers. Reading it back gives the same
// JSON.
func toYAML(text []byte) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	y := yamlWriter{dec: dec}
	err := y.value(0, false)
	return bytes.TrimLeft(y.Bytes(), " \n"), err
}

type yamlWriter struct {
	bytes.Buffer
	dec *json.Decoder
}

// value writes the next value, after "key:" or "-". Only a mapping in a list begins on the same line.
func (y *yamlWriter) value(depth int, inList bool) error {
	next, err := y.dec.Token()
	if err != nil {
		return err
	}
	switch t := next.(type) {
	case json.Delim:
		return y.entries(t, depth, inList)
	case string:
		y.WriteString(" " + yamlText(t, depth) + "\n")
	case nil:
		y.WriteString(" null\n")
	default:
		fmt.Fprintf(y, " %v\n", t)
	}
	return nil
}

func (y *yamlWriter) entries(open json.Delim, depth int, inList bool) error {
	if !y.dec.More() {
		fmt.Fprintf(y, " %s\n", map[json.Delim]string{'[': "[]", '{': "{}"}[open])
		_, err := y.dec.Token()
		return err
	}
	for first := true; y.dec.More(); first = false {
		switch {
		case first && inList:
			y.WriteByte(' ')
		case first:
			y.WriteByte('\n')
			fallthrough
		default:
			y.WriteString(strings.Repeat("  ", depth))
		}
		if open == '{' {
			key, err := y.dec.Token()
			if err != nil {
				return err
			}
			y.WriteString(yamlText(key.(string), -1) + ":")
		} else {
			y.WriteByte('-')
		}
		if err := y.value(depth+1, open == '['); err != nil {
			return err
		}
	}
	_, err := y.dec.Token()
	return err
}

// yamlText is a text without quotes where YAML cannot take it for anything else, as a block if it has several
// plain lines, and else in quotes. A key has the depth -1.
func yamlText(s string, depth int) string {
	plain := func(r rune) bool {
		return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" ._-/@+=,%()", r)
	}
	words := []string{"null", "true", "false", "yes", "no", "on", "off", "y", "n"}
	switch {
	case s != "" && unicode.IsLetter(rune(s[0])) && s[0] < 0x80 && strings.TrimSpace(s) == s &&
		!slices.Contains(words, strings.ToLower(s)) &&
		!strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }):
		return s
	case isDuration(s): // begins with a digit, and is not a number
		return s
	case depth >= 0 && strings.Contains(s, "\n") && blockText(s):
		indent := "\n" + strings.Repeat("  ", depth)
		head, body := "|-", s
		if strings.HasSuffix(s, "\n") {
			head, body = "|", strings.TrimSuffix(s, "\n")
		}
		return head + indent + strings.ReplaceAll(body, "\n", indent)
	}
	return string(jsonText(s))
}

func isDuration(s string) bool {
	_, err := carillon.ParseDuration(s)
	return err == nil && !isNumber(s) && strings.Trim(s, "0123456789dhms") == ""
}

// blockText says that a text of several lines reads back unchanged from a block.
func blockText(s string) bool {
	for line := range strings.SplitSeq(strings.TrimSuffix(s, "\n"), "\n") {
		if strings.TrimSpace(line) == "" || strings.TrimRight(line, " ") != line ||
			strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return false
		}
	}
	return s[0] != ' '
}

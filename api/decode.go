package api

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/carillon-run/carillon"
)

// decode reads JSON over what into points to: what the JSON does not name stays as it is. Unlike encoding/json it
// refuses whatever it would have to guess about (unknown fields, the same field twice, null, data after the end), and
// says for every fault where it is, what was given and what would be right.
func decode(body []byte, into any, maxDepth int) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return invalid("body", "", "a JSON object")
	}
	if err := checkText(body); err != nil {
		return err
	}
	d := newDecoder(body, 0, maxDepth)
	if err := d.value("", reflect.ValueOf(into).Elem()); err != nil {
		return err
	}
	return d.end()
}

type decoder struct {
	body     []byte
	json     tokens
	depth    int
	maxDepth int
}

func newDecoder(body []byte, depth, maxDepth int) *decoder {
	return &decoder{body: body, json: tokensOf(body), depth: depth, maxDepth: maxDepth}
}

// value reads the next value into v, as v's type wants it.
func (d *decoder) value(path string, v reflect.Value) error {
	switch into := v.Addr().Interface().(type) {
	case *json.RawMessage:
		return d.raw(path, into)
	case json.Unmarshaler:
		return d.own(path, into)
	}
	switch v.Kind() {
	case reflect.Pointer:
		fresh := reflect.New(v.Type().Elem())
		v.Set(fresh)
		return d.value(path, fresh.Elem())
	case reflect.Struct:
		return d.object(path, v)
	case reflect.Map:
		return d.mapping(path, v)
	case reflect.Slice:
		return d.list(path, v)
	}
	return d.scalar(path, v)
}

// raw keeps a value byte for byte. Its inside is looked at for what is ambiguous all the same, unless it is too big:
// then it is refused later anyway, and remembering its keys could take far more memory than it has itself.
func (d *decoder) raw(path string, into *json.RawMessage) error {
	var value json.RawMessage
	if err := d.json.Decode(&value); err != nil {
		return d.syntax(path, err)
	}
	*into = value
	if len(value) > carillon.MaxPayload {
		return nil
	}
	return newDecoder(value, d.depth, d.maxDepth).skip(path)
}

// own lets a type read its own grammar, and says where it was if that fails.
func (d *decoder) own(path string, into json.Unmarshaler) error {
	var value json.RawMessage
	if err := d.json.Decode(&value); err != nil {
		return d.syntax(path, err)
	}
	err := into.UnmarshalJSON(value)
	var fault *carillon.FieldError
	if errors.As(err, &fault) {
		if string(value) == "null" {
			fault.Given = "null"
		}
		return invalid(path, fault.Given, fault.Want)
	}
	if t, ok := into.(*carillon.Time); ok && *t == 0 && err == nil && string(value) != "null" { // it would be taken for none
		return invalid(path, strings.Trim(string(value), `"`), "a time after 1970-01-01, or null for none")
	}
	return err
}

// shorthand is the field that a plain text stands for where an object is wanted: "misfire":"skip".
var shorthand = map[reflect.Type]string{reflect.TypeFor[carillon.Misfire](): "policy"}

// whole types are replaced, not merged: half of an old schedule and half of a new one is neither.
var whole = map[reflect.Type]bool{reflect.TypeFor[carillon.Schedule](): true, reflect.TypeFor[carillon.Target](): true}

func (d *decoder) object(path string, v reflect.Value) error {
	fields := fieldsOf(v.Type())
	token, err := d.token(path)
	if err != nil {
		return err
	}
	if text, ok := token.(string); ok && shorthand[v.Type()] != "" {
		v.Field(fields.index[shorthand[v.Type()]]).SetString(text)
		return nil
	}
	if token != json.Delim('{') {
		return wrong(path, token, "an object")
	}
	if whole[v.Type()] {
		v.SetZero()
	}
	another := oneWhen(v.Type())
	parent := path
	return d.members(path, len(fields.names), func(path, name string) error {
		i, ok := fields.index[name]
		if !ok {
			return invalid(path, name, fields.hint(name))
		}
		if err := another(parent, name); err != nil {
			return err
		}
		if err := d.value(path, v.Field(i)); err != nil {
			return err
		}
		return fields.checkGiven(path, name, v.Field(i))
	})
}

// maxEntries bounds what a map in a definition may have, long before its own rule counts it.
const maxEntries = 1000

func (d *decoder) mapping(path string, v reflect.Value) error {
	if err := d.open(path, '{', "an object of text"); err != nil {
		return err
	}
	v.Set(reflect.MakeMap(v.Type()))
	return d.members(path, maxEntries, func(path, name string) error {
		value := reflect.New(v.Type().Elem()).Elem()
		if err := d.value(path, value); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(name), value)
		return nil
	})
}

// members reads up to most fields and the closing brace.
func (d *decoder) members(path string, most int, each func(path, name string) error) error {
	if err := d.enter(path); err != nil {
		return err
	}
	seen := map[string]bool{}
	near := path // a fault between two fields is most likely the end of the first: "priority":05
	for d.json.More() {
		token, err := d.token(near)
		if err != nil {
			return err
		}
		name, at := token.(string), join(path, token.(string))
		near = at
		if seen[name] {
			return invalid(at, shorten(name, maxGiven)+" twice", "each field once")
		}
		if err := each(at, name); err != nil {
			return err
		}
		if seen[name] = true; len(seen) > most {
			return invalid(orBody(path), "more than "+strconv.Itoa(most)+" entries", "at most "+strconv.Itoa(most))
		}
	}
	return d.leave(path)
}

func (d *decoder) list(path string, v reflect.Value) error {
	most := 1 << 16
	if v.Type().Elem() == reflect.TypeFor[carillon.Definition]() {
		most = maxBatch
	}
	if err := d.open(path, '[', "a list"); err != nil {
		return err
	}
	v.SetZero()
	return d.items(path, most, func(path string) error {
		item := reflect.New(v.Type().Elem()).Elem()
		if fresh, ok := item.Addr().Interface().(*carillon.Definition); ok {
			*fresh = carillon.NewDefinition()
		}
		if err := d.value(path, item); err != nil {
			return err
		}
		v.Set(reflect.Append(v, item))
		return nil
	})
}

// items reads up to most items and the closing bracket.
func (d *decoder) items(path string, most int, each func(path string) error) error {
	if err := d.enter(path); err != nil {
		return err
	}
	for i := 0; d.json.More(); i++ {
		if i == most {
			return invalid(path, "more than "+strconv.Itoa(most)+" items", "at most "+strconv.Itoa(most))
		}
		if err := each(path + "[" + strconv.Itoa(i) + "]"); err != nil {
			return err
		}
	}
	return d.leave(path)
}

func (d *decoder) scalar(path string, v reflect.Value) error {
	token, err := d.token(path)
	if err != nil {
		return err
	}
	switch v.Kind() {
	case reflect.String:
		text, ok := token.(string)
		if !ok {
			return wrong(path, token, "text")
		}
		v.SetString(text)
	case reflect.Bool:
		is, ok := token.(bool)
		if !ok {
			return wrong(path, token, "true or false")
		}
		v.SetBool(is)
	case reflect.Int:
		n, err := strconv.ParseInt(number(token), 10, v.Type().Bits())
		if err != nil {
			return wrong(path, token, "a whole number")
		}
		v.SetInt(n)
	case reflect.Float64:
		f, err := strconv.ParseFloat(number(token), 64)
		if err != nil {
			return wrong(path, token, "a number")
		}
		v.SetFloat(f)
	default:
		panic(fmt.Sprintf("the decoder does not know %s at %s", v.Type(), path))
	}
	return nil
}

// skip checks a value that nobody reads further.
func (d *decoder) skip(path string) error {
	token, err := d.token(path)
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('{'):
		return d.members(path, len(d.body), func(path, _ string) error { return d.skip(path) })
	case json.Delim('['):
		return d.items(path, len(d.body), d.skip)
	}
	return nil
}

func (d *decoder) open(path string, delim json.Delim, want string) error {
	token, err := d.token(path)
	if err == nil && token != delim {
		err = wrong(path, token, want)
	}
	return err
}

func (d *decoder) enter(path string) error {
	if d.depth++; d.depth > d.maxDepth {
		most := strconv.Itoa(d.maxDepth)
		return invalid(orBody(path), "more than "+most+" levels of nesting", "at most "+most)
	}
	return nil
}

func (d *decoder) leave(path string) error {
	d.depth--
	_, err := d.token(path)
	return err
}

func (d *decoder) end() error {
	token, err := d.json.Token()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return d.syntax("", err)
	}
	return invalid("body", "after the end: "+given(token), "one JSON object and nothing after it")
}

func (d *decoder) token(path string) (json.Token, error) {
	token, err := d.json.Token()
	if err != nil {
		return nil, d.syntax(path, err)
	}
	return token, nil
}

// syntax says where JSON stopped being JSON.
func (d *decoder) syntax(path string, err error) error {
	at := int(d.json.InputOffset())
	var bad *json.SyntaxError
	if errors.As(err, &bad) && int(bad.Offset) > at {
		at = int(bad.Offset)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return invalid(orBody(path), "an end at byte "+strconv.Itoa(len(d.body)), "complete JSON")
	}
	around := d.body[max(0, min(at, len(d.body))-20):min(len(d.body), at+10)]
	why := strings.TrimPrefix(err.Error(), "json: ")
	return invalid(orBody(path), strings.ToValidUTF8(string(around), ""), "valid JSON ("+why+", byte "+strconv.Itoa(at)+")")
}

func wrong(path string, token json.Token, want string) error {
	return invalid(orBody(path), given(token), want)
}

func given(token json.Token) string {
	switch t := token.(type) {
	case nil:
		return "null"
	case json.Delim:
		return map[json.Delim]string{'{': "an object", '[': "a list"}[t]
	case string:
		return strconv.Quote(shorten(t, maxGiven))
	}
	return fmt.Sprint(token)
}

// number is the text of a number, and no number for what is none.
func number(token json.Token) string {
	n, _ := token.(json.Number)
	return n.String()
}

func join(path, name string) string {
	if name = shorten(name, 64); name == "" {
		name = `""`
	}
	if path == "" {
		return name
	}
	return path + "." + name
}

func orBody(path string) string {
	if path == "" {
		return "body"
	}
	return path
}

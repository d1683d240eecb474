package jobjson

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/carillon-run/carillon"
)

// Decode reads JSON over the value that into points to: fields that the JSON does not name stay as they are.
// Unlike encoding/json, Decode refuses input that it would have to guess about (unknown fields, the same
// field twice, null, data after the end). Every error says where the fault is, what was given and what would
// be right.
func Decode(body []byte, into any) error { return decode(body, into, maxDepth) }

func decode(body []byte, into any, maxDepth int) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return invalid("body", "", "a JSON object")
	}
	d := &decoder{json: lexer{body: body}, maxDepth: maxDepth}
	err := d.value(reflect.ValueOf(into).Elem())
	if err == nil {
		err = d.json.end()
	}
	if err == nil && !d.json.unchecked {
		return nil
	}
	// The error is that of the first fault. But if the body is not even JSON, that comes before everything
	// else: the rest of the body may not mean what it seems to.
	if fault := checkText(body); fault != nil {
		return fault
	}
	if fault := checkSyntax(body); fault != nil {
		return fault
	}
	return inBody(err)
}

// decoder reads a body once, from its beginning to its end. Its errors name the field from the value on that
// the method read; the caller puts the way to that value in front (see under). So a body without a fault
// costs no paths.
type decoder struct {
	json     lexer
	depth    int
	maxDepth int
	large    int // where a raw value is too large to be accepted
}

// value reads the next value into v, as v's type wants it.
func (d *decoder) value(v reflect.Value) error {
	switch into := v.Addr().Interface().(type) {
	case *json.RawMessage:
		return d.raw(into)
	case *carillon.WorkflowNode, *carillon.HookJob: // their own readers are for what the store has
		return d.object(v)
	case json.Unmarshaler:
		return d.own(into)
	case encoding.TextUnmarshaler:
		return d.own(textual{into})
	}
	switch v.Kind() {
	case reflect.Pointer:
		fresh := reflect.New(v.Type().Elem()) // others can have what v points to
		if !v.IsNil() {
			fresh.Elem().Set(v.Elem()) // an edit gives only what changes
		}
		v.Set(fresh)
		return d.value(fresh.Elem())
	case reflect.Struct:
		return d.object(v)
	case reflect.Map:
		return d.mapping(v)
	case reflect.Slice:
		return d.list(v)
	}
	return d.scalar(v)
}

// textual is a type that reads a text, such as an id.
type textual struct{ encoding.TextUnmarshaler }

func (t textual) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		text = string(b)
	}
	return t.UnmarshalText([]byte(text))
}

// own lets a type read its own grammar. All such types are texts, numbers or words.
func (d *decoder) own(into json.Unmarshaler) error {
	read := d.json.plain
	if c := d.json.next(); c == '{' || c == '[' {
		read = func() ([]byte, error) { return d.json.whole() }
	}
	value, err := read()
	if err != nil {
		return err
	}
	err = into.UnmarshalJSON(value)
	var fault *carillon.FieldError
	if errors.As(err, &fault) {
		if string(value) == "null" {
			fault.Given, fault.Wrong = "null", "null is not valid"
		}
		fault.Field = ""
		return fault
	}
	// A zero time would be taken for no time.
	if t, ok := into.(*carillon.Time); ok && *t == 0 && err == nil && string(value) != "null" {
		return invalid("", strings.Trim(string(value), `"`), "a time after 1970-01-01, or null for none")
	}
	return err
}

// shorthand is the field that a plain text sets where an object is wanted: "misfire":"skip".
var shorthand = map[reflect.Type]string{reflect.TypeFor[carillon.Misfire](): "policy"}

// whole types are replaced, not merged: half of an old schedule and half of a new one make neither. An empty
// hook is none.
var whole = map[reflect.Type]bool{
	reflect.TypeFor[carillon.Schedule](): true, reflect.TypeFor[carillon.Target](): true,
	reflect.TypeFor[carillon.Hook](): true,
}

func (d *decoder) object(v reflect.Value) error {
	fields := fieldsOf(v.Type())
	token, err := d.json.token()
	if err != nil {
		return err
	}
	if text, ok := token.(string); ok && shorthand[v.Type()] != "" {
		v.FieldByIndex(fields.index[shorthand[v.Type()]]).SetString(text)
		return nil
	}
	if token != json.Delim('{') {
		return wrong(token, "an object")
	}
	if whole[v.Type()] {
		v.SetZero()
	}
	another := oneWhen(v.Type())
	return d.members(len(fields.names), func(given []byte) error {
		name := string(given)
		at, ok := fields.index[name]
		if !ok {
			return under(field(given), fault(name, fields.hint(name), "unknown field"))
		}
		if err := another(name); err != nil {
			return err
		}
		into := v.FieldByIndex(at)
		err := d.value(into)
		if err == nil {
			err = fields.checkGiven(name, into)
		}
		if err == nil {
			err = fields.explicitZero(name, into)
		}
		if err != nil {
			return under(field(given), err)
		}
		return nil
	})
}

// maxEntries bounds the entries of a map in a definition, long before the map's own rule counts them.
const maxEntries = 1000

func (d *decoder) mapping(v reflect.Value) error {
	if err := d.open('{', "an object of text"); err != nil {
		return err
	}
	v.Set(reflect.MakeMap(v.Type()))
	return d.members(maxEntries, func(name []byte) error {
		value := reflect.New(v.Type().Elem()).Elem()
		if err := d.value(value); err != nil {
			return under(field(name), err)
		}
		v.SetMapIndex(reflect.ValueOf(string(name)), value)
		return nil
	})
}

// members reads up to most fields and the closing brace. Errors of each are those of the object.
func (d *decoder) members(most int, each func(name []byte) error) error {
	if err := d.enter(); err != nil {
		return err
	}
	var seen names
	for first := true; ; first = false {
		more, err := d.json.more(first, '}')
		if err != nil {
			return err
		}
		if !more {
			d.depth--
			return nil
		}
		name, err := d.json.name()
		if err != nil {
			return err
		}
		if !seen.add(name) {
			twice := Shorten(string(name), maxGiven) + " twice"
			return under(field(name), fault(twice, "each field once", "it is given twice"))
		}
		if err := each(name); err != nil {
			return err
		}
		if seen.count > most {
			return tooMany(most, "entries")
		}
	}
}

func (d *decoder) list(v reflect.Value) error {
	most := MaxItems
	if v.Type().Elem() == reflect.TypeFor[carillon.Definition]() {
		most = MaxBatch
	}
	if err := d.open('[', "a list"); err != nil {
		return err
	}
	v.SetZero()
	return d.items(most, func() error {
		item := reflect.New(v.Type().Elem()).Elem()
		if err := d.value(item); err != nil {
			return err
		}
		v.Set(reflect.Append(v, item))
		return nil
	})
}

// items reads up to most items and the closing bracket. Errors of each are those of the item.
func (d *decoder) items(most int, each func() error) error {
	if err := d.enter(); err != nil {
		return err
	}
	for i := 0; ; i++ {
		more, err := d.json.more(i == 0, ']')
		if err != nil {
			return err
		}
		if !more {
			d.depth--
			return nil
		}
		if i == most {
			return tooMany(most, "items")
		}
		if err := each(); err != nil {
			return under("["+strconv.Itoa(i)+"]", err)
		}
	}
}

func (d *decoder) scalar(v reflect.Value) error {
	token, err := d.json.token()
	if err != nil {
		return err
	}
	switch v.Kind() {
	case reflect.String:
		text, ok := token.(string)
		if !ok {
			return notText(token)
		}
		v.SetString(text)
	case reflect.Bool:
		is, ok := token.(bool)
		if !ok {
			return wrong(token, "true or false")
		}
		v.SetBool(is)
	case reflect.Int, reflect.Int32:
		bits := v.Type().Bits()
		n, err := strconv.ParseInt(number(token), 10, bits)
		switch {
		case errors.Is(err, strconv.ErrRange):
			return wrong(token, fmt.Sprint("a whole number up to ", uint64(1)<<(bits-1)-1))
		case err != nil:
			return wrong(token, "a whole number")
		}
		v.SetInt(n)
	case reflect.Float64:
		f, err := strconv.ParseFloat(number(token), 64)
		if err != nil {
			return wrong(token, "a number")
		}
		v.SetFloat(f)
	default:
		panic(fmt.Sprintf("the decoder does not know %s", v.Type()))
	}
	return nil
}

// number returns the text of a number, and an empty text for any other token.
func number(token json.Token) string {
	n, _ := token.(json.Number)
	return n.String()
}

func (d *decoder) open(delim json.Delim, want string) error {
	token, err := d.json.token()
	if err == nil && token != delim {
		return wrong(token, want)
	}
	return err
}

func (d *decoder) enter() error {
	if d.depth++; d.depth > d.maxDepth {
		return tooMany(d.maxDepth, "levels of nesting")
	}
	return nil
}

func tooMany(most int, things string) error {
	given := "more than " + strconv.Itoa(most) + " " + things
	return fault(given, "at most "+strconv.Itoa(most), "it has "+given)
}

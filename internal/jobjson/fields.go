package jobjson

import (
	"reflect"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/carillon-run/carillon/internal/suggest"
)

// fields are the JSON names of a struct, in its order.
type fields struct {
	of      reflect.Type
	names   []string
	index   map[string]int
	leftOut map[string]bool // zero stands for "not given"
}

var known sync.Map // reflect.Type -> *fields

func fieldsOf(t reflect.Type) *fields {
	if f, ok := known.Load(t); ok {
		return f.(*fields)
	}
	f := &fields{of: t, index: map[string]int{}, leftOut: map[string]bool{}}
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if t.Field(i).IsExported() && name != "" && name != "-" {
			f.index[name] = i
			f.names = append(f.names, name)
			f.leftOut[name] = t.Field(i).Type.Kind() == reflect.String ||
				options == "omitzero" && name != "after"
		}
	}
	known.Store(t, f)
	return f
}

// hint says what to write in place of an unknown field: a field with a similar name, or a field of that name
// further down.
func (f *fields) hint(name string) string {
	if len(f.names) == 0 {
		return "no fields here"
	}
	hint := suggest.DidYouMean(name, f.names)
	if below := f.below(name); hint == "" && below != "" {
		hint = "; did you mean " + below + "?"
	}
	return "a known field: " + strings.Join(f.names, ", ") + hint
}

func (f *fields) below(name string) string {
	for _, parent := range f.names {
		t := f.of.Field(f.index[parent]).Type
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			continue
		}
		child := fieldsOf(t)
		if _, ok := child.index[name]; ok {
			return parent + "." + name
		}
		if deeper := child.below(name); deeper != "" {
			return parent + "." + deeper
		}
	}
	return ""
}

// checkText refuses input that encoding/json would silently turn into U+FFFD: bytes that are not UTF-8, and
// escapes of half a surrogate pair. Two different texts must not become one.
func checkText(body []byte) error {
	if !utf8.Valid(body) {
		return invalid("body", "bytes that are not UTF-8", "JSON in UTF-8")
	}
	for i := 0; i+1 < len(body); i++ {
		if body[i] != '\\' {
			continue
		}
		i++ // to the escaped character, so that \\ud800 is not mistaken for an escape
		if r := escaped(body[i:]); utf16.IsSurrogate(r) {
			if i+6 > len(body) || body[i+5] != '\\' ||
				utf16.DecodeRune(r, escaped(body[i+6:])) == utf8.RuneError {
				return invalid("body", `\`+string(body[i:i+5]), "text without half of a surrogate pair")
			}
			i += 10
		}
	}
	return nil
}

// escaped returns the code unit that uXXXX stands for, or 0 if b does not have that form.
func escaped(b []byte) rune {
	if len(b) < 5 || b[0] != 'u' {
		return 0
	}
	var r rune
	for _, c := range b[1:5] {
		digit := strings.IndexByte("0123456789abcdef", c|0x20)
		if digit < 0 {
			return 0
		}
		r = r<<4 | rune(digit)
	}
	return r
}

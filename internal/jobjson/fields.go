package jobjson

import (
	"reflect"
	"strings"
	"sync"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/suggest"
)

// fields are the JSON names of a struct, in its order.
type fields struct {
	of      reflect.Type
	names   []string
	index   map[string]int
	leftOut map[string]bool // zero stands for "not given"
	numbers map[string]string
}

var known sync.Map // reflect.Type -> *fields

func fieldsOf(t reflect.Type) *fields {
	if f, ok := known.Load(t); ok {
		return f.(*fields)
	}
	f := &fields{of: t, index: map[string]int{}, leftOut: map[string]bool{}, numbers: numbers[t]}
	for i := range t.NumField() {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if t.Field(i).IsExported() && name != "" && name != "-" {
			f.index[name] = i
			f.names = append(f.names, name)
			f.leftOut[name] = t.Field(i).Type.Kind() == reflect.String ||
				options == "omitzero" && !(name == "after" && t == reflect.TypeFor[carillon.Schedule]())
		}
	}
	known.Store(t, f)
	return f
}

// hint says what to write in place of an unknown field: a field with a similar name, or a field of that name
// further down.
func (f *fields) hint(name string) string {
	if len(f.names) == 0 {
		return "an empty object"
	}
	hint := suggest.DidYouMean(name, f.names)
	if below := f.below(name); hint == "" && below != "" {
		hint = "; did you mean " + below + "?"
	}
	return "one of " + strings.Join(f.names, ", ") + hint
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

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
	index   map[string][]int
	leftOut map[string]bool // zero stands for "not given"
	absent  map[string]bool // it belongs to a type in absent
	numbers map[string]string
}

var known sync.Map // reflect.Type -> *fields

func fieldsOf(t reflect.Type) *fields {
	if f, ok := known.Load(t); ok {
		return f.(*fields)
	}
	f := &fields{
		of: t, index: map[string][]int{}, leftOut: map[string]bool{}, absent: map[string]bool{},
		numbers: map[string]string{},
	}
	f.add(t, nil)
	known.Store(t, f)
	return f
}

// add adds the fields of a struct, and those of a struct that is embedded in it.
func (f *fields) add(t reflect.Type, at []int) {
	for name, want := range numbers[t] {
		f.numbers[name] = want
	}
	for i := range t.NumField() {
		at := append(at[:len(at):len(at)], i)
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		switch {
		case t.Field(i).Anonymous && name == "":
			f.add(t.Field(i).Type, at)
		case t.Field(i).IsExported() && name != "" && name != "-":
			f.index[name] = at
			f.names = append(f.names, name)
			f.absent[name] = absent[t]
			f.leftOut[name] = t.Field(i).Type.Kind() == reflect.String ||
				options == "omitzero" && !(name == "after" && t == reflect.TypeFor[carillon.Schedule]())
		}
	}
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
		t := f.of.FieldByIndex(f.index[parent]).Type
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

package porttest

import (
	"reflect"
	"strings"

	"github.com/carillon-run/carillon"
)

// DefinitionFields returns the path of every field of a definition as in JSON ("retry.max_attempts"), from
// the Go types. Tests of the places that must know each field compare them with this list, so that a new
// field which one place has forgotten fails a test that names the place.
func DefinitionFields() []string { return fieldsIn(reflect.TypeFor[carillon.Definition](), "") }

// TargetKinds returns the kinds of targets that a definition can have.
func TargetKinds() (kinds []string) {
	target := reflect.TypeFor[carillon.Target]()
	for i := range target.NumField() {
		kinds = append(kinds, jsonName(target.Field(i)))
	}
	return kinds
}

func fieldsIn(t reflect.Type, prefix string) (paths []string) {
	for i := range t.NumField() {
		field := t.Field(i)
		if !field.IsExported() {
			continue
		}
		path, of := prefix+jsonName(field), field.Type
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		// The fields of a hook's job are those of a definition once more.
		if of.Kind() == reflect.Struct && of.NumField() > 0 && of != reflect.TypeFor[carillon.HookJob]() {
			paths = append(paths, fieldsIn(of, path+".")...)
		} else {
			paths = append(paths, path)
		}
	}
	return paths
}

func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

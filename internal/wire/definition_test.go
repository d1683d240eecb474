package wire_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/jobjson"
	"github.com/carillon-run/carillon/internal/wire"
)

// samples are values of the fields of a definition, by type.
var samples = map[reflect.Type]any{
	reflect.TypeFor[string](): "sample",
	reflect.TypeFor[*carillon.RetryRules](): &carillon.RetryRules{
		{Exit: []int{75, 76}, After: carillon.Duration(5 * time.Minute)},
		{Status: carillon.Statuses{"4xx", "500-599"}, Match: "no .*", Retry: true, MaxAttempts: 10},
		{Match: "x", Fatal: true},
	},
	reflect.TypeFor[int]():               3,
	reflect.TypeFor[int32]():             int32(3),
	reflect.TypeFor[float64]():           0.5,
	reflect.TypeFor[carillon.Duration](): carillon.Duration(5 * time.Second),
	reflect.TypeFor[carillon.Time]():     carillon.Time(2_000_000_000_000),
	reflect.TypeFor[carillon.Overlap]():  carillon.OverlapQueue,
	reflect.TypeFor[carillon.Backoff]():  carillon.BackoffFixed,

	reflect.TypeFor[*carillon.Unique](): &carillon.Unique{
		Key: "a", For: carillon.Duration(time.Minute), OnConflict: carillon.ConflictReplace,
	},
	reflect.TypeFor[*carillon.Hook](): &carillon.Hook{Job: &carillon.HookJob{
		Type: "page", Labels: map[string]string{"a": "b"}, Priority: carillon.Zero,
		Target: carillon.Target{Handler: &carillon.Handler{}}, Timeout: carillon.Zero,
		Retry: carillon.Retry{MaxAttempts: 7, Jitter: carillon.Zero},
	}},
	reflect.TypeFor[carillon.MisfirePolicy](): carillon.MisfireAll,
	reflect.TypeFor[map[string]string]():      map[string]string{"a": "b"},
	reflect.TypeFor[json.RawMessage]():        json.RawMessage(`{"a":1}`),
	reflect.TypeFor[[]carillon.Limit]():       []carillon.Limit{{Key: "a", Concurrency: 3, Weight: 2}},
}

// eachField calls f with the way to each field of a struct, and of the structs in it.
func eachField(t reflect.Type, name string, index []int, f func(name string, index []int)) {
	for i := range t.NumField() {
		field := t.Field(i)
		at, name := append(append([]int(nil), index...), i), name+"."+field.Name
		switch {
		case !field.IsExported() || field.Type == reflect.TypeFor[carillon.Target]():
		case field.Type.Kind() == reflect.Struct:
			eachField(field.Type, name, at, f)
		default:
			f(name, at)
		}
	}
}

func TestADefinitionMeansTheSameInGoAndInJSON(t *testing.T) {
	const now = carillon.Time(1_900_000_000_000)
	check := func(t *testing.T, def carillon.Definition) {
		t.Helper()
		body, err := wire.MarshalDefinition(&def)
		if err != nil {
			t.Fatal(err)
		}
		inJSON, errJSON := jobjson.Define(body, now)
		errGo := def.Admit(now)
		if (errGo == nil) != (errJSON == nil) || errGo == nil && !reflect.DeepEqual(def, inJSON) {
			t.Errorf("%s\nin Go   %+v, %v\nin JSON %+v, %v", body, def, errGo, inJSON, errJSON)
		}
		var a, b *carillon.FieldError
		if errors.As(errGo, &a) && errors.As(errJSON, &b) && a.Field != b.Field {
			t.Errorf("%s: in Go %v, in JSON %v", body, errGo, errJSON)
		}
	}
	bases := map[string]carillon.Definition{
		"handler": {Type: "test", Target: carillon.Target{Handler: &carillon.Handler{}}},
		"command": {Target: carillon.Target{Command: &carillon.Command{Shell: "true"}}},
		"http":    {Target: carillon.Target{HTTP: &carillon.HTTP{URL: "http://target.test"}}},
		"recurring": {
			Target:   carillon.Target{Command: &carillon.Command{Shell: "true"}},
			Schedule: carillon.Schedule{Every: carillon.Duration(time.Minute)},
		},
	}
	for kind, base := range bases {
		t.Run(kind, func(t *testing.T) { check(t, base) })
		eachField(reflect.TypeFor[carillon.Definition](), kind, nil, func(name string, index []int) {
			t.Run(name, func(t *testing.T) {
				def := base
				field := reflect.ValueOf(&def).Elem().FieldByIndex(index)
				sample, ok := samples[field.Type()]
				if !ok {
					t.Fatalf("samples has no value of type %s", field.Type())
				}
				field.Set(reflect.ValueOf(sample))
				check(t, def)
				if field.CanInt() || field.CanFloat() {
					def := base
					field := reflect.ValueOf(&def).Elem().FieldByIndex(index)
					field.Set(reflect.ValueOf(carillon.Zero).Convert(field.Type()))
					check(t, def)
				}
			})
		})
	}
}

func TestANegativeNumberInJSONIsNotTakenForZero(t *testing.T) {
	for _, field := range []string{
		`"priority": -1`, `"timeout": "-1ns"`, `"retry": {"jitter": -1}`, `"retry": {"delay": "-1ns"}`,
		`"retry": {"max_attempts": 0}`, `"retry": {"backoff": ""}`, `"misfire": {"max": 0}`,
		`"misfire": {"window": "0s"}`, `"misfire": {"policy": ""}`,
	} {
		body := []byte(`{"target": {"command": {"shell": "true"}}, ` + field + `}`)
		if def, err := jobjson.Define(body, 1); !errors.Is(err, carillon.ErrInvalid) {
			t.Errorf("%s: %+v, %v", field, def, err)
		}
	}
}

func TestZeroIsWrittenAsZero(t *testing.T) {
	def := carillon.Definition{
		Target: carillon.Target{HTTP: &carillon.HTTP{URL: "http://target.test"}}, Priority: carillon.Zero,
		Timeout: carillon.Zero, Retry: carillon.Retry{Delay: carillon.Zero, Jitter: carillon.Zero},
	}
	body, err := wire.MarshalDefinition(&def)
	if err != nil {
		t.Fatal(err)
	}
	got, err := jobjson.Define(body, 1)
	if err != nil || got.Priority != 0 || got.Timeout != 0 || got.Retry.Delay != 0 || got.Retry.Jitter != 0 {
		t.Errorf("%s becomes %+v, %v", body, got, err)
	}
}

package api

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

// schemas holds the named types of the description. A type is added when it is first met.
type schemas map[string]any

// plain are the types whose JSON is not what their Go type suggests.
var plain = map[reflect.Type]object{
	reflect.TypeFor[carillon.Time]():     {"type": []string{"string", "null"}, "format": "date-time"},
	reflect.TypeFor[carillon.Duration](): {"type": "string", "examples": []string{"90s", "1h30m", "30d"}},
	reflect.TypeFor[carillon.JobID]():    {"type": "string", "pattern": "^job_[0-9a-hjkmnp-tv-z]{13}$"},
	reflect.TypeFor[carillon.RunID]():    {"type": "string", "pattern": "^run_[0-9a-hjkmnp-tv-z]{23}$"},
	reflect.TypeFor[carillon.OperationID](): {
		"type": "string", "pattern": "^op_[0-9a-hjkmnp-tv-z]{13}$",
	},
	reflect.TypeFor[carillon.OperationKind](): words(carillon.OperationPause, carillon.OperationResume,
		carillon.OperationCancel, carillon.OperationRun, carillon.OperationRelease),
	reflect.TypeFor[carillon.OperationState](): words(carillon.OperationStates...),
	reflect.TypeFor[json.RawMessage]():         {"description": "any JSON"},
	reflect.TypeFor[[]byte]():                  {"type": "string", "contentEncoding": "base64"},
	reflect.TypeFor[wire.Cursor]():             {"type": []string{"string", "null"}},
	reflect.TypeFor[carillon.JobState]():       words(jobStates...),
	reflect.TypeFor[carillon.State]():          words(runStates...),
	reflect.TypeFor[carillon.Overlap](): words(carillon.OverlapSkip, carillon.OverlapQueue,
		carillon.OverlapQueueAll,
		carillon.OverlapReplace, carillon.OverlapAllow),
	reflect.TypeFor[carillon.MisfirePolicy](): words(
		carillon.MisfireSkip, carillon.MisfireOnce, carillon.MisfireAll,
	),
	reflect.TypeFor[carillon.LimitOf](): words(limitKinds...),
	reflect.TypeFor[carillon.Rate](): {
		"type": "string", "examples": []string{"10/s", "100/m", "5000/h"},
	},
	reflect.TypeFor[carillon.Statuses](): {
		"type":     []string{"array", "string", "integer"},
		"items":    object{"type": []string{"string", "integer"}},
		"examples": []any{"4xx", []string{"404", "500-599"}},
	},
	reflect.TypeFor[carillon.OutcomeKind](): words(carillon.OutcomeSuccess, carillon.OutcomeRetriable,
		carillon.OutcomeFatal, carillon.OutcomeStopped, carillon.OutcomeLost, carillon.OutcomeCrashed),
	reflect.TypeFor[carillon.UniqueUntil](): words(carillon.UntilEnded),
	reflect.TypeFor[carillon.OnConflict](): words(
		carillon.ConflictReturn, carillon.ConflictReplace, carillon.ConflictRefuse,
	),
	reflect.TypeFor[carillon.On]():   words(carillon.OnSuccess, carillon.OnFailure, carillon.OnAny),
	reflect.TypeFor[carillon.Join](): words(carillon.JoinAll, carillon.JoinAny),
	reflect.TypeFor[carillon.NodeState](): words(
		carillon.NodePending, carillon.NodeActive, carillon.NodeExpanding, carillon.NodeSucceeded,
		carillon.NodeFailed, carillon.NodeCanceled, carillon.NodeSkipped, carillon.NodePassed,
	),
	reflect.TypeFor[carillon.Backoff](): words(carillon.BackoffExponential, carillon.BackoffFixed),
}

var runStates = []carillon.State{
	carillon.StateWaiting, carillon.StateClaimed, carillon.StateRunning, carillon.StateSucceeded,
	carillon.StateFailed, carillon.StateCanceled, carillon.StateSkipped,
}

func words[T any](values ...T) object { return object{"type": "string", "enum": values} }

// of returns the schema of a type. A struct becomes a reference to a named schema.
func (s schemas) of(t reflect.Type) object {
	if p, ok := plain[t]; ok {
		return p
	}
	switch t.Kind() {
	case reflect.Pointer:
		return object{"anyOf": []object{s.of(t.Elem()), {"type": "null"}}}
	case reflect.Struct:
		return s.named(t)
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Float64:
		return object{"type": "number"}
	}
	return object{"type": "integer"}
}

func (s schemas) named(t reflect.Type) object {
	name := nameOf(t)
	if _, ok := s[name]; !ok {
		s[name] = nil // known from here on, in case the type contains itself
		s[name] = s.object(t)
	}
	return object{"$ref": "#/components/schemas/" + name}
}

// nameOf returns the type's own name. A list is named after its items.
func nameOf(t reflect.Type) string {
	name, of, generic := strings.Cut(t.Name(), "[")
	if generic {
		name = of[strings.LastIndexByte(of, '.')+1:len(of)-1] + strings.ToUpper(name[:1]) + name[1:]
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

func (s schemas) object(t reflect.Type) object {
	properties := object{}
	s.properties(t, properties)
	schema := object{"type": "object", "properties": properties}
	if t == reflect.TypeFor[carillon.Misfire]() {
		return object{"anyOf": []object{schema, s.of(reflect.TypeFor[carillon.MisfirePolicy]())}}
	}
	return schema
}

func (s schemas) properties(t reflect.Type, into object) {
	if t == reflect.TypeFor[carillon.Run]() {
		t = reflect.TypeOf(carillon.Run{}.Shape())
	}
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous:
			s.properties(field.Type, into)
		case field.IsExported() && name != "" && name != "-":
			into[name] = s.of(field.Type)
			if strings.HasSuffix(field.Tag.Get("json"), ",string") {
				into[name] = object{"type": "string"} // a number that is written as text
			}
			if field.Type.Kind() == reflect.Pointer && strings.Contains(field.Tag.Get("json"), ",omitempty") {
				into[name] = s.of(field.Type.Elem()) // left out, never null
			}
		}
	}
}

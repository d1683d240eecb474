package api

import (
	"encoding/json"
	"reflect"
	"strings"

	"github.com/carillon-run/carillon"
)

// schemas holds the named types of the description. A type is added when it is first met.
type schemas map[string]any

// plain are the types whose JSON is not what their Go type suggests.
var plain = map[reflect.Type]object{
	reflect.TypeFor[carillon.Time]():     {"type": []string{"string", "null"}, "format": "date-time"},
	reflect.TypeFor[carillon.Duration](): {"type": "string", "examples": []string{"90s", "1h30m", "30d"}},
	reflect.TypeFor[carillon.JobID]():    {"type": "string", "pattern": "^job_[0-9a-hjkmnp-tv-z]{13}$"},
	reflect.TypeFor[carillon.RunID]():    {"type": "string", "pattern": "^run_[0-9a-hjkmnp-tv-z]{23}$"},
	reflect.TypeFor[json.RawMessage]():   {"description": "any JSON"},
	reflect.TypeFor[[]byte]():            {"type": "string", "contentEncoding": "base64"},
	reflect.TypeFor[carillon.JobState](): words(jobStates...),
	reflect.TypeFor[carillon.State]():    words(runStates...),
	reflect.TypeFor[carillon.Overlap](): words(carillon.OverlapSkip, carillon.OverlapQueue,
		carillon.OverlapQueueAll,
		carillon.OverlapReplace, carillon.OverlapAllow),
	reflect.TypeFor[carillon.MisfirePolicy](): words(
		carillon.MisfireSkip, carillon.MisfireOnce, carillon.MisfireAll,
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
	if t == reflect.TypeFor[carillon.Run]() {
		t = reflect.TypeFor[runShape]()
	}
	properties := object{}
	s.properties(t, properties)
	schema := object{"type": "object", "properties": properties}
	if t == reflect.TypeFor[carillon.Misfire]() {
		return object{"anyOf": []object{schema, s.of(reflect.TypeFor[carillon.MisfirePolicy]())}}
	}
	return schema
}

func (s schemas) properties(t reflect.Type, into object) {
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case field.Anonymous && field.Type == reflect.TypeFor[carillon.Run]():
			s.properties(reflect.TypeFor[runShape](), into)
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

// runShape is the JSON of a run. carillon.Run writes that JSON itself; a test checks that the two agree.
type runShape struct {
	ID          carillon.RunID  `json:"id"`
	Job         carillon.JobID  `json:"job_id"`
	Namespace   string          `json:"namespace"`
	State       carillon.State  `json:"state"`
	Status      string          `json:"status"`
	Name        string          `json:"name"`
	Type        string          `json:"type"`
	Owner       string          `json:"owner"`
	Queue       string          `json:"queue"`
	Priority    int             `json:"priority"`
	Version     int             `json:"version"`
	Attempt     int             `json:"attempt"`
	Failures    int             `json:"failures"`
	Losses      int             `json:"losses"`
	Fence       string          `json:"fence"`
	Due         carillon.Time   `json:"due_at"`
	Covers      carillon.Time   `json:"covers"`
	Until       carillon.Time   `json:"until"`
	NextAttempt carillon.Time   `json:"next_attempt_at"`
	Claimed     carillon.Time   `json:"claimed_at"`
	Started     carillon.Time   `json:"started_at"`
	Ended       carillon.Time   `json:"finished_at"`
	Worker      string          `json:"worker_id"`
	Reason      string          `json:"reason"`
	Stopping    bool            `json:"stopping"`
	RetryOf     carillon.RunID  `json:"retry_of"`
	Result      json.RawMessage `json:"result"`
	Checkpoint  json.RawMessage `json:"checkpoint"`
	Payload     json.RawMessage `json:"payload"`
}

package api

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

// raw stands in the route table for a body that is not JSON.
type raw struct{}

// object is a JSON object of the description.
type object map[string]any

func (s *server) openAPI(w http.ResponseWriter, _ *http.Request, _ *query) error {
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(s.about)
	return err
}

// describe turns the route table into an OpenAPI 3.1 document.
func describe(routes []route) []byte {
	schemas := schemas{}
	schemas.of(reflect.TypeFor[carillon.Definition]())
	paths := object{}
	for _, rt := range routes {
		path, ok := paths[rt.Pattern].(object)
		if !ok {
			path = object{}
			paths[rt.Pattern] = path
		}
		path[strings.ToLower(rt.Method)] = rt.describe(schemas)
	}
	schemas["Problem"] = schemas.object(reflect.TypeFor[wire.Problem]())
	text, err := json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Carillon", "version": "1",
			"description": "A job scheduler. Every route needs the bearer token unless it says otherwise; " +
				"errors are RFC 9457 problems.",
			"license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
		},
		"paths":    paths,
		"security": []object{{"token": []string{}}},
		"components": object{
			"schemas":         schemas,
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
		},
	}, "", " ")
	if err != nil {
		panic(err) // made of maps, slices and text only
	}
	return text
}

func (rt route) describe(schemas schemas) object {
	operation := object{"summary": rt.Summary, "operationId": rt.id(), "responses": rt.responses(schemas)}
	if rt.Public {
		operation["security"] = []object{}
	}
	if parameters := rt.parameters(schemas); len(parameters) > 0 {
		operation["parameters"] = parameters
	}
	if rt.Takes != nil {
		operation["requestBody"] = object{
			"required": !rt.MayTake, "content": content(schemas, rt.Takes, rt.Method == http.MethodPost),
		}
	}
	return operation
}

// id is the route in one word: get-jobs-id-runs.
func (rt route) id() string {
	words := strings.NewReplacer("/v1/", "-", "/", "-", "{", "", "}", "", ".", "-").Replace(rt.Pattern)
	return strings.ToLower(rt.Method) + words
}

func (rt route) parameters(schemas schemas) []object {
	var parameters []object
	add := func(in string, p param) {
		schema := object{"type": "string"}
		if p.Type != nil {
			schema = schemas.of(reflect.TypeOf(p.Type))
		}
		parameters = append(parameters, object{
			"name": p.Name, "in": in, "description": p.About,
			"required": in == "path" || p.Name == wire.FenceHeader, "schema": schema,
		})
	}
	switch {
	case strings.HasPrefix(rt.Pattern, "/v1/jobs/{id}"):
		add("path", param{"id", "of the job", carillon.JobID(0)})
	case strings.HasPrefix(rt.Pattern, "/v1/workers/{id}"):
		add("path", param{"id", "of the worker, as it was told when it registered", nil})
	case strings.HasPrefix(rt.Pattern, "/v1/namespaces/{name}"):
		add("path", param{"name", "of the namespace; a slash in it is written as %2F", nil})
	case strings.Contains(rt.Pattern, "{name}"):
		add("path", param{"name", "of the queue; a slash in it is written as %2F", nil})
	case strings.Contains(rt.Pattern, "{key}"):
		add("path", param{"of", "what the limit is for: queue, type or namespace", carillon.LimitOf("")})
		add("path", param{"key", "the name of that; a slash in it is written as %2F", nil})
	case strings.HasPrefix(rt.Pattern, "/v1/gates/{id}"):
		add("path", param{"id", "of the gate; a slash in it is written as %2F", nil})
	case strings.HasPrefix(rt.Pattern, "/v1/operations/{id}"):
		add("path", param{"id", "of the operation", carillon.OperationID(0)})
	case strings.Contains(rt.Pattern, "{id}"):
		add("path", param{"id", "of the run", carillon.RunID{}})
	}
	for _, p := range rt.Query {
		add("query", p)
	}
	for _, p := range rt.Headers {
		add("header", p)
	}
	if rt.Keyed {
		add("header", param{
			wire.IdempotencyHeader, "1 to 255 printable ASCII characters that name this request: sent " +
				"again with the same key within 24 hours, it changes nothing more and gets the same answer",
			nil,
		})
	}
	return parameters
}

var problemContent = object{
	"application/problem+json": object{"schema": object{"$ref": "#/components/schemas/Problem"}},
}

func (rt route) responses(schemas schemas) object {
	answers := object{"default": object{"description": "A problem", "content": problemContent}}
	if rt.Adds {
		answers["429"] = object{
			"description": "Too many jobs wait for the store; nothing was stored, try again",
			"headers": object{"Retry-After": object{
				"description": "seconds", "schema": object{"type": "integer"},
			}},
			"content": problemContent,
		}
	}
	if rt.Keyed {
		answers["422"] = object{
			"description": "The idempotency key was used for another request", "content": problemContent,
		}
	}
	for _, status := range []int{rt.Status, rt.Or} {
		if status == 0 {
			continue
		}
		success := object{"description": http.StatusText(status)}
		if rt.Gives != nil {
			success["content"] = content(schemas, rt.Gives, false)
		}
		answers[strconv.Itoa(status)] = success
	}
	return answers
}

func content(schemas schemas, body any, whole bool) object {
	if _, ok := body.(raw); ok {
		return object{"*/*": object{}}
	}
	schema := schemas.of(reflect.TypeOf(body))
	switch body.(type) {
	case carillon.Definition:
		if whole {
			schema = object{"allOf": []object{schema}, "required": []string{"target"}}
		}
	case wire.List[carillon.Line]:
		return object{
			"text/plain":       object{"schema": object{"type": "string"}},
			"application/json": object{"schema": schema},
		}
	}
	return object{"application/json": object{"schema": schema}}
}

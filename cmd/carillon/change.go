package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/carillon-run/carillon"
)

// changed lists the fields in which two definitions differ, by their dotted names, each as "before -> after".
func changed(before, after carillon.Definition) []string {
	was, is := flat(before), flat(after)
	names := slices.Sorted(maps.Keys(was))
	for name := range is {
		if _, ok := was[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var lines []string
	for _, name := range names {
		if was[name] != is[name] {
			lines = append(lines, fmt.Sprintf("%s: %s -> %s", name, orNone(was[name]), orNone(is[name])))
		}
	}
	return lines
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return shorten(text, 200)
}

// flat is the values of a definition by their dotted names. The payload is one value, and so is every list.
func flat(def carillon.Definition) map[string]string {
	values := map[string]string{}
	text, err := json.Marshal(def)
	var fields map[string]json.RawMessage
	if err == nil && json.Unmarshal(text, &fields) == nil {
		for name, value := range fields {
			flatten(values, name, value)
		}
	}
	return values
}

func flatten(values map[string]string, name string, value json.RawMessage) {
	var fields map[string]json.RawMessage
	var text string
	switch {
	case name != "payload" && json.Unmarshal(value, &fields) == nil && len(fields) > 0:
		for field, value := range fields {
			flatten(values, name+"."+field, value)
		}
	case json.Unmarshal(value, &text) == nil && text != "":
		values[name] = text
	case string(value) != "null" && string(value) != "{}" && string(value) != `""`:
		values[name] = string(value)
	}
}

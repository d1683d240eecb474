package carillon_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/porttest"
)

// A reader of the docs finds every field of a definition, under its own name.
func TestDocsNameEveryFieldOfADefinition(t *testing.T) {
	pages := map[string]string{}
	for _, page := range []string{"docs/jobs.md", "docs/targets.md", "docs/api.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		pages[page] = string(text)
	}
	for _, path := range porttest.DefinitionFields() {
		page := "docs/jobs.md"
		if strings.HasPrefix(path, "target.") {
			page = "docs/targets.md"
		}
		name := path[strings.LastIndex(path, ".")+1:]
		for _, page := range []string{page, "docs/api.md"} {
			if !strings.Contains(pages[page], "`"+name) && !strings.Contains(pages[page], `"`+name+`"`) {
				t.Errorf("%s does not name the field %s of a definition", page, path)
			}
		}
	}
}

// Weight bounds batches and answers, so it must count every text that a target can have.
func TestAJobsWeightCountsEveryTextOfItsTarget(t *testing.T) {
	const text = "a text of a target"
	target := reflect.TypeFor[carillon.Target]()
	for i := range target.NumField() {
		kind := target.Field(i).Type.Elem()
		for j := range kind.NumField() {
			if !kind.Field(j).IsExported() {
				continue
			}
			given := reflect.New(kind)
			switch field := given.Elem().Field(j); field.Kind() {
			case reflect.String:
				field.SetString(text)
			case reflect.Map:
				field.Set(reflect.ValueOf(map[string]string{"key": text}))
			case reflect.Int64: // a duration
				continue
			case reflect.Pointer:
				field.Set(reflect.ValueOf(&carillon.Sign{Secret: text}))
			case reflect.Slice:
				if nodes, is := field.Addr().Interface().(*[]carillon.WorkflowNode); is {
					*nodes = []carillon.WorkflowNode{{Definition: carillon.Definition{Name: text}}}
					break
				}
				if field.Type().Elem().Kind() != reflect.String {
					continue
				}
				field.Set(reflect.ValueOf([]string{text}))
			default:
				t.Fatalf("%s.%s: this test knows no value of %s", kind, kind.Field(j).Name, field.Type())
			}
			var job carillon.Job
			reflect.ValueOf(&job.Target).Elem().Field(i).Set(given)
			if job.Weight() < len(text) {
				t.Errorf("Target.weight (target.go) leaves out %s.%s", kind, kind.Field(j).Name)
			}
		}
	}
}

func TestEveryKindOfTargetIsItsOnlyName(t *testing.T) {
	kinds := map[string]carillon.Target{
		"command": {Command: &carillon.Command{Shell: "true"}},
		"http":    {HTTP: &carillon.HTTP{URL: "http://target.test"}},
		"handler": {Handler: &carillon.Handler{}},
		"workflow": {Workflow: &carillon.Workflow{Nodes: []carillon.WorkflowNode{{
			Definition: carillon.Definition{
				Name: "a", Type: "test", Target: carillon.Target{Handler: &carillon.Handler{}},
			},
		}}}},
		"wait": {Wait: &carillon.Wait{For: 1e9}},
	}
	for _, kind := range porttest.TargetKinds() {
		target, known := kinds[kind]
		if got := target.Kind(); !known || got != kind {
			t.Errorf("Target.Kind of a target with %s is %q (target.go), and this test has one: %t", kind, got, known)
		}
		def := carillon.Definition{Type: "test", Target: target}
		if kind == carillon.KindWait { // only a node of a workflow can wait
			def.Name, def.Type, def.Target = "wait", "", kinds["workflow"]
			def.Target.Workflow.Nodes[0].Target = target
		}
		if err := def.Admit(minute(1)); err != nil {
			t.Errorf("a job with the target %s is refused: %v", kind, err)
		}
	}
}

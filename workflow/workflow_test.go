package workflow_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/workflow"
)

func Example() {
	wf := workflow.New("nightly-load").Payload(map[string]any{"bucket": "raw"})
	list := wf.Command("list", "list-files")
	load := wf.Handler("load", "file.load").After(list).Map(list.Result("files")).
		Payload(map[string]any{"file": workflow.Item("path"), "bucket": workflow.Payload("bucket")})
	approve := wf.Signal("approve", "approve", 2*time.Hour).After(load)
	wf.HTTP("publish", "https://example.com/publish").After(approve)
	wf.HTTP("alarm", "https://example.com/alarm").AfterFailure(load)
	def, err := wf.Definition()
	if err != nil {
		fmt.Println(err)
		return
	}
	nodes := def.Target.Workflow.Nodes
	for i := range nodes {
		fmt.Println(nodes[i].Name, nodes[i].After)
	}
	// Output:
	// list []
	// load [{list success}]
	// approve [{load success}]
	// publish [{approve success}]
	// alarm [{load failure}]
}

func ExampleError() {
	wf := workflow.New("loop")
	a, b := wf.Command("a", "true"), wf.Command("b", "true")
	a.After(b)
	b.After(a)
	_, err := wf.Definition()
	var mistake *workflow.Error
	fmt.Println(errors.As(err, &mistake), errors.Is(err, carillon.ErrInvalid))
	fmt.Println(err)
	// Output:
	// true true
	// target.workflow.nodes: there is a cycle: a -> b -> a: want nodes that do not come after themselves
}

func TestTheDefinitionIsAsItWasBuilt(t *testing.T) {
	wf := workflow.New("all").Deadline(4 * time.Hour).Payload([]int{1, 2}).
		Edit(func(d *carillon.Definition) { d.Schedule.Cron, d.Owner = "0 3 * * *", "ann" })
	first := wf.Command("first", "list", "<all>")
	second := wf.Node("second", carillon.Target{Command: &carillon.Command{Shell: "true"}}).
		Payload(map[string]any{"a": first.Result("[0]", "b"), "<": first.Result()}).After(first)
	each := wf.Handler("each", "t").Map(workflow.Payload()).Payload(workflow.Index()).AfterAny(first, second)
	wf.Wait("pause", time.Minute).After(each).AfterFailure(second).JoinAny().
		Edges(carillon.Edge{Node: "last"})
	wf.HTTP("last", "https://example.com").Edit(func(d *carillon.Definition) { d.Retry.MaxAttempts = 7 })
	def, err := wf.Definition()
	if err != nil {
		t.Fatal(err)
	}
	node := func(name string, target carillon.Target) carillon.WorkflowNode {
		return carillon.WorkflowNode{Definition: carillon.Definition{Name: name, Target: target}}
	}
	nodes := []carillon.WorkflowNode{
		node("first", carillon.Target{Command: &carillon.Command{Argv: []string{"list", "<all>"}}}),
		node("second", carillon.Target{Command: &carillon.Command{Shell: "true"}}),
		node("each", carillon.Target{Handler: &carillon.Handler{}}),
		node("pause", carillon.Target{Wait: &carillon.Wait{For: carillon.Duration(time.Minute)}}),
		node("last", carillon.Target{HTTP: &carillon.HTTP{URL: "https://example.com"}}),
	}
	nodes[1].Payload = json.RawMessage(`{"<":"${nodes.first.result}","a":"${nodes.first.result[0].b}"}`)
	nodes[1].After = []carillon.Edge{{Node: "first", On: carillon.OnSuccess}}
	nodes[2].Type, nodes[2].Map, nodes[2].Payload = "t", "${payload}", json.RawMessage(`"${index}"`)
	nodes[2].After = []carillon.Edge{
		{Node: "first", On: carillon.OnAny}, {Node: "second", On: carillon.OnAny},
	}
	nodes[3].Join = carillon.JoinAny
	nodes[3].After = []carillon.Edge{
		{Node: "each", On: carillon.OnSuccess}, {Node: "second", On: carillon.OnFailure}, {Node: "last"},
	}
	nodes[4].Retry.MaxAttempts = 7
	want := carillon.Definition{Name: "all", Owner: "ann", Payload: json.RawMessage(`[1,2]`)}
	want.Schedule.Cron = "0 3 * * *"
	want.Target.Workflow = &carillon.Workflow{Nodes: nodes, Deadline: carillon.Duration(4 * time.Hour)}
	if diff := cmp.Diff(text(t, want), text(t, def)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func text(t *testing.T, def carillon.Definition) string {
	t.Helper()
	b, err := json.MarshalIndent(def, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAMistakeNamesItsNodeAndField(t *testing.T) {
	other := workflow.New("other").Command("elsewhere", "true")
	for name, c := range map[string]struct {
		build func(wf *workflow.Workflow)
		node  string
		field string
		says  string
	}{
		"no node": {
			func(*workflow.Workflow) {}, "", "target.workflow.nodes", "no node is given",
		},
		"two of a name": {
			func(wf *workflow.Workflow) { wf.Command("a", "true"); wf.Command("a", "false") },
			"a", "name", "nodes[0] has it too",
		},
		"a name that is not allowed": {
			func(wf *workflow.Workflow) { wf.Command("a b", "true") }, "a b", "name", "1 to 64 characters",
		},
		"an unknown name": {
			func(wf *workflow.Workflow) {
				wf.Command("list", "true")
				wf.Command("b", "true").Edges(carillon.Edge{Node: "lits"})
			},
			"b", "after[0].node", "did you mean",
		},
		"a node of another workflow": {
			func(wf *workflow.Workflow) { wf.Command("a", "true").After(other) },
			"a", "after[0].node", `"elsewhere" is not valid`,
		},
		"no node to come after": {
			func(wf *workflow.Workflow) { wf.Command("a", "true").AfterAny(nil) },
			"a", "after[0].node", "a node of the same workflow",
		},
		"a node after itself": {
			func(wf *workflow.Workflow) { a := wf.Command("a", "true"); a.After(a) },
			"a", "after[0].node", "comes after itself",
		},
		"a cycle": {
			func(wf *workflow.Workflow) {
				a, b, c := wf.Command("a", "true"), wf.Command("b", "true"), wf.Command("c", "true")
				a.After(c)
				b.After(a)
				c.After(b)
			},
			"", "target.workflow.nodes", "there is a cycle: ",
		},
		"the result of a node that does not come before": {
			func(wf *workflow.Workflow) {
				a := wf.Command("a", "true")
				wf.Command("b", "true").Payload(a.Result())
			},
			"b", "payload", "b does not come after a",
		},
		"a path that is none": {
			func(wf *workflow.Workflow) {
				a := wf.Command("a", "true")
				wf.Command("b", "true").Payload(a.Result("x y")).After(a)
			},
			"b", "payload", "${",
		},
		"an item without a map": {
			func(wf *workflow.Workflow) { wf.Command("a", "true").Payload(workflow.Item()) },
			"a", "payload", "a has no item",
		},
		"a payload that JSON does not have": {
			func(wf *workflow.Workflow) { wf.Command("a", "true").Payload(func() {}) },
			"a", "payload", "unsupported type",
		},
		"a payload of the workflow that JSON does not have": {
			func(wf *workflow.Workflow) { wf.Payload(make(chan int)).Command("a", "true") },
			"", "payload", "unsupported type",
		},
		"a target": {
			func(wf *workflow.Workflow) { wf.Command("a") }, "a", "target.command", "",
		},
		"a wait for nothing": {
			func(wf *workflow.Workflow) { wf.Wait("a", 0) }, "a", "target.wait", "neither for nor signal",
		},
		"the schedule": {
			func(wf *workflow.Workflow) {
				wf.Command("a", "true")
				wf.Edit(func(d *carillon.Definition) { d.Schedule.Cron = "x" })
			},
			"", "schedule.cron", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			wf := workflow.New("wrong")
			c.build(wf)
			_, err := wf.Definition()
			var mistake *workflow.Error
			var fault *carillon.FieldError
			switch {
			case !errors.As(err, &mistake) || !errors.As(err, &fault) || !errors.Is(err, carillon.ErrInvalid):
				t.Fatalf("%T: %v", err, err)
			case mistake.Node != c.node || mistake.Field != c.field:
				t.Errorf("node %q, field %q, want %q, %q: %v", mistake.Node, mistake.Field, c.node, c.field, err)
			case !strings.Contains(err.Error(), c.says):
				t.Errorf("%v does not say %q", err, c.says)
			case c.node != "" && !strings.HasPrefix(err.Error(), "node "+c.node+": "+c.field+": "):
				t.Errorf("it does not begin with its place: %v", err)
			}
		})
	}
}

package carillon_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/jobjson"
)

// nodesJSON is a workflow of these nodes; each without a target gets one.
func nodesJSON(nodes ...string) string {
	for i, node := range nodes {
		if !strings.Contains(node, `"target"`) && strings.HasPrefix(node, "{") {
			nodes[i] = strings.TrimSuffix(node, "}") + `,"type":"t","target":{"handler":{}}}`
		}
	}
	return `{"name":"flow","target":{"workflow":{"nodes":[` + strings.Join(nodes, ",") + `]}}}`
}

// row is a row of nodes, each after the one before it.
func row(n int) (nodes []string) {
	for i := range n {
		node := fmt.Sprintf(`{"name":"n%d"`, i)
		if i > 0 {
			node += fmt.Sprintf(`,"after":[{"node":"n%d"}]`, i-1)
		}
		nodes = append(nodes, node+"}")
	}
	return nodes
}

func TestAWorkflowThatIsWrongIsRefusedByField(t *testing.T) {
	const in = "target.workflow."
	a, b := `{"name":"a"}`, `{"name":"b","after":[{"node":"a"}]}`
	with := func(field string) string { return `{"name":"a",` + field + `}` }
	after := func(field string) string { return `{"name":"b","after":[{"node":"a"}],` + field + `}` }
	http := func(body string) string {
		return `{"name":"b","after":[{"node":"a"}],"target":{"http":{"url":"http://t.test","body":"` + body + `"}}}`
	}
	top := func(field string) string {
		return strings.TrimSuffix(nodesJSON(a), "}") + "," + field + "}"
	}
	for i, c := range []struct{ def, want string }{
		// the list
		{nodesJSON(), in + "nodes: no node is given: want at least one node"},
		{`{"target":{"workflow":{}}}`, in + "nodes: no node is given"},
		{`{"target":{"workflow":{"nodes":{}}}}`, in + "nodes: "},
		{`{"target":{"workflow":{"nodes":[5]}}}`, in + "nodes[0]: "},
		{`{"target":{"workflow":{"node":[]}}}`, in + "node: unknown field"},
		{`{"target":{"workflow":[]}}`, "target.workflow: "},
		{nodesJSON(row(carillon.MaxWorkflowNodes + 1)...), in + "nodes: 10001 nodes are given: want at most 10000"},
		{`{"target":{"workflow":{"nodes":[` + a + `],"deadline":"-1s"}}}`, in + "deadline: "},
		{`{"target":{"workflow":{"nodes":[` + a + `],"deadline":5}}}`, in + "deadline: "},
		{`{"target":{"workflow":{"nodes":[` + a + `],"deadline":"40000d"}}}`, in + "deadline: "},
		// names
		{nodesJSON(`{"after":[]}`), in + "nodes[0].name: it is empty"},
		{nodesJSON(`{"name":""}`), in + "nodes[0].name: "},
		{nodesJSON(`{"name":"a.b"}`), in + `nodes[0].name: "a.b" is not valid: want 1 to 64 characters of`},
		{nodesJSON(`{"name":"a b"}`), in + `nodes[0].name: "a b" is not valid`},
		{nodesJSON(`{"name":"a/b"}`), in + `nodes[0].name: "a/b" is not valid`},
		{nodesJSON(`{"name":"` + strings.Repeat("x", 65) + `"}`), in + "nodes[0].name: "},
		{nodesJSON(a, b, a), in + "nodes[2].name: nodes[0] has it too: want a name that no other node has"},
		{nodesJSON(`{"name":5}`), in + "nodes[0].name: "},
		// edges
		{nodesJSON(`{"name":"a","after":[{"node":"a"}]}`), in + "nodes[0].after[0].node: a comes after itself: a -> a"},
		{nodesJSON(a, `{"name":"b","after":[{"node":"aa"}]}`), in + `nodes[1].after[0].node: no node is named "aa"`},
		{nodesJSON(a, `{"name":"b","after":[{}]}`), in + `nodes[1].after[0].node: no node is named ""`},
		{nodesJSON(a, `{"name":"b","after":[{"node":"a"},{"node":"a"}]}`), in + "nodes[1].after[1].node: a is there twice"},
		{nodesJSON(a, `{"name":"b","after":[{"node":"a","on":"done"}]}`), in + `nodes[1].after[0].on: "done" is not valid: want success, failure or any`},
		{nodesJSON(a, `{"name":"b","after":["a"]}`), in + "nodes[1].after[0]: "},
		{nodesJSON(a, `{"name":"b","after":"a"}`), in + "nodes[1].after: "},
		{nodesJSON(a, `{"name":"b","after":[{"node":"a","if":"x"}]}`), in + "nodes[1].after[0].if: unknown field"},
		{nodesJSON(a, after(`"join":"some"`)), in + `nodes[1].join: "some" is not valid: want all or any`},
		{nodesJSON(with(`"join":"any"`)), in + "nodes[0].join: the node comes after no other"},
		{nodesJSON(a, after(`"join":""`)), in + "nodes[1].join: "},
		{
			nodesJSON(`{"name":"a","after":[{"node":"c"}]}`, b, `{"name":"c","after":[{"node":"b"}]}`),
			in + "nodes: there is a cycle: ",
		},
		{nodesJSON(`{"name":"a","after":[{"node":"b"}]}`, b), in + "nodes: there is a cycle: "},
		// what a node cannot have
		{nodesJSON(with(`"schedule":{"every":"1m"}`)), in + "nodes[0].schedule: it is given: want no schedule"},
		{nodesJSON(with(`"schedule":{"after":"1m"}`)), in + "nodes[0].schedule: it is given"},
		{nodesJSON(with(`"unique":{"key":"k"}`)), in + "nodes[0].unique: it is given"},
		{nodesJSON(with(`"overlap":"allow"`)), in + "nodes[0].overlap: it is given"},
		{nodesJSON(with(`"misfire":"skip"`)), in + "nodes[0].misfire: it is given"},
		{nodesJSON(with(`"owner":"ann"`)), in + "nodes[0].owner: it is given"},
		{nodesJSON(with(`"pause_after":2`)), in + "nodes[0].pause_after: it is given"},
		{nodesJSON(with(`"retention":{"runs":"1d"}`)), in + "nodes[0].retention: it is given"},
		{nodesJSON(`{"name":"a","target":{"workflow":{"nodes":[` + a + `]}}}`), in + "nodes[0].target.workflow: it is given"},
		{nodesJSON(with(`"priority":12`)), in + "nodes[0].priority: "},
		{nodesJSON(with(`"queue":"a b"`)), in + `nodes[0].queue: "a b" is not valid`},
		{nodesJSON(with(`"nonesuch":1`)), in + "nodes[0].nonesuch: unknown field"},
		{nodesJSON(`{"name":"a","target":{}}`), in + "nodes[0].target: none is given"},
		{nodesJSON(`{"name":"a","target":{"handler":{}}}`), in + "nodes[0].type: a handler needs a type"},
		{nodesJSON(`{"name":"a","target":{"command":{}}}`), in + "nodes[0].target.command: neither argv nor shell is given"},
		{nodesJSON(`{"name":"a","target":{"http":{"url":"ftp://x"}}}`), in + "nodes[0].target.http.url: "},
		{nodesJSON(with(`"retry":{"max_attempts":0}`)), in + "nodes[0].retry.max_attempts: "},
		{nodesJSON(with(`"payload":"` + strings.Repeat("x", 256<<10) + `"`)), in + "nodes[0].payload: "},
		{nodesJSON(with(`"limits":[{"key":"a"}]`)), in + "nodes[0].limits"},
		{nodesJSON(with(`"labels":{"a b":"c"}`)), in + "nodes[0].labels: "},
		// waits
		{nodesJSON(`{"name":"a","target":{"wait":{}}}`), in + "nodes[0].target.wait: neither for nor signal is given"},
		{nodesJSON(`{"name":"a","target":{"wait":{"for":"1s","signal":"s"}}}`), in + "nodes[0].target.wait: both for and signal are given"},
		{nodesJSON(`{"name":"a","target":{"wait":{"for":"400d"}}}`), in + "nodes[0].target.wait.for: "},
		{nodesJSON(`{"name":"a","target":{"wait":{"for":"0s"}}}`), in + "nodes[0].target.wait.for: "},
		{nodesJSON(`{"name":"a","target":{"wait":{"for":"1s","timeout":"1s"}}}`), in + "nodes[0].target.wait.timeout: no signal is given"},
		{nodesJSON(`{"name":"a","needs":{"gpu":"x"},"target":{"wait":{"for":"1s"}}}`), in + "nodes[0].needs: it is given"},
		{nodesJSON(`{"name":"a","limits":[{"key":"k","concurrency":1}],"target":{"wait":{"for":"1s"}}}`), in + "nodes[0].limits: it is given"},
		{nodesJSON(`{"name":"a","retry":{"delay":"1s"},"target":{"wait":{"for":"1s"}}}`), in + "nodes[0].retry: it is given"},
		{nodesJSON(`{"name":"a","labels":{"carillon/part":"1.0"}}`), in + "nodes[0].labels: "},
		{nodesJSON(`{"name":"a","payload":[` + strings.Repeat(`"${payload}",`, 100) + `"${payload}"]}`), in + "nodes[0].payload: there are more than 100"},
		{nodesJSON(`{"name":"a","target":{"wait":{"signal":"a b"}}}`), in + "nodes[0].target.wait.signal: "},
		{nodesJSON(`{"name":"a","map":"${payload.l}","target":{"wait":{"signal":"s"}}}`), in + "nodes[0].map: "},
		{`{"target":{"wait":{"for":"1s"}}}`, "target: only a node of a workflow can wait"},
		// templates
		{nodesJSON(a, after(`"payload":{"x":"${nodes.zz.result}"}`)), in + `nodes[1].payload: no node is named "zz"`},
		{nodesJSON(a, `{"name":"c","payload":{"x":"${nodes.a.result}"}}`), in + "nodes[1].payload: c does not come after a"},
		{nodesJSON(`{"name":"a","payload":["${nodes.b.result}"]}`, b), in + "nodes[0].payload: a does not come after b"},
		{nodesJSON(`{"name":"a","payload":"${nodes.a.result}"}`), in + "nodes[0].payload: a does not come after a"},
		{nodesJSON(a, after(`"payload":"${nodes.a.output}"`)), in + "nodes[1].payload: unknown placeholder ${nodes.a.output}"},
		{nodesJSON(a, after(`"payload":"${nodes.a"`)), in + "nodes[1].payload: a ${ has no closing }"},
		{nodesJSON(a, after(`"payload":"${env.HOME}"`)), in + "nodes[1].payload: unknown placeholder ${env.HOME}"},
		{nodesJSON(a, after(`"payload":"${item}"`)), in + "nodes[1].payload: b has no item"},
		{nodesJSON(a, after(`"payload":"${index}"`)), in + "nodes[1].payload: b has no item"},
		{nodesJSON(a, http("${nodes.c.result}")), in + `nodes[1].target.http.body: no node is named "c"`},
		{nodesJSON(a, http("${item.x}")), in + "nodes[1].target.http.body: b has no item"},
		{nodesJSON(a, after(`"map":"${nodes.a.result"`)), in + "nodes[1].map: a ${ has no closing }"},
		{nodesJSON(a, after(`"map":"nodes.a.result"`)), in + "nodes[1].map: "},
		{nodesJSON(a, after(`"map":"x ${nodes.a.result}"`)), in + "nodes[1].map: "},
		{nodesJSON(a, after(`"map":"${run.id}"`)), in + "nodes[1].map: "},
		{nodesJSON(a, after(`"map":"${item}"`)), in + "nodes[1].map: "},
		{nodesJSON(a, after(`"map":"${nodes.c.result}"`)), in + `nodes[1].map: no node is named "c"`},
		{nodesJSON(a, after(`"map":["a"]`)), in + "nodes[1].map: "},
		{`{"target":{"http":{"url":"http://t.test","body":"${nodes.a.result}"}}}`, "target.http.body: only a node of a workflow has"},
		{`{"target":{"http":{"url":"http://t.test","body":"${item}"}}}`, "target.http.body: only a node of a workflow has"},
		// the workflow itself
		{top(`"timeout":"5s"`), "timeout: "},
		{top(`"retry":{"max_attempts":3}`), "retry.max_attempts: "},
		{top(`"retry":{"rules":[{"match":"x","retry":true}]}`), "retry.rules: "},
		{top(`"needs":{"gpu":"yes"}`), "needs: "},
		{top(`"limits":[{"key":"a","concurrency":1}]`), "limits: "},
		{top(`"labels":{"carillon/workflow":"run_x"}`), "labels: "},
	} {
		_, err := jobjson.Define([]byte(c.def), minute(1))
		if err == nil || !errors.Is(err, carillon.ErrInvalid) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%d: %s\n got %v\nwant %s", i, c.def[:min(len(c.def), 200)], err, c.want)
		}
	}
}

func TestACycleIsShownWithItsPath(t *testing.T) {
	_, err := jobjson.Define([]byte(nodesJSON(
		`{"name":"x"}`,
		`{"name":"a","after":[{"node":"x"},{"node":"c"}]}`,
		`{"name":"b","after":[{"node":"a"}]}`,
		`{"name":"c","after":[{"node":"b"}]}`,
	)), minute(1))
	if err == nil || !strings.Contains(err.Error(), "a -> b -> c -> a") &&
		!strings.Contains(err.Error(), "b -> c -> a -> b") &&
		!strings.Contains(err.Error(), "c -> a -> b -> c") {
		t.Errorf("%v", err)
	}
	long := row(carillon.MaxWorkflowNodes)
	long[0] = `{"name":"n0","after":[{"node":"n9999"}]}`
	if _, err := jobjson.Define([]byte(nodesJSON(long...)), minute(1)); err == nil || len(err.Error()) > 600 {
		t.Errorf("a cycle of 10,000 nodes: %v", err)
	}
}

func TestALongRowIsAdmitted(t *testing.T) {
	def, err := jobjson.Define([]byte(nodesJSON(row(carillon.MaxWorkflowNodes)...)), minute(1))
	if err != nil {
		t.Fatal(err)
	}
	size := len(carillon.NewProgress(len(def.Target.Workflow.Nodes), 1<<62).Value())
	if size > 20_000 {
		t.Errorf("the progress of 10,000 nodes has %d bytes", size)
	}
}

// What is stored and read again, and what is admitted twice, is the same.
func TestAWorkflowSurvivesJSON(t *testing.T) {
	def, err := jobjson.Define([]byte(nodesJSON(
		`{"name":"a","priority":0,"queue":"q","retry":{"jitter":0,"delay":"0s"},"timeout":"0s"}`,
		`{"name":"b","after":[{"node":"a","on":"any"}],"join":"any","map":"${nodes.a.result}"}`,
		`{"name":"c","target":{"http":{"url":"http://t.test"}}}`,
		`{"name":"d","after":[{"node":"c"}],"target":{"wait":{"signal":"s","timeout":"1m"}}}`,
	)), minute(1))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(def.Target)
	if err != nil {
		t.Fatal(err)
	}
	var read carillon.Target
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	same := cmpopts.IgnoreUnexported(carillon.Schedule{}, carillon.Workflow{}, carillon.WorkflowNode{})
	if diff := cmp.Diff(def.Target, read, same); diff != "" {
		t.Errorf("%s\n%s", text, diff)
	}
	again := def
	again.Target = read
	if err := again.AdmitEdit(&def, minute(2)); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(def.Target, again.Target, same); diff != "" {
		t.Errorf("admitted again: %s", diff)
	}
	for i, want := range []int{0, 5, 5, 5} {
		if got := def.Target.Workflow.Nodes[i].Priority; got != want {
			t.Errorf("node %d has priority %d, want %d", i, got, want)
		}
	}
}

func FuzzNodeTemplate(f *testing.F) {
	for _, text := range []string{
		"${nodes.a.result}", "x ${item.a[0]} $${y}", "${payload}", "${index}", "$$${a}", "${", "}",
		"${nodes.a.result.b[7].c}",
	} {
		f.Add(text, `{"a":["${x}",1,null,{"b":"$${nodes.a.result}"}]}`)
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		payload, err := json.Marshal(map[string]string{"x": text})
		if err != nil || !json.Valid([]byte(value)) {
			return
		}
		def := carillon.Definition{Payload: payload}
		item := def
		if item.Fill(&carillon.Values{Item: []byte(value), Index: 3}) != nil {
			return
		}
		// Whatever an item has in it, the second step takes none of it for a placeholder.
		results := &carillon.Values{
			Results: map[string][]byte{"a": []byte(`"RESULT"`)}, Payload: []byte(`"PAYLOAD"`),
		}
		if err := item.Fill(results); err != nil {
			t.Fatalf("%q, item %q: %v", text, value, err)
		}
		if !json.Valid(item.Payload) && item.Payload != nil {
			t.Fatalf("%q, item %q: %q is no JSON", text, value, item.Payload)
		}
		if text == "${item}" {
			var got, want struct{ X any }
			_ = json.Unmarshal(item.Payload, &got)
			_ = json.Unmarshal([]byte(`{"x":`+value+`}`), &want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("an item comes out as another: %s", diff)
			}
		}
	})
}

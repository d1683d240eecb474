package porttest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

// flowNode is a node whose target is the house's handler. after is "a, b:failure".
func flowNode(name, after string, edit ...func(*carillon.WorkflowNode)) carillon.WorkflowNode {
	node := carillon.WorkflowNode{}
	node.Name, node.Type, node.Target.Handler = name, name, &carillon.Handler{}
	node.Retry.MaxAttempts = 1
	for _, text := range strings.FieldsFunc(after, func(r rune) bool { return r == ',' || r == ' ' }) {
		from, on, _ := strings.Cut(text, ":")
		node.After = append(node.After, carillon.Edge{Node: from, On: carillon.On(on)})
	}
	for _, e := range edit {
		e(&node)
	}
	return node
}

func waits(w carillon.Wait) func(*carillon.WorkflowNode) {
	return func(n *carillon.WorkflowNode) {
		n.Type, n.Target = "", carillon.Target{Wait: &w}
		n.Retry = carillon.Retry{}
	}
}

func payload(text string) func(*carillon.WorkflowNode) {
	return func(n *carillon.WorkflowNode) { n.Payload = json.RawMessage(text) }
}

func mapping(over string) func(*carillon.WorkflowNode) {
	return func(n *carillon.WorkflowNode) { n.Map = over }
}

// flow submits a workflow.
func (h *House) flow(nodes ...carillon.WorkflowNode) carillon.Job {
	h.T.Helper()
	return h.flowAs(func(*carillon.Definition) {}, nodes...)
}

func (h *House) flowAs(edit func(*carillon.Definition), nodes ...carillon.WorkflowNode) carillon.Job {
	h.T.Helper()
	return h.Submit(func(d *carillon.Definition) {
		d.Type, d.Target = "flow", carillon.Target{Workflow: &carillon.Workflow{Nodes: nodes}}
		edit(d)
	})
}

// nodes are the states of the nodes of the latest run of a workflow: "a=succeeded b=skipped".
func (h *House) nodes(job carillon.JobID) string {
	h.T.Helper()
	return h.nodesOf(h.Runs(job)[0])
}

func (h *House) nodesOf(run carillon.Run) string {
	h.T.Helper()
	jobs, err := h.Store.Jobs(context.Background(), []carillon.JobVersion{run.Definition()})
	if err != nil || len(jobs) == 0 {
		h.T.Fatal(err)
	}
	guards, err := h.Store.Guards(context.Background(), carillon.GuardQuery{
		Namespace: run.Namespace, Keys: []string{run.ID.WorkflowKey()},
	})
	if err != nil || len(guards) == 0 {
		h.T.Fatalf("%s has no progress: %v", run.ID, err)
	}
	p, err := carillon.ProgressOf(guards[0].Value)
	if err != nil {
		h.T.Fatal(err)
	}
	var states []string
	for i := range p.Nodes() {
		states = append(states, jobs[0].Target.Workflow.Nodes[i].Name+"="+p.State(i).String())
	}
	return strings.Join(states, " ")
}

func (h *House) expectNodes(job carillon.JobID, want string) {
	h.T.Helper()
	if got := h.nodes(job); got != want {
		h.T.Errorf("nodes\n  got  %s\n  want %s", got, want)
	}
}

// performs lets the handlers of nodes, by type, return results or errors, and notes payloads in the order of
// their starts.
type performs struct {
	results map[string]string
	fails   map[string]int // so often
	takes   time.Duration

	mu  sync.Mutex
	saw []string
}

// fail says whether the next attempt of a node fails, and notes its payload.
func (p *performs) fail(job *carillon.Job) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.saw = append(p.saw, strings.TrimSpace(job.Name+" "+string(job.Payload)))
	if p.fails[job.Name] == 0 {
		return false
	}
	p.fails[job.Name]--
	return true
}

// performed are the nodes that were performed so far, with their payloads, sorted.
func (p *performs) performed() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(slices.Values(p.saw))
}

func (p *performs) handle(ctx context.Context, task executor.Task) error {
	fails := p.fail(task.Job)
	if p.takes > 0 {
		select {
		case <-time.After(p.takes):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if fails {
		return errors.New("no luck")
	}
	if result, has := p.results[task.Job.Name]; has {
		return task.SetResult([]byte(result))
	}
	return nil
}

func (p *performs) expect(h *House, want ...string) {
	h.T.Helper()
	slices.Sort(want)
	if got := p.performed(); !slices.Equal(got, want) {
		h.T.Errorf("performed\n  got  %q\n  want %q", got, want)
	}
}

var workflows = []scenario{
	{"a workflow runs its nodes in their order, and hands results on", func(h *House) {
		p := &performs{results: map[string]string{"a": `{"n":[7,8]}`, "b": `"text"`}}
		h.Handle = p.handle
		job := h.flowAs(
			func(d *carillon.Definition) { d.Payload = json.RawMessage(`{"day":"today"}`) },
			flowNode("a", ""),
			flowNode("b", "a", payload(`{"first":"${nodes.a.result.n[0]}","on":"${payload.day}"}`)),
			flowNode("c", "a", payload(`["n: ${nodes.a.result.n}","${nodes.a.result.none}"]`)),
			flowNode("d", "b, c", payload(`"${nodes.b.result}"`)),
		)
		time.Sleep(5 * time.Second)
		h.expectNodes(job.ID, "a=succeeded b=succeeded c=succeeded d=succeeded")
		h.expect(job.ID, "succeeded 1")
		p.expect(h, `a {"day":"today"}`, `b {"first":7,"on":"today"}`, `c ["n: [7,8]",null]`, `d "text"`)
	}},
	{"a node that fails skips those that need it, and starts those that follow a failure", func(h *House) {
		p := &performs{fails: map[string]int{"a": 1}}
		h.Handle = p.handle
		job := h.flow(
			flowNode("a", ""), flowNode("b", "a"), flowNode("c", "b"), flowNode("alarm", "a:failure"),
			flowNode("last", "c:any, alarm"), flowNode("never", "last:failure"),
		)
		time.Sleep(5 * time.Second)
		h.expectNodes(job.ID, "a=failed b=skipped c=skipped alarm=succeeded last=succeeded never=skipped")
		h.expect(job.ID, "succeeded 1")
	}},
	{"a workflow fails if a failure is followed by nothing", func(h *House) {
		p := &performs{fails: map[string]int{"b": 1}}
		h.Handle = p.handle
		job := h.flow(flowNode("a", ""), flowNode("b", "a"), flowNode("c", "b"), flowNode("d", "a"))
		time.Sleep(5 * time.Second)
		h.expectNodes(job.ID, "a=succeeded b=failed c=skipped d=succeeded")
		h.expect(job.ID, "failed 1 did not succeed: b")
	}},
	{"the first of several nodes is enough for any of them", func(h *House) {
		p := &performs{fails: map[string]int{"a": 1}}
		h.Handle = p.handle
		join := func(n *carillon.WorkflowNode) { n.Join = carillon.JoinAny }
		job := h.flow(
			flowNode("a", ""), flowNode("slow", "", waits(carillon.Wait{For: carillon.Duration(time.Hour)})),
			flowNode("b", ""), flowNode("c", "a, b, slow", join), flowNode("d", "a", join),
		)
		time.Sleep(5 * time.Second)
		h.expectNodes(job.ID, "a=failed slow=active b=succeeded c=succeeded d=skipped")
		time.Sleep(time.Hour)
		h.expect(job.ID, "failed 1 did not succeed: a")
	}},
	{"a node maps over the list in a result", func(h *House) {
		p := &performs{results: map[string]string{
			"list": `{"files":[{"f":"x"},{"f":"${y}"}]}`, "load[0]": `1`, "load[1]": `{"ok":true}`,
		}}
		h.Handle = p.handle
		job := h.flow(
			flowNode("list", ""),
			flowNode("load", "list", mapping("${nodes.list.result.files}"),
				payload(`{"i":"${index}","at":"f/${item.f}"}`)),
			flowNode("bare", "list", mapping("${nodes.list.result.files}")),
			flowNode("end", "load, bare", payload(`"${nodes.load.result}"`)),
			flowNode("none", "list", mapping("${nodes.list.result.nothing}")),
		)
		time.Sleep(5 * time.Second)
		h.expectNodes(job.ID, "list=succeeded load=succeeded bare=succeeded end=succeeded none=failed")
		p.expect(h, `list`, `load[0] {"at":"f/x","i":0}`, `load[1] {"at":"f/${y}","i":1}`,
			`bare[0] {"f":"x"}`, `bare[1] {"f":"${y}"}`, `end [1,{"ok":true}]`)
	}},
	{"a wait is never early, and uses no slot", func(h *House) {
		p := &performs{}
		h.Handle = p.handle
		job := h.flow(
			flowNode("a", ""),
			flowNode("nap", "a", waits(carillon.Wait{For: carillon.Duration(3 * time.Hour)})),
			flowNode("b", "nap"),
		)
		time.Sleep(3*time.Hour - 100*time.Millisecond)
		h.expectNodes(job.ID, "a=succeeded nap=active b=pending")
		time.Sleep(time.Second)
		h.expect(job.ID, "succeeded 1")
	}},
	{"a node waits for its signal, which can come first", func(h *House) {
		p := &performs{}
		h.Handle = p.handle
		job := h.flow(
			flowNode("one", "", waits(carillon.Wait{Signal: "first"})),
			flowNode("two", "one", waits(carillon.Wait{Signal: "second"})),
			flowNode("three", "two", waits(carillon.Wait{
				Signal: "third", Timeout: carillon.Duration(time.Minute),
			})),
			flowNode("b", "two", payload(`["${nodes.one.result}","${nodes.two.result.by}"]`)),
		)
		time.Sleep(26 * time.Hour)
		run := h.Runs(job.ID)[0].ID
		signal := func(name, body string) error {
			_, err := h.Ledger.Signal(
				context.Background(), carillon.DefaultNamespace, run, name, []byte(body),
			)
			return err
		}
		if err := signal("second", `{"by":"ann"}`); err != nil {
			h.T.Error(err)
		}
		time.Sleep(time.Minute)
		h.expectNodes(job.ID, "one=active two=pending three=pending b=pending")
		if err := signal("first", ``); err != nil {
			h.T.Error(err)
		}
		if err := signal("first", `1`); !errors.Is(err, carillon.ErrConflict) {
			h.T.Errorf("a signal that is sent twice: %v", err)
		}
		if err := signal("other", `1`); !errors.Is(err, carillon.ErrInvalid) {
			h.T.Errorf("an unknown signal: %v", err)
		}
		time.Sleep(2 * time.Second)
		h.expectNodes(job.ID, "one=succeeded two=succeeded three=active b=succeeded")
		p.expect(h, `b [null,"ann"]`)
		time.Sleep(time.Minute)
		h.expectNodes(job.ID, "one=succeeded two=succeeded three=failed b=succeeded")
		h.expect(job.ID, "failed 1 did not succeed: three")
	}},
	{"a workflow is stopped at its deadline", func(h *House) {
		p := &performs{takes: time.Hour}
		h.Handle = p.handle
		job := h.flowAs(func(d *carillon.Definition) {
			d.Target.Workflow.Deadline = carillon.Duration(10 * time.Minute)
		}, flowNode("a", ""), flowNode("b", "a"), flowNode("s", "", waits(carillon.Wait{Signal: "s"})))
		time.Sleep(11 * time.Minute)
		h.expectNodes(job.ID, "a=canceled b=canceled s=canceled")
		h.expect(job.ID, "failed 1 the deadline of 10m passed")
	}},
	{"a cancel of a workflow stops all that goes on", func(h *House) {
		p := &performs{takes: time.Hour, results: map[string]string{}}
		h.Handle = p.handle
		job := h.flowAs(
			func(d *carillon.Definition) { d.Payload = json.RawMessage(`[1,2,3]`) },
			flowNode("a", ""), flowNode("b", "a"), flowNode("m", "", mapping("${payload}")),
			flowNode("s", "", waits(carillon.Wait{For: carillon.Duration(time.Hour)})),
		)
		time.Sleep(time.Minute)
		run := h.Runs(job.ID)[0].ID
		if _, err := h.Ledger.CancelRun(context.Background(), carillon.DefaultNamespace, run); err != nil {
			h.T.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		h.expectNodes(job.ID, "a=canceled b=canceled m=canceled s=canceled")
		h.expect(job.ID, "canceled 1 canceled by request")
	}},
	{"a failed node is retried, and what was skipped because of it goes on", retriedNode},
	{"a workflow that failed is resumed where it failed", resumedFlow},
	{"one failed item of a map is retried", retriedItem},
	{"a recurring workflow obeys its overlap policy", func(h *House) {
		p := &performs{takes: 90 * time.Second}
		h.Handle = p.handle
		job := h.flowAs(func(d *carillon.Definition) {
			d.Schedule.Every, d.Schedule.MaxRuns = carillon.Duration(time.Minute), 3
		}, flowNode("a", ""), flowNode("b", "a"))
		time.Sleep(20 * time.Minute)
		states := map[carillon.State]int{}
		for _, run := range h.Runs(job.ID) {
			states[run.State]++
		}
		if states[carillon.StateSucceeded] != 3 || states[carillon.StateSkipped] == 0 ||
			len(p.performed()) != 6 {
			h.T.Errorf("runs by state %v, performed %q", states, p.performed())
		}
	}},
	{"a workflow goes on after a downtime", func(h *House) {
		p := &performs{takes: time.Minute}
		h.Handle = p.handle
		var nodes []carillon.WorkflowNode
		for i := range 6 {
			after := ""
			if i > 0 {
				after = fmt.Sprint("n", i-1)
			}
			nodes = append(nodes, flowNode(fmt.Sprint("n", i), after))
		}
		job := h.flow(nodes...)
		for range 4 {
			time.Sleep(45 * time.Second)
			h.Down(10 * time.Minute)
		}
		time.Sleep(10 * time.Minute)
		h.expectLike(job.ID, "succeeded")
	}},
}

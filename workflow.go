package carillon

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon/internal/suggest"
)

// MaxWorkflowNodes bounds the nodes of a workflow, and the items of a node that maps over a list.
const MaxWorkflowNodes = 10_000

// maxEdges bounds the work that the end of a node causes.
const maxEdges = 100_000

// maxWorkflow bounds the definition of a workflow as JSON. Other targets are much smaller.
const maxWorkflow = 8 << 20

// Workflow is a graph of nodes, each of which is a job of its own. A run of the workflow begins the nodes
// that come after no other; the end of a node's run begins those that come after it. No worker holds the run
// of a workflow: it has ended when all nodes have.
type Workflow struct {
	Nodes []WorkflowNode `json:"nodes"`
	// Deadline is how long a run can take, from its start. Then the nodes that have not ended are stopped,
	// and the run fails. Default none.
	Deadline Duration `json:"deadline,omitzero"`

	compiled atomic.Pointer[graph] // made when it is first needed
}

// WorkflowNode is one step of a workflow: the definition of a job, and when it can begin. A node has no
// schedule, owner, unique key, overlap, misfire policy and retention of its own. Queue and priority are those
// of the workflow unless it has its own. Name names it among the nodes.
type WorkflowNode struct {
	Definition
	// After are the nodes that come before this one. Default none: it begins with the workflow.
	After []Edge `json:"after,omitempty"`
	Join  Join   `json:"join,omitempty"` // default all
	// Map is a placeholder such as ${nodes.list.result.items}, or ${payload.items} of the workflow's payload.
	// The value is a list; the node has a run for each of its items, with ${item} and ${index}. Without a
	// payload of the node, the item is the payload. The node succeeds if all items do.
	Map string `json:"map,omitempty"`

	admitted bool // its defaults are filled in
}

// Edge says that a node comes after another one, and how that one must have ended.
type Edge struct {
	Node string `json:"node"`
	On   On     `json:"on,omitempty"` // default success
}

// On is how a node must have ended so that another one can follow it.
type On string

const (
	OnSuccess On = "success"
	OnFailure On = "failure" // it failed for good, or was canceled
	OnAny     On = "any"     // however it ended, skipped too
)

// Join says how many of its edges a node waits for.
type Join string

const (
	JoinAll Join = "all"
	JoinAny Join = "any" // the first one that ends as its edge says
)

// graph is the edges of a workflow by index.
type graph struct {
	index  map[string]int
	before [][]link // of each node: the nodes that it comes after
	after  [][]int  // of each node: the nodes that come after it
	roots  []int
	// handled says of each node that another one follows its failure.
	handled []bool
}

type link struct {
	node int
	on   On
}

// graph returns the edges. The workflow was admitted, so every name is known.
func (w *Workflow) graph() *graph {
	if g := w.compiled.Load(); g != nil {
		return g
	}
	n := len(w.Nodes)
	g := &graph{
		index: make(map[string]int, n), before: make([][]link, n), after: make([][]int, n),
		handled: make([]bool, n),
	}
	for i := range w.Nodes {
		g.index[w.Nodes[i].Name] = i
	}
	for i := range w.Nodes {
		for _, edge := range w.Nodes[i].After {
			from := g.index[edge.Node]
			g.before[i] = append(g.before[i], link{from, edge.On})
			g.after[from] = append(g.after[from], i)
			g.handled[from] = g.handled[from] || edge.On != OnSuccess
		}
		if len(w.Nodes[i].After) == 0 {
			g.roots = append(g.roots, i)
		}
	}
	w.compiled.Store(g)
	return g
}

// NodeIndex is the place of a node in the list; false: there is none of that name.
func (w *Workflow) NodeIndex(name string) (int, bool) {
	i, known := w.graph().index[name]
	return i, known
}

// clone is a copy that shares nothing that Admit changes.
func (w *Workflow) clone() *Workflow {
	c := &Workflow{Nodes: slices.Clone(w.Nodes), Deadline: w.Deadline}
	for i := range c.Nodes {
		c.Nodes[i].After = slices.Clone(c.Nodes[i].After)
		if http := c.Nodes[i].Target.HTTP; http != nil {
			own := *http
			c.Nodes[i].Target.HTTP = &own
		}
	}
	return c
}

// weight is about how many bytes the workflow has.
func (w *Workflow) weight() (n int) {
	for i := range w.Nodes {
		node := &w.Nodes[i]
		n += 40 + len(node.Name) + len(node.Type) + len(node.Queue) + len(node.Payload) + len(node.Map) +
			node.Target.weight() + node.hooksWeight()
		for _, edge := range node.After {
			n += len(edge.Node) + 20
		}
		for key, value := range node.Labels {
			n += len(key) + len(value) + 6
		}
	}
	return n
}

// admitNoNode checks a definition that is no node of a workflow, but for its schedule.
func (d *Definition) admitNoNode() *FieldError {
	if err := d.admitAllButSchedule(); err != nil {
		return err
	}
	switch {
	case d.Target.Wait != nil:
		return invalid("target", KindWait, "exactly one of command, http, handler or workflow").
			because("only a node of a workflow can wait")
	case d.Target.HTTP != nil:
		if err := d.Target.HTTP.refuseNodePlaceholders(); err != nil {
			return err
		}
	}
	return d.admitWorkflow()
}

// admitWorkflow checks a workflow, and fills in the defaults of its nodes. Queue and priority of nodes follow
// those of the workflow, so the definition has its defaults already.
func (d *Definition) admitWorkflow() *FieldError {
	if d.Target.Workflow == nil {
		return nil
	}
	w := d.Target.Workflow.clone()
	d.Target.Workflow = w
	const century = Duration(100 * 365 * 24 * time.Hour)
	switch {
	case len(w.Nodes) == 0:
		return invalid("target.workflow.nodes", "none", "at least one node").because("no node is given")
	case len(w.Nodes) > MaxWorkflowNodes:
		return invalid("target.workflow.nodes", len(w.Nodes), "at most %d nodes", MaxWorkflowNodes).
			because("%d nodes are given", len(w.Nodes))
	case w.Deadline < 0 || w.Deadline > century || w.Deadline%Duration(time.Millisecond) != 0:
		return invalid("target.workflow.deadline", w.Deadline, "1ms to 36500d, in whole milliseconds")
	case d.Timeout != 0:
		return invalid("timeout", d.Timeout, "target.workflow.deadline: a workflow has no timeout")
	case d.Retry.MaxAttempts > 1:
		return invalid("retry.max_attempts", d.Retry.MaxAttempts,
			"1: the nodes of a workflow are tried again, each by its own retry")
	case d.Retry.Rules != nil:
		return invalid("retry.rules", "rules", "rules of its nodes: each is tried again by its own retry")
	case len(d.Limits) > 0:
		return invalid("limits", len(d.Limits), "limits of its nodes: no worker performs the workflow itself")
	case len(d.Needs) > 0:
		return invalid("needs", len(d.Needs), "needs of its nodes: no worker performs the workflow itself")
	}
	names := make(map[string]int, len(w.Nodes))
	for i := range w.Nodes {
		node, at := &w.Nodes[i], fmt.Sprintf("target.workflow.nodes[%d]", i)
		if !word(node.Name, 64) || strings.ContainsAny(node.Name, "./@") {
			return invalid("name", node.Name, "1 to 64 characters of a-z A-Z 0-9 _ -, the first a letter or "+
				"digit").In(at)
		}
		if first, twice := names[node.Name]; twice {
			return invalid("name", node.Name, "a name that no other node has").
				because("nodes[%d] has it too", first).In(at)
		}
		names[node.Name] = i
		if err := node.admit(d); err != nil {
			return err.In(at)
		}
	}
	if err := w.admitEdges(names); err != nil {
		return err.In("target.workflow")
	}
	return w.admitPlaceholders()
}

// admit checks the definition of a node.
func (n *WorkflowNode) admit(of *Definition) *FieldError {
	def := &n.Definition
	wait := def.Target.Wait != nil
	for _, f := range []struct {
		field string
		given bool
		want  string
	}{
		{"schedule", !def.Schedule.Equal(Schedule{}), "no schedule: a node begins after other nodes"},
		{"unique", def.Unique != nil, "no unique key of a node: the workflow can have one"},
		{"overlap", !n.admitted && def.Overlap != "", "the overlap policy of the workflow"},
		{"misfire", !n.admitted && def.Misfire != (Misfire{}), "the misfire policy of the workflow"},
		{"owner", !n.admitted && def.Owner != "" && def.Owner != of.Owner, "the owner of the workflow"},
		{"retention", def.Retention != Retention{}, "the retention of the workflow"},
		{"pause_after", def.PauseAfter != 0, "pause_after of the workflow"},
		{"target.workflow", def.Target.Workflow != nil, "a target that is no workflow"},
		{"needs", wait && len(def.Needs) > 0, "no needs: no worker performs a wait"},
		{"limits", wait && len(def.Limits) > 0, "no limits: no worker performs a wait"},
		{"timeout", wait && def.Timeout != 0, "target.wait.timeout"},
		{"retry", wait && !n.admitted && !def.Retry.Equal(Retry{}), "no retry of a wait"},
	} {
		if f.given {
			return invalid(f.field, "", "%s", f.want).because("it is given")
		}
	}
	if !n.admitted {
		by := defaults(&def.Target)
		by.Queue, by.Priority, by.Owner = of.Queue, of.Priority, of.Owner
		if of.Priority == 0 {
			by.Priority = Zero
		}
		def.fill(by)
		def.fill(Definition{})
		n.admitted = true
	}
	for key := range def.Labels {
		if strings.HasPrefix(key, reservedLabel) {
			return invalid("labels", key, "a key that does not begin with %s", reservedLabel)
		}
	}
	if n.Join == "" {
		n.Join = JoinAll
	}
	if n.Join != JoinAll && n.Join != JoinAny {
		return invalid("join", string(n.Join), "all or any")
	}
	if len(n.After) == 0 && n.Join == JoinAny {
		return invalid("join", string(n.Join), "join only with after").
			because("the node comes after no other")
	}
	return def.admitAllButSchedule()
}

// admitEdges checks that each edge leads to a node, and that no node comes after itself.
func (w *Workflow) admitEdges(names map[string]int) *FieldError {
	edges := 0
	for i := range w.Nodes {
		edges += len(w.Nodes[i].After)
	}
	if edges > maxEdges {
		return invalid("nodes", edges, "at most %d edges", maxEdges).because("the nodes have %d edges", edges)
	}
	for i := range w.Nodes {
		node := &w.Nodes[i]
		seen := make(map[string]bool, len(node.After))
		for k := range node.After {
			edge, at := &node.After[k], fmt.Sprintf("nodes[%d].after[%d]", i, k)
			if edge.On == "" {
				edge.On = OnSuccess
			}
			_, known := names[edge.Node]
			switch {
			case edge.Node == node.Name:
				return invalid("node", edge.Node, "another node").
					because("%s comes after itself: %s -> %s", node.Name, node.Name, node.Name).In(at)
			case !known:
				return invalid("node", edge.Node, "the name of a node%s", w.like(edge.Node)).
					because("no node is named %q", cut(edge.Node)).In(at)
			case seen[edge.Node]:
				return invalid("node", edge.Node, "each node once").
					because("%s is there twice", edge.Node).In(at)
			case edge.On != OnSuccess && edge.On != OnFailure && edge.On != OnAny:
				return invalid("on", string(edge.On), "success, failure or any").In(at)
			}
			seen[edge.Node] = true
		}
	}
	if cycle := w.cycle(); cycle != nil {
		return invalid("nodes", cycle[0], "nodes that do not come after themselves").
			because("there is a cycle: %s", strings.Join(cycle, " -> "))
	}
	return nil
}

// cycle returns the names along a cycle, the first one again at the end; nil: there is none.
func (w *Workflow) cycle() []string {
	g := w.graph()
	const open, done = 1, 2
	state, from := make([]byte, len(w.Nodes)), make([]int, len(w.Nodes))
	for start := range w.Nodes {
		if state[start] != 0 {
			continue
		}
		// Without recursion: a row of 10,000 nodes is as deep.
		stack := []int{start}
		from[start] = -1
		for len(stack) > 0 {
			node := stack[len(stack)-1]
			if state[node] != 0 {
				state[node], stack = done, stack[:len(stack)-1]
				continue
			}
			state[node] = open
			for _, next := range g.after[node] {
				switch state[next] {
				case 0:
					from[next] = node
					stack = append(stack, next)
				case open:
					return w.path(from, node, next)
				}
			}
		}
	}
	return nil
}

// path is the way from a node back to it, over the node from which it was found.
func (w *Workflow) path(from []int, last, first int) []string {
	names := []string{w.Nodes[first].Name}
	for at := last; at != first && at >= 0; at = from[at] {
		names = append(names, w.Nodes[at].Name)
	}
	names = append(names, w.Nodes[first].Name)
	slices.Reverse(names)
	if len(names) > maxShownPath {
		names = slices.Concat(names[:maxShownPath/2], []string{"…"}, names[len(names)-maxShownPath/2:])
	}
	return names
}

// maxShownPath bounds the names in an error.
const maxShownPath = 20

// follows says of each node whether it comes after the given one, also through others.
func (w *Workflow) follows(node int) []bool {
	g, is := w.graph(), make([]bool, len(w.Nodes))
	for stack := []int{node}; len(stack) > 0; {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		for _, next := range g.after[at] {
			if !is[next] {
				is[next] = true
				stack = append(stack, next)
			}
		}
	}
	return is
}

// like is a hint at the node that was probably meant.
func (w *Workflow) like(name string) string {
	if len(w.Nodes) > 1000 {
		return ""
	}
	names := make([]string, len(w.Nodes))
	for i := range w.Nodes {
		names[i] = w.Nodes[i].Name
	}
	return suggest.DidYouMean(name, names)
}

// Package workflow builds the definitions of workflows in Go, and finds mistakes before anything is sent.
//
//	wf := workflow.New("nightly-load")
//	list := wf.Command("list", "list-files")
//	load := wf.Handler("load", "file.load").After(list).Map(list.Result("files"))
//	wf.HTTP("alarm", "https://example.com/alarm").AfterFailure(load)
//	def, err := wf.Definition()
//	job, err := client.Submit(ctx, def)
//
// An error is an *Error, which names the node, and is carillon.ErrInvalid for errors.Is.
package workflow

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
)

// Workflow is a workflow that is being built. It is not safe for use by several goroutines.
type Workflow struct {
	def   carillon.Definition
	graph carillon.Workflow
	nodes []*Node
	err   *Error // the first mistake that was made while building
}

// New begins a workflow. The name is that of the job.
func New(name string) *Workflow { return &Workflow{def: carillon.Definition{Name: name}} }

// Node is one node of a workflow. Its methods return the node itself, so that calls can follow each other.
type Node struct {
	of  *Workflow
	def carillon.WorkflowNode
}

// Value is a placeholder. Where it is a text in a payload, it stands for a value that is not known before the
// workflow runs.
type Value string

// Error is a mistake in a workflow.
type Error struct {
	Node  string // the name of the node; empty: the mistake is not that of one node
	Field string // the field of the node as in JSON, such as after[0].node; without a node, of the definition
	Err   error  // most often a *carillon.FieldError, with the path as the server would give it
}

func (e *Error) Error() string {
	text := e.Err.Error()
	if fault, is := e.Err.(*carillon.FieldError); is {
		short := *fault
		short.Field = e.Field
		text = strings.TrimPrefix(short.Error(), ": ") // about the node as a whole
	}
	if e.Node != "" {
		text = "node " + e.Node + ": " + text
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }

// Is says that every mistake is carillon.ErrInvalid.
func (e *Error) Is(target error) bool { return target == carillon.ErrInvalid }

// Deadline bounds a run of the workflow, from its start.
func (w *Workflow) Deadline(d time.Duration) *Workflow {
	w.graph.Deadline = carillon.Duration(d)
	return w
}

// Payload gives the workflow a payload, as JSON. Nodes use it by Payload.
func (w *Workflow) Payload(v any) *Workflow {
	w.def.Payload = w.marshal("", v)
	return w
}

// Edit changes the definition of the workflow's job: its schedule, owner, queue, labels, unique key and so
// on. Its target is that of the workflow.
func (w *Workflow) Edit(change func(*carillon.Definition)) *Workflow {
	change(&w.def)
	return w
}

// Command adds a node that runs a program with its arguments.
func (w *Workflow) Command(name string, argv ...string) *Node {
	return w.Node(name, carillon.Target{Command: &carillon.Command{Argv: argv}})
}

// HTTP adds a node that sends its payload to a URL.
func (w *Workflow) HTTP(name, url string) *Node {
	return w.Node(name, carillon.Target{HTTP: &carillon.HTTP{URL: url}})
}

// Handler adds a node that is performed by the handler of a type.
func (w *Workflow) Handler(name, kind string) *Node {
	n := w.Node(name, carillon.Target{Handler: &carillon.Handler{}})
	n.def.Type = kind
	return n
}

// Wait adds a node that waits for a time.
func (w *Workflow) Wait(name string, d time.Duration) *Node {
	return w.Node(name, carillon.Target{Wait: &carillon.Wait{For: carillon.Duration(d)}})
}

// Signal adds a node that waits for a signal, such as an approval. If none comes within the timeout, the node
// fails; 0: it waits as long as it takes. The payload of the signal is the node's result.
func (w *Workflow) Signal(name, signal string, timeout time.Duration) *Node {
	return w.Node(name, carillon.Target{
		Wait: &carillon.Wait{Signal: signal, Timeout: carillon.Duration(timeout)},
	})
}

// Node adds a node with any target.
func (w *Workflow) Node(name string, target carillon.Target) *Node {
	n := &Node{of: w}
	n.def.Name, n.def.Target = name, target
	w.nodes = append(w.nodes, n)
	return n
}

// Name is the name of the node.
func (n *Node) Name() string { return n.def.Name }

// After lets the node begin when the given ones have succeeded.
func (n *Node) After(nodes ...*Node) *Node { return n.after(carillon.OnSuccess, nodes) }

// AfterFailure lets the node begin when the given ones have failed for good, or were canceled.
func (n *Node) AfterFailure(nodes ...*Node) *Node { return n.after(carillon.OnFailure, nodes) }

// AfterAny lets the node begin when the given ones have ended, however.
func (n *Node) AfterAny(nodes ...*Node) *Node { return n.after(carillon.OnAny, nodes) }

func (n *Node) after(on carillon.On, nodes []*Node) *Node {
	for _, before := range nodes {
		if before == nil || before.of != n.of {
			given := "nil"
			if before != nil {
				given = before.def.Name
			}
			n.of.fail(n.def.Name, &carillon.FieldError{
				Field: fmt.Sprintf("after[%d].node", len(n.def.After)), Given: given,
				Want: "a node of the same workflow",
			})
			continue
		}
		n.Edges(carillon.Edge{Node: before.def.Name, On: on})
	}
	return n
}

// Edges adds edges by the names of nodes, which can be added to the workflow later.
func (n *Node) Edges(edges ...carillon.Edge) *Node {
	n.def.After = append(n.def.After, edges...)
	return n
}

// JoinAny lets the node begin with the first of the nodes before it that ends as its edge says. Without
// JoinAny it waits for all of them.
func (n *Node) JoinAny() *Node {
	n.def.Join = carillon.JoinAny
	return n
}

// Map lets the node have a run for each item of a list, with Item and Index. Without a payload of the node,
// the item is the payload.
func (n *Node) Map(list Value) *Node {
	n.def.Map = string(list)
	return n
}

// Payload gives the node a payload, as JSON. Values in it stand for what they name.
func (n *Node) Payload(v any) *Node {
	n.def.Payload = n.of.marshal(n.def.Name, v)
	return n
}

// Edit changes the definition of the node: its retry, timeout, queue, labels and so on.
func (n *Node) Edit(change func(*carillon.Definition)) *Node {
	change(&n.def.Definition)
	return n
}

// Result is the result of the node, or the part of it at a path such as files[0].path.
func (n *Node) Result(path ...string) Value { return value("nodes."+n.def.Name+".result", path) }

// Payload is, in the payload of a node, the payload of the workflow's run, or the part of it at a path.
func Payload(path ...string) Value { return value("payload", path) }

// Item is the item of a node with Map, or the part of it at a path.
func Item(path ...string) Value { return value("item", path) }

// Index is the number of the item of a node with Map, from 0 on.
func Index() Value { return value("index", nil) }

func value(name string, path []string) Value {
	for _, step := range path {
		if !strings.HasPrefix(step, "[") {
			name += "."
		}
		name += step
	}
	return Value("${" + name + "}")
}

// Definition is the definition of the job, or the first mistake in it, as an *Error.
func (w *Workflow) Definition() (carillon.Definition, error) {
	if w.err != nil {
		return carillon.Definition{}, w.err
	}
	def := w.def
	flow := &carillon.Workflow{Deadline: w.graph.Deadline, Nodes: make([]carillon.WorkflowNode, len(w.nodes))}
	for i, n := range w.nodes {
		flow.Nodes[i] = n.def
	}
	def.Target = carillon.Target{Workflow: flow}
	admitted := def // Admit fills in defaults, which are the server's
	if err := admitted.Admit(carillon.Now()); err != nil {
		return carillon.Definition{}, w.mistake(err)
	}
	return def, nil
}

var ofNode = regexp.MustCompile(`^target\.workflow\.nodes\[(\d+)\]\.?(.*)$`)

// mistake says at which node an error is.
func (w *Workflow) mistake(err error) *Error {
	fault, is := err.(*carillon.FieldError)
	if !is {
		return &Error{Err: err}
	}
	path := ofNode.FindStringSubmatch(fault.Field)
	if path == nil {
		return &Error{Field: fault.Field, Err: fault}
	}
	i, _ := strconv.Atoi(path[1])
	return &Error{Node: w.nodes[i].def.Name, Field: path[2], Err: fault}
}

// marshal writes a payload. It escapes nothing, so that a payload looks as it was given.
func (w *Workflow) marshal(node string, v any) json.RawMessage {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		w.fail(node, &carillon.FieldError{
			Field: "payload", Given: fmt.Sprintf("%T", v), Want: "a value that JSON has", Wrong: err.Error(),
		})
		return nil
	}
	return json.RawMessage(strings.TrimSpace(b.String()))
}

// fail notes the first mistake.
func (w *Workflow) fail(node string, fault *carillon.FieldError) {
	if w.err == nil {
		w.err = &Error{Node: node, Field: fault.Field, Err: fault}
	}
}

package carillon

import (
	"fmt"
	"slices"
	"strings"
)

// ofNode says that only nodes of workflows have a value for the placeholder.
func (p *templatePart) ofNode() bool {
	return p.name == nodesPlaceholder || p.name == itemPlaceholder || p.name == indexPlaceholder
}

// parseNodePlaceholder reads ${nodes.fetch.result.items[0]}, ${item.name} and ${index}.
func parseNodePlaceholder(name string) (templatePart, bool) {
	if name == indexPlaceholder {
		return templatePart{name: name}, true
	}
	if path, is := strings.CutPrefix(name, itemPlaceholder); is {
		steps, valid := parseSteps(path)
		return templatePart{name: itemPlaceholder, steps: steps}, valid
	}
	path, is := strings.CutPrefix(name, nodesPlaceholder)
	steps, valid := parseSteps(path)
	if !is || !valid || len(steps) < 2 || steps[0].key == "" || steps[1].key != resultWord {
		return templatePart{}, false
	}
	return templatePart{name: nodesPlaceholder, node: steps[0].key, steps: steps[2:]}, true
}

// eachPlaceholder calls f with the placeholders of a node: those in the texts of its payload, in the body of
// an HTTP request, and its map. where is the field.
func (n *WorkflowNode) eachPlaceholder(f func(where string, part *templatePart) *FieldError) *FieldError {
	count := 0
	check := func(where, text string) *FieldError {
		t, err := parseTemplate(text)
		if bad, is := err.(*templateError); is {
			return invalid(where, text, "%s", bad.want).because("%s", bad.wrong)
		}
		for i := range t.parts {
			if t.parts[i].name != "" && t.parts[i].name != dollarPlaceholder {
				if count++; count > maxPlaceholders {
					return invalid(where, text, "at most %d placeholders in a node", maxPlaceholders).
						because("there are more than %d", maxPlaceholders)
				}
				if err := f(where, &t.parts[i]); err != nil {
					return err
				}
			}
		}
		return nil
	}
	var fault *FieldError
	if hasTemplate(n.Payload) {
		v, err := decodeNumbers(n.Payload)
		if err != nil {
			return invalid("payload", "", "valid JSON")
		}
		_, _ = texts(v, func(text string) (any, error) {
			if fault == nil {
				fault = check("payload", text)
			}
			return text, nil
		})
	}
	if fault == nil && n.Target.HTTP != nil {
		fault = check("target.http.body", n.Target.HTTP.Body)
	}
	if fault == nil && n.Map != "" {
		fault = check("map", n.Map)
	}
	return fault
}

// values is how many placeholders a node has.
func (n *WorkflowNode) values() (count int) {
	_ = n.eachPlaceholder(func(string, *templatePart) *FieldError { count++; return nil })
	return count
}

// admitPlaceholders checks that nodes use only the results of nodes that end before they begin.
func (w *Workflow) admitPlaceholders() *FieldError {
	reached := map[int][]bool{}
	for i := range w.Nodes {
		node := &w.Nodes[i]
		names := nodeNames{workflow: w, node: i, reached: reached}
		err := node.eachPlaceholder(names.admit)
		switch {
		case err != nil || node.Map == "":
		case node.Target.Wait != nil:
			err = invalid("map", node.Map, "no map of a node that waits")
		default:
			err = admitMap(node.Map)
		}
		if err != nil {
			return err.In(fmt.Sprintf("target.workflow.nodes[%d]", i))
		}
	}
	return nil
}

// maxNamed bounds the work of admitting a workflow: each such node costs a walk through the graph.
const maxNamed = 1000

// nodeNames checks which values a node can use.
type nodeNames struct {
	workflow *Workflow
	node     int
	reached  map[int][]bool // of nodes that templates name: those that come after them
}

func (n *nodeNames) admit(where string, part *templatePart) *FieldError {
	w, node := n.workflow, &n.workflow.Nodes[n.node]
	switch part.name {
	case itemPlaceholder, indexPlaceholder:
		if node.Map == "" || where == "map" {
			return invalid(where, part.text(), "it only in the payload or body of a node that has map").
				because("%s has no item", node.Name)
		}
	case nodesPlaceholder:
		from, known := w.graph().index[part.node]
		if !known {
			return invalid(where, part.text(), "the name of a node%s", w.like(part.node)).
				because("no node is named %q", cut(part.node))
		}
		isFrom := func(l link) bool { return l.node == from }
		if slices.ContainsFunc(w.graph().before[n.node], isFrom) { // most often
			return nil
		}
		if n.reached[from] == nil {
			if len(n.reached) == maxNamed {
				return invalid(where, part.text(), "at most %d nodes that templates of others than the next "+
					"nodes name", maxNamed)
			}
			n.reached[from] = w.follows(from)
		}
		if !n.reached[from][n.node] {
			return invalid(where, part.text(), "a node that %s comes after, also through others", node.Name).
				because("%s does not come after %s", node.Name, part.node)
		}
	}
	return nil
}

// admitMap checks that a map is one placeholder for a list.
func admitMap(text string) *FieldError {
	t, err := parseTemplate(text)
	if err != nil || len(t.parts) != 1 ||
		t.parts[0].name != nodesPlaceholder && t.parts[0].name != payloadPlaceholder {
		return invalid("map", text,
			"one placeholder that stands for a list, such as ${nodes.list.result.items} or ${payload.items}")
	}
	return nil
}

// refuseNodePlaceholders is for definitions that are no nodes.
func (h *HTTP) refuseNodePlaceholders() *FieldError {
	if !strings.Contains(h.Body, "${") {
		return nil
	}
	t, _ := parseTemplate(h.Body) // it was admitted
	for i := range t.parts {
		if t.parts[i].ofNode() {
			text := t.parts[i].text()
			return invalid("target.http.body", text, "one of ${%s}, ${payload} and paths into it",
				strings.Join(placeholders, "}, ${")).because("only a node of a workflow has %s", text)
		}
	}
	return nil
}

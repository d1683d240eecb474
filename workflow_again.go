package carillon

import (
	"fmt"
	"slices"
)

// reopen takes back the end of a node, and of those that were skipped because of it. It returns the ended
// nodes before those, which decide about them again.
func (p *Progress) reopen(w *Workflow, node int) (ended []int) {
	g := w.graph()
	p.set(node, NodePending)
	reset := []int{node}
	for at := 0; at < len(reset); at++ {
		for _, next := range g.after[reset[at]] {
			if p.State(next) == NodeSkipped {
				p.set(next, NodePending)
				reset = append(reset, next)
			}
		}
	}
	for _, i := range reset[1:] {
		for _, l := range g.before[i] {
			if p.State(l.node).Ended() && !slices.Contains(ended, l.node) {
				ended = append(ended, l.node)
			}
		}
	}
	return ended
}

// retry begins a node once more that failed or was canceled.
func (p *Progress) retry(w *Workflow, node int) {
	ended := p.reopen(w, node)
	p.Maps = slices.DeleteFunc(p.Maps, func(m MapProgress) bool { return m.Node == node })
	p.activate(w, node)
	p.settle(w, ended)
}

// retryItem lets an item of a node begin once more that did not succeed.
func (p *Progress) retryItem(w *Workflow, m *MapProgress) {
	m.Open++
	m.Bad--
	node := m.Node
	if p.State(node).Ended() {
		ended := p.reopen(w, node)
		// Not by set, which would note that it has a run of its own.
		p.nodes[node] = p.nodes[node]&^nodeStateBits | byte(NodeActive)
		p.settle(w, ended)
	}
}

// pass lets those that follow a node go on as if it had succeeded.
func (p *Progress) pass(w *Workflow, node int) {
	ended := []int{node}
	if p.State(node).Ended() {
		ended = append(p.reopen(w, node), node)
	}
	p.set(node, NodePassed)
	p.settle(w, ended)
}

// Resume is the guard of a run that goes on where one with this progress ended: nodes that succeeded, or were
// skipped by a caller, are not begun again. base is the first of a block of ids, one for each node.
func (p *Progress) Resume(run *Run, base JobID) (Guard, error) {
	next := &Progress{Bases: append([]JobID{base}, p.Bases...), nodes: make([]byte, len(p.nodes))}
	if len(next.Bases) > maxGenerations {
		return Guard{}, fmt.Errorf("%w: the workflow was resumed %d times in a row: retry it from the "+
			"beginning", ErrConflict, maxGenerations-1)
	}
	next.Open = len(p.nodes)
	for i, b := range p.nodes {
		if state := p.State(i); state == NodeSucceeded || state == NodePassed {
			// Not by set, which would note that its job is of this run.
			next.nodes[i] = byte(state) | b&nodeHasJob | (b>>generationBit+1)<<generationBit
			next.Open--
			if m := p.Map(i); m != nil {
				next.Maps = append(next.Maps, *m)
			}
		}
	}
	return Guard{Namespace: run.Namespace, Key: run.ID.WorkflowKey(), Value: next.Value()}, nil
}

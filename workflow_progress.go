package carillon

import (
	"slices"
	"strings"
)

// NodeState is where a node of a workflow stands in one run of it.
type NodeState byte

const (
	NodePending   NodeState = iota // it waits for the nodes before it
	NodeActive                     // it has a run, or several if it maps over a list
	NodeExpanding                  // it can begin, but the list that it maps over has not been read yet
	NodeSucceeded
	NodeFailed
	NodeCanceled
	NodeSkipped // the nodes before it ended so that it can never begin
	NodePassed  // a caller skipped it: those that follow go on as if it had succeeded
)

var nodeStates = []string{
	"pending", "active", "expanding", "succeeded", "failed", "canceled", "skipped", "passed",
}

func (s NodeState) String() string               { return nodeStates[s] }
func (s NodeState) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

func (s *NodeState) UnmarshalText(b []byte) error {
	i := slices.Index(nodeStates, string(b)) // unlike other states, the zero value is one
	if i < 0 {
		return invalid("state", string(b), "one of %s", strings.Join(nodeStates, ", "))
	}
	*s = NodeState(i)
	return nil
}

// Ended says that nothing more becomes of the node, unless a caller retries it.
func (s NodeState) Ended() bool { return s >= NodeSucceeded }

// Progress is how far a run of a workflow is: the value of its guard. Every change that ends the run of a
// node folds the guard, so two nodes that end at the same time see each other.
type Progress struct {
	// Bases are the first job ids of the run and of those that it resumes, the run's own first. The job of
	// the node with index i is Bases[generation].Nth(i).
	Bases []JobID
	Start Time // 0: the run has not begun
	Stop  Stop // why the nodes that have not ended are stopped
	Open  int  // nodes that have not ended
	// Payload says that the run has a payload: nodes without one of their own get it.
	Payload bool
	Maps    []MapProgress

	nodes []byte // of each node: its state, whether its job exists, and its generation
}

// MapProgress is how far a node is that maps over a list.
type MapProgress struct {
	Node  int
	Base  JobID // the job of the item with index i is Base.Nth(i)
	Due   Time  // of the first run of each item
	Items int
	Open  int // items that have not ended
	Bad   int // items that failed or were canceled
}

// Stop says why the nodes of a run are stopped.
type Stop byte

const (
	StopNone Stop = iota
	StopCanceled
	StopDeadline
)

const (
	nodeStateBits = 0x07
	nodeHasJob    = 0x08
	generationBit = 4 // the first of four bits

	// maxGenerations is how often in a row a run can be resumed.
	maxGenerations = 16

	progressFormat = 1
)

// NewProgress is the progress of a run that has not begun.
func NewProgress(nodes int, base JobID) *Progress {
	return &Progress{Bases: []JobID{base}, Open: nodes, nodes: make([]byte, nodes)}
}

// State is the state of a node.
func (p *Progress) State(node int) NodeState { return NodeState(p.nodes[node] & nodeStateBits) }

// Nodes is how many nodes the workflow has.
func (p *Progress) Nodes() int { return len(p.nodes) }

// JobOf is the job of a node; false: there is none yet.
func (p *Progress) JobOf(node int) (JobID, bool) {
	return p.Bases[p.nodes[node]>>generationBit].Nth(node), p.nodes[node]&nodeHasJob != 0
}

// Map is how far a node is that maps over a list; nil: its list has not been read.
func (p *Progress) Map(node int) *MapProgress {
	for i := range p.Maps {
		if p.Maps[i].Node == node {
			return &p.Maps[i]
		}
	}
	return nil
}

// NeedsLook says that there is something to do beside what the ends of runs do: the run is over, or a list
// has to be read.
func (p *Progress) NeedsLook() bool {
	return p.Open == 0 || slices.ContainsFunc(p.nodes, func(b byte) bool {
		return NodeState(b&nodeStateBits) == NodeExpanding
	})
}

// set gives a node its next state, and notes that it has a job from here on: a run or a record is
// inserted for it, see flow.inserted.
func (p *Progress) set(node int, to NodeState) {
	was := p.State(node)
	p.nodes[node] = p.nodes[node]&^nodeStateBits | byte(to)
	if p.begins(node, was, to) || p.endsUnheld(node, was, to) {
		p.nodes[node] = byte(to) | nodeHasJob // of this run
	}
	switch {
	case to.Ended() && !was.Ended():
		p.Open--
	case !to.Ended() && was.Ended():
		p.Open++
	}
}

// goesOn says that the run neither stops nor is over: a caller can still change what becomes of its nodes.
func (p *Progress) goesOn() bool { return p.Stop == StopNone && p.Open > 0 }

// begins says that a node gets a run. The items of an expanded one have jobs of their own.
func (p *Progress) begins(_ int, was, is NodeState) bool {
	return is == NodeActive && was != NodeActive && was != NodeExpanding
}

// endsUnheld says that a node ends which has no run that could be its record: it has not begun, or its items
// had the runs.
func (p *Progress) endsUnheld(node int, was, is NodeState) bool {
	return is.Ended() && !was.Ended() && (was != NodeActive || p.Map(node) != nil)
}

// hasOwnJob says that the job of a node exists, and was made by this run.
func (p *Progress) hasOwnJob(node int) bool {
	return p.nodes[node]&nodeHasJob != 0 && p.nodes[node]>>generationBit == 0
}

// begin begins the nodes that come after no other, or only after nodes of the run that is resumed.
func (p *Progress) begin(w *Workflow, now Time) {
	p.Start = now
	var ended []int
	for i := range p.nodes {
		if p.State(i).Ended() {
			ended = append(ended, i)
		}
	}
	for _, i := range w.graph().roots {
		if p.State(i) == NodePending {
			p.activate(w, i)
		}
	}
	p.settle(w, ended)
}

// activate begins a node. One that maps over a list is expanded first.
func (p *Progress) activate(w *Workflow, node int) {
	to := NodeActive
	if w.Nodes[node].Map != "" {
		to = NodeExpanding
	}
	p.set(node, to)
}

// end notes how a node ended, and begins those that can follow.
func (p *Progress) end(w *Workflow, node int, state NodeState) {
	p.set(node, state)
	p.settle(w, []int{node})
}

// settle decides about the nodes that come after nodes that have ended, and after those that are skipped
// because of them.
func (p *Progress) settle(w *Workflow, ended []int) {
	if p.Stop != StopNone {
		return // nothing begins any more, and stop has ended what had not begun
	}
	g := w.graph()
	for len(ended) > 0 {
		node := ended[0]
		ended = ended[1:]
		for _, next := range g.after[node] {
			if p.State(next) != NodePending {
				continue
			}
			switch p.next(g, next, w.Nodes[next].Join) {
			case NodeActive:
				p.activate(w, next)
			case NodeSkipped:
				p.set(next, NodeSkipped)
				ended = append(ended, next)
			}
		}
	}
}

// next is what becomes of a pending node, by the nodes before it.
func (p *Progress) next(g *graph, node int, join Join) NodeState {
	open := false
	for _, l := range g.before[node] {
		state := p.State(l.node)
		switch met := l.met(state); {
		case met && join == JoinAny:
			return NodeActive
		case !state.Ended():
			open = true
		case !met && join == JoinAll:
			return NodeSkipped
		}
	}
	switch {
	case open:
		return NodePending
	case join == JoinAll:
		return NodeActive
	}
	return NodeSkipped // none of them ended as its edge says
}

// met says that a node ended as its edge wants it.
func (l link) met(state NodeState) bool {
	switch state {
	case NodeSucceeded, NodePassed:
		return l.on != OnFailure
	case NodeFailed, NodeCanceled:
		return l.on != OnSuccess
	case NodeSkipped:
		return l.on == OnAny
	}
	return false
}

// expand gives an expanding node its items. Without items it has succeeded.
func (p *Progress) expand(w *Workflow, node int, of MapProgress) {
	of.Node, of.Open, of.Bad = node, of.Items, 0
	p.Maps = slices.DeleteFunc(p.Maps, func(m MapProgress) bool { return m.Node == node })
	p.Maps = append(p.Maps, of)
	if of.Items > 0 {
		p.set(node, NodeActive)
		return
	}
	p.end(w, node, NodeSucceeded)
}

// endItem notes that an item of a node has ended, and the node with its last item.
func (p *Progress) endItem(w *Workflow, m *MapProgress, state NodeState) {
	m.Open--
	if state != NodeSucceeded {
		m.Bad++
	}
	switch {
	case m.Open > 0:
		return
	case m.Bad > 0 && p.Stop != StopNone:
		state = NodeCanceled
	case m.Bad > 0:
		state = NodeFailed
	default:
		state = NodeSucceeded
	}
	p.end(w, m.Node, state)
}

// stop ends all nodes that have not begun, and lets none begin.
func (p *Progress) stop(why Stop) {
	p.Stop = why
	for i := range p.nodes {
		if state := p.State(i); state == NodePending || state == NodeExpanding {
			p.set(i, NodeCanceled)
		}
	}
}

// Outcome is how a run ended of which all nodes have: it failed if a node did whose failure no other node
// follows. bad are the first nodes of those.
func (p *Progress) Outcome(w *Workflow) (kind OutcomeKind, bad []string) {
	if p.Stop == StopCanceled {
		return OutcomeStopped, nil
	}
	g := w.graph()
	for i := range p.nodes {
		if state := p.State(i); (state == NodeFailed || state == NodeCanceled) && !g.handled[i] {
			if len(bad) < maxBadNodes {
				bad = append(bad, w.Nodes[i].Name)
			}
			kind = OutcomeFatal
		}
	}
	if kind == OutcomeFatal || p.Stop == StopDeadline {
		return OutcomeFatal, bad
	}
	return OutcomeSuccess, nil
}

// maxBadNodes bounds the names in the reason of a run that failed.
const maxBadNodes = 5

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

// flowText draws a run of a workflow for people: the graph, or if it has more than rows nodes (0: any number)
// a list of those that matter most.
func (a *app) flowText(v *flowView, rows int) string {
	var b strings.Builder
	facts := a.tableTo(&b)
	facts.colours = a.colours(a.out)
	run := &v.flow.Run
	facts.fact("Workflow", runName(run)+", "+run.ID.String())
	facts.fact("State", a.stateWord(run))
	facts.fact("Reason", run.Reason)
	switch {
	case run.Ended != 0:
		facts.fact("Took", took(run.Started, run.Ended))
	case run.Started != 0:
		facts.fact("Started", a.when(run.Started))
	}
	if v.flow.Deadline != 0 && run.Ended == 0 {
		facts.fact("Deadline", a.when(v.flow.Deadline))
	}
	facts.fact("Nodes", countsText(v.flow.Nodes, v.flow.Counts))
	facts.end()
	b.WriteByte('\n')

	t := a.table("NODE", "STATE", "TOOK", "RUN", "ABOUT")
	t.out = &b
	var shown []branch
	if whole := len(v.nodes) == v.flow.Nodes; whole && (rows == 0 || len(v.nodes) <= rows) {
		shown = drawTree(v.nodes)
	} else {
		shown = byRank(v.nodes)
		shown = shown[:min(len(shown), cmp.Or(rows, listNodes))]
	}
	left := map[string]int{}
	for state, n := range v.flow.Counts {
		left[state] = n
	}
	for _, line := range shown {
		node := &v.nodes[line.node]
		left[node.State.String()]--
		t.row(
			line.lead+marks[node.State]+" "+node.Name, a.nodeWord(node), a.nodeTook(node), nodeRun(node),
			a.nodeAbout(node),
		)
	}
	t.end()
	if more := v.flow.Nodes - len(shown); more > 0 {
		fmt.Fprintf(&b, "… and %s", strings.Replace(countsText(more, left), ":", " more:", 1))
		if rows == 0 {
			b.WriteString("; --all draws the graph")
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// countsText counts nodes by their states, those that matter most first.
func countsText(total int, counts map[string]int) string {
	var parts []string
	for _, states := range ranks {
		for _, state := range states {
			if n := counts[state.String()]; n > 0 {
				parts = append(parts, fmt.Sprintf("%d %s", n, state))
			}
		}
	}
	return fmt.Sprintf("%d: %s", total, strings.Join(parts, ", "))
}

// byRank are nodes in the order of how much they matter, each alone.
func byRank(nodes []client.Node) []branch {
	list := make([]branch, len(nodes))
	for i := range nodes {
		list[i].node = i
	}
	rank := func(b branch) int {
		return slices.IndexFunc(ranks, func(states []carillon.NodeState) bool {
			return slices.Contains(states, nodes[b.node].State)
		})
	}
	slices.SortStableFunc(list, func(x, y branch) int { return cmp.Compare(rank(x), rank(y)) })
	return list
}

var marks = map[carillon.NodeState]string{
	carillon.NodePending: "○", carillon.NodeActive: "●", carillon.NodeExpanding: "●",
	carillon.NodeSucceeded: "✓", carillon.NodeFailed: "✗", carillon.NodeCanceled: "✗",
	carillon.NodeSkipped: "–", carillon.NodePassed: "–",
}

// nodeWord is the state of a node. That of an active one is the state of its run.
func (a *app) nodeWord(node *client.Node) string {
	if node.State == carillon.NodeActive && node.Items == nil && node.Run != nil && node.Target != "wait" {
		return a.stateWord(node.Run)
	}
	return node.State.String()
}

func (a *app) nodeTook(node *client.Node) string {
	run := node.Run
	switch {
	case run == nil || run.Started == 0 || run.State == carillon.StateWaiting:
		return "-"
	case run.Ended != 0:
		return took(run.Started, run.Ended)
	case node.State.Ended():
		return "-"
	}
	return span(max(carillon.TimeOf(a.now()).Sub(run.Started), 0))
}

func nodeRun(node *client.Node) string {
	if node.Run == nil {
		return "-"
	}
	return node.Run.ID.String()
}

// nodeAbout says what a node waits for, how far it is, or why it ended so.
func (a *app) nodeAbout(node *client.Node) string {
	var parts []string
	add := func(text string) {
		if text != "" {
			parts = append(parts, text)
		}
	}
	if items := node.Items; items != nil {
		text := fmt.Sprintf("items %d/%d", items.Total-items.Open, items.Total)
		if items.Bad > 0 {
			text += fmt.Sprintf(", %d bad", items.Bad)
		}
		add(text)
	}
	if node.State == carillon.NodePending {
		add("waits for " + edgesText(node, node.WaitsFor))
		return strings.Join(parts, "; ")
	}
	run := node.Run
	switch {
	case node.State == carillon.NodeActive && node.Signal != "":
		add("waits for the signal " + node.Signal)
	case node.State == carillon.NodeActive && node.Target == "wait" && run != nil:
		add("until " + a.when(run.ID.Due))
	case node.State == carillon.NodeActive && run != nil && run.Attempt > 0 &&
		run.State == carillon.StateWaiting:
		add(fmt.Sprintf("attempt %d %s", run.Attempt+1, a.ago(run.Wake)))
	case run != nil && run.Attempt > 1:
		add(fmt.Sprintf("attempt %d", run.Attempt))
	}
	if run != nil && node.State != carillon.NodeSkipped { // then the edges say it
		add(run.Reason)
	}
	if len(node.After) > 1 || len(node.After) == 1 && node.After[0].On != carillon.OnSuccess {
		add("after " + edgesText(node, node.After))
	}
	return strings.Join(parts, "; ")
}

// edgesText names nodes, and how they must end if that is not by success.
func edgesText(node *client.Node, edges []carillon.Edge) string {
	const most = 4
	var names []string
	for i, edge := range edges {
		if i == most {
			names = append(names, fmt.Sprintf("%d more", len(edges)-most))
			break
		}
		name := edge.Node
		switch edge.On {
		case carillon.OnFailure:
			name = "the failure of " + name
		case carillon.OnAny:
			name = "the end of " + name
		}
		names = append(names, name)
	}
	text := strings.Join(names, ", ")
	if node.Join == carillon.JoinAny && len(edges) > 1 {
		return "any of " + text
	}
	return text
}

// nodeLine is a node in one line, for a file that follows a run. It changes only if the node does.
func (a *app) nodeLine(node *client.Node) string {
	line := node.Name + " " + a.nodeWord(node)
	if run := node.Run; run != nil && run.Ended != 0 && run.Started != 0 {
		line += " after " + took(run.Started, run.Ended)
	}
	if node.Run != nil {
		line += " " + node.Run.ID.String()
	}
	if items := node.Items; items != nil && items.Bad > 0 {
		line += fmt.Sprintf(", %d of %d items bad", items.Bad, items.Total)
	}
	if node.Run != nil && node.Run.Reason != "" {
		line += ": " + node.Run.Reason
	}
	return line
}

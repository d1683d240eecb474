package main

import "github.com/carillon-run/carillon/client"

// branch is a line of a drawn workflow: a node, behind the lines that lead to it.
type branch struct {
	lead string
	node int
}

// drawTree draws the graph of a workflow with one line for each node, in an order in which no node comes
// before one that it comes after. A node that alone follows another one stays in the same column, so that a
// long row of nodes does not go off the screen. Where several follow, each is a branch. A node that joins
// branches goes back to the column in which they began.
func drawTree(nodes []client.Node) []branch {
	t := newTree(nodes)
	for _, root := range t.under[t.top] {
		t.draw(root, "")
	}
	return t.lines
}

// tree has the nodes by what they all go through: a node is under the last one that every way to it passes.
type tree struct {
	before [][]int
	under  [][]int // in the order of drawing
	top    int     // stands before the nodes that come after no other
	lines  []branch
}

func newTree(nodes []client.Node) *tree {
	n := len(nodes)
	t := &tree{before: make([][]int, n), under: make([][]int, n+1), top: n}
	index := make(map[string]int, n)
	for i := range nodes {
		index[nodes[i].Name] = i
	}
	after := make([][]int, n)
	for i := range nodes {
		for _, edge := range nodes[i].After {
			if from, known := index[edge.Node]; known {
				t.before[i], after[from] = append(t.before[i], from), append(after[from], i)
			}
		}
	}
	parent, depth := make([]int, n+1), make([]int, n+1)
	for _, i := range inOrder(t.before, after) {
		at := t.top
		for k, from := range t.before[i] {
			if k == 0 {
				at = from
				continue
			}
			for at != from { // up to where both ways come from
				if depth[at] >= depth[from] {
					at = parent[at]
				} else {
					from = parent[from]
				}
			}
		}
		parent[i], depth[i] = at, depth[at]+1
		t.under[at] = append(t.under[at], i)
	}
	return t
}

// inOrder sorts nodes so that each comes behind those that it comes after, and else as they are defined.
func inOrder(before, after [][]int) (order []int) {
	open := make([]int, len(before))
	for i := range before {
		if open[i] = len(before[i]); open[i] == 0 {
			order = append(order, i)
		}
	}
	for at := 0; at < len(order); at++ {
		for _, next := range after[order[at]] {
			if open[next]--; open[next] == 0 {
				order = append(order, next)
			}
		}
	}
	return order
}

// draw adds a node and what is under it.
func (t *tree) draw(node int, lead string) {
	t.lines = append(t.lines, branch{lead, node})
	var branches, joins []int
	for _, next := range t.under[node] {
		if len(t.before[next]) == 1 {
			branches = append(branches, next)
		} else {
			joins = append(joins, next)
		}
	}
	if len(branches) == 1 {
		t.draw(branches[0], lead)
		branches = nil
	}
	for i, next := range branches {
		mark, below := "├─", "│ "
		if i == len(branches)-1 && len(joins) == 0 {
			mark, below = "└─", "  "
		}
		at := len(t.lines)
		t.draw(next, lead+below)
		t.lines[at].lead = lead + mark
	}
	for _, join := range joins {
		t.draw(join, lead)
	}
}

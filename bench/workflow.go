package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
)

// workflowBars: the fan has another bar on servers.
func workflowBars(store string) []bar {
	fan := 1.0
	if store != "sqlite" {
		fan = 2
	}
	return []bar{
		{figure: "workflow_fan_1000", limit: fan, atMost: true},
		{figure: "workflow_fan_10000", limit: 4, atMost: true},
		{figure: "workflow_map_10000", limit: 4, atMost: true},
		{figure: "workflow_row_1000", limit: 500},
		{figure: "workflow_guard_10000", limit: 20_000, atMost: true},
	}
}

const workflowRounds = 5

// workflowScenario: from the submit of a workflow until its end is on disk, no-op nodes with the default
// number of slots. The first round of each does not count.
func workflowScenario(ctx context.Context, b *bench) error {
	at, h, err := b.house(ctx, 0, nil)
	if err != nil {
		return err
	}
	time.Sleep(time.Second)
	for _, shape := range []struct {
		name  string
		steps float64 // 0: the time is shown, else steps a second
		def   carillon.Definition
	}{
		{"fan_1000", 0, fan(1000)},
		{"fan_10000", 0, fan(carillon.MaxWorkflowNodes - 2)},
		{"map_10000", 0, mapped(carillon.MaxWorkflowNodes)},
		{"row_1000", 1000, line(1000)},
	} {
		var took []float64
		for round := range workflowRounds + 1 {
			seconds, guard, err := b.workflow(ctx, h, shape.def)
			if err != nil {
				return fmt.Errorf("%s: %w", shape.name, err)
			}
			if round > 0 {
				took = append(took, seconds)
			}
			if shape.name == "fan_10000" && round == workflowRounds {
				b.figure("workflow_guard_10000", float64(guard), "bytes")
			}
		}
		slices.Sort(took)
		if shape.steps > 0 {
			b.figure("workflow_"+shape.name, shape.steps/median(took), "steps/s")
		} else {
			b.figure("workflow_"+shape.name, median(took), "s")
		}
	}
	return b.leave(ctx, at, h)
}

// workflow submits a workflow and waits for its end. It returns how long that took, and the size of its
// guard.
func (b *bench) workflow(
	ctx context.Context, h *house, def carillon.Definition,
) (seconds float64, guard int, err error) {
	begin := time.Now()
	jobs, err := h.node.Submit(ctx, def)
	if err != nil {
		return 0, 0, err
	}
	id := carillon.RunID{Job: jobs[0].ID, Due: jobs[0].Schedule.At}
	for {
		runs, err := h.node.Store().Runs(ctx, []carillon.RunID{id}, false)
		if err != nil || len(runs) == 0 {
			return 0, 0, fmt.Errorf("%s is gone: %w", id, err)
		}
		if state := runs[0].State; state.Ended() {
			seconds = time.Since(begin).Seconds()
			if state != carillon.StateSucceeded {
				return 0, 0, fmt.Errorf("it is %s: %s", state, runs[0].Reason)
			}
			break
		}
		if time.Since(begin) > time.Minute {
			return 0, 0, fmt.Errorf("%s has not ended after a minute", id)
		}
		time.Sleep(2 * time.Millisecond)
	}
	guards, err := h.node.Store().Guards(ctx, carillon.GuardQuery{
		Namespace: jobs[0].Namespace, Keys: []string{id.WorkflowKey()},
	})
	if err == nil && len(guards) > 0 {
		guard = len(guards[0].Value)
	}
	return seconds, guard, err
}

func workflowOf(nodes ...carillon.WorkflowNode) carillon.Definition {
	d := carillon.Definition{Name: "flow"}
	d.Target.Workflow = &carillon.Workflow{Nodes: nodes}
	return d
}

func nodeAfter(name string, after ...string) carillon.WorkflowNode {
	n := carillon.WorkflowNode{}
	n.Name, n.Type, n.Target.Handler = name, "bench", &carillon.Handler{}
	for _, from := range after {
		n.After = append(n.After, carillon.Edge{Node: from})
	}
	return n
}

// fan is one node, then many beside each other, then one.
func fan(width int) carillon.Definition {
	nodes, names := []carillon.WorkflowNode{nodeAfter("first")}, []string(nil)
	for i := range width {
		names = append(names, fmt.Sprint("n", i))
		nodes = append(nodes, nodeAfter(names[i], "first"))
	}
	return workflowOf(append(nodes, nodeAfter("last", names...))...)
}

// line is nodes one after the other.
func line(length int) carillon.Definition {
	nodes := []carillon.WorkflowNode{nodeAfter("n0")}
	for i := 1; i < length; i++ {
		nodes = append(nodes, nodeAfter(fmt.Sprint("n", i), fmt.Sprint("n", i-1)))
	}
	return workflowOf(nodes...)
}

// mapped is one node that maps over a list in the payload.
func mapped(items int) carillon.Definition {
	node := nodeAfter("each")
	node.Map = "${payload}"
	d := workflowOf(node, nodeAfter("last", "each"))
	d.Payload = append(d.Payload, '[')
	for i := range items {
		if i > 0 {
			d.Payload = append(d.Payload, ',')
		}
		d.Payload = fmt.Appendf(d.Payload, "%d", i)
	}
	d.Payload = append(d.Payload, ']')
	return d
}

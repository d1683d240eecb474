package porttest

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
)

// runNamed is the latest run of the part with a name.
func (h *House) runNamed(name string, states ...carillon.State) carillon.Run {
	h.T.Helper()
	page, err := h.Store.FindRuns(context.Background(), carillon.RunQuery{
		Namespace: carillon.DefaultNamespace, States: states, Limit: 1000,
	})
	if err != nil {
		h.T.Fatal(err)
	}
	for _, run := range page.Runs {
		if run.About.Name == name {
			return run
		}
	}
	h.T.Fatalf("no run of %s", name)
	return carillon.Run{}
}

func (h *House) retry(id carillon.RunID) error {
	_, err := h.Ledger.RetryRun(context.Background(), carillon.DefaultNamespace, id)
	return err
}

var workflowsAgain = []scenario{
	{"an item is retried once at a time, and counts for itself only", func(h *House) {
		p := &performs{fails: map[string]int{"m[0]": 1, "m[1]": 1}}
		h.Handle = p.handle
		job := h.flowAs(
			func(d *carillon.Definition) { d.Payload = json.RawMessage(`[1,2]`) },
			flowNode("m", "", mapping("${payload}")), flowNode("end", "m"),
			flowNode("hold", "", waits(carillon.Wait{Signal: "go"})),
		)
		time.Sleep(5 * time.Second)
		old := h.runNamed("m[0]", carillon.StateFailed).ID
		if err := h.retry(old); err != nil {
			h.T.Fatal(err)
		}
		if err := h.retry(old); !errors.Is(err, carillon.ErrConflict) {
			h.T.Errorf("a second retry while the first goes on: %v", err)
		}
		time.Sleep(5 * time.Second)
		if err := h.retry(old); !errors.Is(err, carillon.ErrConflict) {
			h.T.Errorf("a retry of a run that has a later one: %v", err)
		}
		h.expectNodes(job.ID, "m=failed end=skipped hold=active")
		if err := h.retry(h.runNamed("m", carillon.StateFailed).ID); !errors.Is(err, carillon.ErrConflict) {
			h.T.Errorf("a retry of the record of a node with a list: %v", err)
		}
		if err := h.retry(h.runNamed("m[1]", carillon.StateFailed).ID); err != nil {
			h.T.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		h.expectNodes(job.ID, "m=succeeded end=succeeded hold=active")
	}},
	{"a resumed run that is edited before it begins starts anew", func(h *House) {
		p := &performs{fails: map[string]int{"b": 1}}
		h.Handle = p.handle
		job := h.flow(flowNode("a", ""), flowNode("b", "a"))
		time.Sleep(5 * time.Second)
		ctx := context.Background()
		if _, err := h.Ledger.PauseJob(ctx, carillon.DefaultNamespace, job.ID); err != nil {
			h.T.Fatal(err)
		}
		if _, err := h.Ledger.ResumeRun(ctx, carillon.DefaultNamespace, h.Runs(job.ID)[0].ID); err != nil {
			h.T.Fatal(err)
		}
		edit := func(d *carillon.Definition) error {
			was := *d
			d.Target.Workflow = &carillon.Workflow{Nodes: []carillon.WorkflowNode{
				flowNode("new", ""), flowNode("other", "new"), flowNode("c", ""),
			}}
			return d.AdmitEdit(&was, carillon.Now())
		}
		if _, err := h.Ledger.EditJob(ctx, carillon.DefaultNamespace, job.ID, edit); err != nil {
			h.T.Fatal(err)
		}
		if _, err := h.Ledger.ResumeJob(ctx, carillon.DefaultNamespace, job.ID); err != nil {
			h.T.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		h.expectNodes(job.ID, "new=succeeded other=succeeded c=succeeded")
		p.expect(h, "a", "b", "new", "other", "c")
	}},
	{"a run of a node beside its workflow gets its values, and changes nothing", func(h *House) {
		p := &performs{results: map[string]string{"a": `"A"`}}
		h.Handle = p.handle
		job := h.flow(
			flowNode("a", ""), flowNode("b", "a", payload(`"${nodes.a.result}"`)),
			flowNode("hold", "", waits(carillon.Wait{Signal: "go"})),
		)
		time.Sleep(5 * time.Second)
		if err := h.retry(h.runNamed("b").ID); err != nil {
			h.T.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		h.expectNodes(job.ID, "a=succeeded b=succeeded hold=active")
		p.expect(h, "a", `b "A"`, `b "A"`)
	}},
	{"values make no placeholders, whatever stands beside them", func(h *House) {
		p := &performs{}
		h.Handle = p.handle
		h.flowAs(
			func(d *carillon.Definition) {
				d.Payload = json.RawMessage(
					`{"amount":5,"secret":"S","list":[{"cur":"$","evil":"{payload.secret}"}]}`,
				)
			},
			flowNode("m", "", mapping("${payload.list}"),
				payload(
					`["${item.cur}${payload.amount}","${item.cur}${item.evil}","$${x} $5","${item.cur}"]`,
				)),
		)
		time.Sleep(5 * time.Second)
		p.expect(h, `m[0] ["$5","${payload.secret}","${x} $5","$"]`)
	}},
	{"a list whose payloads would be too large fails its node", func(h *House) {
		p := &performs{}
		h.Handle = p.handle
		list, _ := json.Marshal(make([]string, 2000))
		job := h.flowAs(
			func(d *carillon.Definition) { d.Payload = list },
			flowNode("m", "", mapping("${payload}"), func(n *carillon.WorkflowNode) {
				pad := strings.Repeat("x", 20_000)
				n.Payload, _ = json.Marshal(map[string]any{"pad": pad, "i": "${item}"})
			}),
		)
		time.Sleep(5 * time.Second)
		h.expectNodes(job.ID, "m=failed")
	}},
}

func retriedNode(h *House) {
	p := &performs{fails: map[string]int{"b": 1, "x": 1}}
	h.Handle = p.handle
	job := h.flow(
		flowNode("a", ""), flowNode("b", "a"), flowNode("c", "b"), flowNode("x", "a"), flowNode("y", "x"),
		flowNode("hold", "", waits(carillon.Wait{Signal: "go"})),
	)
	time.Sleep(5 * time.Second)
	h.expectNodes(job.ID, "a=succeeded b=failed c=skipped x=failed y=skipped hold=active")
	run, ctx := h.Runs(job.ID)[0].ID, context.Background()
	if _, err := h.Ledger.RetryNode(ctx, carillon.DefaultNamespace, run, "b"); err != nil {
		h.T.Fatal(err)
	}
	_, err := h.Ledger.RetryNode(ctx, carillon.DefaultNamespace, run, "a")
	if !errors.Is(err, carillon.ErrConflict) {
		h.T.Errorf("a retry of a node that succeeded: %v", err)
	}
	if _, err := h.Ledger.SkipNode(ctx, carillon.DefaultNamespace, run, "x"); err != nil {
		h.T.Fatal(err)
	}
	time.Sleep(5 * time.Second)
	h.expectNodes(job.ID, "a=succeeded b=succeeded c=succeeded x=passed y=succeeded hold=active")
	if _, err := h.Ledger.Signal(ctx, carillon.DefaultNamespace, run, "go", nil); err != nil {
		h.T.Fatal(err)
	}
	time.Sleep(5 * time.Second)
	h.expect(job.ID, "succeeded 1")
	p.expect(h, "a", "b", "b", "c", "x", "y")
}

func resumedFlow(h *House) {
	p := &performs{fails: map[string]int{"b": 2}, results: map[string]string{"a": `"A"`, "b": `"B"`}}
	h.Handle = p.handle
	job := h.flow(
		flowNode("a", ""), flowNode("b", "a", payload(`"${nodes.a.result}"`)),
		flowNode("c", "b", payload(`["${nodes.a.result}","${nodes.b.result}"]`)),
	)
	time.Sleep(5 * time.Second)
	h.expectNodes(job.ID, "a=succeeded b=failed c=skipped")
	for range 2 {
		run := h.Runs(job.ID)[0]
		if _, err := h.Ledger.ResumeRun(context.Background(), carillon.DefaultNamespace, run.ID); err != nil {
			h.T.Fatal(err)
		}
		time.Sleep(5 * time.Second)
	}
	h.expectNodes(job.ID, "a=succeeded b=succeeded c=succeeded")
	h.expectLike(job.ID, "succeeded", "failed did not succeed: b", "failed did not succeed: b")
	p.expect(h, "a", `b "A"`, `b "A"`, `b "A"`, `c ["A","B"]`)
	_, err := h.Ledger.ResumeRun(context.Background(), carillon.DefaultNamespace, h.Runs(job.ID)[0].ID)
	if !errors.Is(err, carillon.ErrConflict) {
		h.T.Errorf("a resume of one that succeeded: %v", err)
	}
}

func retriedItem(h *House) {
	p := &performs{fails: map[string]int{"m[1]": 1}}
	h.Handle = p.handle
	job := h.flowAs(
		func(d *carillon.Definition) { d.Payload = json.RawMessage(`["x","y","z"]`) },
		flowNode("m", "", mapping("${payload}")), flowNode("end", "m"),
		flowNode("hold", "", waits(carillon.Wait{Signal: "go"})),
	)
	time.Sleep(5 * time.Second)
	h.expectNodes(job.ID, "m=failed end=skipped hold=active")
	page, err := h.Store.FindRuns(context.Background(), carillon.RunQuery{
		Namespace: carillon.DefaultNamespace, States: []carillon.State{carillon.StateFailed},
	})
	if err != nil {
		h.T.Fatal(err)
	}
	for _, run := range page.Runs {
		if run.About.Name == "m[1]" {
			_, err := h.Ledger.RetryRun(context.Background(), carillon.DefaultNamespace, run.ID)
			if err != nil {
				h.T.Fatal(err)
			}
		}
	}
	time.Sleep(5 * time.Second)
	h.expectNodes(job.ID, "m=succeeded end=succeeded hold=active")
	p.expect(h, `m[0] "x"`, `m[1] "y"`, `m[1] "y"`, `m[2] "z"`, `end ["x","y","z"]`)
}

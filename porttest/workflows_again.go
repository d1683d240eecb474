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

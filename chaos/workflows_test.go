package chaos

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
	"github.com/carillon-run/carillon/client"
)

var flowCount = flag.Int("flows", 60, "how many workflows run while processes are killed every second")

// flowStep is a node whose body is a handler. after is "a, b:failure".
func flowStep(name, after string, work Work) carillon.WorkflowNode {
	n := carillon.WorkflowNode{Definition: handledJob("default", work)}
	n.Name = name
	for _, text := range strings.FieldsFunc(after, func(r rune) bool { return r == ',' || r == ' ' }) {
		from, on, _ := strings.Cut(text, ":")
		n.After = append(n.After, carillon.Edge{Node: from, On: carillon.On(on)})
	}
	return n
}

func smallFlow() carillon.Definition {
	def := carillon.Definition{Name: "small flow"}
	def.Target.Workflow = &carillon.Workflow{Nodes: []carillon.WorkflowNode{
		flowStep("a", "", Work{}), flowStep("b", "a", Work{}),
	}}
	return def
}

// largeFlow has all that a workflow can have, but for signals.
func largeFlow() carillon.Definition {
	short := Work{For: carillon.Duration(20 * time.Millisecond)}
	anyOf := flowStep("any", "a, f", short)
	anyOf.Join = carillon.JoinAny
	each := flowStep("m", "start", short)
	each.Payload, each.Map = nil, "${payload.items}"
	nap := flowStep("nap", "start", short)
	nap.Type, nap.Payload, nap.Retry = "", nil, carillon.Retry{}
	nap.Target = carillon.Target{Wait: &carillon.Wait{For: carillon.Duration(300 * time.Millisecond)}}
	def := carillon.Definition{Name: "large flow"}
	def.Payload = json.RawMessage(`{"items":[{"for":"5ms"},{"for":"50ms"},{"for":"5ms","fails":1}]}`)
	def.Target.Workflow = &carillon.Workflow{Nodes: []carillon.WorkflowNode{
		flowStep("start", "", short), flowStep("a", "start", short), flowStep("b", "start", Work{Fails: 1}),
		flowStep("c", "start", short), flowStep("join", "a, b, c", short),
		flowStep("f", "start", Work{Fatal: true}), flowStep("alarm", "f:failure", short),
		flowStep("never", "f", short), flowStep("after-never", "never", short), anyOf, each, nap,
		flowStep("end", "join, alarm, any, m, nap, never:any", short),
	}}
	return def
}

// flowEnds is how the runs of the jobs of a large flow end, by the name of the job.
var flowEnds = map[string]carillon.State{
	"start": carillon.StateSucceeded, "a": carillon.StateSucceeded, "b": carillon.StateSucceeded,
	"c": carillon.StateSucceeded, "join": carillon.StateSucceeded, "f": carillon.StateFailed,
	"alarm": carillon.StateSucceeded, "never": carillon.StateSkipped, "after-never": carillon.StateSkipped,
	"any": carillon.StateSucceeded, "m": carillon.StateSucceeded, "m[0]": carillon.StateSucceeded,
	"m[1]": carillon.StateSucceeded, "m[2]": carillon.StateSucceeded, "nap": carillon.StateSucceeded,
	"end": carillon.StateSucceeded,
}

// Each node of each workflow has one terminal record, whatever is killed when: none is lost, and none begins
// twice.
func TestWorkflowsLoseAndRepeatNoNodeThoughNodesAndWorkersAreKilled(t *testing.T) {
	if *onStore == "sqlite" {
		t.Run("sqlite", func(t *testing.T) { killFlows(t, "") })
		return
	}
	if *onStore != "" {
		i := slices.IndexFunc(engines, func(e *engine) bool {
			return e.name == *onStore || *onStore == "mysql" && e.name == "mariadb"
		})
		t.Run(*onStore, func(t *testing.T) { killFlows(t, engines[i].database(t)) })
		return
	}
	t.Parallel()
	onOne(t, func(t *testing.T, e *engine) { killFlows(t, e.database(t)) })
}

func killFlows(t *testing.T, store string) {
	c := newCluster(t, store, 5*time.Minute+time.Duration(*flowCount)*200*time.Millisecond)
	nodes := []string{"node-1", "node-2", "node-3"}
	if store == "" {
		c.store, nodes = "sqlite:"+filepath.Join(c.dir, "carillon.db"), nodes[:1]
	}
	c.start(nodes...)
	var victims []*victim
	for _, name := range nodes {
		victims = append(victims, &victim{
			c.nodes[name].Process, func() *Process { return c.launch(name).Process },
		})
	}
	for _, name := range []string{"worker-1", "worker-2", "worker-3"} {
		victims = append(victims, &victim{
			c.handlers(name, "default"), func() *Process { return c.handlers(name, "default") },
		})
	}
	rnd, kills := random(t), 0
	var flows []carillon.Job
	const batch = 10
	for len(flows) < *flowCount || c.openFlows() > 0 {
		if c.ctx.Err() != nil {
			t.Fatal("the workflows do not end")
		}
		if left := *flowCount - len(flows); left > 0 {
			defs := make([]carillon.Definition, min(batch, left))
			for i := range defs {
				defs[i] = largeFlow()
			}
			flows = append(flows, c.submit(defs...)...)
		}
		v := victims[rnd.IntN(len(victims))]
		if v.Crashed() {
			t.Errorf("a process ended by itself: %v", v.err)
		}
		v.Kill()
		v.Process = v.again()
		kills++
		last(c.ctx, time.Second)
	}
	runs := c.all()
	lines := c.truthful(runs)
	c.judgeFlows(flows, runs)
	t.Logf("%d workflows, %d kills, %d runs; witnesses: %s", len(flows), kills, len(runs), check.Summary(lines))
}

// openFlows is how many workflows have not ended, five at most.
func (c *cluster) openFlows() (n int) {
	c.insist(func(ctx context.Context, api *client.Client) error {
		n = 0
		for _, err := range api.Runs(ctx, carillon.RunQuery{States: unfinished, Limit: 5}) {
			if n++; err != nil || n == 5 {
				return err
			}
		}
		return nil
	})
	return n
}

// judgeFlows compares the jobs and runs of each workflow with what it must have.
func (c *cluster) judgeFlows(flows []carillon.Job, runs map[carillon.RunID]carillon.Run) {
	c.t.Helper()
	ofJob := map[carillon.JobID][]carillon.Run{}
	for id, run := range runs {
		ofJob[id.Job] = append(ofJob[id.Job], run)
	}
	for _, flow := range flows {
		own := ofJob[flow.ID]
		if len(own) != 1 || own[0].State != carillon.StateSucceeded {
			c.t.Errorf("the workflow %s ended as %v", flow.ID, own)
			continue
		}
		found := map[string]carillon.State{}
		c.insist(func(ctx context.Context, api *client.Client) error {
			clear(found)
			q := carillon.JobQuery{
				Labels: []carillon.Label{{Key: carillon.WorkflowLabel, Value: own[0].ID.String()}},
			}
			for job, err := range api.Jobs(ctx, q) {
				if err != nil {
					return err
				}
				if _, twice := found[job.Name]; twice || len(ofJob[job.ID]) != 1 {
					c.t.Errorf("%s of %s: two jobs, or %d runs", job.Name, flow.ID, len(ofJob[job.ID]))
					continue
				}
				found[job.Name] = ofJob[job.ID][0].State
			}
			return nil
		})
		if !maps.Equal(found, flowEnds) {
			c.t.Errorf("the nodes of %s ended as\n%s, want\n%s", flow.ID, fmt.Sprint(found), fmt.Sprint(flowEnds))
		}
	}
}

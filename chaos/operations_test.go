package chaos

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

// While an operation adds a run to each of many jobs, nodes are killed one after the other, so that every few
// turns another node goes on with it.
func TestAnOperationActsOnEachJobOnceThoughNodesAreKilled(t *testing.T) {
	t.Parallel()
	onOne(t, func(t *testing.T, e *engine) {
		c := newCluster(t, e.database(t), 2*time.Minute)
		names := []string{"node-1", "node-2", "node-3"}
		c.start(names...)
		var defs []carillon.Definition
		for i := range 1000 {
			def := handledJob("later", Work{}) // no worker serves the queue: all runs wait
			def.Name, def.Schedule.After = fmt.Sprint("many-", i%7), carillon.Duration(time.Hour)
			def.Overlap = []carillon.Overlap{carillon.OverlapSkip, carillon.OverlapAllow}[i%2]
			defs = append(defs, def)
		}
		jobs := c.submit(defs...)
		rate := 100
		began := c.operate(client.OperationRequest{
			Kind: carillon.OperationRun, Filter: carillon.JobFilter{Name: "many-*"}, Rate: &rate,
		})
		kills, rnd := 0, random(t)
		for !c.operation(began).State.Over() {
			victim := names[kills%len(names)]
			last(c.ctx, time.Duration(rnd.IntN(1500))*time.Millisecond)
			c.nodes[victim].Kill()
			c.launch(victim)
			c.ready(victim)
			kills++
		}
		op := c.operation(began)
		if op.State != carillon.OperationDone || op.Total != len(jobs) || op.Done != len(jobs) ||
			op.Failed+op.Skipped > 0 {
			t.Errorf("after %d kills: %+v", kills, op)
		}
		for _, job := range jobs {
			runs := 0
			c.insist(func(ctx context.Context, api *client.Client) error {
				runs = 0
				for _, err := range api.RunsOf(ctx, carillon.RunQuery{Job: job.ID}) {
					if err != nil {
						return err
					}
					runs++
				}
				return nil
			})
			if runs != 2 { // that of its schedule, and the added one
				t.Errorf("%s has %d runs", job.ID, runs)
			}
		}
		t.Logf("%d jobs, %d kills", len(jobs), kills)
	})
}

func (c *cluster) operate(want client.OperationRequest) (id carillon.OperationID) {
	key := client.NewIdempotencyKey()
	c.insist(func(ctx context.Context, api *client.Client) error {
		began, err := api.StartOperation(client.WithIdempotencyKey(ctx, key), want)
		id = began.ID
		return err
	})
	return id
}

func (c *cluster) operation(id carillon.OperationID) (op carillon.Operation) {
	c.insist(func(ctx context.Context, api *client.Client) (err error) {
		op, err = api.Operation(ctx, id)
		return err
	})
	return op
}

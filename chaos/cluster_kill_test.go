package chaos

import (
	"context"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
	"github.com/carillon-run/carillon/client"
)

var (
	clusterJobs = flag.Int(
		"cluster-jobs", 4_000, "how many jobs a cluster has while its processes are killed",
	)
	killFor = flag.Duration(
		"kill-for", 15*time.Second, "for how long a process of a cluster is killed every second",
	)
)

func TestKillNineOfAnyNodeOrWorkerLosesNothingAndRunsNothingTwiceAtOnce(t *testing.T) {
	t.Parallel()
	onOne(t, func(t *testing.T, e *engine) {
		c := newCluster(t, e.database(t), *killFor+2*time.Minute)
		rnd := random(t)
		c.start("node-1", "node-2", "node-3")
		var victims []*victim
		for name, node := range c.nodes { // at a new address every time: workers must learn of it
			victims = append(victims, &victim{
				node.Process, func() *Process { return c.launch(name, "--listen", "127.0.0.1:0").Process },
			})
		}
		for _, name := range []string{"worker-1", "worker-2", "worker-3"} {
			victims = append(victims, &victim{
				c.handlers(name, "default"), func() *Process { return c.handlers(name, "default") },
			})
		}
		victims = append(victims, &victim{
			c.commands("worker-4", "commands"), func() *Process { return c.commands("worker-4", "commands") },
		})

		var accepted []carillon.Job
		var load sync.WaitGroup
		picks := rand.New(rand.NewPCG(rnd.Uint64(), 1))
		load.Go(func() { accepted = c.load(picks) })
		kills := 0
		for end := time.Now().Add(*killFor); time.Now().Before(end) && c.ctx.Err() == nil; kills++ {
			last(c.ctx, time.Second)
			v := victims[rnd.IntN(len(victims))]
			if v.Crashed() {
				t.Errorf("a process ended by itself: %v", v.err)
			}
			v.Kill()
			v.Process = v.again()
		}
		killed := time.Now()
		load.Wait()

		c.settled()
		t.Logf("all runs had ended %s after the last kill", time.Since(killed).Round(time.Millisecond))
		runs := c.all()
		c.complete(accepted, runs)
		lines := c.truthful(runs)
		var losses int32
		for _, run := range runs {
			losses += run.Losses
		}
		t.Logf(
			"%d kills, %d jobs accepted, %d runs, %d losses; witnesses: %s", kills, len(accepted), len(runs),
			losses, check.Summary(lines),
		)
	})
}

// victim is a process that the test kills and starts again.
type victim struct {
	*Process
	again func() *Process
}

// load submits jobs of all kinds while the test kills processes, through any node that answers, and returns
// the accepted jobs. A job whose submit got no answer can exist or not: the cluster has promised nothing
// about it.
func (c *cluster) load(rnd *rand.Rand) (accepted []carillon.Job) {
	const batch = 50
	began := time.Now()
	for sent := 0; sent < *clusterJobs && c.ctx.Err() == nil; sent += batch {
		left := max(*killFor-time.Since(began), 0)
		defs := make([]carillon.Definition, batch)
		for i := range defs {
			defs[i] = c.pick(rnd, left)
		}
		c.ask(func(ctx context.Context, api *client.Client) error {
			jobs, err := api.SubmitMany(ctx, defs)
			accepted = append(accepted, jobs...)
			return err
		})
		pace := *killFor * time.Duration(sent+batch) / time.Duration(*clusterJobs)
		last(c.ctx, pace-time.Since(began))
	}
	return accepted
}

// pick is a job of any kind: due now, due during the kills, recurring, failing at first or for good, or a
// command.
func (c *cluster) pick(rnd *rand.Rand, left time.Duration) carillon.Definition {
	def := handledJob("default", Work{
		For: carillon.Duration(rnd.IntN(40)) * carillon.Duration(time.Millisecond),
	})
	switch n := rnd.IntN(100); {
	case n < 1:
		def = c.commandJob("commands", time.Duration(rnd.IntN(250))*time.Millisecond)
	case n < 3:
		def = handledJob("default", Work{Fatal: true})
	case n < 10:
		def = handledJob("default", Work{Fails: 1 + rnd.Int32N(2)})
	case n < 15:
		def.Schedule.Every, def.Schedule.MaxRuns = carillon.Duration(time.Second), 3
		def.Overlap = []carillon.Overlap{
			carillon.OverlapSkip, carillon.OverlapQueue, carillon.OverlapQueueAll,
		}[rnd.IntN(3)]
	case n < 45:
		def.Schedule.After = carillon.Duration(rnd.Int64N(
			int64(left/time.Millisecond)+1,
		)) * carillon.Duration(time.Millisecond)
	}
	return def
}

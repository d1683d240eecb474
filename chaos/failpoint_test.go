package chaos

import (
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
	"github.com/carillon-run/carillon/internal/failpoint"
)

// Points of workers; the others are points of nodes.
var workerPoints = []string{"pull.after", "receipt.after"}

// This test cycles two nodes through all points of nodes, and a worker with commands through those of
// workers. Each of two other workers reaches one node only, so that both nodes always have work.
func TestKillNineAtEveryFailpointLosesNothingAndRunsNothingTwiceAtOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t, engines[0].database(t), 3*time.Minute)
	rnd := random(t)
	c.start("node-1", "node-2")
	for _, node := range []string{"node-1", "node-2"} {
		c.handlers("worker-of-"+node, "default", "ONLY="+c.address(node), "SERVERS=http://"+c.address(node))
	}
	guarded := handledJob("default", Work{For: carillon.Duration(1200 * time.Millisecond)})
	guarded.Schedule.Every, guarded.Schedule.MaxRuns = carillon.Duration(time.Second), 2
	loads := []func() []carillon.Job{
		c.trickle(50*time.Millisecond, handledJob("default", Work{})),
		c.trickle(250*time.Millisecond, c.commandJob("commands", 0)),
		c.trickle(500*time.Millisecond, guarded), // its runs overlap, so the scheduler decides about them
		c.trickle(250*time.Millisecond, smallFlow()),
	}
	for _, name := range []string{"node-1", "node-2"} {
		c.nodes[name].Kill()
	}
	stop := make(chan struct{})
	var nodes, workers sync.WaitGroup
	for _, name := range []string{"node-1", "node-2"} {
		points := slices.DeleteFunc(slices.Clone(failpoint.Points), func(p string) bool {
			return slices.Contains(workerPoints, p)
		})
		rnd.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
		nodes.Go(func() { c.killAt(name, points) })
	}
	workers.Go(func() { c.killWorkerAt("worker-3", stop) })
	nodes.Wait()
	close(stop)
	workers.Wait()
	var accepted []carillon.Job
	for _, end := range loads {
		accepted = append(accepted, end()...)
	}

	runs := c.all()
	c.complete(accepted, runs)
	lines := c.truthful(runs)
	struck := map[string]int{}
	for name := range c.logs {
		log, _ := os.ReadFile(c.log(name).Name())
		for _, p := range failpoint.Points {
			struck[p] += strings.Count(string(log), "failpoint: "+p+"\n")
		}
	}
	for _, p := range failpoint.Points {
		if struck[p] < 2 {
			t.Errorf("%d processes were killed at %s, want at least 2", struck[p], p)
		}
	}
	t.Logf("%d runs; killed at %v; witnesses: %s", len(runs), struck, check.Summary(lines))
}

// killAt restarts a node, each time to be killed at the next point, and at last without.
func (c *cluster) killAt(name string, points []string) {
	for _, p := range points {
		c.failing(name, p+"=1/2")
		if !c.failed(c.launch(name).Process) {
			return
		}
	}
	c.use(name, c.binary)
	c.launch(name)
}

// killWorkerAt starts a worker for commands again and again, to be killed at a point, until it is stopped.
func (c *cluster) killWorkerAt(name string, stop <-chan struct{}) {
	for i := 0; ; i++ {
		c.failing(name, workerPoints[i%2]+"=1/3")
		p := c.commands(name, "commands")
		select {
		case <-p.ended:
			c.failed(p)
		case <-stop:
			p.Kill()
			c.use(name, c.binary)
			c.commands(name, "commands")
			return
		}
	}
}

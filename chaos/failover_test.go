package chaos

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
	"github.com/carillon-run/carillon/chaos/proxy"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/porttest/server"
)

// replicated is a database with a replica. Nodes reach the primary at an address that stays.
type replicated struct {
	t       *testing.T
	primary *server.Server
	replica *server.Server
	entry   *proxy.Proxy // in front of the primary
	stream  *proxy.Proxy // between the replica and the primary
	url     string       // of entry
	pair    pair
}

// pair is what a primary and its replica do in the way of their kind of database.
type pair interface {
	// caughtUp waits until the replica has what the primary has committed by now.
	caughtUp(t *testing.T)
	// promote lets the replica take writes, with all that it has received.
	promote(t *testing.T)
}

// replicate starts a primary and a replica. Synchronous: the primary answers a commit when the replica has
// it.
func replicate(t *testing.T, e *engine, synchronous bool) *replicated {
	t.Helper()
	r := &replicated{t: t, primary: e.own(t, e.copied...)}
	host := hostOf(t, r.primary.URL)
	r.entry, r.stream = openProxy(t, host), openProxy(t, host)
	r.url = through(t, r.primary.URL, r.entry)
	r.replica, r.pair = e.replica(t, r.primary, r.stream.Addr(), synchronous)
	return r
}

// failOver kills the primary and lets the replica take its place.
func (r *replicated) failOver() {
	r.t.Helper()
	if err := r.primary.Kill(); err != nil {
		r.t.Fatal(err)
	}
	r.entry.Set(proxy.Closed)
	r.pair.promote(r.t)
	r.entry.SetTarget(hostOf(r.t, r.replica.URL))
	r.entry.Heal()
}

func TestAFailoverToASynchronousReplicaLosesNothing(t *testing.T) {
	t.Parallel()
	onEach(t, failsOverAndLosesNothing)
}

func failsOverAndLosesNothing(t *testing.T, e *engine) {
	db := replicate(t, e, true)
	c := newCluster(t, db.url, 2*time.Minute)
	c.start("node-1", "node-2")
	c.handlers("worker-1", "default")
	c.handlers("worker-2", "default")
	defs, begin := every(10*time.Millisecond, 6*time.Second)
	accepted := c.submit(defs...)
	load := c.trickle(50*time.Millisecond, handledJob("default", Work{For: carillon.Duration(time.Second)}))
	last(c.ctx, time.Until(begin.Add(3*time.Second).Std()))
	// What the replica does not get any more must not be answered either.
	db.stream.Set(proxy.Cut)
	last(c.ctx, 200*time.Millisecond)
	killed := time.Now()
	db.failOver()
	accepted = append(accepted, c.submit(handledJob("default", Work{}))...)
	t.Logf("the cluster took a job %s after the kill", time.Since(killed).Round(time.Millisecond))
	accepted = append(accepted, load()...)

	runs := c.all()
	c.alive()
	c.complete(accepted, runs)
	t.Logf("%d runs; witnesses: %s", len(runs), check.Summary(c.truthful(runs)))
}

// The replica of this test gets nothing more from a certain moment on. After the failover the cluster is as
// it was at that moment: jobs that were accepted later are gone, and runs that were claimed later are claimed
// again.
func TestAFailoverToAReplicaThatIsBehindLosesExactlyWhatItHadNotReceived(t *testing.T) {
	t.Parallel()
	onEach(t, failsOverToOneThatIsBehind)
}

func failsOverToOneThatIsBehind(t *testing.T, e *engine) {
	db := replicate(t, e, false)
	c := newCluster(t, db.url, 2*time.Minute)
	c.start("node-1", "node-2")
	c.handlers("worker-1", "default")
	c.handlers("worker-2", "default")
	var received, claimedLater []carillon.Job
	for ahead := 5 * time.Second; ; ahead *= 2 { // on a busy machine the replica needs longer
		begin := carillon.Now().Add(ahead)
		claimedLater = c.submit(everyFrom(begin, 10*time.Millisecond, time.Second)...)
		received = append(received, claimedLater...)
		db.pair.caughtUp(t)
		db.stream.Set(proxy.Cut)
		if carillon.Now() < begin {
			break
		}
		db.stream.Heal()
	}
	lost := c.submit(repeat(handledJob("default", Work{}), 20)...)
	c.ended(runsOf(lost)...)
	c.ended(runsOf(claimedLater)...)
	db.failOver()
	later := c.submit(repeat(handledJob("default", Work{}), 20)...)

	runs := c.all()
	c.alive()
	c.complete(append(received, later...), runs)
	for _, job := range lost {
		if _, there := runs[only(job)]; there {
			t.Errorf("the replica cannot have received %s", job.ID)
		}
		var problem *client.Problem
		err := c.ask(func(ctx context.Context, api *client.Client) error {
			_, err := api.Job(ctx, job.ID)
			return err
		})
		if !errors.As(err, &problem) || problem.Status != 404 {
			t.Errorf("job %s: %v, want 404", job.ID, err)
		}
	}
	fences := fencesOf(c.lines())
	for _, job := range claimedLater {
		if of := fences[only(job)]; len(of) < 2 {
			t.Errorf("%s was claimed %d times: the replica cannot know of the first", job.ID, len(of))
		}
	}
	for _, of := range fences {
		if !slices.IsSorted(of) || len(slices.Compact(slices.Clone(of))) < len(of) {
			t.Errorf("fences that do not rise: %d", of)
		}
	}
	t.Logf(
		"%d jobs lost that were accepted after the replica was cut off, %d runs performed again",
		len(lost), len(claimedLater),
	)
}

// fencesOf are the fences of the starts of each run, in the order of the starts.
func fencesOf(lines []check.Line) map[carillon.RunID][]int64 {
	fences := map[carillon.RunID][]int64{}
	for _, l := range lines {
		if l.Kind == check.KindStart {
			fences[l.Run] = append(fences[l.Run], l.Fence)
		}
	}
	return fences
}

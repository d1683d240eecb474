package chaos

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
	"github.com/carillon-run/carillon/client"
	rules "github.com/carillon-run/carillon/internal/cluster"
	"github.com/carillon-run/carillon/worker/protocol"
)

var freezeFor = flag.Duration(
	"freeze", 30*time.Second, "for how long one of two nodes is frozen every ten seconds",
)

const (
	freezeEvery = 10 * time.Second
	// longestFreeze is so much shorter than a session that no shard changes its owner, even if the machine is
	// slow afterwards.
	longestFreeze = carillon.SessionTime - 3*protocol.BeatEvery
	soonest       = 20 * time.Second
	latest        = 90 * time.Second
	onTime        = time.Second
	thawing       = 500 * time.Millisecond // the time that a frozen node gets to catch up
	starting      = 50 * time.Millisecond  // in which a freeze can catch a run that is about to start
)

// freeze is a period in which a node stood still.
type freeze struct {
	node     string
	from, to carillon.Time
}

// freezing is what the test knows about the runs besides the lines of their bodies.
type freezing struct {
	*cluster
	owners  map[int]string // of shards, as names of nodes
	freezes []freeze

	mu        sync.Mutex
	committed map[carillon.RunID]string // through which node
}

// A run is due long after its submit, on a node that is not frozen and has workers with free slots. It must
// start on time, no matter how often the other node was frozen before, and also while the other node is
// frozen. The test does not run in parallel with others, because they would be late too.
func TestFreezesOfOneNodeDelayNoRunOfTheOther(t *testing.T) {
	c := newCluster(t, engines[0].database(t), *freezeFor+time.Minute)
	rnd := random(t)
	c.start("node-1", "node-2")
	// One worker for each node, so that the free slots do not move away.
	for _, node := range []string{"node-1", "node-2"} {
		c.handlers("worker-of-"+node, "default", "ONLY="+c.address(node), "SERVERS=http://"+c.address(node))
	}
	c.members(carillon.MemberWorker, 2)
	tr := &freezing{cluster: c, owners: c.shardOwners(), committed: map[carillon.RunID]string{}}

	over := carillon.Now().Add(*freezeFor)
	var load sync.WaitGroup
	for _, node := range []string{"node-1", "node-2"} {
		picks := rand.New(rand.NewPCG(rnd.Uint64(), 1))
		load.Go(func() { tr.load(node, over, picks) })
	}
	for time.Until(over.Std()) > freezeEvery {
		next := time.Now().Add(freezeEvery)
		length := between(rnd, time.Second, longestFreeze)
		// Not in step with anything that nodes do every ten seconds.
		last(c.ctx, between(rnd, 0, freezeEvery-length))
		tr.freeze([]string{"node-1", "node-2"}[rnd.IntN(2)], length)
		last(c.ctx, time.Until(next))
	}
	load.Wait()
	last(c.ctx, time.Until(over.Std()))

	runs := c.all()
	tr.judge(c.truthful(runs))
	if before, now := tr.owners, c.shardOwners(); fmt.Sprint(before) != fmt.Sprint(now) {
		t.Error("a node lost its session, so the owners of the shards are not known")
	}
}

func between(rnd *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(rnd.Int64N(int64(max(to-from, 1))))
}

// shardOwners works out the owner of every shard, in the same way as the nodes.
func (c *cluster) shardOwners() map[int]string {
	c.t.Helper()
	var members []client.Member
	c.insist(func(ctx context.Context, api *client.Client) (err error) {
		members, err = api.Members(ctx)
		return err
	})
	var ids []string
	names := map[string]string{}
	for _, m := range members {
		if m.Kind != carillon.MemberNode {
			continue
		}
		ids = append(ids, m.ID)
		for name, address := range c.addresses {
			if strings.HasSuffix(m.Addr, address) {
				names[m.ID] = name
			}
		}
	}
	owners := map[int]string{}
	for _, id := range ids {
		for _, shard := range rules.Shards(id, ids) {
			owners[shard] = names[id]
		}
	}
	return owners
}

// freeze stops a node for a time.
func (tr *freezing) freeze(node string, length time.Duration) {
	p := tr.nodes[node]
	from := carillon.Now()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		tr.t.Error(err)
	}
	last(tr.ctx, length)
	if err := p.Signal(syscall.SIGCONT); err != nil {
		tr.t.Error(err)
	}
	tr.freezes = append(tr.freezes, freeze{node, from, carillon.Now()})
}

// load submits through one node, five jobs a second while the node answers, due between the soonest and the
// latest delay and before the trial is over.
func (tr *freezing) load(node string, over carillon.Time, rnd *rand.Rand) {
	api, err := client.New(client.Config{
		URL: "http://" + tr.address(node), Token: tr.nodes[node].Token, Timeout: 10 * time.Second,
		Tries: 1,
	})
	if err != nil {
		tr.t.Error(err)
		return
	}
	for ; time.Until(over.Std()) > soonest && tr.ctx.Err() == nil; last(tr.ctx, 200*time.Millisecond) {
		def := handledJob("default", Work{
			For: carillon.Duration(rnd.IntN(20)) * carillon.Duration(time.Millisecond),
		})
		def.Schedule.At = carillon.Now().Add(between(rnd, soonest, min(time.Until(over.Std()), latest)))
		job, err := api.Submit(tr.ctx, def)
		if err != nil {
			continue // no answer in time: if it was accepted, its witness tells
		}
		tr.mu.Lock()
		tr.committed[only(job)] = node
		tr.mu.Unlock()
	}
}

// judge compares when the bodies began with when the runs were due, and prints the figures.
func (tr *freezing) judge(lines []check.Line) {
	tr.t.Helper()
	began := map[carillon.RunID]carillon.Time{}
	for _, l := range lines {
		if l.Kind == check.KindStart && began[l.Run] == 0 {
			began[l.Run] = l.At
		}
	}
	var lates []time.Duration
	excused, busy := 0, 0
	for id, at := range began {
		late, owner := at.Sub(id.Due), tr.owners[id.Job.Shard()]
		if tr.frozen(owner, id.Due) {
			excused++
			continue
		}
		lates = append(lates, late)
		if late <= onTime {
			continue
		}
		if late <= onTime+tr.machine.allowance(id.Due.Std(), at.Std()) {
			busy++
			continue
		}
		tr.t.Errorf("%s is of %s, which was not frozen, and started %s late; it was committed by %q (frozen then: %t): %s",
			id, owner, late, tr.committed[id], tr.frozen(tr.committed[id], id.Due), row(tr.get(id)))
	}
	slices.Sort(lates)
	if len(lates) == 0 {
		tr.t.Fatal("no run was due while its owner was not frozen")
	}
	at := func(share float64) time.Duration { return lates[int(share*float64(len(lates)-1))] }
	tr.t.Logf("%d runs, %d excused (owner frozen), late: p50 %s, p99 %s, max %s (%d because of a busy machine), %d freezes",
		len(began), excused, at(0.5), at(0.99), at(1), busy, len(tr.freezes))
}

// frozen says whether a node stood still when a run was due, until shortly before that, or from a moment
// after it, before it could start the run.
func (tr *freezing) frozen(node string, due carillon.Time) bool {
	return slices.ContainsFunc(tr.freezes, func(f freeze) bool {
		return f.node == node && f.from <= due.Add(starting) && due <= f.to.Add(thawing)
	})
}

package chaos

import (
	"context"
	"flag"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
	"github.com/carillon-run/carillon/chaos/proxy"
	"github.com/carillon-run/carillon/client"
)

// A cluster can have a proxy on each link: between a node and the database, in front of a node for all that
// talk to it, and around a worker with handlers for all that it talks to. linkedNode and linkedHandlers start
// processes behind their proxies; storeLink, nodeLink and workerLink are these proxies. They stay when the
// process is killed and started again.

// link is the proxy of that name; the first call opens it.
func (c *cluster) link(name, to string) *proxy.Proxy {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.links[name] == nil {
		if c.links == nil {
			c.links = map[string]*proxy.Proxy{}
		}
		c.links[name] = openProxy(c.t, to)
	}
	return c.links[name]
}

// openProxy opens a proxy for the time of a test.
func openProxy(t *testing.T, to string) *proxy.Proxy {
	t.Helper()
	p, err := proxy.Listen(to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// storeLink is the link between a node and the database.
func (c *cluster) storeLink(node string) *proxy.Proxy {
	c.t.Helper()
	return c.link("store of "+node, hostOf(c.t, c.store))
}

// nodeLink is the link to a node, for workers, other nodes and clients.
func (c *cluster) nodeLink(node string) *proxy.Proxy {
	c.t.Helper()
	return c.link(node, c.address(node))
}

// workerLink is the link between a worker and all nodes.
func (c *cluster) workerLink(worker string) *proxy.Proxy {
	c.t.Helper()
	return c.link(worker, "")
}

// linkedNode starts a node whose links all have a proxy; it is perhaps not ready yet.
func (c *cluster) linkedNode(name string, args ...string) *Server {
	c.t.Helper()
	return c.launch(name, append([]string{
		"--store", through(c.t, c.store, c.storeLink(name)), "--advertise", "http://" + c.nodeLink(name).Addr(),
	}, args...)...)
}

// linkedNodes starts nodes with linkedNode, and returns when they are ready and know each other.
func (c *cluster) linkedNodes(names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.linkedNode(name)
	}
	c.met(names...)
}

// linkedHandlers starts a worker with handlers that reaches the nodes only through its own proxy and through
// theirs.
func (c *cluster) linkedHandlers(name, queues string, nodes ...string) *Process {
	c.t.Helper()
	servers := make([]string, len(nodes))
	for i, node := range nodes {
		servers[i] = "http://" + c.nodeLink(node).Addr()
	}
	return c.handlers(
		name, queues, "SERVERS="+strings.Join(servers, ","), "THROUGH="+c.workerLink(name).Addr(),
	)
}

// healed ends the faults of all links.
func (c *cluster) healed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.links {
		p.Heal()
	}
}

// trickle submits a job at a steady pace, whatever becomes of it. The function that it returns ends this and
// returns the jobs that were accepted.
func (c *cluster) trickle(pace time.Duration, def carillon.Definition) (end func() []carillon.Job) {
	stop, accepted := make(chan struct{}), make(chan []carillon.Job, 1)
	go func() {
		var jobs []carillon.Job
		for tick := time.Tick(pace); ; {
			select {
			case <-stop:
				accepted <- jobs
				return
			case <-tick:
			}
			_ = c.ask(func(ctx context.Context, api *client.Client) error {
				job, err := api.Submit(ctx, def)
				if err == nil {
					jobs = append(jobs, job)
				}
				return err
			})
		}
	}()
	return func() []carillon.Job {
		close(stop)
		return <-accepted
	}
}

func hostOf(t *testing.T, store string) string {
	t.Helper()
	at, err := url.Parse(store)
	if err != nil {
		t.Fatal(err)
	}
	return at.Host
}

// through is a URL with the address of a proxy.
func through(t *testing.T, address string, p *proxy.Proxy) string {
	t.Helper()
	at, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	at.Host = p.Addr()
	return at.String()
}

var linkFault = flag.Duration("link-fault", 300*time.Millisecond, "how long each link of a cluster fails in each way")

// linkFaults are the faults of a link that a test does in turn, each with a name.
var linkFaults = []struct {
	name string
	proxy.Fault
}{
	{"cut", proxy.Cut},
	{"paused", proxy.Pause},
	{"closed", proxy.Closed},
	{"loses requests", proxy.NoRequests},
	{"loses answers", proxy.NoAnswers},
	{"loses every third answer after the commit", proxy.LostAnswers(3)},
	{"late", proxy.Late(100 * time.Millisecond)},
	{"slow", proxy.Slow(50_000)},
}

// The links fail in turn, each only for a moment; the link of a third worker is cut for longer than its
// session lasts.
func TestFaultsOfEveryLinkLoseNothingAndRunNothingTwiceAtOnce(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, e *engine) {
		c := newCluster(t, e.database(t), 2*time.Minute+48**linkFault)
		rnd := random(t)
		nodes := []string{"node-1", "node-2"}
		c.linkedNodes(nodes...)
		for _, name := range []string{"worker-1", "worker-2", "worker-3"} {
			c.linkedHandlers(name, "default", nodes...)
		}
		c.members(carillon.MemberWorker, 3)
		links := []string{"store of node-1", "store of node-2", "node-1", "node-2", "worker-1", "worker-2"}
		struck := map[string]int{}
		var plan []func()
		for _, name := range links {
			for _, f := range linkFaults {
				plan = append(plan, func() {
					p := c.links[name]
					before := p.Struck()
					p.Set(f.Fault)
					last(c.ctx, *linkFault)
					p.Heal()
					struck[f.name] += p.Struck() - before
				})
			}
		}
		rnd.Shuffle(len(plan), func(i, j int) { plan[i], plan[j] = plan[j], plan[i] })
		defs, begin := every(20*time.Millisecond, time.Duration(len(plan))**linkFault)
		for i := range defs {
			defs[i].Payload = handledJob("", Work{
				For: carillon.Duration(rnd.IntN(300)) * carillon.Duration(time.Millisecond),
			}).Payload
		}
		accepted := c.submit(defs...)
		recurring := handledJob("default", Work{For: carillon.Duration(50 * time.Millisecond)})
		recurring.Schedule.Every, recurring.Schedule.MaxRuns = carillon.Duration(time.Second), 15
		accepted = append(accepted, c.submit(repeat(recurring, 10)...)...)

		last(c.ctx, time.Until(begin.Std()))
		load := c.trickle(50*time.Millisecond, handledJob("default", Work{}))
		for i, fault := range plan {
			if i == 1 {
				c.workerLink("worker-3").Set(proxy.Cut)
			}
			fault()
		}
		c.healed()
		accepted = append(accepted, load()...)

		runs := c.all()
		c.alive()
		c.complete(accepted, runs)
		lines := c.truthful(runs)
		for _, f := range linkFaults {
			harmless := f.Fault == proxy.Pause || f.ToServer.Delay > 0 || f.ToServer.Rate > 0
			if !harmless && struck[f.name] == 0 {
				t.Errorf("no link that %s had anything to lose", f.name)
			}
		}
		t.Logf("%d runs; faults struck: %v; witnesses: %s", len(runs), struck, check.Summary(lines))
	})
}

package chaos

import (
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// front opens one address that stays, as a load balancer has, and returns its URL. It passes every connection
// on to a node that accepts it. Workers that know only addresses of dead nodes come back through it.
func (c *cluster) front() string {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entry != "" {
		return c.entry
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return // closed: the test is over
			}
			go c.pass(from)
		}
	}()
	c.entry = "http://" + l.Addr().String()
	return c.entry
}

// pass copies a connection to and from a node until either side ends it.
func (c *cluster) pass(from net.Conn) {
	defer from.Close()
	to := c.dialAny()
	if to == nil {
		return // no node is alive: the caller gets an error at once and tries again
	}
	defer to.Close()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
		both.Go(func() {
			_, _ = io.Copy(way[0], way[1])
			_ = way[0].(*net.TCPConn).CloseWrite()
		})
	}
	both.Wait()
}

// dialAny connects to any node, a random one first; nil: none is alive.
func (c *cluster) dialAny() net.Conn {
	urls, _ := c.where()
	for _, i := range rand.Perm(len(urls)) {
		if to, err := net.Dial("tcp", strings.TrimPrefix(urls[i], "http://")); err == nil {
			return to
		}
	}
	return nil
}

func TestWorkersThatKnowOnlyDeadNodesComeBackThroughAnAddressThatStays(t *testing.T) {
	t.Parallel()
	onOne(t, func(t *testing.T, e *engine) {
		c := newCluster(t, e.database(t), time.Minute)
		c.start("node-1", "node-2")
		c.handlers("worker", "default")
		c.ended(runsOf(c.submit(handledJob("default", Work{})))...)
		for _, name := range []string{"node-1", "node-2"} {
			c.nodes[name].Kill()
		}
		for _, name := range []string{"node-1", "node-2"} {
			c.launch(name, "--listen", "127.0.0.1:0")
		}
		killed := carillon.Now()
		again := only(c.submit(handledJob("default", Work{}))[0])
		took := c.started(1, again)[again].Sub(killed).Round(time.Millisecond)
		t.Logf("a worker ran a job of the new nodes %s after the old ones were killed", took)
	})
}

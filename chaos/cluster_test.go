package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/proxy"
	"github.com/carillon-run/carillon/client"
)

// cluster is some nodes on one database, and workers that dial in to them. Each process has a name; the test
// starts a killed process again under the same name. If the test fails, it shows the end of each process's
// log.
type cluster struct {
	t       *testing.T
	ctx     context.Context
	binary  string
	store   string
	dir     string
	logDir  string
	witness string // the file to which the bodies of all jobs write
	machine *machine
	entry   string // an address that stays: see front

	mu        sync.Mutex
	nodes     map[string]*Server
	addresses map[string]string // of nodes
	processes []named
	logs      map[string]*os.File
	links     map[string]*proxy.Proxy // see link
	programs  map[string]program      // of processes that run another program than binary
}

type named struct {
	name string
	*Process
}

var logs = flag.String(
	"logs", "",
	"directory to keep what the processes and the bodies of jobs write (default: none, the end is shown when a test fails)",
)

// hang is the time after which a test that waits for something gives up. It judges nothing: even on a busy
// machine the awaited event happens long before.
const hang = 6 * time.Minute

// handled is the type of jobs whose body is a handler.
const handled = "witness"

// newCluster is for a test that takes up to limit on an idle machine.
func newCluster(t *testing.T, store string, limit time.Duration) *cluster {
	t.Helper()
	binary := buildBinary(t) // can take long: its time is not the test's
	ctx, cancel := context.WithTimeout(t.Context(), limit+hang)
	dir := t.TempDir()
	logDir := dir
	if *logs != "" {
		logDir = filepath.Join(*logs, t.Name())
		if err := os.MkdirAll(logDir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c := &cluster{
		t: t, ctx: ctx, binary: binary, store: store, dir: dir, logDir: logDir,
		witness: filepath.Join(logDir, "witness"),
		machine: watchMachine(), nodes: map[string]*Server{}, addresses: map[string]string{},
		logs: map[string]*os.File{},
	}
	_ = os.Remove(c.witness) // of an earlier test with the same -logs
	t.Cleanup(func() {
		cancel()
		c.close()
	})
	return c
}

// close ends the processes, the last started first, and reports those that had ended by themselves.
func (c *cluster) close() {
	for i := len(c.processes) - 1; i >= 0; i-- {
		if p := c.processes[i]; p.Crashed() {
			c.t.Errorf("%s has ended by itself: %v", p.name, p.err)
		} else {
			p.Kill()
		}
	}
	for name, log := range c.logs {
		log.Close()
		if c.t.Failed() {
			c.t.Logf("the last words of %s:\n%s", name, tail(log.Name(), 30))
		}
	}
}

func tail(path string, n int) string {
	b, _ := os.ReadFile(path)
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// log is the file to which the process of that name writes, also after a restart.
func (c *cluster) log(name string) *os.File {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.logs[name] == nil {
		f, err := os.OpenFile(
			filepath.Join(c.logDir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600,
		)
		if err != nil {
			c.t.Error(err)
		}
		c.logs[name] = f
	}
	return c.logs[name]
}

func (c *cluster) keep(name string, p *Process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.processes = append(c.processes, named{name, p})
}

// launch starts a node; it is perhaps not ready yet. The node has the same address every time, unless args
// say otherwise.
func (c *cluster) launch(name string, args ...string) *Server {
	args = append([]string{"--store", c.store, "--concurrency", "0", "--listen", c.address(name)}, args...)
	s, err := launchServer(c.program(name), filepath.Join(c.dir, name), c.log(name), args)
	if err != nil {
		c.t.Fatal(err)
	}
	c.keep(name, s.Process)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[name] = s
	return s
}

// address is an unused address. Its port is below those that the kernel gives to outgoing connections, so
// that none of them takes it while the node is down.
func (c *cluster) address(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.addresses[name] == "" {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(22_000)) // below the kernel's range
		if l, err := net.Listen("tcp", address); err == nil {
			l.Close()
			c.addresses[name] = address
		}
	}
	return c.addresses[name]
}

// start starts nodes and returns when they are ready and know each other.
func (c *cluster) start(names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.launch(name)
	}
	c.met(names...)
}

// met waits until nodes are ready and know each other.
func (c *cluster) met(names ...string) {
	c.t.Helper()
	for _, name := range names {
		c.ready(name)
	}
	c.members(carillon.MemberNode, len(c.nodes))
}

func (c *cluster) ready(name string) *Server {
	c.t.Helper()
	if err := c.nodes[name].Ready(c.ctx); err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
	return c.nodes[name]
}

// members waits until there are exactly want members of a kind.
func (c *cluster) members(kind string, want int) {
	c.t.Helper()
	poll(c.t, c.ctx, fmt.Sprintf("%d members of kind %s", want, kind), func() bool {
		c.mu.Lock()
		processes := slices.Clone(c.processes)
		c.mu.Unlock()
		for _, p := range processes {
			if p.Crashed() && !killed(p.err) {
				c.t.Fatalf("%s has ended by itself: %v", p.name, p.err)
			}
		}
		return len(slices.DeleteFunc(
			c.sessions(), func(id string) bool { return !strings.HasPrefix(id, kind) },
		)) == want
	})
}

// sessions are the ids of all members, in order.
func (c *cluster) sessions() (ids []string) {
	c.t.Helper()
	var members []client.Member
	c.insist(func(ctx context.Context, api *client.Client) (err error) {
		members, err = api.Members(ctx)
		return err
	})
	for _, m := range members {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	return ids
}

// where are the addresses of the nodes, or of the links to them, and their token.
func (c *cluster) where() (urls []string, token string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, s := range c.nodes {
		url, secret, ok := s.where()
		if p := c.links[name]; p != nil {
			url = "http://" + p.Addr()
		}
		if ok {
			urls, token = append(urls, url), secret
		}
	}
	return urls, token
}

// servers are the addresses and the token for a worker that starts now: those of the current nodes, and one
// address that stays, as deployments have. All nodes that a worker knows can be gone before it has heard of
// others.
func (c *cluster) servers() (list, token string) {
	c.t.Helper()
	var urls []string
	poll(c.t, c.ctx, "a node that has written its token", func() bool {
		urls, token = c.where()
		return token != ""
	})
	return strings.Join(append(urls, c.front()), ","), token
}

// commandSlots are enough for all commands of a test at once, also those that will not end for ten seconds.
const commandSlots = "40"

// commands starts `carillon worker` for the queues.
func (c *cluster) commands(name, queues string, args ...string) *Process {
	servers, token := c.servers()
	cmd := c.program(name)
	cmd.Args = append(append(cmd.Args,
		"worker", "--server", servers, "--token", token, "--name", name, "--queues", queues, "--concurrency",
		commandSlots, "--data", filepath.Join(c.dir, name)), args...)
	return c.run(name, cmd)
}

// handlers starts a worker with handlers for the queues.
func (c *cluster) handlers(name, queues string, env ...string) *Process {
	self, _ := os.Executable()
	servers, token := c.servers()
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "HANDLERS="+c.witness, "NAME="+name, "QUEUES="+queues, "TOKEN="+token,
		"SERVERS="+servers)
	cmd.Env = append(cmd.Env, env...)
	return c.run(name, cmd)
}

func (c *cluster) run(name string, cmd *exec.Cmd) *Process {
	log := c.log(name)
	cmd.Stdout, cmd.Stderr = log, log
	p, err := launch(cmd)
	if err != nil {
		c.t.Fatal(err)
	}
	c.keep(name, p)
	return p
}

// ask tries one node after the other, a random one first, until one answers. It tries each node once, and
// returns an error if none answers.
func (c *cluster) ask(question func(ctx context.Context, api *client.Client) error) error {
	urls, token := c.where()
	err := errors.New("no node has an address")
	for _, i := range rand.Perm(len(urls)) {
		var api *client.Client
		api, err = client.New(client.Config{
			URL: urls[i], Token: token, HTTP: quick, Timeout: 5 * time.Second, Tries: 1,
		})
		if err == nil {
			// Without the cancellation: after the end, too, a test asks what went wrong.
			err = question(context.WithoutCancel(c.ctx), api)
		}
		if err == nil {
			break
		}
	}
	return err
}

// insist asks until a node answers.
func (c *cluster) insist(question func(ctx context.Context, api *client.Client) error) {
	c.t.Helper()
	for {
		err := c.ask(question)
		if err == nil {
			return
		}
		if c.ctx.Err() != nil {
			c.t.Fatalf("no node answers: %v", err)
		}
		last(c.ctx, 50*time.Millisecond)
	}
}

// submit submits jobs until the cluster accepts them. If an answer is lost, a job can be accepted more than
// once.
func (c *cluster) submit(defs ...carillon.Definition) (jobs []carillon.Job) {
	c.t.Helper()
	for part := range slices.Chunk(defs, 500) {
		c.insist(func(ctx context.Context, api *client.Client) error {
			taken, err := api.SubmitMany(ctx, part)
			jobs = append(jobs, taken...)
			return err
		})
	}
	return jobs
}

// handledJob is a job whose body is a handler.
func handledJob(queue string, work Work) carillon.Definition {
	def := carillon.Definition{}
	def.Name, def.Type, def.Queue, def.Target.Handler = "handled", handled, queue, &carillon.Handler{}
	def.Payload, _ = json.Marshal(work)
	def.Retry.MaxCrashes, def.Retry.MaxAttempts = 1000, 5
	return def
}

// commandJob is a job whose body is a command.
func (c *cluster) commandJob(queue string, d time.Duration) carillon.Definition {
	def := witnessed(c.witness, d)
	def.Queue = queue
	return def
}

// interrupted is a command whose first attempt lasts until it is stopped, because the steps of a test can
// take any time on a busy machine. Later attempts last as long as later says.
func (c *cluster) interrupted(queue string, later time.Duration) carillon.Definition {
	def := c.commandJob(queue, later)
	def.Target.Command.Env["WITNESS_FIRST"] = time.Hour.String()
	return def
}

// interruptedHandler is interrupted for a handler.
func interruptedHandler(queue string, later time.Duration) carillon.Definition {
	return handledJob(queue, Work{For: carillon.Duration(later), First: carillon.Duration(time.Hour)})
}

// only is the run of a one-off job.
func only(job carillon.Job) carillon.RunID { return carillon.RunID{Job: job.ID, Due: job.Schedule.At} }

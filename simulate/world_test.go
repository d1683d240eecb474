package simulate

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/internal/carry"
	"github.com/carillon-run/carillon/internal/dispatch"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
	"github.com/carillon-run/carillon/internal/scheduler"
	"github.com/carillon-run/carillon/worker"
	"github.com/carillon-run/carillon/worker/protocol"
)

// world is a cluster in a bubble. Only one goroutine, that of the test, starts and ends its processes.
type world struct {
	t           *testing.T
	seed        uint64
	without     map[int]bool // steps that are left out
	random      *rand.Rand   // of the test's goroutine
	faults      []fault      // that come in this world
	tenants     []string     // the namespaces of jobs; more than one in some worlds
	maxBatch    int          // changes of a commit: so few in some worlds that submits are a crowd
	weathers    []func(random *rand.Rand) weather
	began       time.Time
	store       *mem.Store
	coordinator *mem.Coordinator
	logs        *mem.Logs
	journal     journal

	workers []*remoteWorker
	orders  []*order
	probes  []probe
	heals   []heal
	nth     *nth      // of the calls to the store of the next node that starts; nil: none
	broken  time.Time // when healCore broke everything but one node; zero: it did not
	started int       // processes so far

	ahead     time.Duration // how far the clock of a node was ahead at most
	clocksSet bool
	all       sync.WaitGroup
	calls     sync.WaitGroup // of submitters and other callers

	mu    sync.Mutex
	nodes []*node // that live, or are frozen; only the test's goroutine writes it
	rest  []*node // that stay broken for good, see healCore
	story []string
}

// node is a process with a ledger, a scheduler, a dispatcher and perhaps a worker.
type node struct {
	*process
	clock       carillon.Clock
	toStore     *link
	toSessions  *link
	random      *rand.Rand // of its carriers; the world's mu guards both
	carriers    []*link
	queue       *carry.Queue
	ledger      *ledger.Ledger
	scheduler   *scheduler.Scheduler
	dispatcher  *dispatch.Dispatcher
	coordinator carillon.Coordinator
	stop        context.CancelFunc
}

// remoteWorker is a process that dials nodes.
type remoteWorker struct {
	*process
	client *client
	links  []*link // to nodes, dead ones too
	stop   context.CancelFunc
}

var quiet = slog.New(slog.DiscardHandler)

// tell adds a line to the story of this world, which a failure prints.
func (w *world) tell(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.story = append(
		w.story, fmt.Sprintf("%8.3fs  ", time.Since(w.began).Seconds())+fmt.Sprintf(format, args...),
	)
}

func (w *world) name(kind string) string {
	w.started++
	return fmt.Sprintf("%s_%d", kind, w.started)
}

// link makes a link that has its own source of chance, so that how its calls fail does not depend on what
// others carry.
func (w *world) link(from, to *process, name string, limit time.Duration) *link {
	return &link{name: name, from: from, to: to, limit: limit, random: branch(w.random)}
}

func branch(random *rand.Rand) *rand.Rand {
	return rand.New(rand.NewPCG(random.Uint64(), random.Uint64()))
}

// storeLimit is the time after which a node gives up on a call to the store.
const storeLimit = 15 * time.Second

// startNode starts a node, with a worker inside that has some slots; 0: without one.
func (w *world) startNode(slots int) *node {
	n := &node{process: newProcess(w.name("node")), random: branch(w.random)}
	number := w.started
	n.toStore = w.link(n.process, nil, n.name+" -> store", storeLimit)
	if w.nth != nil {
		w.nth.kill = func() { w.kill(n.process, n.stop) }
		n.toStore.nth, w.nth = w.nth, nil
	}
	n.toSessions = w.link(n.process, nil, n.name+" -> coordinator", storeLimit)
	store := storeLink{n.toStore, w.store}
	n.coordinator = coordinatorLink{n.toSessions, w.coordinator}
	n.queue = carry.New(mem.NewQueue(mem.QueueConfig{}), quiet)
	n.ledger = ledger.New(ledger.Config{
		Store: store, Clock: &n.clock, IDs: idgen.New(number, carillon.Never), MaxBatch: w.maxBatch,
	})
	n.scheduler = scheduler.New(scheduler.Config{
		Store: store, Timeline: mem.NewTimeline(mem.TimelineConfig{}), Queue: n.queue,
		Coordinator: n.coordinator, Logs: w.logs, Ledger: n.ledger, Clock: &n.clock, Logger: quiet,
		Node: n.name,
	})
	n.dispatcher = dispatch.New(dispatch.Config{
		Store: store, Ledger: n.ledger, Queue: n.queue, Logs: w.logs, Coordinator: n.coordinator,
		Clock: &n.clock, Logger: quiet, Redecide: n.scheduler.Redecide, PushBack: n.scheduler.PushBack,
	})
	n.ledger.UseSlots(n.dispatcher)
	n.scheduler.UsePulls(n.dispatcher)
	listeners := []func([]carillon.Change){n.dispatcher.Notice}
	ctx, cancel := context.WithCancel(context.Background())
	n.stop = cancel
	var parts, inner sync.WaitGroup
	if slots > 0 {
		self := w.link(n.process, n.process, n.name+" -> itself", time.Hour)
		local := dispatcherLink{self, dispatch.Local{Dispatcher: n.dispatcher}}
		in := w.newWorker(n.process, local, slots, &n.clock)
		listeners = append(listeners, in.Notice)
		inner.Go(func() { _ = in.Run(ctx) })
	}
	n.ledger.Listen(append(listeners, n.scheduler.Route)...)
	written, flush := context.WithCancel(context.Background())
	parts.Go(func() { w.beatNode(ctx, n) })
	parts.Go(func() { _ = n.scheduler.Run(ctx) })
	parts.Go(func() { _ = n.queue.FetchFromEach(ctx, n.others, w.carriers(n)) })
	w.all.Go(func() {
		var door sync.WaitGroup
		door.Go(func() { _ = n.ledger.Run(written) })
		inner.Wait()
		<-ctx.Done()
		parts.Wait()
		flush()
		door.Wait()
		w.journal.killed(n.process, n.process.kill()) // a server that has stopped refuses, nothing goes on
	})
	w.mu.Lock()
	w.nodes = append(w.nodes, n)
	w.mu.Unlock()
	for _, r := range w.workers {
		w.connect(r, n)
	}
	w.tell("%s starts, %d slots", n.name, slots)
	return n
}

// remove takes a node out of the world.
func (w *world) remove(n *node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nodes = slices.DeleteFunc(slices.Clone(w.nodes), func(o *node) bool { return o == n })
}

// others are the addresses of the other nodes, as package node finds them.
func (n *node) others() (list []string) {
	for _, m := range n.scheduler.Members() {
		if m.Kind == carillon.MemberNode && m.ID != n.name {
			list = append(list, m.ID)
		}
	}
	return list
}

// carriers makes the carriers of a node. The other end of a node that is gone refuses.
func (w *world) carriers(n *node) func(address string) carillon.Carrier {
	return func(address string) carillon.Carrier {
		w.mu.Lock()
		defer w.mu.Unlock()
		all := slices.Concat(w.nodes, w.rest)
		i := slices.IndexFunc(all, func(o *node) bool { return o.name == address })
		if i < 0 {
			return gone{}
		}
		l := &link{
			name: n.name + " -> " + address, from: n.process, to: all[i].process,
			limit: carry.FetchTime, random: branch(n.random),
		}
		n.carriers = append(n.carriers, l)
		return carrierLink{l, all[i]}
	}
}

// gone is the carrier from a node that has ended.
type gone struct{}

func (gone) Fetch(context.Context, carillon.Demand) ([]carillon.Run, error) { return nil, errRefused }

// beatNode keeps the session of a node, as package node does.
func (w *world) beatNode(ctx context.Context, n *node) {
	join := func() error {
		return n.coordinator.Join(ctx, []carillon.Member{{ID: n.name, Kind: carillon.MemberNode}})
	}
	for joined := false; ; {
		if !joined {
			joined = join() == nil
		}
		select {
		case <-time.After(protocol.BeatEvery):
		case <-ctx.Done():
			leave, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = n.coordinator.Leave(leave, []string{n.name})
			return
		}
		beat, cancel := context.WithTimeout(ctx, 2*time.Second)
		standings, err := n.coordinator.Beat(beat, []carillon.Beat{{ID: n.name}})
		cancel()
		if err == nil && standings[0] == carillon.StandingOver {
			joined = false
		}
	}
}

func (w *world) newWorker(
	p *process, d protocol.Dispatcher, slots int, clock *carillon.Clock,
) *worker.Worker {
	began := time.Now()
	var serves []string
	if p.serves != "" {
		serves = []string{p.serves}
	}
	handlers := executor.NewFuncs()
	handlers.Register("test", body{w, p}.perform)
	return worker.New(worker.Config{
		Dispatcher: d, Name: p.name, Host: p.name, Concurrency: slots, Logger: quiet, Inside: clock != nil,
		Clock: clock, Namespaces: serves, Labels: map[string]string{"host": p.name, "inside": p.inside()},
		Executors: map[string]executor.Executor{"handler": handlers},
		Boottime:  func() time.Duration { return time.Since(began) },
	})
}

// startWorker starts a worker that dials the nodes. If there are several tenants, it serves one of them.
func (w *world) startWorker(slots int) *remoteWorker {
	serves := ""
	if len(w.tenants) > 1 {
		serves = w.tenants[w.started%len(w.tenants)]
	}
	return w.startWorkerOf(serves, slots)
}

func (w *world) startWorkerOf(tenant string, slots int) *remoteWorker {
	r := &remoteWorker{process: newProcess(w.name("worker"))}
	r.serves = tenant
	r.client = &client{}
	for _, n := range w.nodes {
		w.connect(r, n)
	}
	ctx, cancel := context.WithCancel(context.Background())
	r.stop = cancel
	work := w.newWorker(r.process, r.client, slots, nil)
	w.all.Go(func() { _ = work.Run(ctx) })
	w.workers = append(w.workers, r)
	w.tell("%s starts, %d slots %s", r.name, slots, tenant)
	return r
}

// connect lets a worker dial a node.
func (w *world) connect(r *remoteWorker, n *node) {
	l := w.link(r.process, n.process, r.name+" -> "+n.name, time.Minute)
	r.client.learn(dispatcherLink{l, n.dispatcher})
	r.links = append(r.links, l)
}

// kill ends a process at once.
func (w *world) kill(p *process, stop context.CancelFunc) {
	w.journal.killed(p, p.kill())
	stop()
	w.tell("%s is killed", p.name)
}

// Package node puts a node together: store, ledger, scheduler, worker and API. `carillon serve` runs it.
// Applications that embed Carillon and register handlers in Go use it too.
package node

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	_ "time/tzdata" // for machines without time zones; a machine's own zones come first

	"golang.org/x/sync/errgroup"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/api"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/internal/carry"
	"github.com/carillon-run/carillon/internal/catalog"
	"github.com/carillon-run/carillon/internal/dispatch"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
	"github.com/carillon-run/carillon/internal/operations"
	"github.com/carillon-run/carillon/internal/outage"
	"github.com/carillon-run/carillon/internal/scheduler"
	"github.com/carillon-run/carillon/worker"
)

// Node is one process that schedules, runs and serves.
type Node struct {
	cfg        Config
	id         string
	secrets    secrets
	outage     *outage.Outage // of the store
	backend    *Backend
	copy       *api.Replica // nil: none
	bus        *mem.Bus
	ledger     *ledger.Ledger
	catalog    *catalog.Catalog
	dispatcher *dispatch.Dispatcher
	scheduler  *scheduler.Scheduler
	operations *operations.Loop
	worker     *worker.Worker // nil: no inner worker
	carry      *carry.Queue   // nil: no other node uses the store
	clock      clock
	beaten     atomic.Int64 // when the store last took a beat of this node, in milliseconds
	advertise  string
	twins      twins
	confused   bool // another node advertises the same address, and that was logged
	metrics    *metrics
	number     carillon.Guard
	ids        *idgen.IDs
	listener   net.Listener
	loops      []func(context.Context) error // of adapters, in the background while the node runs
	close      []func() error                // in order of opening; shut calls them in reverse
}

// Open locks the data directory, opens the store and puts the parts together. Nothing runs before Run.
func Open(ctx context.Context, cfg Config) (_ *Node, err error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	n := &Node{
		cfg: cfg, id: randomID("node_"), bus: mem.NewBus(), metrics: newMetrics(),
		outage: outage.New("the store", cfg.Logger),
	}
	n.cfg.Logger = slog.New(outage.Handler(cfg.Logger.Handler()))
	defer func() {
		if err != nil {
			n.shut()
		}
	}()
	lock, err := n.lock(ctx, filepath.Join(cfg.Data, lockFile), "the data directory "+cfg.Data)
	if err != nil {
		return nil, err
	}
	if err := n.listen(lock); err != nil {
		return nil, err
	}
	if n.backend, err = n.open(ctx); err != nil {
		return nil, err
	}
	if err := n.readClock(ctx); err != nil { // before any decision uses the clock
		return nil, err
	}
	if n.secrets, err = n.share(ctx); err != nil {
		return nil, err
	}
	if n.copy, err = n.replica(ctx); err != nil {
		return nil, err
	}
	if n.number, n.ids, err = leaseNumber(
		ctx, n.backend.Store, &n.clock.Clock, n.id, n.backend.Shared,
	); err != nil {
		return nil, fmt.Errorf("lease a node number: %w", err)
	}
	if err := n.agree(ctx); err != nil {
		return nil, errors.Join(err, n.giveNumberBack(ctx))
	}
	if err := n.assemble(ctx); err != nil {
		return nil, errors.Join(err, n.giveNumberBack(ctx))
	}
	return n, nil
}

// giveNumberBack frees the number before the node has used it.
func (n *Node) giveNumberBack(ctx context.Context) error {
	free := n.number
	free.Value = holder(n.id, n.clock.Now())
	_, err := n.backend.Store.Commit(context.WithoutCancel(ctx), []carillon.Change{
		{Guards: []carillon.Guard{free}},
	})
	return err
}

func (n *Node) listen(lock *os.File) error {
	if n.cfg.Listen == "" {
		return sign(lock, "")
	}
	listener, err := net.Listen("tcp", n.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", n.cfg.Listen, err)
	}
	n.listener = listener
	n.close = append(n.close, func() error { listener.Close(); return nil })
	path := filepath.Join(n.cfg.Data, addressFile)
	n.close = append(n.close, func() error { return os.Remove(path) })
	n.advertise = n.advertised()
	return errors.Join(sign(lock, n.URL()), writeFile(path, n.URL()+"\n", 0o600))
}

// assemble wires the parts. The ledger tells the dispatcher first, so that a run that was just claimed begins
// before anything else.
func (n *Node) assemble(ctx context.Context) error {
	executors, err := n.executors(ctx)
	if err != nil {
		return err
	}
	b := n.backend
	queue := b.Queue
	if b.Shared {
		n.carry = carry.New(queue, n.cfg.Logger)
		queue = n.carry
	}
	n.ledger = ledger.New(ledger.Config{
		Store: b.Store, IDs: n.ids, Clock: &n.clock.Clock, Flushers: b.Writers,
	})
	sched := scheduler.Config{
		Store: b.Store, Timeline: &seenTimeline{b.Timeline, n.metrics},
		Queue: queue, Coordinator: b.Coordinator, Logs: b.Logs,
		Ledger: n.ledger, Intake: b.Intake, Retention: n.cfg.Retention,
		Clock: &n.clock.Clock, Logger: n.cfg.Logger,
	}
	if b.Shared {
		sched.Node = n.id
	}
	n.scheduler = scheduler.New(sched)
	if err := n.openCatalog(ctx); err != nil {
		return err
	}
	n.operations = operations.New(operations.Config{
		Store: b.Store, Ledger: n.ledger, Owns: n.scheduler.Owns, Clock: &n.clock.Clock,
		Logger: n.cfg.Logger,
	})
	n.dispatcher = dispatch.New(dispatch.Config{
		Store: b.Store, Ledger: n.ledger, Queue: queue, Logs: b.Logs, Coordinator: b.Coordinator,
		Redecide: n.scheduler.Redecide, PushBack: n.scheduler.PushBack,
		Nodes: n.addresses, Clock: &n.clock.Clock, Logger: n.cfg.Logger,
	})
	n.ledger.UseSlots(n.dispatcher)
	n.scheduler.UsePulls(n.dispatcher)
	n.ledger.Listen(n.dispatcher.Notice)
	if n.cfg.Concurrency > 0 {
		n.worker = worker.New(worker.Config{
			Dispatcher: dispatch.Local{Dispatcher: n.dispatcher}, Inside: true, Name: n.advertise,
			Executors: executors, Queues: n.cfg.Queues, Labels: n.cfg.Labels,
			Version: n.cfg.Version, Concurrency: n.cfg.Concurrency, Keep: n.cfg.Keep, Drain: n.cfg.Drain,
			Clock: &n.clock.Clock, Logger: n.cfg.Logger,
		})
		n.ledger.Listen(n.worker.Notice)
	}
	n.ledger.Listen(n.scheduler.Route, n.metrics.count, n.publish)
	n.metrics.gauge("carillon_due_runs", "Due runs that wait for a worker.", func() float64 {
		return float64(queue.Len())
	})
	n.metrics.gauge(
		"carillon_unserved_runs", "Due runs of this node that no live worker can take.", func() float64 {
			return float64(unserved(queue, n.scheduler.Members()))
		},
	)
	n.metrics.gauge(
		"carillon_limit_differences", "Limits that did not count what their runs had taken; must stay 0.",
		func() float64 { return float64(n.scheduler.LimitDifferences()) },
	)
	n.metrics.gauge("carillon_running_runs", "Runs that the worker holds.", func() float64 {
		held, _ := n.Running()
		return float64(held)
	})
	n.metrics.gauge("carillon_worker_slots", "Runs that the worker can hold.", func() float64 {
		_, slots := n.Running()
		return float64(slots)
	})
	return nil
}

// Running returns how many runs this node's own worker holds, and how many it can hold. The worker holds a
// run until the end of the run is on disk.
func (n *Node) Running() (held, slots int) {
	if n.worker == nil {
		return 0, 0
	}
	return n.worker.Running()
}

// publish tells listeners about every run and job that changed. Without listeners it costs nothing.
func (n *Node) publish(committed []carillon.Change) {
	far := n.backend.Bus
	if far == nil && !n.bus.Listening() {
		return
	}
	events := eventsOf(committed)
	n.bus.Publish(context.Background(), events)
	if far != nil {
		far.Publish(context.Background(), events)
	}
}

// eventsOf makes an event for each run and each job that was written.
func eventsOf(committed []carillon.Change) iter.Seq[carillon.Event] {
	return func(yield func(carillon.Event) bool) {
		for i := range committed {
			for k := range committed[i].Runs {
				run := &committed[i].Runs[k]
				if !yield(carillon.Event{
					Kind: carillon.EventRun, Namespace: run.Namespace, Run: *run, Job: run.ID.Job,
				}) {
					return
				}
			}
			if job := committed[i].Job; job != nil && !yield(carillon.Event{
				Kind: carillon.EventJob, Namespace: job.Namespace, Job: job.ID,
			}) {
				return
			}
		}
	}
}

// executors returns the executors of this node, by the kind of target.
func (n *Node) executors(ctx context.Context) (map[string]executor.Executor, error) {
	cfg := executor.AllConfig{
		Handlers: n.cfg.Handlers, HTTPAllow: n.cfg.HTTPAllow, AllowSetuid: n.cfg.AllowSetuid,
		MaxProcesses: n.cfg.MaxProcesses, Logger: n.cfg.Logger,
	}
	if n.cfg.Commands && n.cfg.Concurrency > 0 {
		cfg.Leash, cfg.TempDir = filepath.Join(n.cfg.Data, leashFile), filepath.Join(n.cfg.Data, tempDir)
	}
	all, release, err := executor.All(ctx, cfg)
	if err == nil {
		n.close = append(n.close, release)
	}
	return all, err
}

// URL is the address of the API for clients on this machine; empty without an API. If the node listens on all
// addresses, URL has the loopback address: clients cannot dial 0.0.0.0 or [::] on every system.
func (n *Node) URL() string {
	if n.listener == nil {
		return ""
	}
	address, ok := n.listener.Addr().(*net.TCPAddr)
	if !ok || !address.IP.IsUnspecified() {
		return "http://" + n.listener.Addr().String()
	}
	return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(address.Port))
}

// TokenFile is the path of the file with the token of the API.
func (n *Node) TokenFile() string { return filepath.Join(n.cfg.Data, tokenFile) }

// Run works until ctx ends, then drains, flushes and closes.
func (n *Node) Run(ctx context.Context) error {
	defer n.shut()
	if err := n.join(context.WithoutCancel(ctx)); err != nil { // before any node can own its shards
		return err
	}
	written, stopLedger := context.WithCancel(context.WithoutCancel(ctx))
	defer stopLedger()
	ended := make(chan error, 1)
	stopped := ctx
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		select {
		case err := <-n.ledger.Broken():
			return err // better a process that ends, and is restarted, than one that can store nothing
		case <-ctx.Done():
			return nil
		}
	})
	go func() { ended <- n.ledger.Run(written) }()
	g.Go(func() error { return n.catalog.Run(ctx) })
	g.Go(func() error { return n.scheduler.Run(ctx) })
	g.Go(func() error { return n.operations.Run(ctx) })
	if n.worker != nil {
		g.Go(func() error { return n.worker.Run(ctx) })
	}
	g.Go(func() error { return n.serve(ctx) })
	g.Go(func() error { return n.keepNumber(ctx) })
	g.Go(func() error { return n.beat(ctx) })
	g.Go(func() error { return n.compareClocks(ctx) })
	g.Go(func() error { return n.stepClock(ctx) })
	if n.carry != nil {
		g.Go(func() error { return n.fetchRuns(ctx) })
	}
	for _, loop := range n.loops {
		g.Go(func() error { return loop(ctx) })
	}
	err := g.Wait()
	if stopped.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // the node was told to stop before it had begun
	}
	n.releaseNumber()
	stopLedger()
	return errors.Join(err, <-ended)
}

func (n *Node) shut() {
	for i := len(n.close) - 1; i >= 0; i-- {
		if err := n.close[i](); err != nil {
			n.cfg.Logger.Error("close", "error", err)
		}
	}
	n.close = nil
}

// Submit stores new jobs in the default namespace; see carillon.Definition for the defaults.
func (n *Node) Submit(ctx context.Context, defs ...carillon.Definition) ([]carillon.Job, error) {
	now := n.clock.Now()
	for i := range defs {
		if err := defs[i].Admit(now); err != nil {
			return nil, err
		}
	}
	return n.ledger.Submit(ctx, carillon.DefaultNamespace, defs)
}

// Ledger is the door for further writes, Store is for reading what was written.
func (n *Node) Ledger() *ledger.Ledger { return n.ledger }
func (n *Node) Store() carillon.Store  { return n.backend.Store }

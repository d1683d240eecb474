// Package worker performs runs. It gets them from a dispatcher: the dispatcher of the node that it is part
// of, or, through package client, the dispatcher of any node that it can dial. Each part has a file: pull
// (get work), pool (the goroutines that perform it), execute (one attempt), output (printed lines), report
// (outcomes) and tend (session, lease, orders to stop).
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/internal/await"
	"github.com/carillon-run/carillon/worker/protocol"
)

// Config says what a worker works on.
type Config struct {
	Dispatcher protocol.Dispatcher
	Name       string // the worker's name, for people
	Host       string // the machine, for people; default its host name
	Version    string // of the program, for people; default not reported
	// Executors, by kind of target: "command", "http", "handler". The worker gets only runs of these kinds,
	// and if the last one has a method Types() []string, as executor.Funcs, only handlers of these types.
	Executors map[string]executor.Executor

	// Namespaces to serve. None: all that the worker's credential may serve.
	Namespaces []string
	// Queues to serve, each "name" or "name=weight"; none: all. Weights divide the slots while several queues
	// have work.
	Queues      []string
	Labels      map[string]string // of the worker, such as its zone: jobs can need them
	Concurrency int               // attempts at the same time; default 64
	// Keep is how many of these slots are kept for lone runs (carillon.Demand), so that a flood cannot take
	// all of them; at least one slot is for all runs. Default none: all slots are.
	Keep   int
	Drain  time.Duration // how long a stop waits for running attempts; default 10s
	Logger *slog.Logger  // default slog.Default()

	// Inside says that the dispatcher is in the same process. Its answers cannot be lost, so it does not
	// matter how long they take.
	Inside bool
	// Clock is the store's, if the worker is in a node. Default this machine's: if it is wrong, a server
	// still takes no attempt to have begun before its claim or in the future.
	Clock *carillon.Clock
	// Boottime measures leases. Default executor.Boottime; a test in a bubble passes the bubble's clock.
	Boottime func() time.Duration
}

// Worker performs runs.
type Worker struct {
	cfg    Config
	lease  executor.Lease
	kinds  []string        // of targets that it has executors for, sorted
	others []string        // the same without handlers
	types  func() []string // that have a handler now; nil: any
	alone  []string        // kinds whose attempts have a goroutine of their own
	slots  slots
	pool   pool
	base   context.Context // of all attempts; ends when the worker has released everything
	end    context.CancelFunc

	mu   sync.Mutex
	id   string // of the current session
	held map[carillon.RunID]*attempt

	ends    ends
	dropped await.Signal // an attempt is over
	away    atomic.Bool  // the dispatcher does not answer
	said    atomic.Int64 // when the worker last logged that, by the clock
	over    atomic.Bool  // the lease is over, and the worker has logged that

	stopping atomic.Bool  // the worker has ended its pulls, and asks for no more runs
	beatSoon await.Signal // beat now
}

// CheckKeep says whether a worker with so many slots can keep some of them.
func CheckKeep(keep, concurrency int) error {
	switch most := concurrency - 1; {
	case keep > 0 && most < 1:
		return fmt.Errorf("keep: %d is not valid: want 0, for the concurrency is %d", keep, concurrency)
	case keep < 0 || keep > 0 && keep > most:
		return fmt.Errorf(
			"keep: %d is not valid: want a number from 0 to %d, below the concurrency", keep, most,
		)
	}
	return nil
}

func New(cfg Config) *Worker {
	cfg.Concurrency = cmp.Or(cfg.Concurrency, 64)
	cfg.Keep = min(max(cfg.Keep, 0), cfg.Concurrency-1)
	cfg.Drain = cmp.Or(cfg.Drain, 10*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Host == "" {
		cfg.Host, _ = os.Hostname() // stays empty if the machine does not know it
	}
	if cfg.Boottime == nil {
		cfg.Boottime = executor.Boottime
	}
	w := &Worker{
		cfg: cfg, held: map[carillon.RunID]*attempt{}, dropped: await.NewSignal(),
		beatSoon: await.NewSignal(), slots: newSlots(cfg.Concurrency, cfg.Keep),
	}
	w.kinds = slices.Sorted(maps.Keys(cfg.Executors))
	if handlers, lists := cfg.Executors["handler"].(interface{ Types() []string }); lists {
		w.types = handlers.Types
	}
	for _, kind := range w.kinds {
		if _, shares := cfg.Executors[kind].(executor.Sharer); !shares {
			w.alone = append(w.alone, kind)
		}
	}
	w.others = slices.DeleteFunc(slices.Clone(w.kinds), func(kind string) bool { return kind == "handler" })
	w.ends.ready = await.NewSignal()
	w.pool.init()
	w.base, w.end = context.WithCancel(context.Background())
	return w
}

// Run works until ctx ends. Then it asks for no more runs, waits up to Drain for running attempts, and hands
// back the rest. While the dispatcher does not answer, the worker keeps its reports and tries again.
func (w *Worker) Run(ctx context.Context) error {
	defer w.end()
	defer w.pool.close()
	w.pool.labels = ctx
	if !w.register(ctx) {
		return nil
	}
	tending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var loops sync.WaitGroup
	loops.Go(func() { w.beat(tending) })
	loops.Go(func() { w.keepLease(tending) })
	loops.Go(func() { w.record(tending) })
	for range reportLoops {
		loops.Go(func() { w.report(tending) })
	}
	var pullers sync.WaitGroup
	pulls := pullLoops
	if w.cfg.Keep > 0 {
		pulls++ // one of them waits for lone runs most of the time
	}
	for range pulls {
		pullers.Go(func() { w.pull(ctx) })
	}
	pullers.Wait()
	w.stopping.Store(true) // a node may still be claiming for a pull that ended; the beat tells it
	w.beatSoon.Set()
	w.drain()
	stop()
	loops.Wait()
	w.leave()
	return nil
}

// drain waits for running attempts, and hands back those that take too long.
func (w *Worker) drain() {
	if running, _ := w.Running(); running > 0 {
		w.cfg.Logger.Info("waiting for running work", "runs", running, "at_most", w.cfg.Drain)
	}
	timer := time.AfterFunc(w.cfg.Drain, func() { w.cancelAll(executor.ErrShutdown) })
	defer timer.Stop()
	abandon := time.NewTimer(w.cfg.Drain + abandonAfter)
	defer abandon.Stop()
	for {
		running, _ := w.Running()
		if running == 0 {
			return
		}
		select {
		case <-w.dropped:
		case <-abandon.C:
			w.cfg.Logger.Error(
				"some runs do not stop when told to, or their ends cannot be reported: leaving them behind",
				"runs", running,
			)
			return
		}
	}
}

// abandonAfter is how much longer a stop waits for attempts that do not react to it. They end with the
// process; nodes take their runs back.
const abandonAfter = 15 * time.Second

func (w *Worker) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := w.cfg.Dispatcher.Leave(ctx, w.ID()); err != nil && !errors.Is(err, carillon.ErrSessionOver) {
		w.cfg.Logger.Error("end the session", "error", err) // the session then runs out
	}
}

// ID is the worker's current id; it changes when the worker loses its session.
func (w *Worker) ID() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.id
}

func (w *Worker) cancelAll(why error) {
	for _, a := range w.all() {
		a.stop(why)
	}
}

func (w *Worker) all() []*attempt {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]*attempt, 0, len(w.held))
	for _, a := range w.held {
		all = append(all, a)
	}
	return all
}

// begin starts an attempt for each task, unless it is too late: then begin says why. If an earlier attempt of
// the same run still goes on here, the new one waits for it to end.
func (w *Worker) begin(tasks []protocol.Task, session string, asked time.Duration) (late string) {
	list := make([]*attempt, len(tasks))
	w.mu.Lock()
	if late = w.late(session, asked); late != "" {
		w.mu.Unlock()
		return late
	}
	for i := range tasks {
		a := &attempt{
			w: w, Task: tasks[i], asked: asked, before: w.held[tasks[i].Run.ID],
			out: output{clock: w.cfg.Clock},
		}
		list[i], w.held[a.Run.ID] = a, a
	}
	w.mu.Unlock()
	for _, a := range list {
		if a.Run.Has(carillon.FlagStop) {
			a.stop(stopped(a.Run.Reason))
		}
	}
	w.pool.submit(list)
	return ""
}

// drop forgets an attempt whose end was reported.
func (w *Worker) drop(a *attempt) {
	w.mu.Lock()
	if w.held[a.Run.ID] == a {
		delete(w.held, a.Run.ID)
		if a.before != nil && a.before.goesOn() { // the next attempt has to wait for it too
			w.held[a.Run.ID] = a.before
		}
	}
	w.mu.Unlock()
	w.dropped.Set()
}

// Notice takes the changes that the ledger of the same process has committed. So the worker inside a node
// stops an attempt at once when a caller asked for its stop or a node took its run away. Other workers
// hear of it with their next beat.
func (w *Worker) Notice(committed []carillon.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range committed {
		for k := range committed[i].Runs {
			run := &committed[i].Runs[k]
			if own := run.Worker == w.id && !run.Has(carillon.FlagStop); own &&
				(run.State == carillon.StateClaimed || run.State == carillon.StateSucceeded) {
				continue // the worker asked for this itself, as for nearly everything: nothing to do
			}
			a := w.held[run.ID]
			switch {
			case a == nil || run.Attempt < a.Run.Attempt:
			case !run.State.Held() || run.Fence() != a.Run.Fence():
				a.abandon()
			case run.Has(carillon.FlagStop):
				a.stop(stopped(run.Reason))
			}
		}
	}
}

// Running is how many attempts the worker holds, and how many it can hold.
func (w *Worker) Running() (held, slots int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.held), w.cfg.Concurrency
}

// holds lists the attempts whose end has no receipt yet. Inside a node it leaves out attempts that the worker
// asked for within the last beat: they were claimed even later, so the next beat lists them early enough, and
// most have ended by then. But a worker that is stopping lists all: the dispatcher takes back at once every
// run that it does not list.
func (w *Worker) holds(stopping bool) (list []carillon.Held) {
	now := w.cfg.Boottime()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.held {
		if !w.cfg.Inside || stopping || now-a.asked >= protocol.BeatEvery {
			list = append(list, a.Held())
		}
	}
	return list
}

// Package worker performs runs. It gets them from a desk: that of the node it is part of, or, by way of package client,
// that of any node it can dial. Its parts each have a file: pull (get work), hands (who does it), execute (one attempt), output (what
// it prints), report (what became of it) and tend (session, lease, what should stop).
package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

// Config says what a worker works on.
type Config struct {
	Desk      carillon.Desk
	Name      string                       // what it calls itself, for people
	Host      string                       // the machine, for people; default its host name
	Version   string                       // of the program, for people; default not told
	Executors map[string]executor.Executor // by kind of target: "command", "http", "handler"

	// Queues to serve, "name" or "name=weight"; none: all. Weights share the slots while several have work.
	Queues      []string
	Concurrency int           // attempts at the same time; default 64
	Drain       time.Duration // how long a stop waits for what runs; default 10s
	// Pending bounds what has ended and is not yet recorded, in bytes. Slots are free as soon as a run returns, so without a
	// bound a fast worker would outrun the store without end. Default 24 MB, less than 20,000 runs.
	Pending int
	Logger  *slog.Logger // default slog.Default()

	// Inside says that the desk is in the same process: its answers cannot be lost, so it does not matter how long they take.
	Inside bool
	// Clock is what leases are measured by. Default executor.Boottime; in a test bubble, which has a time of its own, that.
	Clock func() time.Duration
}

// Worker performs runs.
type Worker struct {
	cfg   Config
	lease executor.Lease
	slots slots
	hands hands
	base  context.Context // of all attempts; ends when the worker has let go of everything
	end   context.CancelFunc

	mu   sync.Mutex
	id   string // of the present session
	held map[carillon.RunID]*attempt

	ends    ends
	dropped chan struct{} // capacity 1: an attempt is over
	away    atomic.Bool   // the desk does not answer
	said    atomic.Int64  // when that was said last, by the clock
	over    atomic.Bool   // the lease is, and that was said

	stopping atomic.Bool   // it has given up its pulls, and asks for no more
	hurry    chan struct{} // capacity 1: beat now
}

func New(cfg Config) *Worker {
	cfg.Concurrency = cmp.Or(cfg.Concurrency, 64)
	cfg.Drain = cmp.Or(cfg.Drain, 10*time.Second)
	cfg.Pending = cmp.Or(cfg.Pending, 24<<20)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Host == "" {
		cfg.Host, _ = os.Hostname() // not told where the machine does not know it
	}
	if cfg.Clock == nil {
		cfg.Clock = executor.Boottime
	}
	w := &Worker{cfg: cfg, held: map[carillon.RunID]*attempt{}, dropped: make(chan struct{}, 1), hurry: make(chan struct{}, 1)}
	w.slots.free, w.slots.freed = cfg.Concurrency, make(chan struct{}, 1)
	w.ends.limit, w.ends.ready = cfg.Pending, make(chan struct{}, 1)
	w.hands.init()
	w.base, w.end = context.WithCancel(context.Background())
	return w
}

// Run works until ctx ends: then it asks for nothing more, waits up to Drain for what runs, and hands back the rest. While
// the desk does not answer it keeps what it has to report, and tries again.
func (w *Worker) Run(ctx context.Context) error {
	defer w.end()
	defer w.hands.close()
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
	for range pullLoops {
		pullers.Go(func() { w.pull(ctx) })
	}
	pullers.Wait()
	w.stopping.Store(true) // a node may just be claiming for a pull that was given up; it hears of that now
	w.hurry <- struct{}{}
	w.drain()
	stop()
	loops.Wait()
	w.leave()
	return nil
}

// drain waits for what runs, and hands back what takes too long.
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
			w.cfg.Logger.Error("some runs do not stop when told to, or their ends cannot be reported: leaving them behind", "runs", running)
			return
		}
	}
}

// abandonAfter is how long a stop waits for those who do not listen. They end with the process; their runs are taken back.
const abandonAfter = 15 * time.Second

func (w *Worker) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := w.cfg.Desk.Leave(ctx, w.ID()); err != nil && !errors.Is(err, carillon.ErrLost) {
		w.cfg.Logger.Error("end the session", "error", err) // it runs out
	}
}

// ID is what the worker is known by at present; it changes when its session is lost.
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

// begin starts the attempts that tasks are, unless the session that they were claimed for is over: then they may be somebody
// else's already. Should an attempt before one of them still be going on here, it waits for that to end.
func (w *Worker) begin(tasks []carillon.Task, session string, asked time.Duration) bool {
	list := make([]*attempt, len(tasks))
	w.mu.Lock()
	if w.id != session {
		w.mu.Unlock()
		return false
	}
	for i := range tasks {
		a := &attempt{w: w, Task: tasks[i], asked: asked, before: w.held[tasks[i].Run.ID]}
		list[i], w.held[a.Run.ID] = a, a
	}
	w.mu.Unlock()
	for _, a := range list {
		if a.Run.Has(carillon.Stop) {
			a.stop(stopped(a.Run.Reason))
		}
	}
	w.hands.give(list)
	return true
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
	select {
	case w.dropped <- struct{}{}:
	default:
	}
}

// Notice takes what the ledger of the same process has committed, so that the worker inside a node stops at once what
// somebody asked to stop or took away. Others hear of it with their next beat.
func (w *Worker) Notice(committed []carillon.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range committed {
		for k := range committed[i].Runs {
			run := &committed[i].Runs[k]
			if own := run.Worker == w.id && !run.Has(carillon.Stop); own && (run.State == carillon.Claimed || run.State == carillon.Succeeded) {
				continue // what it asked for itself, which is nearly everything: not worth a look
			}
			a := w.held[run.ID]
			switch {
			case a == nil || run.Attempt < a.Run.Attempt:
			case !run.State.Held() || run.Fence() != a.Run.Fence():
				a.take()
			case run.Has(carillon.Stop):
				a.stop(stopped(run.Reason))
			}
		}
	}
}

// Running is how many attempts the worker holds, and how many it could.
func (w *Worker) Running() (held, slots int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.held), w.cfg.Concurrency
}

// holds are the attempts whose end has no receipt yet. Inside a node those that were asked for within the last beat are left
// out: they were claimed even later, so the next beat is early enough to list them, and most have ended by then. But a worker
// that is stopping lists all: the desk takes back at once what it does not list.
func (w *Worker) holds(stopping bool) (list []carillon.Held) {
	now := w.cfg.Clock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.held {
		if !w.cfg.Inside || stopping || now-a.asked >= carillon.BeatEvery {
			list = append(list, a.Held())
		}
	}
	return list
}

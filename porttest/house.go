package porttest

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/internal/catalog"
	"github.com/carillon-run/carillon/internal/conductor"
	"github.com/carillon-run/carillon/internal/dispatch"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
	"github.com/carillon-run/carillon/internal/scheduler"
	"github.com/carillon-run/carillon/worker"
	"github.com/carillon-run/carillon/worker/protocol"
)

// House is a whole system in a synctest bubble: ledger, scheduler and worker over the store under test, and
// one handler, which scenarios set. Hours pass in milliseconds.
type House struct {
	T          *testing.T
	Store      carillon.Store
	Ledger     *ledger.Ledger
	Worker     *worker.Worker
	Dispatcher *dispatch.Dispatcher
	Queue      *mem.Queue
	Clock      carillon.Clock // of all parts

	// Handle performs every run. Default: it succeeds at once.
	Handle executor.Handler
	// Coordinator keeps the sessions. Default: one in memory, a new one with each start.
	Coordinator carillon.Coordinator
	// Logger gets the logs of all parts. Default: they are discarded.
	Logger *slog.Logger
	// Node is the id of this node in a cluster whose nodes share Store and Coordinator, and Number makes the
	// ids of its jobs unique. Default: it is the only node, with the number 1.
	Node   string
	Number int
	// Carriers wraps the timeline and the queue. Default: they lose nothing.
	Carriers func(carillon.Timeline, carillon.Queue) (carillon.Timeline, carillon.Queue)
	// Catalog is made at the start if Operated is set. Default: operators cannot set anything.
	Operated bool
	Catalog  *catalog.Catalog

	stop func()
	mu   sync.Mutex
	seen []Seen
	told *texts // what hooks were told: see hooked
}

// Seen is one attempt, as the handler saw it.
type Seen struct {
	Run     carillon.RunID
	Attempt int32
	Fence   int64
	Start   carillon.Time
	End     carillon.Time
}

// Live starts the house in the present bubble.
func (h *House) Live(concurrency int) {
	h.T.Helper()
	logger := cmp.Or(h.Logger, slog.New(slog.DiscardHandler))
	ids := idgen.New(cmp.Or(h.Number, 1), carillon.Never)
	coordinator := h.Coordinator
	if coordinator == nil {
		inMemory := mem.NewCoordinator()
		inMemory.Clock = &h.Clock
		coordinator = inMemory
	}
	h.Queue = mem.NewQueue(mem.QueueConfig{})
	var timeline carillon.Timeline = mem.NewTimeline(mem.TimelineConfig{})
	var queue carillon.Queue = h.Queue
	if h.Carriers != nil {
		timeline, queue = h.Carriers(timeline, queue)
	}
	logs := mem.NewLogs()
	h.Ledger = ledger.New(ledger.Config{Store: h.Store, IDs: ids, Clock: &h.Clock})
	sched := scheduler.New(scheduler.Config{
		Store: h.Store, Timeline: timeline, Queue: queue, Coordinator: coordinator, Logs: logs,
		Ledger: h.Ledger, Clock: &h.Clock, Logger: logger, Node: h.Node,
	})
	h.Dispatcher = dispatch.New(dispatch.Config{
		Store: h.Store, Ledger: h.Ledger, Queue: queue, Logs: logs, Coordinator: coordinator,
		Clock: &h.Clock, Logger: logger, Redecide: sched.Redecide, PushBack: sched.PushBack,
		Fill: conductor.NewValues(h.Store, h.Ledger).Fill,
	})
	began := time.Now()
	h.Worker = worker.New(worker.Config{
		Dispatcher: dispatch.Local{Dispatcher: h.Dispatcher},
		Executors:  map[string]executor.Executor{"handler": handlers{h: h}}, Concurrency: concurrency,
		Logger: logger, Inside: true, Clock: &h.Clock,
		Boottime: func() time.Duration { return time.Since(began) },
	})
	h.Ledger.UseSlots(h.Dispatcher)
	sched.UsePulls(h.Dispatcher)
	conduct := conductor.New(conductor.Config{
		Store: h.Store, Queue: queue, Ledger: h.Ledger, IDs: ids, Clock: &h.Clock,
		Redecide: sched.Redecide, Logger: logger,
	})
	h.Ledger.Listen(h.Dispatcher.Notice, h.Worker.Notice, sched.Route, conduct.Notice)
	ctx, cancel := context.WithCancel(context.Background())
	written, flush := context.WithCancel(context.Background())
	var parts, door sync.WaitGroup
	if h.Operated {
		h.operate(ctx, sched, logger)
		parts.Go(func() { h.Catalog.Run(ctx) })
	}
	door.Go(func() { h.Ledger.Run(written) })
	if h.Node != "" {
		parts.Go(func() { h.join(ctx) })
	}
	parts.Go(func() { h.Worker.Run(ctx) })
	parts.Go(func() { conduct.Run(ctx) })
	parts.Go(func() { sched.Run(ctx) })
	h.stop = func() {
		cancel()
		parts.Wait()
		flush()
		door.Wait()
	}
}

// operate makes a catalog and reads it, as a node does before anything depends on it.
func (h *House) operate(ctx context.Context, sched *scheduler.Scheduler, logger *slog.Logger) {
	c := catalog.New(catalog.Config{Store: h.Store, Ledger: h.Ledger, Logger: logger})
	h.Ledger.UseLimits(c.LimitsOf)
	h.Ledger.UseGates(c)
	sched.UseGates(c)
	c.Listen(func(before, after *catalog.Snapshot) {
		sched.LookAt(after.Lines(before)...)
		sched.GatesChanged()
	})
	for c.Load(ctx) != nil {
		time.Sleep(10 * time.Millisecond)
	}
	h.Catalog = c
}

// join keeps the session of the node until ctx ends.
func (h *House) join(ctx context.Context) {
	for h.Coordinator.Join(ctx, []carillon.Member{{ID: h.Node, Kind: carillon.MemberNode}}) != nil {
		time.Sleep(10 * time.Millisecond)
	}
	tick := time.NewTicker(protocol.BeatEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_, _ = h.Coordinator.Beat(ctx, []carillon.Beat{{ID: h.Node}}) // the next one follows
		case <-ctx.Done():
			_ = h.Coordinator.Leave(context.Background(), []string{h.Node}) // else its session ends by itself
			return
		}
	}
}

// Stop drains and stops the house.
func (h *House) Stop() { h.stop() }

// Down drains and stops the house for a while, and starts it again.
func (h *House) Down(d time.Duration) {
	h.stop()
	time.Sleep(d)
	h.Live(8)
}

// handlers runs every handler target through the house's Handle, and keeps the attempts that it saw.
type handlers struct {
	h  *House
	by *[]carillon.RunID // nil, or what this worker performed
}

func (x handlers) Execute(ctx context.Context, task executor.Task) carillon.Outcome {
	seen := Seen{Run: task.Run.ID, Attempt: task.Run.Attempt, Fence: task.Run.Fence(), Start: carillon.Now()}
	funcs := executor.NewFuncs()
	funcs.Register(task.Job.Type, func(ctx context.Context, task executor.Task) error {
		if x.h.Handle == nil {
			return nil
		}
		return x.h.Handle(ctx, task)
	})
	outcome := funcs.Execute(ctx, task)
	seen.End = carillon.Now()
	x.h.mu.Lock()
	defer x.h.mu.Unlock()
	x.h.seen = append(x.h.seen, seen)
	if x.by != nil {
		*x.by = append(*x.by, seen.Run)
	}
	return outcome
}

// Seen returns the attempts so far, in the order of their ends.
func (h *House) Seen() []Seen {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]Seen(nil), h.seen...)
}

// Submit admits and submits one job whose target is the house's handler.
func (h *House) Submit(edit func(*carillon.Definition)) carillon.Job {
	h.T.Helper()
	def := carillon.Definition{}
	def.Type, def.Target.Handler = "test", &carillon.Handler{}
	if edit != nil {
		edit(&def)
	}
	if err := def.Admit(carillon.Now()); err != nil {
		h.T.Fatal(err)
	}
	jobs, err := h.Ledger.Submit(context.Background(), carillon.DefaultNamespace, []carillon.Definition{def})
	if err != nil {
		h.T.Fatal(err)
	}
	return jobs[0]
}

// Runs returns all runs of a job, latest due first.
func (h *House) Runs(job carillon.JobID) []carillon.Run {
	h.T.Helper()
	page, err := h.Store.FindRuns(context.Background(), carillon.RunQuery{
		Namespace: carillon.DefaultNamespace, Job: job, Limit: 1000,
	})
	if err != nil {
		h.T.Fatal(err)
	}
	return page.Runs
}

package scheduler_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/internal/catalog"
	"github.com/carillon-run/carillon/internal/dispatch"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
	"github.com/carillon-run/carillon/internal/scheduler"
	"github.com/carillon-run/carillon/worker"
	"github.com/carillon-run/carillon/worker/protocol"
)

// house is a whole system in a bubble. A test can wrap its parts.
type house struct {
	t           *testing.T
	clock       carillon.Clock // of all parts
	truth       *mem.Store     // that the test reads
	store       carillon.Store
	coordinator *mem.Coordinator
	members     carillon.Coordinator // that schedulers use; nil: coordinator
	intake      carillon.Intake      // default none
	nodes       []*node
	concurrency int
	keep        int                                       // slots that are kept
	handle      func(task executor.Task)                  // default: it succeeds at once
	outcome     func(task executor.Task) carillon.Outcome // default: success

	operated bool            // nodes have a catalog
	both     bool            // every node believes that all shards are its own
	queues   []string        // that the workers serve; default all
	pulls    scheduler.Pulls // that schedulers are told of; default those of the dispatcher
	lane     int             // room in each lane; default that of mem
	queue    func(carillon.Queue) carillon.Queue
	timeline func(carillon.Timeline) carillon.Timeline

	mu        sync.Mutex
	seen      []attempt
	stop      []func()
	unheardOf carillon.JobID
}

// attempt is what a handler saw.
type attempt struct {
	run        carillon.Run
	start, end carillon.Time
}

// node is one process: its own ledger, scheduler and worker over the common store.
type node struct {
	id         string // of the node
	store      *gated // that this node uses: a test can hold up its reads
	dispatcher *dispatch.Dispatcher
	ledger     *ledger.Ledger
	scheduler  *scheduler.Scheduler
	worker     *worker.Worker
	catalog    *catalog.Catalog // nil: none
}

// in runs a test on a house, then stops the house and checks what must hold in every house.
func in(t *testing.T, build func(*house), play func(*house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		coordinator := mem.NewCoordinator()
		h := &house{t: t, truth: mem.NewStore(), coordinator: coordinator, concurrency: 8}
		coordinator.Clock = &h.clock
		h.store = h.truth
		if build != nil {
			build(h)
		}
		h.live()
		time.Sleep(time.Second)
		play(h)
		for _, stop := range h.stop {
			stop()
		}
		h.checkNeverTwice()
	})
}

// apart is how much later each node's scheduler starts than that of the node before. Running nodes load again
// when a node joins; without this delay all nodes would read the store at the same moments for ever.
const apart = 2300 * time.Millisecond

// live starts one more node.
func (h *house) live() *node {
	n := &node{id: fmt.Sprintf("node_%d", len(h.nodes)), store: &gated{Store: h.store}}
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	logs := mem.NewLogs()
	var queue carillon.Queue = mem.NewQueue(mem.QueueConfig{MaxPerLane: h.lane})
	var timeline carillon.Timeline = mem.NewTimeline(mem.TimelineConfig{MaxPerLane: h.lane})
	if h.queue != nil {
		queue = h.queue(queue)
	}
	if h.timeline != nil {
		timeline = h.timeline(timeline)
	}
	n.ledger = ledger.New(ledger.Config{
		Store: n.store, Clock: &h.clock, IDs: idgen.New(len(h.nodes)+1, carillon.Never),
	})
	cfg := scheduler.Config{
		Store: n.store, Timeline: timeline, Queue: queue, Coordinator: h.coordinator, Logs: logs,
		Ledger: n.ledger, Clock: &h.clock, Logger: logger,
		Node: n.id, Intake: h.intake,
	}
	if h.members != nil {
		cfg.Coordinator = h.members
	}
	if h.both {
		cfg.Node = ""
	}
	n.scheduler = scheduler.New(cfg)
	n.dispatcher = dispatch.New(dispatch.Config{
		Store: n.store, Ledger: n.ledger, Queue: queue, Logs: logs, Coordinator: h.coordinator,
		Clock: &h.clock, Logger: logger, Redecide: n.scheduler.Redecide, PushBack: n.scheduler.PushBack,
	})
	began := time.Now()
	n.worker = worker.New(worker.Config{
		Dispatcher: dispatch.Local{Dispatcher: n.dispatcher}, Concurrency: h.concurrency, Keep: h.keep,
		Queues:    h.queues,
		Executors: map[string]executor.Executor{"handler": handlers{h}},
		Logger:    logger, Inside: true, Clock: &h.clock,
		Boottime: func() time.Duration { return time.Since(began) },
	})
	n.ledger.UseSlots(n.dispatcher)
	n.scheduler.UsePulls(n.dispatcher)
	if h.pulls != nil {
		n.scheduler.UsePulls(h.pulls)
	}
	n.ledger.Listen(n.dispatcher.Notice, n.worker.Notice, n.scheduler.Route)
	if h.operated {
		n.catalog = catalog.New(catalog.Config{Store: n.store, Ledger: n.ledger, Logger: logger})
		n.ledger.UseLimits(n.catalog.LimitsOf)
		n.ledger.UseGates(n.catalog)
		n.scheduler.UseGates(n.catalog)
		n.catalog.Listen(func(before, after *catalog.Snapshot) {
			n.scheduler.LookAt(after.Lines(before)...)
			n.scheduler.GatesChanged()
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	written, flush := context.WithCancel(context.Background())
	var parts, door sync.WaitGroup
	if err := h.coordinator.Join(ctx, []carillon.Member{{ID: n.id, Kind: carillon.MemberNode}}); err != nil {
		h.t.Fatal(err)
	}
	parts.Go(func() { h.beat(ctx, n.id) })
	door.Go(func() { n.ledger.Run(written) })
	if h.operated {
		parts.Go(func() { n.catalog.Run(ctx) })
	}
	parts.Go(func() { n.worker.Run(ctx) })
	late := time.Duration(len(h.nodes)) * apart
	parts.Go(func() { time.Sleep(late); n.scheduler.Run(ctx) })
	h.nodes = append(h.nodes, n)
	h.stop = append(h.stop, func() { cancel(); parts.Wait(); flush(); door.Wait() })
	return n
}

// beat keeps a member alive.
func (h *house) beat(ctx context.Context, id string) {
	tick := time.NewTicker(protocol.BeatEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			h.coordinator.Beat(ctx, []carillon.Beat{{ID: id}})
		case <-ctx.Done():
			h.coordinator.Leave(context.Background(), []string{id})
			return
		}
	}
}

// handlers performs every run with the house's handle, and records the attempt.
type handlers struct{ h *house }

func (x handlers) Execute(_ context.Context, task executor.Task) carillon.Outcome {
	a := attempt{run: task.Run, start: x.h.clock.Now()}
	if x.h.handle != nil {
		x.h.handle(task)
	}
	a.end = x.h.clock.Now()
	x.h.mu.Lock()
	defer x.h.mu.Unlock()
	x.h.seen = append(x.h.seen, a)
	if x.h.outcome != nil {
		return x.h.outcome(task)
	}
	return carillon.Outcome{Kind: carillon.OutcomeSuccess}
}

func (h *house) attempts() []attempt {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen)
}

// submit submits n jobs of one definition, through the first node.
func (h *house) submit(n int, edit func(*carillon.Definition)) []carillon.Job {
	h.t.Helper()
	return h.submitBy(h.nodes[0], n, edit)
}

func (h *house) submitBy(by *node, n int, edit func(*carillon.Definition)) []carillon.Job {
	h.t.Helper()
	defs := make([]carillon.Definition, n)
	for i := range defs {
		defs[i] = carillon.Definition{}
		defs[i].Type, defs[i].Target.Handler = "test", &carillon.Handler{}
		edit(&defs[i])
		if err := defs[i].Admit(h.clock.Now()); err != nil {
			h.t.Fatal(err)
		}
	}
	jobs, err := by.ledger.Submit(context.Background(), "default", defs)
	if err != nil {
		h.t.Fatal(err)
	}
	return jobs
}

func after(d time.Duration) func(*carillon.Definition) {
	return func(def *carillon.Definition) { def.Schedule.After = carillon.Duration(d) }
}

func every(d time.Duration, overlap carillon.Overlap, max int) func(*carillon.Definition) {
	return func(def *carillon.Definition) {
		def.Schedule.Every, def.Schedule.MaxRuns, def.Overlap = carillon.Duration(d), max, overlap
	}
}

// runs are all runs of a job, latest due first.
func (h *house) runs(job carillon.JobID) []carillon.Run {
	h.t.Helper()
	page, err := h.truth.FindRuns(context.Background(), carillon.RunQuery{
		Namespace: "default", Job: job, Limit: 10_000,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return page.Runs
}

// expectAll checks that each job has the expected number of runs, and that all have succeeded.
func (h *house) expectAll(jobs []carillon.Job, runs int) {
	h.t.Helper()
	for _, job := range jobs {
		got := h.runs(job.ID)
		for _, run := range got {
			if run.State != carillon.StateSucceeded {
				h.t.Errorf(
					"%s is %s after %d attempts, %d losses: %s", run.ID, run.State, run.Attempt, run.Losses,
					run.Reason,
				)
			}
		}
		if len(got) != runs {
			h.t.Errorf("%s has %d runs, want %d", job.ID, len(got), runs)
		}
	}
}

// expectLate checks that the first attempt of each run of the jobs began at most this late.
func (h *house) expectLate(jobs []carillon.Job, most time.Duration) {
	h.t.Helper()
	of := map[carillon.JobID]bool{}
	for _, job := range jobs {
		of[job.ID] = true
	}
	for _, a := range h.attempts() {
		if late := a.start.Sub(a.run.ID.Due); of[a.run.ID.Job] && a.run.Attempt == 1 && late > most {
			h.t.Errorf("%s begins %s late, at most %s is allowed", a.run.ID, late, most)
			return
		}
	}
}

// checkNeverTwice checks that no run begins early, and that attempts do not overlap: those of one run, and
// those of one job unless it allows that.
func (h *house) checkNeverTwice() {
	h.t.Helper()
	seen := h.attempts()
	slices.SortStableFunc(seen, func(a, b attempt) int { return cmp.Compare(a.start, b.start) })
	last := map[carillon.RunID]attempt{}
	for _, a := range seen {
		key := a.run.ID
		if a.run.Has(carillon.FlagGuarded) {
			key.Due = 0 // one key for all runs of the job
		}
		if before, any := last[key]; any && before.end > a.start ||
			a.start < a.run.ID.Due && a.run.Attempt == 1 {
			h.t.Errorf("early, or two at once:\n  %s %+v\n  %s %+v", before.run.ID, before, a.run.ID, a)
		}
		if before := last[a.run.ID]; before.run.Attempt >= a.run.Attempt {
			h.t.Errorf("attempt %d of %s after attempt %d", a.run.Attempt, a.run.ID, before.run.Attempt)
		}
		last[key], last[a.run.ID] = a, a
	}
}

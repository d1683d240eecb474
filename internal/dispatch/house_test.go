package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/internal/dispatch"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
	"github.com/carillon-run/carillon/internal/scheduler"
	"github.com/carillon-run/carillon/worker/protocol"
)

// house is a set of nodes on one store without a worker: the test is the worker.
type house struct {
	*testing.T
	clock       carillon.Clock // of all parts
	store       *mem.Store
	read        carillon.Store // that dispatchers read from; nil: store
	logs        *mem.Logs
	coordinator *mem.Coordinator
	lanes       lanes
	nodes       []*node
	stop        []func()
	heard       map[string]int64 // by worker: the number of its last beat, which was answered
}

// lanes are the lanes of every queue of the house. While they are full, the queue refuses each run that is
// pushed.
type lanes struct{ full atomic.Bool }

type boundedQueue struct {
	*mem.Queue
	lanes *lanes
}

func (q boundedQueue) Push(ctx context.Context, runs []carillon.Run) (refused []int, err error) {
	if !q.lanes.full.Load() {
		return q.Queue.Push(ctx, runs)
	}
	for i := range runs {
		refused = append(refused, i)
	}
	return refused, nil
}

type node struct {
	*dispatch.Dispatcher
	ledger    *ledger.Ledger
	scheduler *scheduler.Scheduler
	queue     *mem.Queue
}

// in runs a test in a bubble on the given number of nodes.
func in(t *testing.T, nodes int, play func(h *house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := &house{
			T: t, store: mem.NewStore(), logs: mem.NewLogs(), coordinator: mem.NewCoordinator(),
			heard: map[string]int64{},
		}
		h.coordinator.Clock = &h.clock
		defer func() {
			for _, stop := range h.stop {
				stop()
			}
		}()
		for range nodes {
			h.live()
		}
		// Longer than the coordinator takes an unknown worker for one of an earlier process.
		time.Sleep(2 * carillon.SessionTime)
		play(h)
	})
}

func (h *house) live() {
	n := &node{}
	id, queue, quiet := fmt.Sprintf("node_%d", len(h.nodes)), boundedQueue{
		mem.NewQueue(mem.QueueConfig{}), &h.lanes,
	}, slog.New(slog.DiscardHandler)
	n.queue = queue.Queue
	n.ledger = ledger.New(ledger.Config{
		Store: h.store, Clock: &h.clock, IDs: idgen.New(len(h.nodes)+1, carillon.Never),
	})
	n.scheduler = scheduler.New(scheduler.Config{
		Store: h.store, Timeline: mem.NewTimeline(mem.TimelineConfig{}), Queue: queue,
		Coordinator: h.coordinator, Logs: h.logs,
		Ledger: n.ledger, Clock: &h.clock, Logger: quiet, Node: id,
	})
	var read carillon.Store = h.store
	if h.read != nil {
		read = h.read
	}
	n.Dispatcher = dispatch.New(dispatch.Config{
		Store: read, Ledger: n.ledger, Queue: queue, Logs: h.logs, Coordinator: h.coordinator,
		Clock: &h.clock, Logger: quiet, Redecide: n.scheduler.Redecide, PushBack: n.scheduler.PushBack,
		Nodes: func() []string { return []string{"http://" + id} },
	})
	n.ledger.UseSlots(n.Dispatcher)
	n.scheduler.UsePulls(n.Dispatcher)
	n.ledger.Listen(n.Notice, n.scheduler.Route)
	if err := h.coordinator.Join(context.Background(), []carillon.Member{
		{ID: id, Kind: carillon.MemberNode},
	}); err != nil {
		h.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	written, flush := context.WithCancel(context.Background())
	var parts, door sync.WaitGroup
	door.Go(func() { _ = n.ledger.Run(written) })
	parts.Go(func() { _ = n.scheduler.Run(ctx) })
	parts.Go(func() {
		for ctx.Err() == nil {
			_, _ = h.coordinator.Beat(ctx, []carillon.Beat{{ID: id}})
			time.Sleep(protocol.BeatEvery)
		}
	})
	h.nodes = append(h.nodes, n)
	h.stop = append(h.stop, func() { cancel(); parts.Wait(); flush(); door.Wait() })
}

func (h *house) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *house) register(n *node) string {
	h.Helper()
	id, err := n.Register(context.Background(), protocol.Registration{Name: "test"})
	h.must(err)
	return id
}

// submit submits a job to a node without waiting for its claim: preclaimed runs go to pulls that wait.
func (h *house) submit(n *node, edit func(*carillon.Definition)) carillon.JobID {
	h.Helper()
	def := carillon.Definition{}
	def.Type, def.Target.Handler = "test", &carillon.Handler{}
	if edit != nil {
		edit(&def)
	}
	h.must(def.Admit(h.clock.Now()))
	jobs, err := n.ledger.Submit(context.Background(), carillon.DefaultNamespace, []carillon.Definition{def})
	h.must(err)
	return jobs[0].ID
}

// reserve reserves a slot of a worker's pull for the run of a new job, and returns the run as a submit would
// write it.
func (h *house) reserve(n *node, worker string) (carillon.Job, carillon.Run) {
	h.Helper()
	def := carillon.Definition{}
	def.Type, def.Target.Handler = "test", &carillon.Handler{}
	h.must(def.Admit(h.clock.Now()))
	job := carillon.Job{ID: 1, Namespace: carillon.DefaultNamespace, Definition: def}
	run := carillon.NewRun(&job, h.clock.Now())
	if got, ok := n.Reserve(&run, &job, h.clock.Now()); !ok || got != worker {
		h.Fatalf("reserved for %q, %v", got, ok)
	}
	return job, run.Claim(worker, h.clock.Now())
}

func (h *house) pull(n *node, worker string, max int, queues ...string) []protocol.Task {
	h.Helper()
	tasks, err := n.Pull(context.Background(), protocol.Pull{
		Worker: worker, Want: carillon.Want{Queues: queues}, Max: max,
	})
	h.must(err)
	return tasks
}

// one pulls until there is a task.
func (h *house) one(n *node, worker string) protocol.Task {
	h.Helper()
	for range 60 {
		if tasks := h.pull(n, worker, 1); len(tasks) == 1 {
			return tasks[0]
		}
	}
	h.Fatal("nothing to do")
	return protocol.Task{}
}

func (h *house) report(n *node, worker string, r protocol.Report) protocol.Receipt {
	h.Helper()
	receipts, err := n.Report(context.Background(), worker, []protocol.Report{r})
	h.must(err)
	return receipts[0]
}

func end(task protocol.Task, kind carillon.OutcomeKind, reason string) protocol.Report {
	return protocol.Report{Held: task.Held(), End: &carillon.Outcome{Kind: kind, Reason: reason}}
}

// beat beats once a second for a while.
func (h *house) beat(
	n *node, worker string, d time.Duration, tasks ...protocol.Task,
) (stop []protocol.Order) {
	h.Helper()
	for until := time.Now().Add(d); ; time.Sleep(protocol.BeatEvery) {
		heard := h.heard[worker]
		stop = append(stop, h.say(n, worker, heard+1, heard, tasks...)...)
		h.heard[worker]++
		if !time.Now().Before(until) {
			return stop
		}
	}
}

// say sends one beat.
func (h *house) say(n *node, worker string, number, heard int64, tasks ...protocol.Task) []protocol.Order {
	h.Helper()
	b := carillon.Beat{ID: worker, Number: number, Heard: heard}
	for i := range tasks {
		b.Holds = append(b.Holds, tasks[i].Held())
	}
	orders, err := n.Beat(context.Background(), b)
	h.must(err)
	return orders.Stop
}

func (h *house) run(job carillon.JobID) carillon.Run {
	h.Helper()
	page, err := h.store.FindRuns(context.Background(), carillon.RunQuery{
		Namespace: carillon.DefaultNamespace, Job: job, Limit: 10,
	})
	h.must(err)
	if len(page.Runs) == 0 {
		h.Fatalf("%s has no run", job)
	}
	return page.Runs[0]
}

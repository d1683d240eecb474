package worker_test

import (
	"context"
	"errors"
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
	"github.com/carillon-run/carillon/internal/dispatch"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
	"github.com/carillon-run/carillon/internal/scheduler"
	"github.com/carillon-run/carillon/worker"
	"github.com/carillon-run/carillon/worker/protocol"
)

// house is a complete system in a bubble. Its parts start one by one, so that a test can choose the order.
type house struct {
	t           *testing.T
	store       *store
	logs        *logs
	queue       *mem.Queue
	coordinator *coordinator
	ledger      *ledger.Ledger
	dispatcher  *dispatch.Dispatcher
	worker      *worker.Worker
	scheduler   *scheduler.Scheduler

	concurrency int                 // default 4
	keep        int                 // slots that are kept
	alone       bool                // each attempt in a goroutine of its own
	before      func(executor.Task) // called by the executor itself, before it calls the handler
	between     *wire               // between worker and dispatcher; nil: the worker is inside
	drain       time.Duration       // default: the worker's default
	handle      executor.Handler
	http        executor.Executor // of http targets; nil: none

	parts, door sync.WaitGroup
	ctx         context.Context
	cancel      context.CancelFunc
	endWorker   context.CancelFunc // tells only the worker to stop
	ended       chan error         // of the worker

	mu     sync.Mutex
	seen   []attempt // in the order of their starts
	atOnce int
	most   int
}

// attempt is what a handler saw.
type attempt struct {
	run        carillon.Run
	start, end carillon.Time
	cause      error // why its context had ended when it returned
}

// in starts a house, plays a test on it, and stops it.
func in(t *testing.T, build func(*house), play func(*house)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, build)
		h.live()
		time.Sleep(time.Second)
		play(h)
		h.stop()
	})
}

func newHouse(t *testing.T, build func(*house)) *house {
	h := &house{
		t: t, store: &store{Store: mem.NewStore()}, logs: &logs{Logs: mem.NewLogs()},
		queue:       mem.NewQueue(mem.QueueConfig{}),
		coordinator: &coordinator{Coordinator: mem.NewCoordinator()}, concurrency: 4,
		ended: make(chan error, 1),
	}
	if build != nil {
		build(h)
	}
	logger := slog.New(slog.NewTextHandler(io.Discard, nil))
	h.ledger = ledger.New(ledger.Config{Store: h.store, IDs: idgen.New(1, carillon.Never)})
	h.scheduler = scheduler.New(scheduler.Config{
		Store: h.store, Timeline: mem.NewTimeline(mem.TimelineConfig{}), Queue: h.queue,
		Coordinator: h.coordinator, Logs: h.logs,
		Ledger: h.ledger, Logger: logger,
	})
	h.dispatcher = dispatch.New(dispatch.Config{
		Store: h.store, Ledger: h.ledger, Queue: h.queue, Logs: h.logs, Coordinator: h.coordinator,
		Redecide: h.scheduler.Redecide, Logger: logger,
	})
	began := time.Now()
	var counter protocol.Dispatcher = dispatch.Local{Dispatcher: h.dispatcher}
	if h.between != nil {
		h.between.Dispatcher = h.dispatcher
		counter = h.between
	}
	executors := map[string]executor.Executor{"handler": h.executor()}
	if h.http != nil {
		executors["http"] = h.http
	}
	h.worker = worker.New(worker.Config{
		Dispatcher: counter, Executors: executors, Concurrency: h.concurrency, Keep: h.keep,
		Drain: h.drain, Logger: logger, Inside: h.between == nil,
		Boottime: func() time.Duration { return time.Since(began) },
	})
	h.ledger.UseSlots(h.dispatcher)
	h.ledger.Listen(h.dispatcher.Notice)
	if h.between == nil { // other workers hear of changes with their beats
		h.ledger.Listen(h.worker.Notice)
	}
	h.ledger.Listen(h.scheduler.Route)
	return h
}

// live starts all parts in the order in which a node starts them.
func (h *house) live() {
	h.t.Helper()
	h.join()
	h.runLedger()
	h.runScheduler()
	h.runWorker()
}

func (h *house) join() {
	h.t.Helper()
	h.ctx, h.cancel = context.WithCancel(context.Background())
}

func (h *house) runLedger() {
	written, flush := context.WithCancel(context.Background())
	h.door.Go(func() { h.ledger.Run(written) })
	go func() { <-h.ctx.Done(); h.parts.Wait(); flush() }()
}

func (h *house) runScheduler() { h.parts.Go(func() { h.scheduler.Run(h.ctx) }) }
func (h *house) runWorker() {
	ctx, cancel := context.WithCancel(h.ctx)
	h.endWorker = cancel
	h.parts.Go(func() { h.ended <- h.worker.Run(ctx) })
}

func (h *house) stop() {
	h.cancel()
	h.parts.Wait()
	h.door.Wait()
	time.Sleep(4 * time.Hour) // for handlers that do not react to a stop
}

func (h *house) executor() executor.Executor {
	if h.alone {
		return handlers{h}
	}
	return sharing{handlers{h}}
}

type sharing struct{ handlers }

func (sharing) SharesGoroutine() {}

// handlers performs every run with the house's handle, and keeps what the handle saw.
type handlers struct{ h *house }

func (x handlers) Execute(ctx context.Context, task executor.Task) carillon.Outcome {
	h := x.h
	h.mu.Lock()
	at := len(h.seen)
	h.seen = append(h.seen, attempt{run: task.Run, start: carillon.Now()})
	h.atOnce++
	h.most = max(h.most, h.atOnce)
	h.mu.Unlock()
	defer func() {
		h.mu.Lock()
		h.seen[at].end, h.seen[at].cause = carillon.Now(), context.Cause(ctx)
		h.atOnce--
		h.mu.Unlock()
	}()
	if h.before != nil {
		h.before(task)
	}
	funcs := executor.NewFuncs()
	funcs.Register(task.Job.Type, func(ctx context.Context, task executor.Task) error {
		if h.handle == nil {
			return nil
		}
		return h.handle(ctx, task)
	})
	return funcs.Execute(ctx, task)
}

func slow(d time.Duration) executor.Handler {
	return func(context.Context, executor.Task) error { time.Sleep(d); return nil }
}

func untilStopped(ctx context.Context, _ executor.Task) error {
	<-ctx.Done()
	return ctx.Err()
}

// attempts are the attempts of some jobs, or of all, in the order of their starts.
func (h *house) attempts(jobs ...carillon.JobID) (list []attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, a := range h.seen {
		if len(jobs) == 0 || slices.Contains(jobs, a.run.ID.Job) {
			list = append(list, a)
		}
	}
	return list
}

// trySubmit submits n jobs of one definition.
func (h *house) trySubmit(n int, edit func(*carillon.Definition)) ([]carillon.Job, error) {
	defs := make([]carillon.Definition, n)
	for i := range defs {
		defs[i] = carillon.Definition{}
		defs[i].Type, defs[i].Target.Handler = "test", &carillon.Handler{}
		if edit != nil {
			edit(&defs[i])
		}
		if err := defs[i].Admit(carillon.Now()); err != nil {
			return nil, err
		}
	}
	return h.ledger.Submit(context.Background(), carillon.DefaultNamespace, defs)
}

func (h *house) submit(n int, edit func(*carillon.Definition)) []carillon.Job {
	h.t.Helper()
	jobs, err := h.trySubmit(n, edit)
	if err != nil {
		h.t.Fatal(err)
	}
	return jobs
}

func after(d time.Duration) func(*carillon.Definition) {
	return func(def *carillon.Definition) { def.Schedule.After = carillon.Duration(d) }
}

// run is the latest run of a job.
func (h *house) run(job carillon.JobID) carillon.Run {
	h.t.Helper()
	return h.runs(job)[0]
}

func (h *house) runs(job carillon.JobID) []carillon.Run {
	h.t.Helper()
	page, err := h.store.Store.FindRuns(context.Background(), carillon.RunQuery{
		Namespace: carillon.DefaultNamespace, Job: job, Limit: 1000,
	})
	if err != nil || len(page.Runs) == 0 {
		h.t.Fatalf("%d runs of %s, %v", len(page.Runs), job, err)
	}
	return page.Runs
}

// expect compares the state, the attempts and the losses of a run.
func (h *house) expect(run carillon.Run, state carillon.State, attempts, losses int32) {
	h.t.Helper()
	if run.State != state || run.Attempt != attempts || run.Losses != losses {
		h.t.Errorf("%s is %s after %d attempts and %d losses (%s), want %s, %d, %d",
			run.ID, run.State, run.Attempt, run.Losses, run.Reason, state, attempts, losses)
	}
}

// expectSlots checks that the worker runs exactly as many attempts at once as it can: no slot was lost, and
// none was added. Some of the jobs are preclaimed, the others are pulled.
func (h *house) expectSlots() {
	h.t.Helper()
	h.handle = slow(5 * time.Second)
	h.mu.Lock()
	h.most = h.atOnce
	h.mu.Unlock()
	h.submit(h.concurrency+1, nil)
	h.submit(h.concurrency+1, after(time.Second))
	time.Sleep(time.Minute)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.most != h.concurrency {
		h.t.Errorf("%d runs at once, want %d", h.most, h.concurrency)
	}
}

var errInjected = errors.New("injected failure")

// store is a mem store whose commits can be slow, can be refused, or can be made while their answer is lost.
type store struct {
	*mem.Store
	mu     sync.Mutex
	refuse func([]carillon.Change) bool // these commits are not made
	forget func([]carillon.Change) bool // these commits are made, and answered with an error
	delay  time.Duration                // between the commit and its answer
	// around is called before a commit; it returns what is called after it.
	around  func([]carillon.Change) (after func())
	commits int
	states  map[carillon.RunID][]carillon.State // as committed
	longest int                                 // keys or ids that one query asked for
}

func (s *store) set(refuse, forget func([]carillon.Change) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refuse, s.forget = refuse, forget
}

func (s *store) Commit(ctx context.Context, changes []carillon.Change) ([]int, error) {
	s.mu.Lock()
	s.commits++
	refuse := s.refuse != nil && s.refuse(changes)
	forget := s.forget != nil && s.forget(changes)
	delay := s.delay
	s.mu.Unlock()
	if refuse {
		return nil, errInjected
	}
	if s.around != nil {
		defer s.around(changes)()
	}
	lost, err := s.Store.Commit(ctx, changes)
	s.mu.Lock()
	if s.states == nil {
		s.states = map[carillon.RunID][]carillon.State{}
	}
	for i, c := range changes {
		for _, run := range c.Runs {
			if !slices.Contains(lost, i) {
				s.states[run.ID] = append(s.states[run.ID], run.State)
			}
		}
	}
	s.mu.Unlock()
	if delay > 0 {
		time.Sleep(delay)
	}
	if forget {
		return nil, errInjected
	}
	return lost, err
}

func (s *store) Guards(ctx context.Context, q carillon.GuardQuery) ([]carillon.Guard, error) {
	s.asked(len(q.Keys))
	return s.Store.Guards(ctx, q)
}

func (s *store) Runs(ctx context.Context, ids []carillon.RunID, whole bool) ([]carillon.Run, error) {
	s.asked(len(ids))
	return s.Store.Runs(ctx, ids, whole)
}

func (s *store) asked(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.longest = max(s.longest, n)
}

func (s *store) counts() (commits, longest int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commits, s.longest
}

func (s *store) history(id carillon.RunID) []carillon.State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.states[id])
}

// always fails every commit; once fails only the first one that has such a run.
func always([]carillon.Change) bool { return true }

func once(is func(carillon.Run) bool) func([]carillon.Change) bool {
	done := false
	return func(changes []carillon.Change) bool {
		for _, c := range changes {
			if !done && slices.ContainsFunc(c.Runs, is) {
				done = true
				return true
			}
		}
		return false
	}
}

func isClaim(run carillon.Run) bool {
	return run.State == carillon.StateClaimed && !run.Has(carillon.FlagStop)
}
func isStop(run carillon.Run) bool { return run.Has(carillon.FlagStop) }

// Package worker claims due runs and performs them. Its parts each have a file: pull (claim), execute (one attempt),
// output (what it prints), tend (lease, what goes on, what should stop).
package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/ledger"
)

// Config says what a worker works on.
type Config struct {
	ID          string // random per start, never reused
	Ledger      *ledger.Ledger
	Store       carillon.Store
	Queue       carillon.Queue
	Logs        carillon.LogStore
	Coordinator carillon.Coordinator
	Executors   map[string]executor.Executor // by kind of target

	Queues      []string      // none: all
	Concurrency int           // attempts at the same time; default 64
	Drain       time.Duration // how long a stop waits for what runs; default 10s
	// Waiting is how many due runs wait in the queue: a slot is not given to a new job while older ones could have it.
	Waiting func() int
	// Look is told of runs that lost a claim because of their job's guard: somebody should decide about them again.
	Look   func(ids []carillon.RunID)
	Logger *slog.Logger // default slog.Default()
}

// Lease times: see docs/guarantees.md. A worker lets go of its runs well before anybody else may take them.
const leaseTime = 5 * time.Second

// Worker performs runs. What the ledger commits as claimed by it, it begins.
type Worker struct {
	cfg    Config
	lease  executor.Lease
	slots  slots
	joined context.Context // until the worker leaves
	leave  context.CancelFunc
	lost   <-chan struct{} // closed if its session ends before that
	base   context.Context // of all attempts; ends when the worker has let go of everything
	end    context.CancelFunc

	mu       sync.Mutex
	held     map[carillon.RunID]*attempt
	jobs     map[carillon.RunID]*carillon.Job // definitions of runs about to be claimed
	draining bool
	gone     bool // its session is lost: nothing is its own any more

	inHand      atomic.Int64  // pulled and not yet claimed
	pendingEnds atomic.Int64  // ended and not yet on disk
	dropped     chan struct{} // capacity 1: an attempt is over
}

func New(cfg Config) *Worker {
	cfg.Concurrency = cmp.Or(cfg.Concurrency, 64)
	cfg.Drain = cmp.Or(cfg.Drain, 10*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Waiting == nil {
		cfg.Waiting = func() int { return 0 }
	}
	if cfg.Look == nil {
		cfg.Look = func([]carillon.RunID) {}
	}
	w := &Worker{cfg: cfg, held: map[carillon.RunID]*attempt{}, jobs: map[carillon.RunID]*carillon.Job{}, dropped: make(chan struct{}, 1)}
	w.slots.free, w.slots.freed = cfg.Concurrency, make(chan struct{}, 1)
	w.base, w.end = context.WithCancel(context.Background())
	return w
}

// Join makes the worker known. It comes before Run, and before anything can be committed as claimed by this worker: a run
// of somebody unknown is taken for abandoned.
func (w *Worker) Join(ctx context.Context) (err error) {
	joined, leave := context.WithCancel(context.WithoutCancel(ctx))
	w.joined, w.leave = joined, leave
	w.lost, err = w.cfg.Coordinator.Join(joined, carillon.Member{ID: w.cfg.ID, Kind: "worker"})
	w.lease.Extend(executor.Boottime() + leaseTime)
	return err
}

// Run works until ctx ends: then it claims nothing more, waits up to Drain for what runs, and hands back the rest. It ends
// with an error when the worker's session is lost.
func (w *Worker) Run(ctx context.Context) error {
	defer w.end()
	defer w.leave()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var tended sync.WaitGroup
	tended.Go(func() { w.tend(w.joined, stop) })
	tended.Go(func() { w.record(w.joined) })
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.draining = true
	})
	var pullers sync.WaitGroup
	for range pullLoops {
		pullers.Go(func() { w.pull(ctx) })
	}
	pullers.Wait()
	w.drain()
	w.leave()
	tended.Wait()
	if cause := context.Cause(ctx); errors.Is(cause, errSessionLost) {
		return cause
	}
	return nil
}

var errSessionLost = errors.New("the worker's session is lost")

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
			w.cfg.Logger.Error("some runs do not stop when told to: leaving them behind", "runs", running)
			return
		}
	}
}

// abandonAfter is how long a stop waits for those who do not listen. They end with the process; the next one takes their
// runs back.
const abandonAfter = 15 * time.Second

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

// Notice takes what the ledger has committed: runs that are now this worker's begin, runs that it holds and somebody
// else changed are stopped or brought up to date. It sees changes in the order of their commits, so a request to stop
// cannot overtake the claim.
func (w *Worker) Notice(committed []carillon.Change) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range committed {
		c := &committed[i]
		for k := range c.Runs {
			run := &c.Runs[k]
			a := w.held[run.ID]
			switch {
			case a != nil && a.number() >= run.Attempt:
				a.notice(run)
			case run.State == carillon.Claimed && w.expects(run, c):
				w.begin(run, c, a)
			case a != nil:
				a.notice(run)
			}
		}
	}
}

// expects says that the run was claimed by this worker just now: by a pull that waits for it, or fused with its submit.
// Any other change of a run that is this worker's by name only, because the answer to its claim was lost, begins nothing:
// there is no slot for it, and somebody may have asked it to stop. The sweeper takes it back. The caller holds mu.
func (w *Worker) expects(run *carillon.Run, c *carillon.Change) bool {
	fused := c.Job != nil && c.Job.Rev == 1
	return run.Worker == w.cfg.ID && (fused || w.jobs[run.ID] != nil) && !w.gone
}

// begin starts the attempt. Its slot was taken before the claim was committed. Should an attempt before it still be going
// on here, it waits for that to end. The caller holds mu.
func (w *Worker) begin(run *carillon.Run, c *carillon.Change, before *attempt) {
	a := &attempt{w: w, id: run.ID, run: *run, job: c.Job, before: before, returned: make(chan struct{})}
	if a.job == nil {
		a.job = w.jobs[run.ID]
	}
	delete(w.jobs, run.ID)
	if len(c.Guards) > 0 {
		guard := c.Guards[0]
		a.guard = &guard
	}
	w.held[run.ID] = a
	go a.execute()
}

// drop forgets an attempt whose end is on disk, or not its own to write.
func (w *Worker) drop(a *attempt) {
	w.mu.Lock()
	if w.held[a.id] == a {
		delete(w.held, a.id)
	}
	w.mu.Unlock()
	w.pendingEnds.Add(-1)
	select {
	case w.dropped <- struct{}{}:
	default:
	}
}

// Holds says whether the worker has that attempt. What the row says is noticed by the way: a request to stop whose commit
// was not answered has not been told to anybody yet.
func (w *Worker) Holds(run *carillon.Run) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.held[run.ID]
	if a == nil || a.number() != run.Attempt {
		return false
	}
	a.notice(run)
	return true
}

// Reserve takes a free slot for a job that is being submitted, unless older due runs wait for one.
func (w *Worker) Reserve(queue string) (worker string, ok bool) {
	if w.cfg.Waiting() > 0 || w.inHand.Load() > 0 || !w.serves(queue) || w.pendingEnds.Load() > maxPendingEnds {
		return "", false
	}
	w.mu.Lock()
	draining := w.draining
	w.mu.Unlock()
	if draining {
		return "", false
	}
	return w.cfg.ID, w.slots.take(1) == 1
}

// Release gives reserved slots back.
func (w *Worker) Release(n int) { w.slots.release(n) }

func (w *Worker) serves(queue string) bool {
	for _, q := range w.cfg.Queues {
		if q == queue {
			return true
		}
	}
	return len(w.cfg.Queues) == 0
}

// Running is how many attempts the worker holds, and how many it could.
func (w *Worker) Running() (held, slots int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.held), w.cfg.Concurrency
}

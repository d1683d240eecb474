// Package conductor performs the runs that no worker holds: those of workflows, and of nodes that wait. It
// gets them from the queue of its node like a worker, when they are due and whenever their wake has come.
// What follows the end of a node is not its work: the change that ends the node inserts it. The conductor
// starts runs of workflows, reads the lists that nodes map over, ends waits, and ends the runs of workflows.
package conductor

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
	"github.com/carillon-run/carillon/internal/failpoint"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/internal/ledger"
)

// Config says what a conductor works on.
type Config struct {
	Store  carillon.Store
	Queue  carillon.Queue
	Ledger *ledger.Ledger
	IDs    *idgen.IDs
	Clock  *carillon.Clock // default this machine's
	// Redecide has the scheduler decide about waiting runs again.
	Redecide func([]carillon.RunID)
	// Retention is the server's rule for jobs that have none. Default carillon.DefaultRetention.
	Retention carillon.Retention
	Logger    *slog.Logger // default slog.Default()
}

// Conductor performs the unattended runs that come to its node.
type Conductor struct {
	cfg    Config
	values *Values

	mu    sync.Mutex
	looks map[carillon.RunID]bool // runs to look at
	ready await.Signal
}

// New returns a conductor.
func New(cfg Config) *Conductor {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	cfg.Retention = cfg.Retention.Or(carillon.DefaultRetention)
	return &Conductor{
		cfg: cfg, values: NewValues(cfg.Store, cfg.Ledger), looks: map[carillon.RunID]bool{},
		ready: await.NewSignal(),
	}
}

const (
	pullMax = 200
	// width is how many runs are looked at side by side: each look waits for the store.
	width     = 16
	retryWait = time.Second
	// A run that goes on is looked at again after as long as it has gone on, within these bounds. Such looks
	// only repair: what a commit sets off is done by the node that made the commit.
	firstLook, lastLook = 30 * time.Second, 10 * time.Minute
)

// Run works until ctx ends.
func (c *Conductor) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return c.pull(ctx) })
	g.Go(func() error { return c.tend(ctx) })
	return g.Wait()
}

// pull takes unattended runs from the queue: those that wait are started, the others are looked at.
func (c *Conductor) pull(ctx context.Context) error {
	want := carillon.Demand{
		Wants: []carillon.Want{{Kinds: []string{carillon.KindWorkflow, carillon.KindWait}}}, Max: pullMax,
	}
	for ctx.Err() == nil {
		runs, err := c.cfg.Queue.Pull(ctx, want)
		if err != nil {
			if ctx.Err() == nil {
				c.cfg.Logger.Error("pull unattended runs", "error", err)
				await.For(ctx, retryWait)
			}
			continue
		}
		var start []carillon.Run
		for i := range runs {
			if runs[i].Unattended() {
				c.lookAt(runs[i].ID)
			} else {
				start = append(start, runs[i])
			}
		}
		if err := c.start(ctx, start); err != nil && ctx.Err() == nil {
			c.cfg.Logger.Error("start unattended runs", "error", err, "runs", len(start)) // sweep finds them
			await.For(ctx, retryWait)
		}
	}
	return nil
}

// start decides about due runs, and starts those that may.
func (c *Conductor) start(ctx context.Context, runs []carillon.Run) error {
	if len(runs) == 0 {
		return nil
	}
	candidates, err := c.cfg.Ledger.Candidates(ctx, runs, carillon.Unattended)
	if err != nil {
		return err
	}
	now := c.cfg.Clock.Now()
	var changes []carillon.Change
	var ids, waits []carillon.RunID
	for _, candidate := range candidates {
		verdict, change := candidate.Decide(now)
		if verdict == carillon.VerdictHold {
			continue
		}
		if verdict == carillon.VerdictClaim {
			if err := c.begin(&change, candidate.Job, now); err != nil {
				return err
			}
			if candidate.Job.Target.Wait != nil {
				waits = append(waits, candidate.Run.ID)
			}
		}
		changes, ids = append(changes, change), append(ids, candidate.Run.ID)
	}
	failpoint.At("workflow.start.before")
	lost, err := c.cfg.Ledger.Commit(ctx, changes)
	failpoint.At("workflow.start.after")
	if err != nil {
		return err
	}
	var again []carillon.RunID
	for _, i := range lost {
		again = append(again, ids[i])
	}
	c.cfg.Redecide(again)
	if len(again) > 0 {
		await.For(ctx, 10*time.Millisecond) // a start that is refused again and again must not take a core
	}
	for _, id := range waits {
		c.lookAt(id) // it may be over already
	}
	return nil
}

// begin lets a claimed run go on unattended. The run of a workflow gets its progress, and its first nodes.
func (c *Conductor) begin(change *carillon.Change, job *carillon.Job, now carillon.Time) error {
	run := &change.Runs[0]
	*run = run.Begin(now, now)
	run.Wake = now.Add(firstLook)
	w := job.Target.Workflow
	if w == nil {
		return nil
	}
	if w.Deadline != 0 {
		run.Wake = min(run.Wake, now.Add(w.Deadline.Std()))
	}
	base, err := c.cfg.IDs.Block(now, len(w.Nodes))
	if err != nil {
		return err
	}
	change.Folds = append(change.Folds, carillon.StartOf(job, run, base))
	return nil
}

// Notice takes the committed changes from the ledger, and notes the runs that need a look: a workflow that is
// over or has a list to read, a signal, and a run that was asked to stop.
func (c *Conductor) Notice(committed []carillon.Change) {
	for i := range committed {
		change := &committed[i]
		for k := range change.Guards {
			g := &change.Guards[k]
			if id, is := g.WorkflowRun(); is {
				if p, err := carillon.ProgressOf(g.Value); err == nil && p.NeedsLook() {
					c.lookAt(id)
				}
			} else if id, is := g.SignaledRun(); is {
				c.lookAt(id)
			}
		}
		for k := range change.Runs {
			if run := &change.Runs[k]; run.Unattended() && run.Has(carillon.FlagStop) {
				c.lookAt(run.ID)
			}
		}
	}
}

func (c *Conductor) lookAt(id carillon.RunID) {
	c.mu.Lock()
	c.looks[id] = true
	c.mu.Unlock()
	c.ready.Set()
}

// tend looks at runs. A look that fails is repeated when the run's wake comes, or by the sweep.
func (c *Conductor) tend(ctx context.Context) error {
	for {
		select {
		case <-c.ready:
		case <-ctx.Done():
			return nil
		}
		c.mu.Lock()
		ids := make([]carillon.RunID, 0, len(c.looks))
		for id := range c.looks {
			ids = append(ids, id)
		}
		clear(c.looks)
		c.mu.Unlock()
		c.lookAll(ctx, ids)
	}
}

func (c *Conductor) lookAll(ctx context.Context, ids []carillon.RunID) {
	runs, err := c.cfg.Store.Runs(ctx, ids, false)
	if err != nil {
		c.failed(ctx, "read unattended runs", err, ids...)
		return
	}
	var looks errgroup.Group
	looks.SetLimit(width)
	for i := range runs {
		run := runs[i]
		if !run.Unattended() {
			continue
		}
		looks.Go(func() error {
			if err := c.look(ctx, run); err != nil {
				c.failed(ctx, "look at an unattended run", err, run.ID)
			}
			return nil
		})
	}
	_ = looks.Wait() // they return no errors
}

// failed has runs looked at again after a moment.
func (c *Conductor) failed(ctx context.Context, what string, err error, ids ...carillon.RunID) {
	if ctx.Err() != nil {
		return
	}
	c.cfg.Logger.Error(what, "error", err, "runs", len(ids))
	await.For(ctx, retryWait)
	for _, id := range ids {
		c.lookAt(id)
	}
}

// look does what a run needs now.
func (c *Conductor) look(ctx context.Context, run carillon.Run) error {
	candidates, err := c.cfg.Ledger.Candidates(ctx, []carillon.Run{run}, "")
	if err != nil || len(candidates) == 0 {
		return err
	}
	switch job := candidates[0].Job; {
	case job.Target.Workflow != nil:
		return c.lookAtWorkflow(ctx, &candidates[0])
	case job.Target.Wait != nil:
		return c.lookAtWait(ctx, &candidates[0])
	}
	return nil
}

// finish ends a run. If another writer was quicker, the run is looked at again.
func (c *Conductor) finish(
	ctx context.Context, of *carillon.Candidate, o carillon.Outcome, with carillon.Change,
) error {
	now := c.cfg.Clock.Now()
	run := of.Run.Finish(of.Job, o, now, rand.Float64())
	change := carillon.EndChange(of.Job, run, of.Guards)
	change.Folds, change.Guards = append(change.Folds, with.Folds...), append(change.Guards, with.Guards...)
	failpoint.At("workflow.end.before")
	lost, err := c.cfg.Ledger.Commit(ctx, []carillon.Change{change})
	failpoint.At("workflow.end.after")
	if len(lost) > 0 {
		c.lookAt(run.ID)
	}
	return err
}

// later sets the time of the next look. It loses against every other write of the run, which does the same.
func (c *Conductor) later(ctx context.Context, run carillon.Run, latest carillon.Time) error {
	now := c.cfg.Clock.Now()
	if run.Wake > now && run.Wake <= latest {
		return nil
	}
	after := min(max(now.Sub(run.Started), firstLook), lastLook)
	run.Wake = min(now.Add(after), latest)
	_, err := c.cfg.Ledger.Commit(ctx, []carillon.Change{{Runs: []carillon.Run{run}}})
	return err
}

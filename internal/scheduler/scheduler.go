// Package scheduler makes sure that a loop handles every unfinished run when its wake has come. Each loop has
// a file: load (store to timeline), wake (timeline to queue), decide (due runs that need a decision), lines
// (runs that wait for a limit), gates (runs that wait for a gate), audit (whether limits count what is
// taken), members (which members are alive, and which shards this node owns), watch (runs whose worker is
// dead or does not know of them), sweep (runs that slipped through), intake (jobs that were left in the
// database), pause (jobs whose runs fail again and again), late (runs that did not start in time) and forget
// (records that retention no longer keeps).
package scheduler

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
	"github.com/carillon-run/carillon/internal/ledger"
)

// Config says what a scheduler works on.
type Config struct {
	Store       carillon.Store
	Timeline    carillon.Timeline
	Queue       carillon.Queue
	Coordinator carillon.Coordinator
	Logs        carillon.LogStore
	Ledger      *ledger.Ledger
	Clock       *carillon.Clock // default this machine's

	// Intake is where applications leave jobs. Default none.
	Intake carillon.Intake

	// Horizon is how far ahead the loader reads the future of this node's shards. Default 10 seconds in a
	// cluster: the owner of a shard then knows of runs that are due later than that, even if the node that
	// committed them is frozen or gone by then. Default one minute for a single node: it commits everything
	// itself.
	Horizon time.Duration
	// Sweep is how often the scheduler scans states for runs that slipped through; it scans held runs twice
	// as often. Default 10 seconds.
	Sweep time.Duration
	// Node is the id under which this node joined. Empty: it is the only node, and owns all shards.
	Node string
	// Retention is the server's rule for jobs that have none. Default carillon.DefaultRetention.
	Retention carillon.Retention
	Logger    *slog.Logger // default slog.Default()
}

// Scheduler handles the shards that its node owns.
//
// The node that commits a change handles what follows from it (Route), whatever the shard. The owner of the
// shard loads runs that come later, and repairs what no node handled.
type Scheduler struct {
	cfg Config

	loaded     atomic.Bool  // the first pass over the store is over
	woken      await.Signal // the timeline got a run that may be nearer than its next one
	undecided  *undecided
	redecides  pile[carillon.RunID] // runs to read and decide again
	nextInLine pile[carillon.RunID] // runs whose turn has come
	failing    pile[jobName]        // jobs with pause_after of which a run has failed for good
	lines      *lines
	lates      *lates
	gates      gates
	offers     offers
	pulls      Pulls // nil: no pull ever waits
	members    members
	floor      floor         // used by watch and sweep
	refreshing chan struct{} // capacity 1: held by the goroutine that refreshes the members
	gone       await.Signal  // a member left
	latest     carillon.Time // used by watch: the highest time of the clock; it can be set back
	reload     await.Signal  // the nodes, and so this node's shards, may have changed

	backlog *backlog

	differences atomic.Int64 // that audits of limits found
}

func New(cfg Config) *Scheduler {
	if cfg.Node == "" {
		cfg.Horizon = cmp.Or(cfg.Horizon, time.Minute)
	}
	cfg.Horizon = cmp.Or(cfg.Horizon, 10*time.Second)
	cfg.Sweep = cmp.Or(cfg.Sweep, 10*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	cfg.Retention = cfg.Retention.Or(carillon.DefaultRetention)
	s := &Scheduler{
		cfg: cfg, woken: await.NewSignal(), gone: await.NewSignal(), reload: await.NewSignal(),
		refreshing: make(chan struct{}, 1), undecided: newUndecided(), redecides: newPile[carillon.RunID](),
		nextInLine: newPile[carillon.RunID](), offers: newOffers(), members: members{start: time.Now()},
		lines: newLines(), lates: newLates(), gates: newGates(), failing: newPile[jobName](),
	}
	s.backlog = newBacklog(s.members.owns)
	return s
}

// Run works until ctx ends.
func (s *Scheduler) Run(ctx context.Context) error {
	for { // the live members must be known before any run is taken from a worker
		err := s.refreshMembers(ctx, 0)
		if err == nil {
			break
		}
		if ctx.Err() == nil {
			s.cfg.Logger.Error("ask who is alive", "error", err)
		}
		if !await.For(ctx, refreshEvery) {
			return nil
		}
	}
	s.assemble(ctx)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.load(ctx) })
	g.Go(func() error { return s.wake(ctx) })
	g.Go(func() error { return s.decide(ctx) })
	g.Go(func() error { return s.moveLines(ctx) })
	g.Go(func() error { return s.followGates(ctx) })
	g.Go(func() error { return s.followMembers(ctx) })
	g.Go(func() error { return s.watch(ctx) })
	g.Go(func() error { return s.sweep(ctx) })
	g.Go(func() error { return s.audit(ctx) })
	g.Go(func() error { return s.forget(ctx) })
	g.Go(func() error { return s.takeIn(ctx) })
	g.Go(func() error { return s.pauseFailing(ctx) })
	g.Go(func() error { return s.tellLate(ctx) })
	return g.Wait()
}

// Redecide has the decide loop decide about waiting runs again.
func (s *Scheduler) Redecide(ids []carillon.RunID) { s.redecides.add(ids...) }

// Loaded says whether the first pass over the runs that were due at the start is over.
func (s *Scheduler) Loaded() bool { return s.loaded.Load() }

// skew is how far apart the clocks of two nodes can be. Above half of it a node reports that it is not ready.
const skew = 2 * time.Second

// reach is the wake up to which the node that commits a run keeps it in its own timeline, whatever the shard.
// The owner of the shard, whose clock can be ahead, cannot have read further before the commit: each node
// reads up to the horizon, at its own times. So a run that is committed during such a read is in the page, or
// kept, or both, but never neither.
func (s *Scheduler) reach(now carillon.Time) carillon.Time { return now.Add(s.cfg.Horizon + skew) }

// Route takes the committed changes from the ledger and passes on the runs that have to be woken: at once to
// the queue if a run is due and needs no decision, to the timeline if it is near, nowhere if it is far (the
// owner's loader will find it).
func (s *Scheduler) Route(committed []carillon.Change) {
	now := s.cfg.Clock.Now()
	reach := s.reach(now)
	var due, near []carillon.Run
	watched := s.lates.any()
	for i := range committed {
		c := &committed[i]
		for k := range c.Guards {
			if g := &c.Guards[k]; g.HasLine() {
				s.lines.look(carillon.HoldName{Namespace: g.Namespace, Hold: g.Key})
			}
		}
		for k := range c.Runs {
			run := &c.Runs[k]
			if run.Has(carillon.FlagGuarded) {
				s.offers.close(run)
			}
			s.noteFailure(run)
			if watched || run.Has(carillon.FlagLate) {
				s.lates.see(run, reach)
			}
			switch {
			case run.State == carillon.StateWaiting && !run.Has(carillon.FlagOnHold):
				if run.Wake <= now && run.NeedsNoDecision(now) && run.Hold == "" {
					due = append(due, *run)
				} else if run.Wake <= reach {
					near = append(near, *run)
				}
			case run.Unattended() && run.Wake <= reach:
				near = append(near, *run)
			case run.State.Ended() && run.Has(carillon.FlagGuarded):
				if next := carillon.Guards(c.Guards).NextInLine(run.ID.Job); !next.IsZero() {
					s.nextInLine.add(next)
				}
			}
		}
	}
	s.enqueue(context.Background(), due)
	s.schedule(context.Background(), near)
}

// PushBack takes back due runs that the dispatcher pulled and did not claim. Runs from lines go back to them,
// guarded runs to the decide loop: they may have been offered without a decision.
func (s *Scheduler) PushBack(runs []carillon.Run) {
	lined, runs := split(runs, func(r *carillon.Run) bool { return r.Hold != "" })
	for i := range lined {
		s.lines.look(lineOf(&lined[i]))
	}
	guarded, plain := split(runs, func(r *carillon.Run) bool { return r.Has(carillon.FlagGuarded) })
	s.enqueue(context.Background(), plain)
	s.queueDecision(guarded)
}

// enqueue puts due runs into the queue. If a lane has no room for a run, the scheduler reads the run from the
// store later.
func (s *Scheduler) enqueue(ctx context.Context, runs []carillon.Run) {
	if runs = s.backlog.admit(runs); len(runs) == 0 {
		return
	}
	refused, err := s.cfg.Queue.Push(ctx, runs)
	if err != nil {
		s.cfg.Logger.Error("push due runs", "error", err, "runs", len(runs)) // sweep finds them
	}
	s.backlog.overflow(runs, refused)
}

// schedule adds runs whose wake is inside the horizon to the timeline. Runs that are due already bypass the
// timeline: one that is full of later runs must not hold them up.
func (s *Scheduler) schedule(ctx context.Context, runs []carillon.Run) {
	now := s.cfg.Clock.Now()
	due, later := split(runs, func(r *carillon.Run) bool { return r.Wake <= now })
	s.enqueueOrDecide(ctx, due, now)
	if runs = s.backlog.admit(later); len(runs) == 0 {
		return
	}
	refused, err := s.cfg.Timeline.Add(ctx, runs)
	if err != nil {
		s.cfg.Logger.Error("add to the timeline", "error", err, "runs", len(runs)) // sweep finds them
	}
	s.backlog.overflow(runs, refused)
	s.woken.Set()
}

func waiting(runs []carillon.Run) []carillon.Run {
	kept, _ := split(runs, func(r *carillon.Run) bool {
		return r.State == carillon.StateWaiting && !r.Has(carillon.FlagOnHold)
	})
	return kept
}

// woken are the runs that a loop looks at when their wake has come: those that wait, and those that go on
// unattended. The conductor gets both from the queue.
func woken(runs []carillon.Run) []carillon.Run {
	kept, _ := split(runs, func(r *carillon.Run) bool {
		return r.State == carillon.StateWaiting && !r.Has(carillon.FlagOnHold) || r.Unattended()
	})
	return kept
}

// split separates the runs that match from the rest. Most often all or none match: then nothing is copied.
func split(runs []carillon.Run, is func(*carillon.Run) bool) (yes, no []carillon.Run) {
	n := 0
	for i := range runs {
		if is(&runs[i]) {
			n++
		}
	}
	switch n {
	case len(runs):
		return runs, nil
	case 0:
		return nil, runs
	}
	yes, no = make([]carillon.Run, 0, n), make([]carillon.Run, 0, len(runs)-n)
	for i := range runs {
		if is(&runs[i]) {
			yes = append(yes, runs[i])
		} else {
			no = append(no, runs[i])
		}
	}
	return yes, no
}

// Package scheduler sees to it that every unfinished run is looked at when its wake has come. Its loops each have a
// file: load (store to timeline), wake (timeline to queue), decide (what is due but may not simply run), members (who is
// alive, and which shards are this node's), watch (runs whose worker is dead or does not know of them), sweep (whatever
// slipped through), intake (jobs that were left in the database) and forget (what retention no longer keeps).
package scheduler

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/ledger"
)

// Config says what a scheduler works on.
type Config struct {
	Store       carillon.Store
	Timeline    carillon.Timeline
	Queue       carillon.Queue
	Coordinator carillon.Coordinator
	Logs        carillon.LogStore
	Ledger      *ledger.Ledger

	// Intake is where applications leave jobs, Admit reads what they left as the API reads what it is sent. Default none.
	Intake carillon.Intake
	Admit  func(body []byte, at carillon.Time) (carillon.Definition, error)

	// Horizon is how far ahead the loader reads the future of this node's shards. Default 10 seconds in a cluster, so that
	// what is due later than that is known to the owner of its shard even if the node that committed it is frozen or gone by
	// then. Alone one minute: this node commits everything itself.
	Horizon time.Duration
	// Sweep is how often states are scanned for what slipped through, held runs twice as often. Default 10 seconds.
	Sweep time.Duration
	// Node is the id under which this node joined. Empty: it is the only one, and sees to all shards.
	Node string
	// Retention is the server's rule for jobs that have none. Default carillon.DefaultRetention.
	Retention carillon.Retention
	Logger    *slog.Logger // default slog.Default()
}

// Scheduler sees to the shards that are its node's.
//
// Whoever commits a change sees to what follows from it (Route), whatever the shard. The owner of the shard is the one who
// loads what comes later, and repairs what nobody saw to.
type Scheduler struct {
	cfg Config

	loaded  atomic.Bool // the first pass over the store is over
	woken   signal      // the timeline got something that may be nearer than its next
	decides pile[carillon.Run]
	looks   pile[carillon.RunID] // runs to be read again and decided about
	members members
	floor   floor         // of watch and sweep
	looking chan struct{} // capacity 1: held by who asks for the members
	gone    signal        // a member is
	latest  carillon.Time // of watch: the highest that the clock has been; it may be set back
	reload  signal        // the nodes, and so the shards of this one, may have changed

	mu        sync.Mutex
	overflow  map[carillon.Lane]spilled // lanes without room: see spill.go
	refilling map[carillon.Lane]refilling
	spills    signal                // there is one more of them
	asked     map[carillon.Lane]int // how many of each lane are in decides
}

func New(cfg Config) *Scheduler {
	if cfg.Node == "" {
		cfg.Horizon = cmp.Or(cfg.Horizon, time.Minute)
	}
	cfg.Horizon = cmp.Or(cfg.Horizon, 10*time.Second)
	cfg.Sweep = cmp.Or(cfg.Sweep, 10*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	cfg.Retention = cfg.Retention.Or(carillon.DefaultRetention)
	return &Scheduler{
		cfg: cfg, woken: newSignal(), gone: newSignal(), reload: newSignal(), looking: make(chan struct{}, 1), spills: newSignal(), decides: newPile[carillon.Run](), looks: newPile[carillon.RunID](),
		members: members{start: time.Now()}, overflow: map[carillon.Lane]spilled{}, refilling: map[carillon.Lane]refilling{}, asked: map[carillon.Lane]int{},
	}
}

// Run works until ctx ends.
func (s *Scheduler) Run(ctx context.Context) error {
	for { // who is alive must be known before anything is taken from anybody
		err := s.look(ctx, 0)
		if err == nil {
			break
		}
		if ctx.Err() == nil {
			s.cfg.Logger.Error("ask who is alive", "error", err)
		}
		if !pause(ctx, lookEvery) {
			return nil
		}
	}
	s.assemble(ctx)
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.load(ctx) })
	g.Go(func() error { return s.wake(ctx) })
	g.Go(func() error { return s.decide(ctx) })
	g.Go(func() error { return s.follow(ctx) })
	g.Go(func() error { return s.watch(ctx) })
	g.Go(func() error { return s.sweep(ctx) })
	g.Go(func() error { return s.forget(ctx) })
	g.Go(func() error { return s.admit(ctx) })
	return g.Wait()
}

// Look has somebody decide about waiting runs again.
func (s *Scheduler) Look(ids []carillon.RunID) { s.looks.add(ids...) }

// Loaded says whether everything that was due when the scheduler started is known by now.
func (s *Scheduler) Loaded() bool { return s.loaded.Load() }

// skew is how far the clocks of two nodes may be apart: above half of it a node says that it is not ready.
const skew = 2 * time.Second

// reach is up to which wake the node that commits a run keeps it in its own timeline, whatever the shard. It is the furthest
// that the owner of the shard, whose clock may be ahead, can have read before the commit: each node reads up to the horizon,
// at times of its own. So a run that was committed during such a read is in its page, or kept, or both, but never neither.
func (s *Scheduler) reach(now carillon.Time) carillon.Time { return now.Add(s.cfg.Horizon + skew) }

// Route takes what the ledger has committed and passes on what has to be woken: at once to the queue if it is due and
// needs no decision, to the timeline if it is near, nowhere if it is far (the owner's loader will find it).
func (s *Scheduler) Route(committed []carillon.Change) {
	now := carillon.Now()
	reach := s.reach(now)
	var due, near []carillon.Run
	for i := range committed {
		c := &committed[i]
		for k := range c.Runs {
			run := &c.Runs[k]
			switch {
			case run.State == carillon.Waiting && !run.Has(carillon.OnHold):
				if run.Wake <= now && run.Plain(now) {
					due = append(due, *run)
				} else if run.Wake <= reach {
					near = append(near, *run)
				}
			case run.State.Ended() && run.Has(carillon.Guarded) && len(c.Guards) > 0:
				if heir := c.Guards[0].Heir(run.ID.Job); !heir.IsZero() {
					s.looks.add(heir)
				}
			}
		}
	}
	s.push(context.Background(), due)
	s.near(context.Background(), near)
}

// PushBack takes back due runs that a worker was not given after all.
func (s *Scheduler) PushBack(runs []carillon.Run) { s.push(context.Background(), runs) }

// push hands due runs to the workers. Where a lane has no room, the store remembers for it.
func (s *Scheduler) push(ctx context.Context, runs []carillon.Run) {
	if runs = s.roomy(runs); len(runs) == 0 {
		return
	}
	refused, err := s.cfg.Queue.Push(ctx, runs)
	if err != nil {
		s.cfg.Logger.Error("push due runs", "error", err, "runs", len(runs)) // the sweeper finds them
	}
	s.spill(runs, refused)
}

// near tells the timeline of runs whose wake is inside the horizon. What is due already goes past it: a timeline that is
// full of later runs must not hold it up.
func (s *Scheduler) near(ctx context.Context, runs []carillon.Run) {
	now := carillon.Now()
	due, later := split(runs, func(r *carillon.Run) bool { return r.Wake <= now })
	s.pass(ctx, due, now)
	if runs = s.roomy(later); len(runs) == 0 {
		return
	}
	refused, err := s.cfg.Timeline.Add(ctx, runs)
	if err != nil {
		s.cfg.Logger.Error("add to the timeline", "error", err, "runs", len(runs)) // the sweeper finds them
	}
	s.spill(runs, refused)
	s.woken.set()
}

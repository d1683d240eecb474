// Package dispatch gives workers their work: it claims due runs for them, takes their reports, and tells them
// which attempts to stop. The worker inside a node calls it directly, other workers call it through the API.
// Each part has a file: pull (claim), reservations (submit and claim in one), report (what attempts report)
// and beat (which workers are alive and what they hold).
package dispatch

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/cluster"
	"github.com/carillon-run/carillon/internal/ledger"
	"github.com/carillon-run/carillon/worker/protocol"
)

// Config says what a dispatcher works on.
type Config struct {
	Store       carillon.Store
	Ledger      *ledger.Ledger
	Queue       carillon.Queue
	Logs        carillon.LogStore
	Coordinator carillon.Coordinator
	Clock       *carillon.Clock // default this machine's

	// Redecide is told of runs that lost a claim because of their job's guard: the scheduler must decide
	// about them again.
	Redecide func(ids []carillon.RunID)
	// PushBack puts due runs that were pulled and not claimed back into the queue, and handles those that
	// their lane has no room for by now. Default: they go to the queue, and those without room wait until a
	// sweep finds them.
	PushBack func(runs []carillon.Run)
	// Fill returns the jobs of nodes of workflows with the values of their placeholders. The map says, by
	// the index of a job, why its run cannot be performed with them. Default: jobs stay as they are.
	Fill func(ctx context.Context, jobs []*carillon.Job) ([]*carillon.Job, map[int]error, error)
	// Nodes are the addresses that workers can dial.
	Nodes  func() []string
	Logger *slog.Logger // default slog.Default()
}

// Dispatcher implements protocol.Dispatcher.
type Dispatcher struct {
	cfg          Config
	inHand       atomic.Int64 // from the queue, by pulls that have not answered yet
	size         atomic.Int64 // of the next claim
	beats        beats
	reservations reservations

	mu       sync.Mutex
	inflight inflightTable
	workers  map[string]*session
	pruned   time.Time
}

func New(cfg Config) *Dispatcher {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	if cfg.Redecide == nil {
		cfg.Redecide = func([]carillon.RunID) {}
	}
	if cfg.PushBack == nil {
		cfg.PushBack = func(runs []carillon.Run) { _, _ = cfg.Queue.Push(context.Background(), runs) }
	}
	if cfg.Nodes == nil {
		cfg.Nodes = func() []string { return nil }
	}
	flying := newInflightTable()
	d := &Dispatcher{
		cfg: cfg, reservations: newReservations(cfg.Queue, flying.performed), inflight: flying,
		workers: map[string]*session{},
	}
	d.size.Store(firstClaim)
	return d
}

// Register implements protocol.Dispatcher.
func (d *Dispatcher) Register(ctx context.Context, r protocol.Registration) (string, error) {
	return d.register(ctx, cluster.WorkerPrefix, r)
}

func (d *Dispatcher) register(ctx context.Context, prefix string, r protocol.Registration) (string, error) {
	id := r.ID
	if id == "" {
		raw := make([]byte, 10)
		rand.Read(raw)
		id = prefix + hex.EncodeToString(raw)
	}
	member := carillon.Member{ID: id, Kind: carillon.MemberWorker, Addr: r.Name, Profile: r.Profile}
	if err := d.cfg.Coordinator.Join(ctx, []carillon.Member{member}); err != nil {
		return "", fmt.Errorf("open a session: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.workers[id] = &session{seen: time.Now()}
	return id, nil
}

// Local is the dispatcher as the worker of the same process sees it: the runs of such a worker end with the
// process, see cluster.Inner.
type Local struct{ *Dispatcher }

func (d Local) Register(ctx context.Context, r protocol.Registration) (string, error) {
	return d.register(ctx, cluster.InnerPrefix, r)
}

// Leave implements protocol.Dispatcher.
func (d *Dispatcher) Leave(ctx context.Context, worker string) error {
	if err := d.cfg.Coordinator.Leave(ctx, []string{worker}); err != nil {
		return fmt.Errorf("end the session of %s: %w", worker, err)
	}
	d.forget(worker)
	return nil
}

// Notice takes the committed changes from the ledger. It settles reservations, notes which claims of this
// node were committed, and updates or drops runs that other writers changed or ended.
func (d *Dispatcher) Notice(committed []carillon.Change) {
	holders := holdersOf(committed)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reservations.settle(committed, d.inflight.put)
	for i := range committed {
		c := &committed[i]
		for k := range c.Runs {
			run := &c.Runs[k]
			h := d.inflight.runs[run.ID]
			switch {
			case h == nil || run.Rev <= h.run.Rev:
			case run.State.Held() && run.Attempt == h.run.Attempt && run.Worker == h.run.Worker:
				h.run = *run
				if !h.committed {
					h.confirm(c)
				}
			default:
				d.inflight.drop(h)
			}
		}
	}
	for i, holder := range holders {
		d.refresh(holder, committed[i].Guards)
	}
	d.tellFreed()
}

// holdersOf returns the run that has the turn for each change that writes the guards of a job, by the index
// of the change. A guard can be long, so this is done before the dispatcher is locked.
func holdersOf(committed []carillon.Change) (holders map[int]carillon.RunID) {
	for i := range committed {
		c := &committed[i]
		if len(c.Guards) == 0 || len(c.Runs) == 0 {
			continue
		}
		if holder := carillon.Guards(c.Guards).Holder(c.Runs[0].ID.Job); !holder.IsZero() {
			if holders == nil {
				holders = map[int]carillon.RunID{}
			}
			holders[i] = holder
		}
	}
	return holders
}

// refresh keeps the guards of the run that has the turn up to date while other runs of its job queue behind
// it. With an old guard the end of that run would lose its first commit for certain. The caller holds mu.
func (d *Dispatcher) refresh(holder carillon.RunID, guards carillon.Guards) {
	h := d.inflight.runs[holder]
	if h == nil || !h.committed || h.guards == nil {
		return
	}
	for _, guard := range guards {
		if !guard.RulesRuns() {
			continue
		}
		if was := h.guards.Of(guard.Kind()); was == nil || was.Rev < guard.Rev {
			h.guards = h.guards.With(guard)
		}
	}
}

// confirm notes that a claim of this node has been committed. The caller holds the dispatcher's mu.
func (h *inflight) confirm(c *carillon.Change) {
	h.committed = true
	for _, guard := range c.Guards {
		if guard.RulesRuns() {
			h.guards = h.guards.With(guard)
		}
	}
}

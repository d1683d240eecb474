package catalog

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
)

const (
	// lookEvery is how often a node looks whether records have changed: twice in the second in which a
	// write is in force everywhere.
	lookEvery = 500 * time.Millisecond
	// lookAgain is when a node looks again after a look that failed.
	lookAgain = 100 * time.Millisecond
	// lookTime bounds one look: a store that does not answer must not hold up writers, which wait for it.
	lookTime = 3 * time.Second
)

// Config says where a catalog is kept.
type Config struct {
	Store  carillon.Store
	Ledger Ledger
	Logger *slog.Logger // default slog.Default()
}

// Ledger is the part of ledger.Ledger that writes records.
type Ledger interface {
	Update(
		ctx context.Context, namespace string, decide func(now carillon.Time) (carillon.Change, error),
	) error
	Used(ctx context.Context, namespace string) error
	NextOperation(now carillon.Time) (carillon.OperationID, error)
	Operation(
		ctx context.Context, namespace string, id carillon.OperationID,
	) (carillon.OperationRecord, error)
}

// Catalog is what one node knows of the records.
type Catalog struct {
	cfg       Config
	now       atomic.Pointer[Snapshot]
	listeners []func(before, after *Snapshot)
	turn      chan struct{} // capacity 1: held by the goroutine that replaces the snapshot
	loaded    bool          // used with turn
}

func New(cfg Config) *Catalog {
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	c := &Catalog{cfg: cfg, turn: make(chan struct{}, 1)}
	c.now.Store(&Snapshot{})
	return c
}

// Now returns the records that this node knows now. It is never nil; before Load it is empty.
func (c *Catalog) Now() *Snapshot { return c.now.Load() }

// LimitsOf is Snapshot.LimitsOf now.
func (c *Catalog) LimitsOf(job *carillon.Job) []carillon.Limit { return c.now.Load().LimitsOf(job) }

// Listen adds a listener for every later snapshot. Call it before Load. The catalog calls the listeners in
// order, one snapshot at a time. They must be quick, and must not write records.
func (c *Catalog) Listen(listener func(before, after *Snapshot)) {
	c.listeners = append(c.listeners, listener)
}

// Load reads the records, before anything depends on them: a node that starts must not start runs that a
// limit forbids.
func (c *Catalog) Load(ctx context.Context) error {
	if err := c.refresh(ctx); err != nil {
		return fmt.Errorf("read the catalog: %w", err)
	}
	return nil
}

// Run follows the records until ctx ends. While the store does not answer, the last snapshot stays.
func (c *Catalog) Run(ctx context.Context) error {
	failing, next := false, lookEvery
	for await.For(ctx, next) {
		look, cancel := context.WithTimeout(ctx, lookTime)
		err := c.refresh(look)
		cancel()
		if err != nil && !failing && ctx.Err() == nil {
			c.cfg.Logger.Error("read the catalog: trying again", "error", err)
		}
		failing = err != nil
		if next = lookEvery; failing {
			next = lookAgain
		}
	}
	return nil
}

// refresh reads the records if they have changed. It reads the epoch first: records that are written
// meanwhile may be in the snapshot or not, and the next look finds another epoch.
func (c *Catalog) refresh(ctx context.Context) error {
	if err := c.lock(ctx); err != nil {
		return err
	}
	defer c.unlock()
	guards, err := c.cfg.Store.Guards(ctx, carillon.GuardQuery{Namespace: Space, Keys: []string{epochKey}})
	if err != nil {
		return err
	}
	epoch := ""
	if len(guards) > 0 {
		// With the value, which is random: a database that fails over can lose the last revision and give its
		// number to another one.
		epoch = fmt.Sprintf("%d/%s", guards[0].Rev, guards[0].Value)
	}
	if c.loaded && epoch == c.Now().epoch {
		return nil
	}
	guards, err = c.cfg.Store.Guards(ctx, carillon.GuardQuery{Namespace: Space, Prefix: prefix})
	if err != nil {
		return err
	}
	byKey := make(map[string]carillon.Guard, len(guards))
	for _, guard := range guards {
		byKey[guard.Key] = guard
	}
	c.loaded = true
	c.replace(epoch, byKey)
	return nil
}

// install adds a record that this node has written and could not read again. The epoch stays as it is, so the
// next look reads all records.
func (c *Catalog) install(ctx context.Context, guard carillon.Guard) {
	if c.lock(ctx) != nil {
		return
	}
	defer c.unlock()
	was := c.Now()
	if known := was.guards[guard.Key]; known.Rev >= guard.Rev {
		return
	}
	guards := maps.Clone(was.guards)
	if guards == nil {
		guards = map[string]carillon.Guard{}
	}
	guards[guard.Key] = guard
	c.replace(was.epoch, guards)
}

// replace takes a new snapshot. The caller holds the turn.
func (c *Catalog) replace(epoch string, guards map[string]carillon.Guard) {
	after, err := newSnapshot(epoch, guards)
	if err != nil {
		c.cfg.Logger.Error("read records of the catalog: they are not in force", "error", err)
	}
	before := c.now.Swap(after)
	for _, listener := range c.listeners {
		listener(before, after)
	}
}

func (c *Catalog) lock(ctx context.Context) error {
	select {
	case c.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Catalog) unlock() { <-c.turn }

package catalog

import (
	"context"
	"fmt"

	"github.com/carillon-run/carillon"
)

// ClosedFor is Snapshot.ClosedFor now.
func (c *Catalog) ClosedFor(job *carillon.Job, clock *carillon.Clock) *carillon.Gate {
	return c.now.Load().ClosedFor(job, clock)
}

// GateOf returns a gate by its id, closed or opening; nil if there is none. Callers must not modify it.
func (c *Catalog) GateOf(namespace, id string) *carillon.Gate {
	if r := c.now.Load().Gates.Get(namespace, id); r != nil {
		return &r.Value
	}
	return nil
}

// AllGates returns the gates of all namespaces, closed and opening. Callers must not modify them.
func (c *Catalog) AllGates() []*carillon.Gate {
	s := c.now.Load()
	gates := make([]*carillon.Gate, len(s.Gates.sorted))
	for i, r := range s.Gates.sorted {
		gates[i] = &r.Value
	}
	return gates
}

// MayBeClosed says whether a closed gate may match a run, by what the run itself tells.
func (c *Catalog) MayBeClosed(run *carillon.Run) bool {
	for _, g := range c.now.Load().gates[run.Namespace] {
		if g.Match.Queue == "" || g.Match.Queue == run.Queue {
			return true
		}
	}
	return false
}

func gateName(g *carillon.Gate) Name { return Name{g.Namespace, g.ID} }

// ForgetGate removes a gate that is opening, and whose runs have left; its release is done. If it is closed
// again meanwhile, or gone, it stays so.
func (c *Catalog) ForgetGate(ctx context.Context, g *carillon.Gate) error {
	return c.changeGate(ctx, g, func(
		g *carillon.Gate, now carillon.Time, beside *carillon.Change,
	) (remove bool, err error) {
		return true, c.EndRelease(ctx, g, Ending{State: carillon.OperationDone, At: now}, beside)
	})
}

// StoppedGate notes that the runs that a gate has to stop were asked to.
func (c *Catalog) StoppedGate(ctx context.Context, g *carillon.Gate) error {
	return c.changeGate(ctx, g, func(
		g *carillon.Gate, _ carillon.Time, _ *carillon.Change,
	) (remove bool, err error) {
		g.Stopped = true
		return false, nil
	})
}

// changeGate edits or removes a gate, unless another caller has changed it since it was read.
func (c *Catalog) changeGate(
	ctx context.Context, g *carillon.Gate,
	edit func(g *carillon.Gate, now carillon.Time, beside *carillon.Change) (remove bool, err error),
) error {
	_, err := Gates.Write(ctx, c, gateName(g), "", func(
		was, next *Record[carillon.Gate], beside *carillon.Change,
	) (remove bool, err error) {
		present := GateIn(was)
		if present == nil || present.At != g.At || present.Opened != g.Opened {
			return false, fmt.Errorf("%w: gate %s has changed", carillon.ErrConflict, g.ID)
		}
		remove, err = edit(present, next.At, beside)
		next.By, next.Value = was.By, *present
		return remove, err
	})
	return err
}

// GateIn is a copy of the gate of a record that was read from the store; nil if there is none.
func GateIn(r *Record[carillon.Gate]) *carillon.Gate {
	if r == nil {
		return nil
	}
	g := r.Value
	g.ID, g.Namespace = r.Name.Name, r.Namespace
	return &g
}

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

// ForgetGate removes a gate that is opening, and whose runs have left. If it is closed again meanwhile, or
// gone, it stays so.
func (c *Catalog) ForgetGate(ctx context.Context, g *carillon.Gate) error {
	return c.changeGate(ctx, g, func(_ *carillon.Gate) bool { return true })
}

// StoppedGate notes that the runs that a gate has to stop were asked to.
func (c *Catalog) StoppedGate(ctx context.Context, g *carillon.Gate) error {
	return c.changeGate(ctx, g, func(g *carillon.Gate) bool { g.Stopped = true; return false })
}

// changeGate edits or removes a gate, unless another caller has changed it since it was read.
func (c *Catalog) changeGate(
	ctx context.Context, g *carillon.Gate, edit func(*carillon.Gate) (remove bool),
) error {
	_, err := Gates.Write(ctx, c, gateName(g), "", func(
		was, next *Record[carillon.Gate],
	) (remove bool, err error) {
		if was == nil || was.Value.At != g.At || was.Value.Opened != g.Opened {
			return false, fmt.Errorf("%w: gate %s has changed", carillon.ErrConflict, g.ID)
		}
		next.By, next.Value = was.By, was.Value
		return edit(&next.Value), nil
	})
	return err
}

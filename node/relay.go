package node

import (
	"context"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
)

// relay lets a listener of a node in a cluster hear the events of this node at once, and those of other nodes
// a few times a second. Nothing depends on the events of other nodes: every listener that waits for something
// polls as well.
type relay struct {
	near *mem.Bus
	far  carillon.Bus
}

func (r relay) Subscribe(ctx context.Context, filter carillon.EventFilter) (<-chan carillon.Event, error) {
	near, err := r.near.Subscribe(ctx, filter)
	if err != nil {
		return nil, err
	}
	far, err := r.far.Subscribe(ctx, filter)
	if err != nil {
		return nil, err
	}
	both := make(chan carillon.Event, 1)
	go func() {
		defer close(both)
		for near != nil || far != nil {
			var event carillon.Event
			var ok bool
			select {
			case event, ok = <-near:
				if !ok {
					near = nil
				}
			case event, ok = <-far:
				if !ok {
					far = nil
				}
			}
			if ok {
				select {
				case both <- event:
				case <-ctx.Done():
				}
			}
		}
	}()
	return both, nil
}

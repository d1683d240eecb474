package simulate

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/worker/protocol"
)

// client stands in for client.Dispatcher, for a worker that dials in: it asks one node, and the next one if
// that does not answer.
type client struct {
	mu    sync.Mutex
	nodes []dispatcherLink // the current one first; nodes that are dead refuse
}

// How long one try can take, as in package client.
const (
	registerLimit = 5 * time.Second
	beatLimit     = 1500 * time.Millisecond
	reportLimit   = 10 * time.Second
)

// maxNodes bounds how many nodes a client remembers: those that it learned of last.
const maxNodes = 6

func (c *client) learn(d dispatcherLink) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = append(c.nodes, d)
	if len(c.nodes) > maxNodes {
		c.nodes = append([]dispatcherLink(nil), c.nodes[1:]...)
	}
}

func (c *client) order() []dispatcherLink {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]dispatcherLink(nil), c.nodes...)
}

// failed makes another node the current one.
func (c *client) failed(d dispatcherLink) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes[0].link == d.link {
		c.nodes = append(append([]dispatcherLink(nil), c.nodes[1:]...), d)
	}
}

// ask asks nodes until one answers.
func ask[T any](
	ctx context.Context, c *client, limit time.Duration, tries int,
	do func(context.Context, dispatcherLink) (T, error),
) (value T, err error) {
	err = errRefused
	for i, d := range c.order() {
		if i == tries {
			break
		}
		try, cancel := context.WithTimeout(ctx, limit)
		value, err = do(try, d)
		cancel()
		if err == nil || !silent(err) {
			return value, err
		}
		c.failed(d)
		if ctx.Err() != nil {
			break
		}
	}
	return value, err
}

func (c *client) Register(ctx context.Context, r protocol.Registration) (string, error) {
	return ask(ctx, c, registerLimit, maxNodes, func(ctx context.Context, d dispatcherLink) (string, error) {
		return d.Register(ctx, r)
	})
}

func (c *client) Pull(ctx context.Context, p protocol.Pull) ([]protocol.Task, error) {
	return ask(ctx, c, protocol.PullLate, 1, func(
		ctx context.Context, d dispatcherLink,
	) ([]protocol.Task, error) {
		return d.Pull(ctx, p)
	})
}

func (c *client) Report(
	ctx context.Context, worker string, reports []protocol.Report,
) ([]protocol.Receipt, error) {
	return ask(ctx, c, reportLimit, maxNodes, func(
		ctx context.Context, d dispatcherLink,
	) ([]protocol.Receipt, error) {
		return d.Report(ctx, worker, reports)
	})
}

func (c *client) Beat(ctx context.Context, b carillon.Beat) (protocol.Orders, error) {
	return ask(ctx, c, beatLimit, maxNodes, func(
		ctx context.Context, d dispatcherLink,
	) (protocol.Orders, error) {
		return d.Beat(ctx, b)
	})
}

func (c *client) Leave(ctx context.Context, worker string) error {
	_, err := ask(ctx, c, beatLimit, maxNodes, func(ctx context.Context, d dispatcherLink) (struct{}, error) {
		return struct{}{}, d.Leave(ctx, worker)
	})
	return err
}

// silent says that the caller should ask another node.
func silent(err error) bool { return err != nil && !errors.Is(err, carillon.ErrSessionOver) }

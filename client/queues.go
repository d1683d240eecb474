package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/wire"
)

// Queue is a queue as it stands, Namespace what operators set for a namespace, and Limit a limit that they
// set.
type (
	Queue         = wire.Queue
	QueueDetail   = wire.QueueDetail
	QueueSettings = wire.QueueSettings
	HeldRuns      = wire.HeldRuns
	QueueWorker   = wire.QueueWorker
	Namespace     = wire.Namespace
	Limit         = wire.Limit
)

// Queues reads the queues that have due or running runs, or are named by a setting or by a worker.
func (c *Client) Queues(ctx context.Context) ([]Queue, error) {
	var list wire.List[Queue]
	err := c.call(ctx, request{method: http.MethodGet, path: "/v1/queues"}, &list)
	return list.Items, err
}

// Queue reads a queue with the workers that serve it. A queue that no job names is empty.
func (c *Client) Queue(ctx context.Context, name string) (queue QueueDetail, err error) {
	err = c.call(ctx, request{method: http.MethodGet, path: queuePath(name)}, &queue)
	return queue, err
}

// SetQueue sets the weight of a queue, 1 to 100. It is in force on every node within a second.
func (c *Client) SetQueue(ctx context.Context, name string, weight int) (set QueueSettings, err error) {
	err = c.write(ctx, request{
		method: http.MethodPut, path: queuePath(name), body: wire.WeightRequest{Weight: &weight},
	}, &set)
	return set, err
}

// Namespaces reads what operators set for the namespaces of the token: there is one.
func (c *Client) Namespaces(ctx context.Context) ([]Namespace, error) {
	var list wire.List[Namespace]
	err := c.call(ctx, request{method: http.MethodGet, path: "/v1/namespaces"}, &list)
	return list.Items, err
}

// Namespace reads what operators set for a namespace, which must be that of the token.
func (c *Client) Namespace(ctx context.Context, name string) (of Namespace, err error) {
	err = c.call(ctx, request{method: http.MethodGet, path: namespacePath(name)}, &of)
	return of, err
}

// SetNamespace sets the weight of a namespace, 1 to 100, which must be that of the token. It is in force on
// every node within a second.
func (c *Client) SetNamespace(ctx context.Context, name string, weight int) (set Namespace, err error) {
	err = c.write(ctx, request{
		method: http.MethodPut, path: namespacePath(name), body: wire.WeightRequest{Weight: &weight},
	}, &set)
	return set, err
}

// Limits reads the limits that operators set.
func (c *Client) Limits(ctx context.Context) ([]Limit, error) {
	var list wire.List[Limit]
	err := c.call(ctx, request{method: http.MethodGet, path: "/v1/limits"}, &list)
	return list.Items, err
}

// SetLimit sets the limit of a queue, a type or a namespace: its Concurrency, Rate, such as "10/s", and
// Burst. It is in force on every node within a second, and counts runs that start from then on.
func (c *Client) SetLimit(ctx context.Context, l Limit) (set Limit, err error) {
	var body wire.LimitRequest
	if l.Concurrency != 0 {
		body.Concurrency = &l.Concurrency
	}
	if l.Rate != "" {
		body.Rate = &l.Rate
	}
	if l.Burst != 0 {
		body.Burst = &l.Burst
	}
	err = c.write(ctx, request{method: http.MethodPut, path: limitPath(l.Of, l.Key), body: body}, &set)
	return set, err
}

// RemoveLimit removes a limit, and returns it as it was. Runs that waited for it go on.
func (c *Client) RemoveLimit(
	ctx context.Context, of carillon.LimitOf, key string,
) (removed Limit, err error) {
	err = c.write(ctx, request{method: http.MethodDelete, path: limitPath(of, key)}, &removed)
	return removed, err
}

func queuePath(name string) string { return "/v1/queues/" + url.PathEscape(name) }

func namespacePath(name string) string { return "/v1/namespaces/" + url.PathEscape(name) }

func limitPath(of carillon.LimitOf, key string) string {
	return "/v1/limits/" + url.PathEscape(string(of)) + "/" + url.PathEscape(key)
}

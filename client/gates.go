package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/carillon-run/carillon/internal/wire"
)

// Gate is a gate as it stands; GateRequest closes one, OpenRequest opens one, PauseRequest pauses a queue.
type (
	Gate         = wire.Gate
	GateEffect   = wire.GateEffect
	GateRequest  = wire.GateRequest
	OpenRequest  = wire.OpenRequest
	PauseRequest = wire.PauseRequest
)

// CloseGate closes a gate. It is closed on every node within a second. With DryRun it closes none, and the
// answer says in Would what the gate would stop.
func (c *Client) CloseGate(ctx context.Context, want GateRequest) (gate Gate, err error) {
	err = c.write(ctx, request{method: http.MethodPost, path: "/v1/gates", body: want}, &gate)
	return gate, err
}

// Gates reads the gates that are closed, or that held runs are leaving.
func (c *Client) Gates(ctx context.Context) ([]Gate, error) {
	var list wire.List[Gate]
	err := c.call(ctx, request{method: http.MethodGet, path: "/v1/gates"}, &list)
	return list.Items, err
}

// Gate reads a gate. A gate that is open, and that no run waits for, is not found.
func (c *Client) Gate(ctx context.Context, id string) (gate Gate, err error) {
	err = c.call(ctx, request{method: http.MethodGet, path: gatePath(id)}, &gate)
	return gate, err
}

// OpenGate opens a gate. The runs that it holds leave in the order of their due times, by a rate such as
// "5000/s", or as fast as it goes. Operation of the answer names their release: see Client.Operation. With
// DryRun the gate stays as it is, and the answer says in WouldRelease how many runs would leave.
func (c *Client) OpenGate(ctx context.Context, id string, how OpenRequest) (gate Gate, err error) {
	err = c.write(ctx, request{method: http.MethodPost, path: gatePath(id) + "/open", body: how}, &gate)
	return gate, err
}

// PauseQueue closes a gate for a queue.
func (c *Client) PauseQueue(ctx context.Context, name string, want PauseRequest) (gate Gate, err error) {
	err = c.write(ctx, request{
		method: http.MethodPost, path: queuePath(name) + "/pause", body: want,
	}, &gate)
	return gate, err
}

// DrainQueue pauses a queue, also if it is paused already. The answer says in Active how many of its runs
// still go on.
func (c *Client) DrainQueue(ctx context.Context, name string, want PauseRequest) (gate Gate, err error) {
	err = c.write(ctx, request{
		method: http.MethodPost, path: queuePath(name) + "/drain", body: want,
	}, &gate)
	return gate, err
}

// ResumeQueue opens the gate of a queue, as OpenGate does.
func (c *Client) ResumeQueue(ctx context.Context, name string, how OpenRequest) (gate Gate, err error) {
	err = c.write(ctx, request{method: http.MethodPost, path: queuePath(name) + "/resume", body: how}, &gate)
	return gate, err
}

func gatePath(id string) string { return "/v1/gates/" + url.PathEscape(id) }

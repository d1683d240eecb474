package client

import (
	"context"
	"net/http"

	"github.com/carillon-run/carillon/internal/wire"
)

// Member is a node or a worker that is alive; Running is a run that a worker holds.
type (
	Member  = wire.Member
	Running = wire.Running
)

// Members reads which nodes and workers are alive.
func (c *Client) Members(ctx context.Context) ([]Member, error) {
	var list wire.List[Member]
	err := c.call(ctx, request{method: http.MethodGet, path: "/v1/members"}, &list)
	return list.Items, err
}

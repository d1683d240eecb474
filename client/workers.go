package client

import (
	"context"
	"net/http"

	"github.com/carillon-run/carillon"
)

// Members reads which nodes and workers are alive.
func (c *Client) Members(ctx context.Context) ([]carillon.Member, error) {
	var list struct {
		Items []struct {
			ID   string `json:"id"`
			Kind string `json:"kind"`
			Addr string `json:"addr"`
		} `json:"items"`
	}
	err := c.call(ctx, request{method: http.MethodGet, path: "/v1/workers"}, &list)
	members := make([]carillon.Member, len(list.Items))
	for i, m := range list.Items {
		members[i] = carillon.Member(m)
	}
	return members, err
}

package client

import (
	"context"
	"encoding/json"
	"net/http"
)

// Healthy returns nil if the server's process answers.
func (c *Client) Healthy(ctx context.Context) error {
	return c.call(ctx, request{method: http.MethodGet, path: "/healthz"}, nil)
}

// Ready returns nil if the server can take and run jobs; else a *Problem with the Reasons.
func (c *Client) Ready(ctx context.Context) error {
	return c.call(ctx, request{method: http.MethodGet, path: "/readyz"}, nil)
}

// Metrics reads the server's metrics in the text format of Prometheus.
func (c *Client) Metrics(ctx context.Context) (text []byte, err error) {
	err = c.call(ctx, request{method: http.MethodGet, path: "/metrics"}, &text)
	return text, err
}

// OpenAPI reads the description of the API for machines.
func (c *Client) OpenAPI(ctx context.Context) (doc json.RawMessage, err error) {
	err = c.call(ctx, request{method: http.MethodGet, path: "/v1/openapi.json"}, &doc)
	return doc, err
}

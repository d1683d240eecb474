package node

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/gob"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/carry"
)

// carrierPath is where a node gives other nodes the due runs that its own workers do not take.
const carrierPath = "/cluster/due"

// httpCarrier is a carillon.Carrier: it brings the runs that another node can spare, over HTTP.
type httpCarrier struct {
	address string
	token   string
	client  *http.Client
}

var _ carillon.Carrier = (*httpCarrier)(nil)

// httpCarriers makes the carriers of a node. They share their connections.
func httpCarriers(token string) func(address string) carillon.Carrier {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	client := &http.Client{Transport: transport, Timeout: carry.FetchTime}
	return func(address string) carillon.Carrier {
		return &httpCarrier{strings.TrimSuffix(address, "/"), token, client}
	}
}

// question is what a node asks another node for.
type question struct {
	Wants   []carillon.Want // none: any
	Max     int
	Partial bool
	Known   []carillon.Label
}

func (c *httpCarrier) Fetch(ctx context.Context, want carillon.Demand) (runs []carillon.Run, err error) {
	var body bytes.Buffer
	asked := question{want.Wants, want.Max, want.Partial, want.Known}
	if err := gob.NewEncoder(&body).Encode(asked); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.address+carrierPath, &body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("answered %s", resp.Status)
	}
	return runs, gob.NewDecoder(io.LimitReader(resp.Body, 16<<20)).Decode(&runs)
}

// carrierHandler is the other end of httpCarrier: it gives other nodes the runs of a queue that no pull here
// waits for.
func carrierHandler(
	queue carillon.Queue, token string, redecide func([]carillon.RunID),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		given := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if subtle.ConstantTimeCompare([]byte(given), []byte(token)) != 1 {
			w.Header().Set("Connection", "close") // so that the answer does not wait for the body
			http.Error(w, "for nodes of this cluster only", http.StatusUnauthorized)
			return
		}
		var asked question
		if err := gob.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&asked); err != nil {
			http.Error(w, "not understood: do all nodes have the same version?", http.StatusBadRequest)
			return
		}
		want := carillon.Demand{
			Wants: asked.Wants, Max: asked.Max, Partial: asked.Partial, Known: asked.Known,
		}
		runs, err := carry.Give(r.Context(), queue, want, redecide)
		if err != nil {
			return // the other node has gone; no run was taken
		}
		var body bytes.Buffer
		if err := gob.NewEncoder(&body).Encode(runs); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Write(body.Bytes())
	}
}

// fetchRuns fetches due runs of the other nodes, by the carrier that the configuration brings, or by HTTP
// from each of them.
func (n *Node) fetchRuns(ctx context.Context) error {
	if given := n.backend.Carrier; given != nil {
		n.carry.Fetch(ctx, "any", given)
		return nil
	}
	return n.carry.FetchFromEach(ctx, n.peerAddresses, httpCarriers(n.secrets.node))
}

package node

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/gob"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/internal/await"
)

// peersPath is where a node gives other nodes the due runs that its own workers do not take.
const peersPath = "/cluster/due"

// peers is a node's queue of due runs, joined to the queues of the other nodes: while a pull waits here and
// there is no run for it, the node asks the others for runs that they can spare. So it does not matter which
// node a worker dials in to, or which node's shard a run belongs to. Runs that travel are advice, like
// everything in a queue: the node that receives a run claims it like any other.
type peers struct {
	*mem.Queue
	addresses func() []string
	token     string
	client    *http.Client
	logger    *slog.Logger

	mu     sync.Mutex
	asking map[*demand]bool
	wanted chan struct{} // closed when a pull begins to wait
}

// demand is a pull that waits here.
type demand struct {
	queues []string
	max    int
}

// request is a node's question to another node.
type request struct {
	Queues []string // none: any
	Max    int
}

const (
	peersWait = 2 * time.Second // how long a question waits until the other node has runs
	peersMax  = 1000
	// peersLook is the time after which the giving node checks whether the runs that it gave away were
	// claimed: the answer may have been lost.
	peersLook = 3 * time.Second
)

func newPeers(queue *mem.Queue, addresses func() []string, token string, logger *slog.Logger) *peers {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	return &peers{
		Queue: queue, addresses: addresses, token: token, logger: logger,
		client: &http.Client{Transport: transport, Timeout: peersWait + 3*time.Second},
		asking: map[*demand]bool{}, wanted: make(chan struct{}),
	}
}

// Pull implements carillon.Queue.
func (p *peers) Pull(ctx context.Context, queues []string, max int) (
	[]carillon.Run, func(context.Context) error, error,
) {
	if runs := p.Take(queues, max); len(runs) > 0 {
		return runs, func(context.Context) error { return nil }, nil
	}
	d := &demand{queues, max}
	p.mu.Lock()
	p.asking[d] = true
	close(p.wanted)
	p.wanted = make(chan struct{})
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.asking, d)
	}()
	return p.Queue.Pull(ctx, queues, max)
}

// want sums up the pulls that wait here. ok says that there is one. Otherwise the caller waits for until.
func (p *peers) want() (w request, ok bool, until <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	any := false
	seen := map[string]bool{}
	for d := range p.asking {
		w.Max = min(w.Max+d.max, peersMax)
		any = any || len(d.queues) == 0
		for _, q := range d.queues {
			if !seen[q] {
				seen[q] = true
				w.Queues = append(w.Queues, q)
			}
		}
	}
	if any {
		w.Queues = nil
	}
	return w, w.Max > 0, p.wanted
}

// run asks every other node, each in a separate loop.
func (p *peers) run(ctx context.Context) error {
	loops := map[string]context.CancelFunc{}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		now := map[string]bool{}
		for _, address := range p.addresses() {
			now[address] = true
			if loops[address] == nil {
				loop, stop := context.WithCancel(ctx)
				loops[address] = stop
				go p.ask(loop, address)
			}
		}
		for address, stop := range loops {
			if !now[address] {
				stop()
				delete(loops, address)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// ask takes from one node the runs that it can spare, whenever a pull waits here.
func (p *peers) ask(ctx context.Context, address string) {
	failed := false
	for ctx.Err() == nil {
		w, ok, until := p.want()
		if !ok {
			select {
			case <-until:
			case <-ctx.Done():
			}
			continue
		}
		runs, err := p.fetch(ctx, address, w)
		if err != nil && ctx.Err() == nil {
			if !failed {
				p.logger.Warn("ask another node for due runs: trying again", "node", address, "error", err)
			}
			failed = true
			await.For(ctx, time.Second)
			continue
		}
		failed = false
		if _, err := p.Push(ctx, runs); err != nil && ctx.Err() == nil {
			// The other node takes care of these runs itself.
			p.logger.Error("keep due runs of another node", "error", err, "runs", len(runs))
		}
	}
}

func (p *peers) fetch(ctx context.Context, address string, w request) (runs []carillon.Run, err error) {
	var body bytes.Buffer
	if err := gob.NewEncoder(&body).Encode(w); err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(
		ctx, http.MethodPost, strings.TrimSuffix(address, "/")+peersPath, &body,
	)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+p.token)
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("answered %s", resp.Status)
	}
	return runs, gob.NewDecoder(io.LimitReader(resp.Body, 16<<20)).Decode(&runs)
}

// handler gives other nodes the runs that no pull here waits for. Later it asks the scheduler to redecide
// them, in case the answer did not arrive.
func (p *peers) handler(look func([]carillon.RunID)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		given := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		if subtle.ConstantTimeCompare([]byte(given), []byte(p.token)) != 1 {
			w.Header().Set("Connection", "close") // so that the answer does not wait for the body
			http.Error(w, "for nodes of this cluster only", http.StatusUnauthorized)
			return
		}
		var want request
		if err := gob.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&want); err != nil {
			http.Error(w, "not understood: do all nodes have the same version?", http.StatusBadRequest)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), peersWait)
		defer cancel()
		runs, err := p.Spare(ctx, want.Queues, min(want.Max, peersMax))
		if err != nil && r.Context().Err() != nil {
			return // the other node has gone; no run was taken
		}
		if len(runs) > 0 {
			ids := make([]carillon.RunID, len(runs))
			for i := range runs {
				ids[i] = runs[i].ID
				runs[i].About, runs[i].Output = nil, nil
			}
			time.AfterFunc(peersLook, func() { look(ids) })
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

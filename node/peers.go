package node

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
)

// peers is a node's queue of due runs, joined to the queues of the other nodes: while a pull waits here and
// there is no run for it, the node asks the others for runs that they can spare. So it does not matter which
// node a worker dials in to, or which node's shard a run belongs to.
type peers struct {
	carillon.Queue
	logger *slog.Logger

	mu     sync.Mutex
	asking map[*carillon.Demand]bool // the pulls that wait here
	wanted chan struct{}             // closed when a pull begins to wait
}

// peersMax is how many runs travel at a time.
const peersMax = 1000

func newPeers(queue carillon.Queue, logger *slog.Logger) *peers {
	return &peers{
		Queue: queue, logger: logger,
		asking: map[*carillon.Demand]bool{}, wanted: make(chan struct{}),
	}
}

// Pull implements carillon.Queue.
func (p *peers) Pull(ctx context.Context, want carillon.Demand) ([]carillon.Run, error) {
	now := want
	now.NoWait = true
	if runs, err := p.Queue.Pull(ctx, now); len(runs) > 0 || err != nil || want.NoWait {
		return runs, err
	}
	if !want.Spare { // or nodes without work would ask each other in circles
		defer p.ask(&want)()
	}
	return p.Queue.Pull(ctx, want)
}

// ask notes that a pull waits here, until done is called.
func (p *peers) ask(want *carillon.Demand) (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asking[want] = true
	close(p.wanted)
	p.wanted = make(chan struct{})
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.asking, want)
	}
}

// want sums up the pulls that wait here. ok says that there is one. Otherwise the caller waits for until.
func (p *peers) want() (w carillon.Demand, ok bool, until <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	any := false
	for d := range p.asking {
		w.Max = min(w.Max+d.Max, peersMax)
		any = any || len(d.Wants) == 0
		for _, want := range d.Wants {
			if !slices.ContainsFunc(w.Wants, want.Equal) {
				w.Wants = append(w.Wants, want)
			}
		}
	}
	if any {
		w.Wants = nil
	}
	return w, w.Max > 0, p.wanted
}

// fetchRuns fetches due runs of the other nodes, by the carrier that the configuration brings, or by HTTP
// from each of them.
func (n *Node) fetchRuns(ctx context.Context) error {
	if given := n.backend.Carrier; given != nil {
		n.peers.fetch(ctx, "any", given)
		return nil
	}
	return n.peers.fetchFromEach(ctx, n.peerAddresses, httpCarriers(n.secrets.node))
}

// fetchFromEach fetches from every other node, each in a separate loop. addresses returns where they are.
func (p *peers) fetchFromEach(
	ctx context.Context, addresses func() []string, carrier func(address string) carillon.Carrier,
) error {
	loops := map[string]context.CancelFunc{}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		now := map[string]bool{}
		for _, address := range addresses() {
			now[address] = true
			if loops[address] == nil {
				loop, stop := context.WithCancel(ctx)
				loops[address] = stop
				go p.fetch(loop, address, carrier(address))
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

// fetch takes runs from a carrier whenever a pull waits here. from names its other end in the log.
func (p *peers) fetch(ctx context.Context, from string, carrier carillon.Carrier) {
	failed := false
	for ctx.Err() == nil {
		want, ok, until := p.want()
		if !ok {
			select {
			case <-until:
			case <-ctx.Done():
			}
			continue
		}
		runs, err := carrier.Fetch(ctx, want)
		if err != nil && ctx.Err() == nil {
			if !failed {
				p.logger.Warn("ask another node for due runs: trying again", "node", from, "error", err)
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

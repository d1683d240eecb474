// Package carry joins the queues of all nodes: it moves due runs to the nodes whose workers wait for them.
package carry

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
)

// Queue is a node's queue of due runs, joined to the queues of the other nodes: while a pull waits here and
// there is no run for it, the node asks the others for runs that they can spare. So it does not matter which
// node a worker dials in to, or which node's shard a run belongs to.
type Queue struct {
	carillon.Queue
	logger *slog.Logger

	mu     sync.Mutex
	asking map[*carillon.Demand]bool // the pulls that wait here
	wanted chan struct{}             // closed when a pull begins to wait, and no other one wants the same
}

const (
	most         = 1000            // runs that travel at a time
	maxQuestions = 8               // to one node at a time
	maxNames     = 10_000          // in one question, unless a single pull has more
	wait         = 2 * time.Second // how long a question waits until the other node has runs
	// look is the time after which the giving node checks whether the runs that it gave away were claimed:
	// the answer may have been lost.
	look = 3 * time.Second
)

// FetchTime is the time limit of one Fetch of a carrier.
const FetchTime = wait + 3*time.Second

// New wraps the queue of a node; Fetch adds runs of other nodes to it.
func New(queue carillon.Queue, logger *slog.Logger) *Queue {
	return &Queue{
		Queue: queue, logger: logger,
		asking: map[*carillon.Demand]bool{}, wanted: make(chan struct{}),
	}
}

// Pull implements carillon.Queue.
func (q *Queue) Pull(ctx context.Context, want carillon.Demand) ([]carillon.Run, error) {
	now := want
	now.NoWait = true
	if runs, err := q.Queue.Pull(ctx, now); len(runs) > 0 || err != nil || want.NoWait {
		return runs, err
	}
	if !want.Spare { // or nodes without work would ask each other in circles
		defer q.ask(&want)()
	}
	return q.Queue.Pull(ctx, want)
}

// ask notes that a pull waits here, until done is called.
func (q *Queue) ask(want *carillon.Demand) (done func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	known := false
	for d := range q.asking {
		if known = slices.EqualFunc(d.Wants, want.Wants, carillon.Want.TakesSame); known {
			break
		}
	}
	q.asking[want] = true
	if !known { // else every question that has to be asked is asked already, or is about to be
		close(q.wanted)
		q.wanted = make(chan struct{})
	}
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.asking, want)
	}
}

// want sums up the pulls that wait here for runs that no question asks for yet, as many of them as fit into
// one question. ok says that there is one. Otherwise the caller waits for until.
func (q *Queue) want(questions []*carillon.Demand) (w carillon.Demand, ok bool, until <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	any, names := false, 0
	for d := range q.asking {
		more := len(d.Wants) == 0 && !asks(questions, nil)
		any = any || more
		for i := range d.Wants {
			want := d.Wants[i]
			if asks(questions, &want) {
				continue
			}
			if !slices.ContainsFunc(w.Wants, want.TakesSame) {
				has := len(want.Namespaces) + len(want.Queues) + len(want.Kinds) + len(want.Types)
				if names > 0 && names+has > maxNames {
					continue
				}
				want.Labels, names = nil, names+has
				w.Wants = append(w.Wants, want)
			}
			more = true
		}
		if more {
			w.Max = min(w.Max+d.Max, most)
		}
	}
	if any {
		w.Wants = nil
	}
	return w, w.Max > 0, q.wanted
}

// asks says whether one of the questions asks for the runs that a pull wants; nil: for all runs.
func asks(questions []*carillon.Demand, want *carillon.Want) bool {
	return slices.ContainsFunc(questions, func(d *carillon.Demand) bool {
		return len(d.Wants) == 0 || want != nil && slices.ContainsFunc(d.Wants, want.TakesSame)
	})
}

// FetchFromEach fetches from every other node, each in a separate loop. addresses returns where they are.
func (q *Queue) FetchFromEach(
	ctx context.Context, addresses func() []string, carrier func(address string) carillon.Carrier,
) error {
	loops := map[string]context.CancelFunc{}
	var running sync.WaitGroup
	defer running.Wait()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		now := map[string]bool{}
		for _, address := range addresses() {
			now[address] = true
			if loops[address] == nil {
				loop, stop := context.WithCancel(ctx)
				loops[address] = stop
				running.Go(func() { q.Fetch(loop, address, carrier(address)) })
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

// Fetch takes runs from a carrier whenever a pull waits here. from names its other end in the log. A question
// waits at the other node for a while. A pull that comes meanwhile, and wants other runs, has its own
// question: else a run that only this pull can take would be late.
func (q *Queue) Fetch(ctx context.Context, from string, carrier carillon.Carrier) {
	f := fetching{to: q, from: from, carrier: carrier}
	var open []*carillon.Demand
	answered := make(chan *carillon.Demand)
	var questions sync.WaitGroup
	defer questions.Wait()
	for ctx.Err() == nil {
		want, ok, until := q.want(open)
		if ok && len(open) < maxQuestions {
			open = append(open, &want)
			questions.Go(func() {
				f.once(ctx, want)
				select {
				case answered <- &want:
				case <-ctx.Done():
				}
			})
			continue
		}
		select {
		case <-until:
		case question := <-answered:
			open = slices.DeleteFunc(open, func(d *carillon.Demand) bool { return d == question })
		case <-ctx.Done():
		}
	}
}

// fetching is what the questions to one node share.
type fetching struct {
	to      *Queue
	from    string
	carrier carillon.Carrier
	failed  atomic.Bool // the last answer was an error
}

// once asks once. After an error it waits, so that the node is not asked again at once.
func (f *fetching) once(ctx context.Context, want carillon.Demand) {
	runs, err := f.carrier.Fetch(ctx, want)
	if err != nil && ctx.Err() == nil {
		if !f.failed.Swap(true) {
			f.to.logger.Warn("ask another node for due runs: trying again", "node", f.from, "error", err)
		}
		await.For(ctx, time.Second)
		return
	}
	f.failed.Store(false)
	if _, err := f.to.Push(ctx, runs); err != nil && ctx.Err() == nil {
		// The other node takes care of these runs itself.
		f.to.logger.Error("keep due runs of another node", "error", err, "runs", len(runs))
	}
}

// Give is the other end of a carrier: it takes runs out of a queue for another node, those that no pull here
// waits for. Later it asks the scheduler to redecide them, in case the answer did not arrive. If ctx ends, it
// takes none.
func Give(
	ctx context.Context, from carillon.Queue, want carillon.Demand, redecide func([]carillon.RunID),
) ([]carillon.Run, error) {
	waits, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	runs, err := from.Pull(waits, carillon.Demand{Wants: want.Wants, Max: min(want.Max, most), Spare: true})
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	if len(runs) > 0 {
		ids := make([]carillon.RunID, len(runs))
		for i := range runs {
			ids[i] = runs[i].ID
			runs[i].About, runs[i].Output = nil, nil
		}
		time.AfterFunc(look, func() { redecide(ids) })
	}
	return runs, nil
}

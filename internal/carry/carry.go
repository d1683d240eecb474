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
	asking map[*pull]bool // the pulls that wait here
	wanted chan struct{}  // closed when a pull begins to wait, and no other one wants the same
	labels labels
}

// pull is a pull that waits here.
type pull struct {
	carillon.Demand
	asks    []carillon.Want // its wants, with the labels that runs are known to need
	texts   []string        // of the labels of asks; nil: none has labels
	partial bool            // without some of its labels
}

// question is what one other node is asked for.
type question struct {
	carillon.Demand
	// labeled are its wants by the text of their labels: a thousand pulls can ask for a thousand labels.
	labeled map[string][]carillon.Want
}

func (p *pull) text(i int) string {
	if p.texts == nil {
		return ""
	}
	return p.texts[i]
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
		asking: map[*pull]bool{}, wanted: make(chan struct{}),
	}
}

// Pull implements carillon.Queue.
func (q *Queue) Pull(ctx context.Context, want carillon.Demand) ([]carillon.Run, error) {
	now := want
	now.NoWait = true
	if runs, err := q.Queue.Pull(ctx, now); len(runs) > 0 || err != nil || want.NoWait {
		return runs, err
	}
	// With Spare, nodes without work would ask each other in circles. A lone run starts where it is due.
	if !want.Spare && !want.Lone {
		defer q.ask(want)()
	}
	return q.Queue.Pull(ctx, want)
}

// ask notes that a pull waits here, until done is called.
func (q *Queue) ask(want carillon.Demand) (done func()) {
	p := &pull{Demand: want}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.labels.cut(p)
	known := false
	for other := range q.asking {
		known = (other.partial || !p.partial) &&
			slices.EqualFunc(other.asks, p.asks, carillon.Want.TakesSame)
		if known {
			break
		}
	}
	q.asking[p] = true
	if !known { // else every question that has to be asked is asked already, or is about to be
		q.askNow()
	}
	return func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(q.asking, p)
	}
}

// askNow lets the loops look for questions that have to be asked. The caller holds mu.
func (q *Queue) askNow() {
	close(q.wanted)
	q.wanted = make(chan struct{})
}

// want sums up the pulls that wait here for runs that no question asks for yet, as many of them as fit into
// one question. ok says that there is one. Otherwise the caller waits for until.
func (q *Queue) want(questions []*question) (w question, ok bool, until <-chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.labels.expire(time.Now()) {
		q.cutAll()
	}
	any, names := false, 0
	w.labeled = map[string][]carillon.Want{}
	for p := range q.asking {
		more := len(p.asks) == 0 && !p.askedBy(questions, -1)
		any = any || more
		for i := range p.asks {
			want, text := &p.asks[i], p.text(i)
			if p.askedBy(questions, i) {
				continue
			}
			if !slices.ContainsFunc(w.labeled[text], want.TakesSame) {
				has := namesIn(want)
				if names > 0 && names+has > maxNames {
					continue
				}
				names += has
				w.Wants, w.labeled[text] = append(w.Wants, *want), append(w.labeled[text], *want)
			}
			more = true
		}
		if more {
			w.Max, w.Partial = min(w.Max+p.Max, most), w.Partial || p.partial
		}
	}
	if any {
		w.Wants = nil
	}
	if w.Partial {
		w.Known = q.labels.list
	}
	return w, w.Max > 0, q.wanted
}

// namesIn is how many names a want has. A long label counts for several.
func namesIn(want *carillon.Want) int {
	n := len(want.Namespaces) + len(want.Queues) + len(want.Kinds) + len(want.Types)
	for key, value := range want.Labels {
		n += 1 + (len(key)+len(value))/64
	}
	return n
}

// askedBy says whether one of the questions asks for the runs that a want of the pull takes; -1: for all.
func (p *pull) askedBy(questions []*question, want int) bool {
	return slices.ContainsFunc(questions, func(d *question) bool {
		return len(d.Wants) == 0 || want >= 0 && (d.Partial || !p.partial) &&
			slices.ContainsFunc(d.labeled[p.text(want)], p.asks[want].TakesSame)
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
	var open []*question
	answered := make(chan *question)
	var questions sync.WaitGroup
	defer questions.Wait()
	for ctx.Err() == nil {
		want, ok, until := q.want(open)
		if ok && len(open) < maxQuestions {
			open = append(open, &want)
			questions.Go(func() {
				f.once(ctx, want.Demand)
				select {
				case answered <- &want:
				case <-ctx.Done():
				}
			})
			continue
		}
		select {
		case <-until:
		case ended := <-answered:
			open = slices.DeleteFunc(open, func(d *question) bool { return d == ended })
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
	runs = f.to.learn(runs, &want)
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
	want.Max, want.NoWait, want.Spare = min(want.Max, most), false, true
	runs, err := from.Pull(waits, want)
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	var taken []carillon.RunID // not copies of runs that stay here
	for i := range runs {
		if want.Takes(runs[i].Lane()) {
			taken = append(taken, runs[i].ID)
		}
		runs[i].About, runs[i].Output = nil, nil
	}
	if len(taken) > 0 {
		time.AfterFunc(look, func() { redecide(taken) })
	}
	return runs, nil
}

package porttest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/internal/catalog"
)

// Gates lets two nodes work on random jobs while gates close and open at random, nodes stop and die, carriers
// lose runs, and calls to the store fail before or after they did their work. A small reference, which knows
// only when which gate was closed, judges what has started, been held and been dropped.
func Gates(t *testing.T, open func(t *testing.T) carillon.Store) {
	const worlds = 6
	begun, seed := time.Now(), Seed(t)
	for i := range worlds {
		store := newOutside(t, open(t))
		synctest.Test(t, func(t *testing.T) {
			w := newGatesWorld(t, store, seed+int64(i), i%3 != 0)
			defer w.stop()
			for range gatesSteps {
				w.step()
			}
			w.heal()
			w.drain()
			w.stop()
			w.check()
		})
		if t.Failed() {
			t.Fatalf("in world %d", i)
		}
		if time.Since(begun) > modelTime {
			return
		}
	}
}

const gatesSteps = 45

// gatesWorld is two nodes on one store.
type gatesWorld struct {
	t           *testing.T
	rand        *rand.Rand
	truth       *watched // never fails
	coordinator *mem.Coordinator
	nodes       [2]*gatesNode
	lives       int // of nodes
	stopping    sync.WaitGroup

	faulty  bool // calls fail, carriers lose runs, nodes die
	healed  atomic.Bool
	chances []*chance

	jobs     []carillon.JobID
	asked    map[carillon.RunID]bool                // by a caller, who was told so
	disturbs map[carillon.JobID][]carillon.Time     // commands on the job, that may have been performed
	canceled map[carillon.JobID]bool                // such a command canceled it, or one of its runs
	answered map[carillon.JobID]carillon.Definition // as it was submitted
	closed   map[string]*closure                    // gates that are closed, by id
	closures []*closure

	mu     sync.Mutex
	starts []gatesStart

	dropped, owed, ordered int // runs that were judged
}

// gatesStart is an attempt, as its handler saw it.
type gatesStart struct {
	run       carillon.Run
	job       *carillon.Job
	at        carillon.Time
	succeeded bool
}

// closure is a time in which a gate was closed.
type closure struct {
	id     string
	drop   bool
	reason string
	kind   gatesKind
	rate   bool // runs leave it one after the other
	// A caller began to close it at begun. From inForce to opened it is closed on every node. No node takes
	// it for closed from over on.
	begun, inForce, opened, over carillon.Time
}

// gatesKind is a match, and which definitions it means.
type gatesKind struct {
	match carillon.GateMatch
	means func(*carillon.Definition) bool
}

var gatesKinds = []gatesKind{
	{carillon.GateMatch{All: true}, func(*carillon.Definition) bool { return true }},
	{carillon.GateMatch{Type: "kind.1"}, func(d *carillon.Definition) bool { return d.Type == "kind.1" }},
	{carillon.GateMatch{Type: "*.2"}, func(d *carillon.Definition) bool { return d.Type == "kind.2" }},
	{carillon.GateMatch{Queue: "q0"}, func(d *carillon.Definition) bool { return d.Queue == "q0" }},
	{carillon.GateMatch{Owner: "ann"}, func(d *carillon.Definition) bool { return d.Owner == "ann" }},
	{
		carillon.GateMatch{Labels: map[string]string{"tier": "1"}},
		func(d *carillon.Definition) bool { return d.Labels["tier"] == "1" },
	},
	{
		carillon.GateMatch{Type: "kind.*", Queue: "q1"},
		func(d *carillon.Definition) bool { return d.Queue == "q1" },
	},
}

func newGatesWorld(t *testing.T, store carillon.Store, seed int64, faulty bool) *gatesWorld {
	w := &gatesWorld{
		t: t, rand: rand.New(rand.NewPCG(uint64(seed), 1)), coordinator: mem.NewCoordinator(), faulty: faulty,
		truth: &watched{Store: store, seen: map[carillon.RunID]map[int32]sighting{}},
		asked: map[carillon.RunID]bool{}, disturbs: map[carillon.JobID][]carillon.Time{},
		canceled: map[carillon.JobID]bool{}, answered: map[carillon.JobID]carillon.Definition{},
		closed: map[string]*closure{},
	}
	for i := range w.nodes {
		w.nodes[i] = w.live()
		time.Sleep(700 * time.Millisecond) // so that not all loops of both look at the same moments
	}
	time.Sleep(5 * time.Second)
	return w
}

func (w *gatesWorld) step() {
	time.Sleep(time.Duration(w.rand.IntN(1500)) * time.Millisecond)
	switch n := w.rand.IntN(30); {
	case n < 10:
		w.submit()
	case n < 15:
		w.command()
	case n < 21 && len(w.closed) < 3:
		w.close()
	case n < 27:
		w.openOne()
	case n < 28:
		w.restart()
	}
}

func (w *gatesWorld) node() *gatesNode { return w.nodes[w.rand.IntN(len(w.nodes))] }

// submit submits a few jobs, that are due at once, later, or again and again.
func (w *gatesWorld) submit() {
	defs := make([]carillon.Definition, 1+w.rand.IntN(4))
	for i := range defs {
		defs[i] = w.define()
		w.must(defs[i].Admit(carillon.Now()))
	}
	jobs, err := w.node().Ledger.Submit(context.Background(), carillon.DefaultNamespace, defs)
	w.may(err)
	for i := range jobs {
		w.jobs = append(w.jobs, jobs[i].ID)
		w.answered[jobs[i].ID] = defs[i]
	}
}

func (w *gatesWorld) define() carillon.Definition {
	d := carillon.Definition{
		Type: fmt.Sprint("kind.", w.rand.IntN(3)), Queue: fmt.Sprint("q", w.rand.IntN(2)),
		Owner: pick(w.rand, "ann", "bob"), Target: carillon.Target{Handler: &carillon.Handler{}},
		Labels:  map[string]string{"tier": pick(w.rand, "0", "1")},
		Payload: []byte(pick(w.rand, `"fails"`, `1`)),
	}
	switch w.rand.IntN(6) {
	case 0, 1:
		d.Schedule.After = carillon.Duration(time.Duration(w.rand.IntN(20_000)) * time.Millisecond)
	case 2:
		d.Schedule.Every = carillon.Duration(time.Duration(1+w.rand.IntN(7)) * time.Second)
		d.Schedule.MaxRuns = 1 + w.rand.IntN(4)
		d.Overlap = pick(w.rand, carillon.OverlapSkip, carillon.OverlapQueueAll, carillon.OverlapAllow)
	}
	if w.rand.IntN(4) == 0 {
		d.Limits = []carillon.Limit{{
			Key: pick(w.rand, "a", "b"), Concurrency: 1 + w.rand.IntN(2), Weight: 1,
		}}
	}
	return d
}

// command is what users do to jobs and runs, whether a gate concerns them or not.
func (w *gatesWorld) command() {
	if len(w.jobs) == 0 {
		return
	}
	ctx, l, space := context.Background(), w.node().Ledger, carillon.DefaultNamespace
	id := pick(w.rand, w.jobs...)
	w.disturbs[id] = append(w.disturbs[id], carillon.Now())
	var run carillon.Run
	var err error
	switch w.rand.IntN(8) {
	case 0, 1:
		run, err = l.RunNow(ctx, space, id, nil)
	case 2:
		_, err = l.PauseJob(ctx, space, id)
	case 3:
		_, err = l.ResumeJob(ctx, space, id)
	case 4:
		w.canceled[id] = true
		_, err = l.CancelJob(ctx, space, id, w.rand.IntN(2) == 0)
	case 5, 6:
		if runs := w.runsOf(id); len(runs) > 0 {
			run, err = l.RetryRun(ctx, space, pick(w.rand, runs...).ID)
		}
	default:
		as := w.define()
		_, err = l.EditJob(ctx, space, id, func(d *carillon.Definition) error {
			d.Queue, d.Owner, d.Labels = as.Queue, as.Owner, as.Labels
			return nil
		})
	}
	w.may(err)
	if err == nil && !run.ID.IsZero() {
		w.asked[run.ID] = true
	}
}

// restart stops a node, or lets it die, and starts another one in its place.
func (w *gatesWorld) restart() {
	i := w.rand.IntN(len(w.nodes))
	was := w.nodes[i]
	if w.faulty && w.rand.IntN(2) == 0 {
		was.dead.Store(true)
		w.stopping.Go(was.Stop)
	} else {
		was.Stop()
	}
	w.nodes[i] = w.live()
}

// heard is after how long every node knows of a gate that was closed, or opened.
func (w *gatesWorld) heard() time.Duration {
	if w.faulty {
		return 4 * time.Second
	}
	return time.Second
}

func (w *gatesWorld) close() {
	c := &closure{
		id: fmt.Sprint("g", len(w.closures)), drop: w.rand.IntN(3) == 0, begun: carillon.Now(),
		reason: fmt.Sprint("because ", len(w.closures)), kind: pick(w.rand, gatesKinds...),
		opened: carillon.Never, over: carillon.Never,
	}
	// A queue is paused again and again, also while the runs that it held still leave.
	if id := carillon.QueueGate(c.kind.match.Queue); c.kind.match.Type == "" && c.kind.match.Queue != "" &&
		w.closed[id] == nil {
		c.id = id
	}
	g := carillon.Gate{
		ID: c.id, Namespace: carillon.DefaultNamespace, By: "ann", Match: c.kind.match, Reason: c.reason,
	}
	if c.drop {
		g.Mode = carillon.GateDrop
	}
	if w.rand.IntN(4) == 0 {
		g.Expires = c.begun.Add(time.Duration(5000+w.rand.IntN(10_000)) * time.Millisecond)
		c.opened, c.over = g.Expires, g.Expires.Add(w.heard())
	}
	w.closures, w.closed[c.id] = append(w.closures, c), c
	for {
		g.At = carillon.Now()
		w.must(g.Admit(g.At))
		_, err := catalog.Gates.Write(context.Background(), w.node().Catalog, gateRecord(c.id), "ann", func(
			_, next *catalog.Record[carillon.Gate], _ *carillon.Change,
		) (remove bool, err error) {
			next.Value = g
			return false, nil
		})
		if w.may(err); err == nil {
			break
		}
	}
	c.inForce = carillon.Now().Add(w.heard())
}

func gateRecord(id string) catalog.Name {
	return catalog.Name{Namespace: carillon.DefaultNamespace, Name: id}
}

// openOne opens the gate that has been closed for longest, or forgets one that has opened by itself.
func (w *gatesWorld) openOne() {
	for _, c := range w.closures {
		if w.closed[c.id] != c {
			continue
		}
		w.open(c)
		return
	}
}

func (w *gatesWorld) open(c *closure) {
	delete(w.closed, c.id)
	rate := pick(w.rand, carillon.Rate{}, carillon.Rate{Starts: 5, Per: time.Second},
		carillon.Rate{Starts: 120, Per: time.Minute})
	c.rate, c.opened = rate.Starts > 0 && c.opened > carillon.Now(), min(c.opened, carillon.Now())
	for {
		known := w.node().Catalog
		_, err := catalog.Gates.Write(context.Background(), known, gateRecord(c.id), "bob", func(
			was, next *catalog.Record[carillon.Gate], beside *carillon.Change,
		) (remove bool, err error) {
			if was == nil {
				return false, carillon.ErrNotFound // it has opened by itself, and is gone
			}
			g := catalog.GateIn(was)
			how := catalog.Opening{By: "bob", Rate: rate, At: carillon.Now()}
			err = known.OpenGate(context.Background(), g, how, beside)
			next.Value = *g
			return false, err
		})
		if w.may(err); !errors.Is(err, ErrInjected) {
			break
		}
	}
	c.over = min(c.over, carillon.Now().Add(w.heard()))
}

// heal opens all gates and lets nothing fail any more.
func (w *gatesWorld) heal() {
	for len(w.closed) > 0 {
		w.openOne()
	}
	w.healed.Store(true)
	for _, c := range w.chances {
		c.end()
	}
	for _, id := range w.jobs {
		_, err := w.nodes[0].Ledger.ResumeJob(context.Background(), carillon.DefaultNamespace, id)
		w.may(err)
	}
}

// stop stops all nodes, the first time that it is called.
func (w *gatesWorld) stop() {
	for i, n := range w.nodes {
		if n != nil {
			w.stopping.Go(n.Stop)
		}
		w.nodes[i] = nil
	}
	w.stopping.Wait()
}

func (w *gatesWorld) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// may takes the errors of calls that failed because they were made to, and of commands that came too late.
func (w *gatesWorld) may(err error) {
	w.t.Helper()
	if err != nil && !errors.Is(err, ErrInjected) && !errors.Is(err, carillon.ErrConflict) &&
		!errors.Is(err, carillon.ErrNotFound) {
		w.t.Fatal(err)
	}
}

package simulate

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
)

// heal undoes a fault.
type heal struct {
	at   time.Time
	what string
	do   func()
}

// play lets load and faults come, one at each step. Every step has its own source of chance, so that a step
// which is left out changes the others as little as possible.
func (w *world) play(steps int) {
	for i := range steps {
		w.random = rand.New(rand.NewPCG(w.seed, uint64(i)+2))
		time.Sleep(pick(w.random, 0, 2*time.Second))
		w.heals = slices.DeleteFunc(w.heals, func(h heal) bool {
			if !time.Now().After(h.at) {
				return false
			}
			h.do()
			w.tell("healed: %s", h.what)
			return true
		})
		if w.without[i] {
			continue
		}
		if h := w.step(i); h.do != nil {
			w.heals = append(w.heals, h)
		}
	}
	w.random = rand.New(rand.NewPCG(w.seed, 1))
	if w.random.IntN(3) == 0 {
		w.healCore()
		return
	}
	w.healAll()
	w.startNode(4)
	w.tell("all is healed")
}

func (w *world) healAll() {
	for _, h := range w.heals {
		h.do()
	}
	w.heals = nil
}

// step submits a job, sends a command about one, or does a fault, which it returns if it can be undone.
func (w *world) step(number int) heal {
	switch at := w.random.IntN(10); {
	case at < 5 || len(w.orders) == 0:
		w.submit(number)
	case at < 7:
		commands := []func(){w.cancel, w.pause, w.resume, w.resume, w.runNow, w.runNow, w.edit, w.edit}
		if len(w.tenants) > 1 {
			commands = append(commands, w.trespass, w.trespass)
		}
		commands[w.random.IntN(len(commands))]()
	default:
		what, undo := w.faults[w.random.IntN(len(w.faults))](w)
		if what == "" {
			break
		}
		w.tell("%d: %s", number, what)
		if undo != nil {
			return heal{time.Now().Add(pick(w.random, 500*time.Millisecond, 20*time.Second)), what, undo}
		}
	}
	return heal{}
}

// healCore starts one healthy node and then breaks everything else for good: each process is frozen or cut
// off. The node must get on alone, and take over within the promised time.
func (w *world) healCore() {
	w.healAll() // a beat that a slow link holds up would keep a session alive
	core := w.startNode(coreSlots)
	time.Sleep(2 * carillon.SessionTime) // until it has watched the others for long enough
	w.broken = time.Now()
	w.mu.Lock()
	w.rest, w.nodes = slices.DeleteFunc(w.nodes, func(n *node) bool { return n == core }), []*node{core}
	w.mu.Unlock()
	for _, n := range w.rest {
		w.breakForGood(n.process, n.toStore, n.toSessions)
	}
	for _, r := range w.workers {
		w.breakForGood(r.process, r.links...)
	}
	w.tell("only %s is healthy, for good", core.name)
}

// coreSlots are enough for all runs of a world at once.
const coreSlots = 200

func (w *world) breakForGood(p *process, links ...*link) {
	if w.random.IntN(2) == 0 {
		p.freeze()
		w.tell("%s is frozen", p.name)
		return
	}
	p.thaw()
	for _, l := range links {
		l.set(weather{lost: 1})
	}
	w.tell("%s is cut off", p.name)
}

// settle waits until no run is unfinished, and none can come any more: a job that was on its way in a slow
// request, whose caller has perhaps given up, can be stored after all other runs have ended.
func (w *world) settle(ctx context.Context, most time.Duration) bool {
	w.waitForCallers()
	if !w.idle(ctx, most) {
		return false
	}
	time.Sleep(calm)
	return w.idle(ctx, most)
}

// waitForCallers waits until callers have their answers or give up. One that asked a node which is frozen for
// good waits until the end of the world.
func (w *world) waitForCallers() {
	answered := make(chan struct{})
	go func() {
		w.calls.Wait()
		close(answered)
	}()
	select {
	case <-answered:
	case <-time.After(2 * calm):
	}
}

// idle waits until no run is unfinished. It resumes jobs that are still paused.
func (w *world) idle(ctx context.Context, most time.Duration) bool {
	for end := time.Now().Add(most); time.Now().Before(end); time.Sleep(time.Second) {
		runs := w.unfinished(ctx)
		if len(runs) == 0 {
			return true
		}
		for _, o := range w.orders {
			if slices.ContainsFunc(runs, func(r carillon.Run) bool {
				return r.ID.Job == o.known() && r.Has(carillon.FlagOnHold)
			}) {
				o.set(func() {
					if o.resumed == 0 {
						o.resumed = realTime()
					}
				})
				_, _ = w.nodes[0].ledger.ResumeJob(ctx, o.tenant, o.known())
			}
		}
	}
	return false
}

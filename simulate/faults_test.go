package simulate

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// fault does something to the world and says what; empty: it could not. heal, if not nil, undoes it later.
type fault func(w *world) (what string, heal func())

var faults = []fault{
	// Freeze a node.
	func(w *world) (string, func()) { return w.freeze(w.someNode().process) },
	// Freeze a worker.
	func(w *world) (string, func()) {
		if len(w.workers) == 0 {
			return "", nil
		}
		return w.freeze(w.workers[w.random.IntN(len(w.workers))].process)
	},
	// Kill a node.
	func(w *world) (string, func()) {
		n := w.someNode()
		w.remove(n)
		w.kill(n.process, n.stop)
		if len(w.nodes) == 0 || w.random.IntN(2) == 0 {
			w.startNode(w.random.IntN(5))
		}
		return "killed " + n.name, nil
	},
	// Kill a worker.
	func(w *world) (string, func()) {
		if len(w.workers) == 0 {
			return "", nil
		}
		i := w.random.IntN(len(w.workers))
		r := w.workers[i]
		w.workers = append(w.workers[:i:i], w.workers[i+1:]...)
		w.kill(r.process, r.stop)
		if w.random.IntN(2) == 0 {
			w.startWorker(1 + w.random.IntN(4))
		}
		return "killed " + r.name, nil
	},
	// Stop a node.
	func(w *world) (string, func()) {
		if len(w.nodes) == 1 {
			return "", nil
		}
		n := w.someNode()
		w.remove(n)
		n.stop()
		return "stopped " + n.name, n.thaw
	},
	// A node joins.
	func(w *world) (string, func()) {
		if len(w.nodes) > 3 {
			return "", nil
		}
		return w.startNode(w.random.IntN(5)).name + " joined", nil
	},
	// Link to the store.
	func(w *world) (string, func()) { return w.spoil(w.someNode().toStore) },
	// Link to the coordinator.
	func(w *world) (string, func()) {
		return w.spoil(w.someNode().toSessions)
	},
	// Link between nodes.
	func(w *world) (string, func()) {
		n := w.someNode()
		w.mu.Lock()
		defer w.mu.Unlock()
		if len(n.carriers) == 0 {
			return "", nil
		}
		return w.spoil(n.carriers[w.random.IntN(len(n.carriers))])
	},
	// Link of a worker.
	func(w *world) (string, func()) {
		if len(w.workers) == 0 {
			return "", nil
		}
		links := w.workers[w.random.IntN(len(w.workers))].links
		return w.spoil(links[w.random.IntN(len(links))])
	},
	// Network of a worker.
	func(w *world) (string, func()) {
		if len(w.workers) == 0 {
			return "", nil
		}
		r := w.workers[w.random.IntN(len(w.workers))]
		set := func(all weather) {
			for _, l := range r.links {
				l.set(all)
			}
		}
		bad := w.badWeather()
		set(bad)
		return "network of " + r.name + ": " + bad.describe, func() { set(weather{}) }
	},
	// Set a clock. The node corrects it when it next compares its clock with the store's.
	func(w *world) (string, func()) {
		n, by := w.someNode(), pick(w.random, time.Millisecond, 10*time.Second)
		if w.random.IntN(3) == 0 {
			by = pick(w.random, 10*time.Second, 3*time.Minute)
		}
		if w.random.IntN(2) == 0 {
			by = -by
		}
		w.ahead, w.clocksSet = max(w.ahead, by), true
		n.clock.SetAhead(by)
		return fmt.Sprintf("clock of %s is set by %s", n.name, by), func() { n.clock.SetAhead(0) }
	},
}

func (w *world) someNode() *node { return w.nodes[w.random.IntN(len(w.nodes))] }

func (w *world) freeze(p *process) (string, func()) {
	p.freeze()
	return "froze " + p.name, p.thaw
}

// spoil makes the weather of a link bad.
func (w *world) spoil(l *link) (string, func()) {
	bad := w.badWeather()
	if l.to == nil {
		bad.twice = 0 // the driver of a database sends nothing again by itself
	}
	l.set(bad)
	return l.name + ": " + bad.describe, func() { l.set(weather{}) }
}

// weathers are the ways in which the calls of a link fail.
var weathers = []func(random *rand.Rand) weather{
	func(*rand.Rand) weather { return weather{lost: 1, describe: "cut"} },
	func(*rand.Rand) weather { return weather{unheard: 1, describe: "answers are lost"} },
	func(*rand.Rand) weather { return weather{lost: 0.3, unheard: 0.3, describe: "lossy"} },
	func(*rand.Rand) weather { return weather{held: 0.3, describe: "some are held up"} },
	func(random *rand.Rand) weather {
		slow := pick(random, 100*time.Millisecond, 7*time.Second)
		return weather{slow: slow, describe: fmt.Sprintf("up to %s slow", slow)}
	},
	func(random *rand.Rand) weather {
		return weather{
			slow: pick(random, 100*time.Millisecond, 4*time.Second), lost: 0.1, unheard: 0.1, twice: 0.3,
			describe: "slow, lossy, twice",
		}
	},
}

func (w *world) badWeather() weather {
	bad := w.weathers[w.random.IntN(len(w.weathers))](w.random)
	bad.deaf = w.random.IntN(2) == 0
	return bad
}

// some are about a third of a list, at least one. A world has some faults only: each of them comes more often
// then, and more often together with itself.
func some[T any](random *rand.Rand, all []T) (chosen []T) {
	for len(chosen) == 0 {
		for _, one := range all {
			if random.IntN(3) == 0 {
				chosen = append(chosen, one)
			}
		}
	}
	return chosen
}

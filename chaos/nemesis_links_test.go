package chaos

import (
	"math/rand/v2"
	"os"
	"time"

	"github.com/carillon-run/carillon/chaos/check"
	"github.com/carillon-run/carillon/chaos/proxy"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/internal/failpoint"
)

// networkFaults hit one link of a process: of a node to its database or to all that talk to it, of a worker
// to all nodes. A cut can last longer than a session.
var networkFaults = []fault{
	{"cut", check.PartNode, 2, time.Second, frozenTo, onLink(proxy.Cut, proxy.Pause, proxy.Closed)},
	{"cut", check.PartWorker, 2, time.Second, frozenTo, onLink(proxy.Cut, proxy.Pause, proxy.Closed)},
	{"one_way", check.PartNode, 2, time.Second, frozenTo, onLink(proxy.NoRequests, proxy.NoAnswers)},
	{"one_way", check.PartWorker, 2, time.Second, frozenTo, onLink(proxy.NoRequests, proxy.NoAnswers)},
	{"slow", check.PartNode, 1, time.Second, 5 * time.Second, onLink(slowLinks...)},
	{"slow", check.PartWorker, 1, time.Second, 5 * time.Second, onLink(slowLinks...)},
	{"reset", check.PartNode, 1, 0, time.Second, onLink(proxy.Resets)},
	{"reset", check.PartWorker, 1, 0, time.Second, onLink(proxy.Resets)},
	{"answer_lost", check.PartNode, 2, time.Second, 5 * time.Second, onLink(proxy.LostAnswers(5))},
	{"answer_lost", check.PartWorker, 2, time.Second, 5 * time.Second, onLink(proxy.LostAnswers(5))},
}

var slowLinks = []proxy.Fault{
	proxy.Late(200 * time.Millisecond), proxy.Late(1500 * time.Millisecond), proxy.Slow(20_000),
}

// onLink does one of the faults to a link.
func onLink(any ...proxy.Fault) func(tr *trial, rnd *rand.Rand, f *check.Fault) (undo func()) {
	return func(tr *trial, rnd *rand.Rand, f *check.Fault) (undo func()) {
		v := tr.aim(rnd, f)
		if v == nil {
			return nil
		}
		if len(v.links) == 0 { // a worker for commands has only those of the nodes
			tr.healed(v)
			return nil
		}
		link := v.links[rnd.IntN(len(v.links))]
		f.Link, f.From = true, executor.Boottime()
		link.Set(any[rnd.IntN(len(any))])
		return func() {
			link.Heal()
			tr.healed(v)
		}
	}
}

// struckPoints is how often a node or a worker for commands kills itself at each failpoint that it passes in
// a storm that hits nodes. Short trials run beside other tests, and the machine is full.
func (tr *trial) struckPoints() string {
	if tr.length < time.Minute {
		return "1/4000"
	}
	return "1/1000"
}

// wakePoints lets failpoints have an effect until sleep is called.
func (tr *trial) wakePoints() (sleep func()) {
	if err := os.WriteFile(tr.points, nil, 0o600); err != nil {
		tr.t.Error(err)
	}
	return func() {
		if err := os.Remove(tr.points); err != nil {
			tr.t.Error(err)
		}
	}
}

// revivePoints starts processes again that have killed themselves at a failpoint, and keeps that as a fault,
// until the trial is over.
func (tr *trial) revivePoints(over <-chan struct{}) {
	for tick := time.Tick(20 * time.Millisecond); ; {
		select {
		case <-over:
			return
		case <-tick:
		}
		for _, v := range tr.struck() {
			f := &check.Fault{
				Name: "kill_at_point", Part: v.part, Victim: v.name, Process: int32(v.process.cmd.Process.Pid),
				From: executor.Boottime(),
			}
			tr.mu.Lock()
			tr.faults = append(tr.faults, f)
			tr.mu.Unlock()
			tr.revived.Go(func() {
				tr.revive(v)
				tr.mu.Lock()
				defer tr.mu.Unlock()
				f.To = executor.Boottime()
			})
		}
	}
}

// struck are the processes that have killed themselves. They count as hit.
func (tr *trial) struck() (list []*target) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, v := range tr.targets {
		if !v.hit && v.process.Crashed() && killed(v.process.err) {
			v.hit = true
			v.process.told.Store(true)
			list = append(list, v)
		}
	}
	return list
}

// atPoints lets the next starts of a process be killed at all failpoints by chance.
func (tr *trial) atPoints(name string) {
	tr.failing(name, failpoint.Everywhere(tr.struckPoints()), "FAILPOINTS_WHILE="+tr.points)
}

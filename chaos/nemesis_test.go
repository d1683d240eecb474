package chaos

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/carillon-run/carillon/chaos/check"
	"github.com/carillon-run/carillon/chaos/proxy"
	"github.com/carillon-run/carillon/executor"
)

// fault is something that goes wrong in a trial.
type fault struct {
	name   string // its count in the report
	part   check.Part
	weight int // how often it is chosen, compared with the others
	// from and to bound how long it lasts.
	from, to time.Duration
	// do begins the fault and says in f what it hit. undo ends it and returns when what was hit works again.
	// nil: there was nothing to hit.
	do func(tr *trial, rnd *rand.Rand, f *check.Fault) (undo func())
}

// faultList are all faults. Lists of other files are appended to it.
var faultList = slices.Concat(processFaults, storeFaults, networkFaults)

// frozenFrom and frozenTo bound how long a process is frozen: longer than its session.
const frozenFrom, frozenTo = 7500 * time.Millisecond, 12 * time.Second

var processFaults = []fault{
	{"kill", check.PartWorker, 6, 0, 3 * time.Second, kill},
	{"kill", check.PartNode, 6, 0, 3 * time.Second, kill},
	{"freeze", check.PartWorker, 4, frozenFrom, frozenTo, freezeProcess},
	{"freeze", check.PartNode, 4, frozenFrom, frozenTo, freezeProcess},
	{"stop", check.PartWorker, 2, 0, time.Second, stop},
	{"flap", check.PartNode, 3, 0, time.Second, stop},
}

var storeFaults = []fault{
	{"db_kill", check.PartStore, 2, 0, 3 * time.Second, killStore},
	{"db_restart", check.PartStore, 2, 0, 0, restartStore},
	{"db_freeze", check.PartStore, 1, time.Second, frozenTo, freezeStore},
}

// storm is how long faults follow each other, calm how long none begins after that. In the calm all runs must
// come back to their due times.
const storm, calm = 25 * time.Second, 15 * time.Second

// storms does faults, about one a second, until shortly before the end of the trial. One storm hits all
// parts, the next only workers, and so on: so it is clear what a takeover has to do with.
func (tr *trial) storms(rnd *rand.Rand) {
	turns := [][]check.Part{
		{check.PartWorker, check.PartNode, check.PartStore},
		{check.PartWorker},
		{check.PartNode},
		{check.PartWorker},
		{check.PartStore},
	}
	if tr.db == nil {
		turns = turns[:4]
	}
	over := tr.began.Add(tr.length - tr.length/5)
	for turn := 0; time.Now().Before(over) && tr.ctx.Err() == nil; turn++ {
		var undone sync.WaitGroup
		parts := turns[turn%len(turns)]
		sleep := func() {}
		if slices.Contains(parts, check.PartNode) {
			sleep = tr.wakePoints()
		}
		for end := time.Now().Add(storm); time.Now().Before(end) && time.Now().Before(over); {
			last(tr.ctx, between(rnd, 500*time.Millisecond, 1500*time.Millisecond))
			tr.strike(rnd, parts, &undone)
		}
		sleep()
		undone.Wait()
		last(tr.ctx, min(calm, max(time.Until(over), 0)))
	}
}

// strike does one fault, and undoes it later.
func (tr *trial) strike(rnd *rand.Rand, parts []check.Part, undone *sync.WaitGroup) {
	chosen := pickFault(rnd, parts)
	lasts := between(rnd, chosen.from, chosen.to)
	f := &check.Fault{Name: chosen.name, Part: chosen.part, From: executor.Boottime()}
	undo := chosen.do(tr, rnd, f)
	if undo == nil {
		return
	}
	tr.mu.Lock()
	tr.faults = append(tr.faults, f)
	tr.mu.Unlock()
	undone.Go(func() {
		last(tr.ctx, lasts)
		undo()
		tr.mu.Lock()
		defer tr.mu.Unlock()
		f.To = executor.Boottime()
	})
}

func pickFault(rnd *rand.Rand, parts []check.Part) *fault {
	sum := 0
	for i := range faultList {
		if slices.Contains(parts, faultList[i].part) {
			sum += faultList[i].weight
		}
	}
	n := rnd.IntN(sum)
	for i := range faultList {
		if !slices.Contains(parts, faultList[i].part) {
			continue
		}
		if n -= faultList[i].weight; n < 0 {
			return &faultList[i]
		}
	}
	return nil
}

// target is a process that faults hit, and that is started again under the same name.
type target struct {
	name    string
	part    check.Part
	group   string // processes of which at least one stays healthy, if there are several
	process *Process
	links   []*proxy.Proxy // to the store and to those that talk to a node; of a worker to all nodes
	again   func() (p *Process, ready func(context.Context) error)
	hit     bool // a fault lasts
}

// aim chooses a healthy process for a fault. The last healthy one of a group is spared; a group of one is
// not.
func (tr *trial) aim(rnd *rand.Rand, f *check.Fault) *target {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	healthy, all := map[string]int{}, map[string]int{}
	for _, v := range tr.targets {
		all[v.group]++
		if !v.hit {
			healthy[v.group]++
		}
	}
	var free []*target
	for _, v := range tr.targets {
		if v.part == f.Part && !v.hit && (healthy[v.group] > 1 || all[v.group] == 1) && !v.process.Crashed() {
			free = append(free, v)
		}
	}
	if len(free) == 0 {
		return nil
	}
	v := free[rnd.IntN(len(free))]
	v.hit, f.Victim, f.Process = true, v.name, int32(v.process.cmd.Process.Pid)
	return v
}

func (tr *trial) healed(v *target) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	v.hit = false
}

func kill(tr *trial, rnd *rand.Rand, f *check.Fault) (undo func()) {
	v := tr.aim(rnd, f)
	if v == nil {
		return nil
	}
	f.From = executor.Boottime()
	v.process.Kill()
	return func() { tr.revive(v) }
}

func stop(tr *trial, rnd *rand.Rand, f *check.Fault) (undo func()) {
	v := tr.aim(rnd, f)
	if v == nil {
		return nil
	}
	f.From = executor.Boottime()
	ended := make(chan error, 1)
	go func() { ended <- v.process.Stop() }()
	return func() {
		if err := <-ended; err != nil {
			tr.t.Logf("stop %s: %v", v.name, err)
		}
		tr.revive(v)
	}
}

func freezeProcess(tr *trial, rnd *rand.Rand, f *check.Fault) (undo func()) {
	v := tr.aim(rnd, f)
	if v == nil {
		return nil
	}
	f.Freezes, f.From = true, executor.Boottime()
	if err := v.process.Signal(syscall.SIGSTOP); err != nil {
		tr.t.Error(err)
	}
	return func() {
		if err := v.process.Signal(syscall.SIGCONT); err != nil {
			tr.t.Error(err)
		}
		tr.healed(v)
	}
}

// revive starts a process again, as a service manager does: a node that finds no database ends, and is
// started once more.
func (tr *trial) revive(v *target) {
	defer tr.healed(v)
	for tr.ctx.Err() == nil {
		p, ready := v.again()
		v.process = p
		err := ready(tr.ctx)
		if err == nil {
			return
		}
		tr.t.Logf("%s did not start: %v", v.name, err)
		p.Kill()
		last(tr.ctx, 500*time.Millisecond)
	}
}

// storeFault marks the store as hit, so that one fault of it lasts at a time.
func (tr *trial) storeFault(f *check.Fault, begin, end func() error) (undo func()) {
	if tr.db == nil || !tr.storeHit.TryLock() {
		return nil
	}
	f.Victim = tr.kind
	if err := begin(); err != nil {
		tr.t.Error(err)
	}
	return func() {
		defer tr.storeHit.Unlock()
		if err := end(); err != nil {
			tr.t.Error(err)
		}
	}
}

func killStore(tr *trial, _ *rand.Rand, f *check.Fault) (undo func()) {
	return tr.storeFault(f, func() error { return tr.db.Kill() }, func() error { return tr.db.Start(tr.ctx) })
}

func restartStore(tr *trial, _ *rand.Rand, f *check.Fault) (undo func()) {
	return tr.storeFault(f, func() error { return nil }, func() error { return tr.db.Restart(tr.ctx) })
}

func freezeStore(tr *trial, _ *rand.Rand, f *check.Fault) (undo func()) {
	return tr.storeFault(
		f, func() error { return tr.db.Signal(syscall.SIGSTOP) },
		func() error { return tr.db.Signal(syscall.SIGCONT) },
	)
}

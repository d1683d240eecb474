package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
	"github.com/carillon-run/carillon/internal/failpoint"
	"github.com/carillon-run/carillon/worker/protocol"
)

// The first claim of a burst is small, so that its runs start early. Then claims grow, which is cheaper per
// run.
const (
	firstClaim = 64
	largeClaim = 1000
)

// Pull implements protocol.Dispatcher.
func (d *Dispatcher) Pull(ctx context.Context, p protocol.Pull) ([]protocol.Task, error) {
	v, err := d.checkSession(ctx, p.Worker)
	if err != nil {
		return nil, err
	}
	switch err := d.undeliverable(ctx, v); {
	case errors.Is(err, carillon.ErrSessionOver):
		return nil, err
	case err != nil: // the worker is stopping, or gave up this pull
		await.For(ctx, protocol.PullWait)
		return nil, ctx.Err()
	}
	want := p.Want
	names, shares := weightsOf(p.Queues)
	want.Queues = names
	if p.Lone {
		d.countPerformed() // before one of its slots can be reserved
	}
	wait, cancel := context.WithTimeout(ctx, protocol.PullWait)
	defer cancel()
	w := &waiter{
		worker: p.Worker, wants: []carillon.Want{want}, lone: p.Lone, asked: p.Max, room: p.Max,
		awaken: cancel,
	}
	d.reservations.wait(w)
	d.cfg.Ledger.SlotsFree()
	var claimed []inflight
	leave := sync.OnceFunc(func() {
		d.reservations.close(w, 0)
		w.taken()
		d.reservations.answered(w)
		d.endPending(claimed, w.given)
	})
	defer leave() // a pull that panics leaves nothing behind either

	if d.undeliverable(ctx, v) != nil { // it came to that before the pull could be told
		d.reservations.endOne(w)
	}
	size := min(p.Max, int(d.size.Load()))
	demand := carillon.Demand{Wants: w.wants, Max: size}
	if p.Lone {
		demand.Lone, demand.Busy = true, d.inflight.performed.any
		shares = nil // queues take turns by their weights on the node
	}
	runs, err := d.pull(wait, demand, shares)
	if p.Lone {
		d.inflight.performed.come(runs, 1)
		defer func() {
			d.inflight.performed.come(runs, -1)
			d.tellFreed()
		}()
	}
	d.inHand.Add(int64(len(runs)))
	d.reservations.come(runs, 1)
	defer func() {
		d.reservations.come(runs, -1)
		if d.inHand.Add(-int64(len(runs))) == 0 && len(runs) > 0 {
			d.cfg.Ledger.SlotsFree()
		}
	}()
	if !p.Lone {
		d.resize(size, len(runs))
	}
	if d.undeliverable(ctx, v) != nil {
		d.reservations.endOne(w)
	}
	own := len(runs) - d.reservations.close(w, len(runs))
	failed := err != nil && wait.Err() == nil
	var tasks []protocol.Task
	back := runs[own:]
	if own > 0 {
		var heavy []carillon.Run
		tasks, claimed, heavy = d.claim(context.WithoutCancel(ctx), runs[:own], p.Worker)
		back = append(heavy, back...)
	}
	if len(back) > 0 { // they go back to the queue; the next pull gets them
		d.cfg.PushBack(back)
	}
	// The runs are pending until here: the worker cannot list what it has no answer about, however long a
	// commit takes.
	leave()
	if taken := w.taken(); len(tasks) > 0 {
		tasks = append(tasks, taken...)
	} else {
		tasks = taken
	}
	switch why := d.undeliverable(ctx, v); {
	case why != nil:
		d.handBack(tasks, p.Worker, why)
		if errors.Is(why, carillon.ErrSessionOver) {
			return nil, why
		}
		return nil, ctx.Err()
	case failed && len(tasks) == 0:
		return nil, fmt.Errorf("pull due runs: %w", err)
	}
	if len(tasks) > 0 {
		failpoint.At("pull.before")
	}
	return tasks, nil
}

// Why the answer to a pull does not reach its worker, beside carillon.ErrSessionOver.
var (
	errStopping = errors.New("the worker is stopping")
	errGaveUp   = errors.New("the worker gave up its pull")
)

// undeliverable says why the answer to a pull of this session does not reach its worker: then Pull hands back
// at once what it claimed.
func (d *Dispatcher) undeliverable(ctx context.Context, v *session) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case v.over:
		return carillon.ErrSessionOver
	case v.stopping:
		return errStopping
	case ctx.Err() != nil:
		return errGaveUp
	}
	return nil
}

// handBack ends the attempts of an answer that does not reach its worker.
func (d *Dispatcher) handBack(tasks []protocol.Task, worker string, why error) {
	if len(tasks) == 0 {
		return
	}
	lost := make([]protocol.Report, len(tasks))
	for i := range tasks {
		lost[i] = protocol.Report{
			Held: tasks[i].Held(), End: &carillon.Outcome{Kind: carillon.OutcomeLost, Reason: why.Error()},
		}
	}
	d.recordLost(worker, lost)
}

// resize sets the size of the next claim, after a pull that wanted size runs and got some.
func (d *Dispatcher) resize(size, got int) {
	next := firstClaim
	if got == size {
		next = min(2*max(size, firstClaim), largeClaim)
	}
	d.size.Store(int64(next))
}

// Starting implements ledger.Slots: due runs wait, and some are on their way to a worker.
func (d *Dispatcher) Starting() bool { return d.inHand.Load() > 0 && d.cfg.Queue.Len() > 0 }

// checkSession checks that the worker's session is alive. It asks the coordinator if this node has not heard
// of the worker lately: a run claimed for a worker that is gone would be taken back at once, while it begins.
func (d *Dispatcher) checkSession(ctx context.Context, worker string) (*session, error) {
	d.mu.Lock()
	v := d.workers[worker]
	fresh := v != nil && time.Since(v.seen) < protocol.LeaseTime
	d.mu.Unlock()
	if fresh {
		return v, nil
	}
	members, _, err := d.cfg.Coordinator.Members(ctx, carillon.MemberQuery{IDs: []string{worker}})
	if err != nil {
		return nil, fmt.Errorf("ask who is alive: %w", err)
	}
	if len(members) == 0 {
		return nil, fmt.Errorf("%w: worker %s", carillon.ErrSessionOver, worker)
	}
	return d.touch(worker), nil
}

// maxBytes bounds the payloads of one answer: a thousand of the largest would not arrive in time.
const maxBytes = 16 << 20

// weight is what a run adds to an answer. A run's own payload, and the values of a node, are read after the
// claim: until then they count as large ones.
func weight(candidate *carillon.Candidate) int {
	if candidate.Run.Has(carillon.FlagOwnPayload) {
		return carillon.MaxPayload
	}
	if _, part := candidate.Job.Part(); part {
		if _, needs := candidate.Job.NeedsValues(); needs {
			return carillon.MaxPayload
		}
	}
	return len(candidate.Job.Payload)
}

// claim asks the ledger for runs. It returns the runs that it got, which are pending, and those that were too
// much for one answer. A claim that lost because the run changed needs no follow-up: the writer has routed
// the run. But a claim can lose only because another run of the job changed the guard, or because a limit has
// no room; then the scheduler decides about the run again.
func (d *Dispatcher) claim(
	ctx context.Context, runs []carillon.Run, worker string,
) (tasks []protocol.Task, claimed []inflight, heavy []carillon.Run) {
	candidates, err := d.cfg.Ledger.Candidates(ctx, runs, worker)
	if err != nil {
		// Sweep pushes them again.
		d.cfg.Logger.Error("read what is to be claimed", "error", err, "runs", len(runs))
		await.For(ctx, time.Second)
		return nil, nil, nil
	}
	bytes := 0
	for i := range candidates {
		if bytes += weight(&candidates[i]); bytes > maxBytes && i > 0 {
			for _, candidate := range candidates[i:] {
				heavy = append(heavy, candidate.Run)
			}
			candidates = candidates[:i]
			break
		}
	}
	now := d.cfg.Clock.Now()
	changes, decided := make([]carillon.Change, 0, len(candidates)), candidates[:0]
	for _, candidate := range candidates {
		if verdict, c := candidate.Decide(now); verdict != carillon.VerdictHold {
			changes, decided = append(changes, c), append(decided, candidate)
		}
	}
	claimed, candidates, changes = d.addPending(decided, changes)
	returned := false
	defer func() {
		d.dropUncommitted(claimed)
		if !returned { // a panic: the pull never answers with these runs
			d.endPending(claimed, nil)
		}
	}()
	failpoint.At("claim.before")
	lost, err := d.cfg.Ledger.Commit(ctx, changes)
	failpoint.At("claim.after")
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			// Sweep pushes them again.
			d.cfg.Logger.Error("claim", "error", err, "runs", len(runs))
			await.For(ctx, time.Second)
		}
		returned = true
		return nil, claimed, heavy
	}
	var again []carillon.RunID
	for _, i := range lost {
		if candidates[i].Run.Has(carillon.FlagGuarded) || len(changes[i].Folds) > 0 {
			again = append(again, candidates[i].Run.ID)
		}
	}
	d.cfg.Redecide(again)
	tasks = d.tasks(claimed, candidates, changes, lost)
	d.logAttempts(ctx, candidates, tasks)
	tasks, returned = d.withValues(ctx, d.withOutputs(ctx, tasks), worker), true
	return tasks, claimed, heavy
}

// addPending remembers the runs that are about to be claimed for a worker, each at the index of its change.
// It leaves out those that a pull of this node is claiming already.
func (d *Dispatcher) addPending(
	candidates []carillon.Candidate, changes []carillon.Change,
) ([]inflight, []carillon.Candidate, []carillon.Change) {
	giving, n := make([]inflight, len(candidates)), 0 // one allocation for all of them
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range changes {
		run, was := &changes[i].Runs[0], d.inflight.runs[changes[i].Runs[0].ID]
		claims := run.State == carillon.StateClaimed && run.Worker == candidates[i].Worker
		if claims && was != nil && was.pending && !was.committed && was.run.Rev >= run.Rev {
			continue // its commit can take long, and beats must list the claim until it is answered
		}
		if claims && (was == nil || !was.committed || was.run.Attempt < run.Attempt) { // else it will lose
			giving[n] = inflight{
				run: *run, job: candidates[i].Job, guards: candidates[i].Guards, pending: true,
			}
			d.inflight.put(&giving[n])
		}
		candidates[n], changes[n] = candidates[i], changes[i]
		n++
	}
	return giving[:n], candidates[:n], changes[:n]
}

// tasks are the claims that won, each as it is by now: a stop may have been requested meanwhile.
func (d *Dispatcher) tasks(
	giving []inflight, candidates []carillon.Candidate, changes []carillon.Change, lost []int,
) []protocol.Task {
	tasks := make([]protocol.Task, 0, len(giving))
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range giving {
		run := &changes[i].Runs[0]
		switch {
		case len(lost) > 0 && lost[0] == i:
			lost = lost[1:]
			continue
		case run.State != carillon.StateClaimed || run.Worker != candidates[i].Worker:
			continue
		case giving[i].committed:
			run = &giving[i].run
		default: // it is not in memory any more
			won := inflight{
				run: *run, job: candidates[i].Job, guards: candidates[i].Guards,
				pending: true, committed: true,
			}
			for _, guard := range changes[i].Guards {
				won.guards = won.guards.With(guard)
			}
			if h := d.inflight.runs[run.ID]; h != nil && h.committed {
				switch {
				case h.run.Fence() > run.Fence(): // it was taken away meanwhile
					continue
				case h.run.Fence() == run.Fence():
					won.run, won.guards = h.run, h.guards
				}
			}
			giving[i] = won
			run = &giving[i].run
			d.inflight.put(&giving[i])
		}
		tasks = append(tasks, protocol.Task{Run: *run, Job: candidates[i].Job})
	}
	return tasks
}

// dropUncommitted forgets claims that were not committed: this node does not know what became of them.
func (d *Dispatcher) dropUncommitted(claimed []inflight) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range claimed {
		if h := &claimed[i]; !h.committed && d.inflight.runs[h.run.ID] == h {
			d.inflight.drop(h)
		}
	}
	d.tellFreed()
}

// endPending notes that a pull answers with these runs: from now on its worker can list them.
func (d *Dispatcher) endPending(claimed []inflight, reserved []*inflight) {
	now := time.Now()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range claimed {
		claimed[i].pending, claimed[i].since = false, now
	}
	for _, h := range reserved {
		h.pending, h.since = false, now
	}
}

package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

// The first claim of a burst is small, so that its runs start early; then claims grow, which is cheaper for each.
const (
	firstClaim = 64
	largeClaim = 1000
)

// waiter is a pull that waits for something to do. It has room for so many runs; some of it may be promised to jobs that
// are being submitted.
type waiter struct {
	worker string
	queues []string
	room   int
	awaken context.CancelFunc // ends its wait at the queue

	mu       sync.Mutex
	tasks    []carillon.Task
	promised sync.WaitGroup
}

// Pull implements carillon.Desk.
func (d *Desk) Pull(ctx context.Context, p carillon.Pull) ([]carillon.Task, error) {
	if err := d.known(ctx, p.Worker); err != nil {
		return nil, err
	}
	if d.unwanted(ctx, p.Worker) != "" { // it has said that it asks for nothing more
		pause(ctx, carillon.PullWait)
		return nil, ctx.Err()
	}
	names, shares := sharesOf(p.Queues)
	wait, cancel := context.WithTimeout(ctx, carillon.PullWait)
	defer cancel()
	w := &waiter{worker: p.Worker, queues: names, room: p.Max, awaken: cancel}
	d.mu.Lock()
	d.waiting = append(d.waiting, w)
	size := min(p.Max, d.size)
	d.mu.Unlock()

	runs, ack, err := d.pull(wait, names, shares, size)
	d.inHand.Add(int64(len(runs)))
	defer d.inHand.Add(-int64(len(runs)))
	over := d.close(w, len(runs), size)
	if err != nil && wait.Err() == nil {
		return nil, fmt.Errorf("pull due runs: %w", err)
	}
	var tasks []carillon.Task
	back := runs[len(runs)-over:]
	if len(runs) > over {
		var heavy []carillon.Run
		tasks, heavy = d.claim(context.WithoutCancel(ctx), runs[:len(runs)-over], p.Worker)
		back = append(heavy, back...)
	}
	if len(back) > 0 { // they go back to where they came from; the next pull has them
		d.cfg.PushBack(back)
	}
	if ack != nil {
		if err := ack(context.WithoutCancel(ctx)); err != nil {
			d.cfg.Logger.Error("acknowledge pulled runs", "error", err) // they come again, and claiming them again loses
		}
	}
	w.promised.Wait()
	tasks = append(tasks, w.tasks...)
	if why := d.unwanted(ctx, p.Worker); why != "" && len(tasks) > 0 {
		lost := make([]carillon.Report, len(tasks))
		for i := range tasks {
			lost[i] = carillon.Report{Held: tasks[i].Held(), End: &carillon.Outcome{Kind: carillon.Lost, Reason: why}}
		}
		d.recordLost(p.Worker, lost)
		return nil, ctx.Err()
	}
	return tasks, nil
}

// unwanted says why the answer to a pull does not reach its worker: then what was claimed for it is handed back at once.
func (d *Desk) unwanted(ctx context.Context, worker string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch v := d.workers[worker]; {
	case v != nil && v.stops:
		return "the worker is stopping"
	case ctx.Err() != nil:
		return "the worker gave up its pull"
	}
	return ""
}

// close ends the wait of a pull that got some runs from the queue, and says how many of them are too many, because their
// room was promised to jobs that are being submitted. After it nothing more is promised.
func (d *Desk) close(w *waiter, got, size int) (over int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.waiting, w); i >= 0 {
		d.waiting = slices.Delete(d.waiting, i, i+1)
	}
	if got == size {
		d.size = min(2*max(size, firstClaim), largeClaim)
	} else {
		d.size = firstClaim
	}
	return max(0, got-w.room)
}

// known says whether the worker's session is alive, asking the coordinator if it was not heard of lately: what is claimed
// for a worker that is gone would be taken back at once, while it begins.
func (d *Desk) known(ctx context.Context, worker string) error {
	d.mu.Lock()
	v := d.workers[worker]
	fresh := v != nil && time.Since(v.seen) < carillon.LeaseTime
	d.mu.Unlock()
	if fresh {
		return nil
	}
	members, err := d.cfg.Coordinator.Members(ctx, 0)
	if err != nil {
		return fmt.Errorf("ask who is alive: %w", err)
	}
	if !slices.ContainsFunc(members, func(m carillon.Member) bool { return m.ID == worker }) {
		return fmt.Errorf("%w: the session of %s is over", carillon.ErrLost, worker)
	}
	d.alive(worker)
	return nil
}

// maxBytes bounds the payloads of one answer: a thousand of the largest would not arrive in time.
const maxBytes = 16 << 20

// weight is what a run adds to an answer. A payload of its own is read once it is claimed: till then it is taken for a large one.
func weight(due *carillon.Due) int {
	if due.Run.Has(carillon.OwnPayload) {
		return carillon.MaxPayload
	}
	return len(due.Job.Payload)
}

// claim asks the ledger for runs and returns those that were given, and those that were too much for one answer. Whoever changed a run that lost has passed it on; but
// it may have lost for its guard alone, which another run of the job changed, and then somebody has to look at it again.
func (d *Desk) claim(ctx context.Context, runs []carillon.Run, worker string) (tasks []carillon.Task, heavy []carillon.Run) {
	dues, err := d.cfg.Ledger.Dues(ctx, runs, worker)
	if err != nil {
		d.cfg.Logger.Error("read what is to be claimed", "error", err, "runs", len(runs)) // the sweeper pushes it again
		pause(ctx, time.Second)
		return nil, nil
	}
	bytes := 0
	for i := range dues {
		if bytes += weight(&dues[i]); bytes > maxBytes && i > 0 {
			for _, due := range dues[i:] {
				heavy = append(heavy, due.Run)
			}
			dues = dues[:i]
			break
		}
	}
	now := carillon.Now()
	changes, decided := make([]carillon.Change, 0, len(dues)), dues[:0]
	for _, due := range dues {
		if verdict, c := due.Decide(now); verdict != carillon.Stay {
			changes, decided = append(changes, c), append(decided, due)
		}
	}
	dues = decided
	giving := d.expect(dues, changes)
	defer d.unexpect(giving)
	lost, err := d.cfg.Ledger.Commit(ctx, changes)
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			d.cfg.Logger.Error("claim", "error", err, "runs", len(runs)) // the sweeper tries again
			pause(ctx, time.Second)
		}
		return nil, heavy
	}
	var again []carillon.RunID
	for _, i := range lost {
		if dues[i].Run.Has(carillon.Guarded) {
			again = append(again, dues[i].Run.ID)
		}
	}
	d.cfg.Look(again)
	tasks = d.tasks(giving, dues, changes, lost)
	d.notice(ctx, dues, tasks)
	return d.withOutputs(ctx, tasks), heavy
}

// expect remembers the runs that are about to be given to a worker, each at the index of its change.
func (d *Desk) expect(dues []carillon.Due, changes []carillon.Change) []handed {
	giving := make([]handed, len(dues)) // one piece of memory for all of them
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range changes {
		run := &changes[i].Runs[0]
		if run.State != carillon.Claimed || run.Worker != dues[i].Worker {
			continue // it was decided otherwise
		}
		if was := d.handed.runs[run.ID]; was != nil && was.committed && was.run.Attempt >= run.Attempt {
			continue // this will lose
		}
		giving[i] = handed{run: *run, job: dues[i].Job, giving: true}
		d.handed.put(&giving[i])
	}
	return giving
}

// tasks are those that won, each as it is by now: somebody may have asked it to stop meanwhile.
func (d *Desk) tasks(giving []handed, dues []carillon.Due, changes []carillon.Change, lost []int) []carillon.Task {
	tasks := make([]carillon.Task, 0, len(giving))
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range giving {
		run := &changes[i].Runs[0]
		switch {
		case len(lost) > 0 && lost[0] == i:
			lost = lost[1:]
			continue
		case run.State != carillon.Claimed || run.Worker != dues[i].Worker:
			continue
		case giving[i].committed:
			run = &giving[i].run
		default: // somebody else tried to claim it at the same time, and stands in its place
			h := d.handed.runs[run.ID]
			if h != nil && !h.committed {
				d.handed.drop(h)
			}
			if h == nil || !h.committed {
				giving[i] = handed{run: *run, job: dues[i].Job, giving: true, committed: true}
				d.handed.put(&giving[i])
			}
		}
		tasks = append(tasks, carillon.Task{Run: *run, Job: dues[i].Job})
	}
	return tasks
}

// unexpect ends the handing over, and forgets what was not committed: nobody here knows what became of it.
func (d *Desk) unexpect(giving []handed) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range giving {
		h := &giving[i]
		h.giving = false
		if !h.committed && d.handed.runs[h.run.ID] == h {
			d.handed.drop(h)
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

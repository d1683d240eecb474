package dispatch

import (
	"context"
	"slices"
	"sync"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/worker/protocol"
)

// reservations let a job that is due at once be submitted already claimed (preclaimed), by a worker whose
// pull waits on this node. A reservation is a slot of such a pull that is kept for one run while the submit
// of the run is under way. Everything about reservations is in this file: a pull begins and closes its wait
// here, and claims the runs that it gets from the queue without knowing of them.
//
//   - It is made by reserve, before the commit of the submit, if a pull waits that wants the run, has room,
//     and takes no run that is in the queue: older due runs come first. For the same reason none is made
//     while a pull of this node that got runs of the same lane from the queue has not answered. Runs of other
//     lanes that are on their way have a slot already: they do not need this one. A slot that its worker
//     keeps is reserved if no other can be, and the run is lone (carillon.Demand).
//   - It is taken by settle, when the ledger tells that the run was committed as claimed: the run is in
//     flight from then on, and pending until the pull has answered. The pull stops waiting and answers with
//     it, also if the caller of the submit is gone.
//   - It is handed back by release if the commit fails, and by settle if the run was committed in another
//     state.
//
// Invariants: each reservation is either taken or handed back, once. The room of a pull is what it asked for
// minus its reservations, those that are taken included. A pull answers only when none of its reservations is
// open, and a pull that is closed, or whose worker would not get the answer, gets no new ones; so a
// reservation never outlives its pull.
//
// Locks are taken in this order: that of the ledger or of the dispatcher, mu here, that of the queue, that of
// performed.
//
// What can go wrong: if the answer to a commit is lost, release hands the slot back although the run may be
// committed as claimed. The worker does not list that run in its beats, so the watch loop of the scheduler
// takes the run back. If a session ends between reserve and the commit, the pull still waits for the commit,
// and then hands the run back as a loss.
type reservations struct {
	queue     carillon.Queue
	performed *performed

	mu        sync.Mutex
	waiters   []*waiter             // pulls that wait, longest waiting first
	answering []*waiter             // pulls that claim runs from the queue and have not answered yet
	coming    map[carillon.Lane]int // runs from the queue of pulls that have not answered yet
	open      map[carillon.RunID]reservation
}

// reservation is a slot of a pull that waits.
type reservation struct {
	entry  *inflight // what this node remembers of the run once it is committed; until then without revision
	waiter *waiter
}

// waiter is a pull that waits for due runs.
type waiter struct {
	worker string
	wants  []carillon.Want    // one; a list, because the queue asks for one
	awaken context.CancelFunc // ends its wait at the queue

	lone     bool            // its slots are kept for lone runs: see carillon.Demand
	asked    int             // slots
	room     int             // those that are neither reserved nor taken
	ended    bool            // its worker would not get the answer: it takes no more runs
	given    []*inflight     // what this node remembers of the runs whose reservations were taken
	tasks    []protocol.Task // of the same runs
	reserved sync.WaitGroup  // its open reservations
}

func newReservations(queue carillon.Queue, performed *performed) reservations {
	return reservations{
		queue: queue, performed: performed,
		coming: map[carillon.Lane]int{}, open: map[carillon.RunID]reservation{},
	}
}

// come adds runs that a pull got from the queue to those that are on their way to a slot, or with -1 removes
// them.
func (r *reservations) come(runs []carillon.Run, sign int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for from := 0; from < len(runs); {
		lane, to := runs[from].Lane(), from+1 // runs of one lane come together
		for to < len(runs) && runs[to].Lane() == lane {
			to++
		}
		if r.coming[lane] += sign * (to - from); r.coming[lane] == 0 {
			delete(r.coming, lane)
		}
		from = to
	}
}

// wait adds a pull whose slots can be reserved.
func (r *reservations) wait(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiters = append(r.waiters, w)
}

// close closes the wait of a pull that got some runs from the queue. It says how many of them are too many,
// because their slots are reserved, or because the worker would not get the answer.
func (r *reservations) close(w *waiter, got int) (surplus int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiters = remove(r.waiters, w)
	if w.ended {
		return got
	}
	if surplus = max(0, got-w.room); got > surplus {
		r.answering = append(r.answering, w)
	}
	return surplus
}

// answered notes that a closed pull has claimed its runs, or cannot.
func (r *reservations) answered(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answering = remove(r.answering, w)
}

func remove(list []*waiter, w *waiter) []*waiter {
	if i := slices.Index(list, w); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// taken waits until no reservation of a closed pull is open, and returns the runs that were committed.
func (w *waiter) taken() []protocol.Task {
	w.reserved.Wait()
	return w.tasks
}

// end ends the wait of the pull. The caller holds mu of the reservations.
func (w *waiter) end() {
	w.ended = true
	w.awaken()
}

// takes says that the pull wants the run and has room for it. The caller holds mu of the reservations.
func (w *waiter) takes(run *carillon.Run) bool {
	return !w.ended && w.room > 0 && w.wants[0].Takes(run.Lane())
}

// behind says that the pull is about to get runs from the queue. Due runs that it does not take, because its
// worker cannot perform them, do not matter.
func (r *reservations) behind(w *waiter) bool {
	return r.queue.Len() > 0 && r.queue.Len(w.wants...) > 0
}

// reserve keeps a slot of a pull that waits for a run that is about to be submitted.
func (r *reservations) reserve(
	run *carillon.Run, job *carillon.Job, now carillon.Time,
) (worker string, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.coming) > 0 && r.coming[run.Lane()] > 0 {
		return "", false
	}
	w := r.find(func(w *waiter) bool { return !w.lone && w.takes(run) && !r.behind(w) })
	if w == nil {
		w = r.find(func(w *waiter) bool { return w.lone && w.takes(run) })
	}
	if w == nil || w.lone && !r.isLone(run) {
		return "", false
	}
	w.room--
	w.reserved.Add(1)
	r.open[run.ID] = reservation{&inflight{run: run.Claim(w.worker, now), job: job}, w}
	return w.worker, true
}

// isLone says that a run is lone, see carillon.Demand, and that none of its sharer is about to begin. The
// caller holds mu.
func (r *reservations) isLone(run *carillon.Run) bool {
	sharer := run.Lane().Sharer()
	if r.performed.any(sharer) || r.queue.Has(sharer) {
		return false
	}
	for _, one := range r.open { // last: there can be one for each slot
		if one.entry.run.Lane().Sharer() == sharer {
			return false
		}
	}
	return true
}

// find returns the pull that has waited longest of those that a rule allows; nil: there is none. The caller
// holds mu.
func (r *reservations) find(allows func(*waiter) bool) *waiter {
	if i := slices.IndexFunc(r.waiters, allows); i >= 0 {
		return r.waiters[i]
	}
	return nil
}

// settle ends the reservations of runs that were committed. It gives those that were committed as claimed to
// put, and then to their pull.
func (r *reservations) settle(committed []carillon.Change, put func(*inflight)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := 0; i < len(committed) && len(r.open) > 0; i++ {
		for k := range committed[i].Runs {
			run := &committed[i].Runs[k]
			one, reserved := r.open[run.ID]
			if !reserved {
				continue
			}
			h := one.entry
			if !run.State.Held() || run.Held() != h.run.Held() || run.Worker != h.run.Worker {
				r.handBack(run.ID, one)
				continue
			}
			delete(r.open, run.ID)
			h.run, h.committed, h.pending = *run, true, true
			put(h)
			one.waiter.give(h)
			one.waiter.awaken()
			one.waiter.reserved.Done()
		}
	}
}

// give adds a run to the answer of the pull. The first one makes room for all that are reserved by then: most
// of them come with the same commit. Tasks are large, and a list of them that grows costs several times as
// much. The caller holds mu of the reservations.
func (w *waiter) give(h *inflight) {
	if w.tasks == nil {
		reserved := w.asked - w.room
		w.given, w.tasks = make([]*inflight, 0, reserved), make([]protocol.Task, 0, reserved)
	}
	w.given = append(w.given, h)
	w.tasks = append(w.tasks, protocol.Task{Run: h.run, Job: h.job})
}

// release hands back the slots of runs that were not committed, as far as they are still reserved.
func (r *reservations) release(ids []carillon.RunID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range ids {
		if one, reserved := r.open[id]; reserved {
			r.handBack(id, one)
		}
	}
}

// end ends the waits of a worker whose session is over, or which is stopping: its pulls take no more runs,
// also none that they get from the queue at this moment.
func (r *reservations) end(worker string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range r.waiters {
		if w.worker == worker {
			w.end()
		}
	}
}

// endOne ends the wait of one pull.
func (r *reservations) endOne(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.end()
}

// handBack makes a slot free again. The caller holds mu.
func (r *reservations) handBack(id carillon.RunID, one reservation) {
	delete(r.open, id)
	one.waiter.room++
	one.waiter.reserved.Done()
}

// appendHeld adds the attempts that are reserved for a worker: they may be committed already, although this
// node has not heard of it.
func (r *reservations) appendHeld(holds []carillon.Held, worker string) []carillon.Held {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.open { // few: a reservation is open only for the time of a commit
		if one.waiter.worker == worker {
			holds = append(holds, one.entry.run.Held())
		}
	}
	return holds
}

// waits says for each run whether a pull waits that has room for it beside the runs before it and those in
// the queue.
func (r *reservations) waits(runs []carillon.Run) []bool {
	waits := make([]bool, len(runs))
	r.mu.Lock()
	defer r.mu.Unlock()
	room := make(map[*waiter]int, len(r.waiters)) // beside the runs before
	for i := range runs {
		for _, w := range r.waiters {
			if w.lone || !w.takes(&runs[i]) {
				continue
			}
			left, asked := room[w]
			if !asked && !r.behind(w) {
				left = w.room
			}
			room[w] = max(0, left-1)
			if waits[i] = left > 0; waits[i] {
				break
			}
		}
	}
	return waits
}

// free is how many slots can be reserved for runs like this one. coming is how many slots the pulls that want
// such a run asked for, of those that wait and those that claim; 0 if more due runs wait for them than they
// can take in two rounds.
func (r *reservations) free(run *carillon.Run) (slots, coming int) {
	lane := run.Lane()
	// Each once. They are few, though a thousand workers can differ in their labels: only the labels that the
	// run itself needs count. Due runs that need others, which some of these workers have, are not counted.
	var wants []carillon.Want
	var needed map[string]string
	for _, label := range lane.Labels() {
		if needed == nil {
			needed = map[string]string{}
		}
		needed[label.Key] = label.Value
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range [][]*waiter{r.answering, r.waiters} {
		for _, w := range list {
			want := w.wants[0]
			if w.ended || w.lone || !want.Takes(lane) {
				continue
			}
			coming += w.asked
			want.Labels = needed
			if !slices.ContainsFunc(wants, want.TakesSame) {
				wants = append(wants, want)
			}
		}
	}
	waiting := 0
	if len(wants) > 0 && r.queue.Len() > 0 {
		waiting = r.queue.Len(wants...)
	}
	if waiting > 2*coming {
		return 0, 0
	}
	for _, w := range r.waiters {
		if waiting == 0 && !w.ended && !w.lone && w.wants[0].Takes(lane) {
			slots += w.room
		}
	}
	return slots, coming
}

// Reserve implements ledger.Slots.
func (d *Dispatcher) Reserve(
	run *carillon.Run, job *carillon.Job, now carillon.Time,
) (worker string, ok bool) {
	return d.reservations.reserve(run, job, now)
}

// Release implements ledger.Slots.
func (d *Dispatcher) Release(ids []carillon.RunID) { d.reservations.release(ids) }

// Free implements ledger.Slots.
func (d *Dispatcher) Free(run *carillon.Run) (slots, coming int) {
	if slots, coming = d.reservations.free(run); d.inHand.Load() > 0 {
		slots = 0
	}
	return slots, coming
}

// Waits implements scheduler.Pulls.
func (d *Dispatcher) Waits(runs []carillon.Run) []bool {
	if d.inHand.Load() > 0 {
		return make([]bool, len(runs))
	}
	return d.reservations.waits(runs)
}

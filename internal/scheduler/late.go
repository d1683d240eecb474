package scheduler

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
)

const (
	// maxLates bounds the runs that are watched. If there are more, the loader reads all of them again when
	// half of the room is free; a claim tells the hook in any case.
	maxLates = 200_000
	lateRead = 1000 // runs that are read at a time
)

// lates are the runs that have not started and whose jobs have a late hook. A run comes here when this node
// commits it or reads it from the store, if its due time is near, and leaves when this node commits its
// claim. Runs without FlagLate cost nothing but the look at the flag.
type lates struct {
	ready await.Signal // runs came
	scan  await.Signal // runs that wait in lines must be read

	mu    sync.Mutex
	came  map[carillon.RunID]carillon.JobVersion // their hook is not known yet
	runs  map[carillon.RunID]*lateRun
	order lateHeap
	full  bool // runs were left out
}

// lateRun is a run and when it will be late.
type lateRun struct {
	id    carillon.RunID
	at    carillon.Time
	index int
}

func newLates() *lates {
	return &lates{
		ready: await.NewSignal(), scan: await.NewSignal(),
		came: map[carillon.RunID]carillon.JobVersion{}, runs: map[carillon.RunID]*lateRun{},
	}
}

// see takes a run as it was committed or read, if it can become late. It forgets a run that cannot any more.
func (l *lates) see(run *carillon.Run, reach carillon.Time) {
	watch := run.Has(carillon.FlagLate) && run.State == carillon.StateWaiting &&
		!run.Has(carillon.FlagOnHold)
	if watch && run.ID.Due > reach {
		return // the loader reads it later
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !watch:
		l.forget(run.ID)
	case len(l.came)+len(l.runs) >= maxLates:
		l.full = true
	case l.runs[run.ID] == nil:
		l.came[run.ID] = run.Definition()
		l.ready.Set()
	}
}

// any says that runs are watched: only then see must hear of runs without the flag.
func (l *lates) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.came)+len(l.runs) > 0
}

// forget removes a run. The caller holds mu.
func (l *lates) forget(id carillon.RunID) {
	delete(l.came, id)
	if run := l.runs[id]; run != nil {
		heap.Remove(&l.order, run.index)
		delete(l.runs, id)
	}
}

func (l *lates) takeCame() map[carillon.RunID]carillon.JobVersion {
	l.mu.Lock()
	defer l.mu.Unlock()
	came := l.came
	l.came = map[carillon.RunID]carillon.JobVersion{}
	return came
}

func (l *lates) add(id carillon.RunID, at carillon.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forget(id)
	run := &lateRun{id: id, at: at}
	l.runs[id] = run
	heap.Push(&l.order, run)
}

// due takes out runs that are late by now, and says when the next one will be; zero: there is none.
func (l *lates) due(now carillon.Time) (ids []carillon.RunID, next carillon.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.order) > 0 && len(ids) < lateRead {
		if first := l.order[0]; first.at > now {
			return ids, first.at
		}
		first := heap.Pop(&l.order).(*lateRun)
		delete(l.runs, first.id)
		ids = append(ids, first.id)
	}
	if len(l.order) > 0 {
		next = l.order[0].at
	}
	return ids, next
}

// hasRoom says that runs were left out and that half of the room is free by now.
func (l *lates) hasRoom() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.full || len(l.came)+len(l.runs) > maxLates/2 {
		return false
	}
	l.full = false
	return true
}

// seeLates shows runs to lates.
func (s *Scheduler) seeLates(runs []carillon.Run) {
	reach := s.reach(s.cfg.Clock.Now())
	for i := range runs {
		if runs[i].Has(carillon.FlagLate) {
			s.lates.see(&runs[i], reach)
		}
	}
}

// tellLate tells late hooks of runs that have not started in time. Two nodes can watch the same run; then the
// change of one of them loses, because each changes the run.
func (s *Scheduler) tellLate(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	marked := false
	for {
		select {
		case <-timer.C:
		case <-s.lates.ready:
		case <-s.lates.scan:
			s.lates.scan.Set() // tellNext takes it
		case <-ctx.Done():
			return nil
		}
		next, err := s.tellNext(ctx, &marked)
		if err != nil && ctx.Err() == nil {
			s.cfg.Logger.Error("tell of late runs", "error", err)
			await.For(ctx, retryWait)
			next = s.cfg.Clock.Now()
		}
		if next == 0 {
			timer.Stop() // until a run comes
		} else {
			timer.Reset(max(s.cfg.Clock.Until(next), 0))
		}
	}
}

// tellNext does what there is to do now, and says when to go on; zero: there is nothing to wait for.
func (s *Scheduler) tellNext(ctx context.Context, marked *bool) (next carillon.Time, err error) {
	if err = s.resolveLates(ctx, marked); err != nil {
		return 0, err
	}
	if s.lates.scan.Taken() {
		if err = s.scanLines(ctx); err != nil {
			s.lates.scan.Set()
			return 0, err
		}
	}
	now := s.cfg.Clock.Now()
	ids, next := s.lates.due(now)
	if len(ids) > 0 {
		return now, s.tellLates(ctx, ids)
	}
	if s.lates.hasRoom() {
		s.reload.Set()
	}
	return next, nil
}

// resolveLates finds out when the runs that came will be late. It also notes, once for the whole database,
// that there is such a job: see scanLines.
func (s *Scheduler) resolveLates(ctx context.Context, marked *bool) error {
	came := s.lates.takeCame()
	if len(came) == 0 {
		return nil
	}
	runs := make([]carillon.Run, 0, len(came))
	for id, version := range came {
		runs = append(runs, carillon.Run{
			ID: id, Version: version.Version, State: carillon.StateWaiting, Flags: carillon.FlagLate,
		})
	}
	err := s.markLate(ctx, marked)
	if err == nil {
		err = s.watchLates(ctx, runs)
	}
	if err != nil {
		s.lates.mu.Lock()
		for id, version := range came {
			s.lates.came[id] = version
		}
		s.lates.mu.Unlock()
		s.lates.ready.Set()
	}
	return err
}

// watchLates watches runs until they are late.
func (s *Scheduler) watchLates(ctx context.Context, runs []carillon.Run) error {
	ids := make([]carillon.JobVersion, len(runs))
	for i := range runs {
		ids[i] = runs[i].Definition()
	}
	jobs, err := s.cfg.Ledger.Definitions.Get(ctx, ids)
	if err != nil {
		return err
	}
	for i := range runs {
		if jobs[i] == nil {
			continue
		}
		candidate := carillon.Candidate{Job: jobs[i], Run: runs[i]}
		if _, at, _ := candidate.Late(0); at != 0 {
			s.lates.add(runs[i].ID, at)
		}
	}
	return nil
}

var lateMark = carillon.Guard{
	Namespace: carillon.SystemNamespace, Key: string(carillon.GuardLate), Value: []byte("1"),
}

// markLate notes in the database that there has been a job with a late hook. If another node was quicker, its
// change loses, which is as good.
func (s *Scheduler) markLate(ctx context.Context, marked *bool) error {
	if *marked {
		return nil
	}
	is, err := s.lateMarked(ctx)
	if err == nil && !is {
		_, err = s.cfg.Ledger.Commit(ctx, []carillon.Change{{Guards: []carillon.Guard{lateMark}}})
	}
	*marked = err == nil
	return err
}

func (s *Scheduler) lateMarked(ctx context.Context) (bool, error) {
	guards, err := s.cfg.Store.Guards(ctx, carillon.GuardQuery{
		Namespace: lateMark.Namespace, Keys: []string{lateMark.Key},
	})
	return len(guards) > 0, err
}

// scanLines reads the runs that wait in lines, without a wake: the loader does not find them. It does so when
// the node starts or gets shards, and only if there has been a job with a late hook.
func (s *Scheduler) scanLines(ctx context.Context) error {
	if is, err := s.lateMarked(ctx); err != nil || !is {
		return err
	}
	var after carillon.HoldName
	for {
		names, err := s.cfg.Store.Holds(ctx, after, sweptLines)
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := s.scanLine(ctx, name); err != nil {
				return err
			}
		}
		if len(names) < sweptLines {
			return nil
		}
		after = names[len(names)-1]
	}
}

func (s *Scheduler) scanLine(ctx context.Context, name carillon.HoldName) error {
	q := carillon.LineQuery{
		Lines: []carillon.HoldName{name}, Until: s.cfg.Clock.Now(), Limit: linePage,
	}
	for {
		runs, err := s.cfg.Store.Line(ctx, q)
		if err != nil {
			return err
		}
		owned, _ := split(runs, func(r *carillon.Run) bool { return s.members.owns(r.ID.Job.Shard()) })
		s.seeLates(owned)
		if len(runs) < linePage {
			return nil
		}
		q.After = runs[len(runs)-1].ID
	}
}

// tellLates tells the hooks of runs that are late, if they still wait.
func (s *Scheduler) tellLates(ctx context.Context, ids []carillon.RunID) error {
	runs, err := s.cfg.Store.Runs(ctx, ids, false)
	if err != nil {
		s.addLates(ids)
		return err
	}
	runs, _ = split(runs, func(r *carillon.Run) bool { return r.Has(carillon.FlagLate) })
	candidates, err := s.cfg.Ledger.Candidates(ctx, waiting(runs), "")
	if err != nil {
		s.addLates(ids)
		return err
	}
	now := s.cfg.Clock.Now()
	var changes []carillon.Change
	var told []carillon.RunID
	for i := range candidates {
		c, at, is := candidates[i].Late(now)
		if is {
			changes, told = append(changes, c), append(told, candidates[i].Run.ID)
		} else if at != 0 { // an edit has given it more time
			s.lates.add(candidates[i].Run.ID, at)
		}
	}
	lost, err := s.cfg.Ledger.Commit(ctx, changes)
	if err != nil {
		s.addLates(told)
		return err
	}
	for _, i := range lost { // it changed meanwhile: it may still be late
		s.lates.add(told[i], now)
	}
	if len(lost) > 0 {
		await.For(ctx, time.Millisecond)
	}
	return nil
}

// addLates has runs looked at again.
func (s *Scheduler) addLates(ids []carillon.RunID) {
	for _, id := range ids {
		s.lates.add(id, s.cfg.Clock.Now())
	}
}

// lateHeap has the run that is late first at its top.
type lateHeap []*lateRun

func (h lateHeap) Len() int           { return len(h) }
func (h lateHeap) Less(i, k int) bool { return h[i].at < h[k].at }

func (h lateHeap) Swap(i, k int) {
	h[i], h[k] = h[k], h[i]
	h[i].index, h[k].index = i, k
}

func (h *lateHeap) Push(x any) {
	run := x.(*lateRun)
	run.index = len(*h)
	*h = append(*h, run)
}

func (h *lateHeap) Pop() any {
	last := (*h)[len(*h)-1]
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	return last
}

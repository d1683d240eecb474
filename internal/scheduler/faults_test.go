package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/porttest"
)

// nth says yes to every n-th call.
type nth struct {
	n     int64
	count atomic.Int64
}

func (x *nth) hit() bool { return x.count.Add(1)%x.n == 0 }

// lossyQueue drops every n-th run that is pushed, and fails now and then.
type lossyQueue struct {
	carillon.Queue
	drop, fail *nth
}

var errAway = errors.New("it is away")

func (q lossyQueue) Push(ctx context.Context, runs []carillon.Run) ([]int, error) {
	if q.fail.hit() {
		return nil, errAway
	}
	kept, at := withoutSome(runs, q.drop)
	refused, err := q.Queue.Push(ctx, kept)
	for i := range refused {
		refused[i] = at[refused[i]]
	}
	return refused, err
}

func (q lossyQueue) Pull(ctx context.Context, want carillon.Demand) ([]carillon.Run, error) {
	if q.fail.hit() {
		return nil, errAway
	}
	runs, err := q.Queue.Pull(ctx, want)
	if len(runs) > 0 && q.drop.hit() {
		runs = append(runs, runs[0]) // delivered twice
	}
	return runs, err
}

// withoutSome returns the runs that are not dropped, and their indexes.
func withoutSome(runs []carillon.Run, drop *nth) (kept []carillon.Run, at []int) {
	for i, run := range runs {
		if !drop.hit() {
			kept, at = append(kept, run), append(at, i)
		}
	}
	return kept, at
}

// lossyTimeline forgets every n-th run that it is told of, and fails now and then.
type lossyTimeline struct {
	carillon.Timeline
	drop, fail *nth
}

func (l lossyTimeline) Add(ctx context.Context, runs []carillon.Run) ([]int, error) {
	if l.fail.hit() {
		return nil, errAway
	}
	kept, at := withoutSome(runs, l.drop)
	refused, err := l.Timeline.Add(ctx, kept)
	for i := range refused {
		refused[i] = at[refused[i]]
	}
	return refused, err
}

func (l lossyTimeline) Due(
	ctx context.Context, now carillon.Time, shards []int, limit int,
) ([]carillon.Run, carillon.Time, error) {
	if l.fail.hit() {
		return nil, 0, errAway
	}
	return l.Timeline.Due(ctx, now, shards, limit)
}

// mixed submits jobs of all kinds and returns them with the number of runs that each should have. period is
// that of recurring jobs: a run that starts later than the next one is due is skipped.
func mixed(h *house, period time.Duration) map[int][]carillon.Job {
	jobs := map[int][]carillon.Job{
		1: slices.Concat(
			h.submit(15, after(0)), h.submit(15, after(5*time.Second)), h.submit(15, after(3*time.Minute)),
		),
		4: nil,
	}
	for _, overlap := range []carillon.Overlap{
		carillon.OverlapSkip, carillon.OverlapQueueAll, carillon.OverlapReplace, carillon.OverlapAllow,
	} {
		jobs[4] = append(jobs[4], h.submit(5, every(period, overlap, 4))...)
	}
	return jobs
}

func TestWhatQueueAndTimelineLoseCostsOnlyTime(t *testing.T) {
	for _, n := range []int64{3, 5} {
		for _, fail := range []int64{4, 1 << 40} { // 1 << 40: no call fails
			t.Run(fmt.Sprintf("every %d. is lost, every %d. call fails", n, fail), func(t *testing.T) {
				in(t, func(h *house) {
					h.queue = func(q carillon.Queue) carillon.Queue {
						return lossyQueue{q, &nth{n: n}, &nth{n: fail}}
					}
					h.timeline = func(l carillon.Timeline) carillon.Timeline {
						return lossyTimeline{l, &nth{n: n}, &nth{n: fail}}
					}
				}, func(h *house) {
					// The sweep offers a run every ten seconds, and about half of what it offers is lost: in
					// a million runs none is lost thirty-six times in a row.
					const late = 6 * time.Minute
					jobs := mixed(h, late+time.Minute)
					time.Sleep(40 * time.Minute)
					for runs, of := range jobs {
						h.expectAll(of, runs)
						h.expectLate(of, late)
					}
				})
			})
		}
	}
}

// switched is a store whose faults can be turned on and off.
type switched struct {
	carillon.Store
	mu     sync.Mutex
	faulty carillon.Store
	on     bool
}

func (s *switched) use() carillon.Store {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.on {
		return s.faulty
	}
	return s.Store
}

func (s *switched) turn(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on = on
}

func (s *switched) Commit(ctx context.Context, changes []carillon.Change) ([]int, error) {
	return s.use().Commit(ctx, changes)
}

func (s *switched) Jobs(ctx context.Context, ids []carillon.JobVersion) ([]carillon.Job, error) {
	return s.use().Jobs(ctx, ids)
}

func (s *switched) Runs(ctx context.Context, ids []carillon.RunID, whole bool) ([]carillon.Run, error) {
	return s.use().Runs(ctx, ids, whole)
}

func (s *switched) Guards(ctx context.Context, q carillon.GuardQuery) ([]carillon.Guard, error) {
	return s.use().Guards(ctx, q)
}

func (s *switched) Wakes(ctx context.Context, q carillon.WakeQuery) ([]carillon.Run, error) {
	return s.use().Wakes(ctx, q)
}

func (s *switched) Line(ctx context.Context, q carillon.LineQuery) ([]carillon.Run, error) {
	return s.use().Line(ctx, q)
}

func (s *switched) Holds(
	ctx context.Context, after carillon.HoldName, limit int,
) ([]carillon.HoldName, error) {
	return s.use().Holds(ctx, after, limit)
}

func (s *switched) FindRuns(ctx context.Context, q carillon.RunQuery) (carillon.RunPage, error) {
	return s.use().FindRuns(ctx, q)
}

func TestAStoreThatFailsCostsOnlyTime(t *testing.T) {
	random := rand.New(rand.NewPCG(uint64(porttest.Seed(t)), 1))
	var thirds []int
	// One call of three, but not always the same one: a single try can take exactly three calls.
	for i := 1; i < 5000; i += 3 {
		thirds = append(thirds, i+random.IntN(3))
	}
	plans := map[string]func(carillon.Store) carillon.Store{
		"a fifth of all calls": func(s carillon.Store) carillon.Store {
			return porttest.Lossy(s, random, 0.2)
		},
	}
	for _, method := range []string{"Commit", "Jobs", "Runs", "Guards", "Wakes", "FindRuns"} {
		plans["every third "+method+" is not made"] = func(s carillon.Store) carillon.Store {
			return porttest.Failing(s, method, thirds...)
		}
		plans["the answer of every third "+method+" is lost"] = func(s carillon.Store) carillon.Store {
			return porttest.Unknown(s, method, thirds...)
		}
	}
	for name, plan := range plans {
		t.Run(name, func(t *testing.T) {
			var store *switched
			in(t, func(h *house) {
				store = &switched{Store: h.truth, faulty: plan(h.truth)}
				h.store = store
				h.handle = slow(2 * time.Second)
			}, func(h *house) {
				// When a fifth of all calls fail, half of all tries to begin a run do. A run can be late by
				// minutes then, but must have ended when the next one is due.
				const period = 6 * time.Minute
				jobs := mixed(h, period)
				store.turn(true)
				time.Sleep(4*period + time.Minute) // until the last run has begun
				store.turn(false)
				time.Sleep(5 * time.Minute)
				for runs, of := range jobs {
					h.expectAll(of, runs)
				}
			})
		})
	}
}

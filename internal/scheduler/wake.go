package scheduler

import (
	"context"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
)

const wakeBatch = 1000

// wake passes on due runs. One timer waits for exactly the next wake; a signal ends the wait when a nearer
// run comes.
func (s *Scheduler) wake(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		now := s.cfg.Clock.Now()
		runs, next, err := s.cfg.Timeline.Due(ctx, now, nil, wakeBatch)
		if err != nil && ctx.Err() == nil {
			s.cfg.Logger.Error("ask the timeline", "error", err)
			await.For(ctx, retryWait)
			continue
		}
		s.enqueueOrDecide(ctx, runs, now)
		if len(runs) > 0 {
			continue
		}
		timer.Reset(s.untilWake(next))
		select {
		case <-timer.C:
		case <-s.woken:
		case <-ctx.Done():
		}
	}
	return nil
}

// enqueueOrDecide sends due runs on. Those that need no decision go to the queue, or to their line. Guarded
// runs that a pull waits for go there too, and are decided when they are claimed. All others go to the decide
// loop, and so do runs that wait for a gate and have got a wake, because a caller wants to try them now.
func (s *Scheduler) enqueueOrDecide(ctx context.Context, runs []carillon.Run, now carillon.Time) {
	plain, others := split(runs, func(r *carillon.Run) bool {
		return r.NeedsNoDecision(now) && !ofGate(r) || r.Unattended()
	})
	lined, plain := split(plain, func(r *carillon.Run) bool { return r.Hold != "" })
	s.lines.add(lined)
	s.enqueue(ctx, plain)
	s.queueDecision(s.offer(ctx, others, now))
}

// untilWake is how long to sleep: to the very millisecond, not before it, and a minute at most.
func (s *Scheduler) untilWake(next carillon.Time) time.Duration {
	const longest = time.Minute
	if next == 0 {
		return longest
	}
	return min(max(s.cfg.Clock.Until(next), 0), longest)
}

package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
	"github.com/carillon-run/carillon/internal/failpoint"
)

// decide handles due runs that need a decision: their job has an overlap guard and no pull takes them, or
// their time was missed. It is a separate loop, so that its reads and commits do not hold up runs that need
// no decision.
func (s *Scheduler) decide(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		select {
		case <-s.undecided.ready:
		case <-s.redecides.ready:
		case <-s.nextInLine.ready:
		case <-s.offers.ready:
		case <-timer.C:
		case <-ctx.Done():
			return nil
		}
		unclaimed, next := s.offers.unclaimed(time.Now())
		if !next.IsZero() {
			timer.Reset(time.Until(next))
		}
		runs := append(s.reread(ctx, append(s.redecides.take(), unclaimed...)), s.takeTurns(ctx)...)
		runs = append(runs, s.undecided.take()...)
		for batch := range slices.Chunk(runs, wakeBatch) {
			if err := s.decideBatch(ctx, batch); err != nil && ctx.Err() == nil {
				s.cfg.Logger.Error("decide about due runs", "error", err, "runs", len(batch))
				await.For(ctx, retryWait)
				s.undecided.putBack(batch)
			}
		}
	}
	return nil
}

// queueDecision hands runs to the decide loop. If a lane has no room for a run, the scheduler reads the run
// from the store later.
func (s *Scheduler) queueDecision(runs []carillon.Run) {
	if runs = s.backlog.admit(runs); len(runs) > 0 {
		s.backlog.overflow(runs, s.undecided.add(runs))
	}
}

// takeTurns reads the runs whose turn has come. It offers those that a pull waits for, and returns the
// others.
func (s *Scheduler) takeTurns(ctx context.Context) []carillon.Run {
	return s.offer(ctx, s.reread(ctx, s.nextInLine.take()), s.cfg.Clock.Now())
}

// reread reads runs that must be decided again. It leaves out runs that ended or began meanwhile.
func (s *Scheduler) reread(ctx context.Context, ids []carillon.RunID) []carillon.Run {
	if len(ids) == 0 {
		return nil
	}
	runs, err := s.cfg.Store.Runs(ctx, ids, false)
	if err != nil {
		if ctx.Err() == nil {
			s.cfg.Logger.Error("read runs to look at", "error", err)
			await.For(ctx, retryWait)
			s.redecides.add(ids...)
		}
		return nil
	}
	now := s.cfg.Clock.Now()
	return slices.DeleteFunc(waiting(runs), func(r carillon.Run) bool {
		return r.Attempt > 0 && r.Wake > now && !r.Parked()
	})
}

// decideBatch decides about a batch and commits the decisions. A run whose change lost is read again: another
// writer was quicker, and its change may or may not have settled the run.
func (s *Scheduler) decideBatch(ctx context.Context, runs []carillon.Run) error {
	candidates, err := s.cfg.Ledger.Candidates(ctx, runs, "")
	if err != nil {
		return err
	}
	now := s.cfg.Clock.Now()
	var push, lined []carillon.Run
	var changes []carillon.Change
	var again []carillon.RunID
	var left []carillon.HoldName
	for _, candidate := range candidates {
		switch verdict, c := candidate.Decide(now); verdict {
		case carillon.VerdictReady:
			if candidate.Run.Hold != "" {
				lined = append(lined, candidate.Run)
			} else {
				push = append(push, candidate.Run)
			}
		case carillon.VerdictHold:
		default:
			changes, again = append(changes, c), append(again, candidate.Run.ID)
			if candidate.Run.Hold != "" { // it may leave its line to the next one
				left = append(left, lineOf(&candidate.Run))
			}
		}
	}
	s.enqueue(ctx, push)
	s.lines.add(lined)
	failpoint.At("plan.before")
	lost, err := s.cfg.Ledger.Commit(ctx, changes)
	failpoint.At("plan.after")
	if err != nil {
		return err // decide tries the whole batch again
	}
	for _, i := range lost {
		s.redecides.add(again[i])
	}
	s.lines.look(left...)
	if len(lost) > 0 {
		await.For(ctx, time.Millisecond)
	}
	return nil
}

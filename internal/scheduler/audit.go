package scheduler

import (
	"context"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
)

// auditEvery is how often limits are audited.
const auditEvery = time.Minute

// audit compares what the guards of limits count with the slots that held runs have taken. Both change
// together, in one commit, so they never differ; if they do after all, the difference is reported and mended:
// a slot that is counted and not taken would never come back. It also lets guards expire that nothing uses.
// One node audits, the owner of the first shard.
func (s *Scheduler) audit(ctx context.Context) error {
	for await.For(ctx, auditEvery) {
		if !s.members.owns(0) {
			continue
		}
		if err := s.auditLimits(ctx); err != nil && ctx.Err() == nil {
			s.cfg.Logger.Error("audit limits", "error", err)
		}
	}
	return nil
}

// auditLimits judges the guards that did not change while the held runs were read: no claim took a slot of
// theirs meanwhile, because every claim changes them, and no end gave one back.
func (s *Scheduler) auditLimits(ctx context.Context) error {
	// Held runs have wakes that have come, by the clock of the node that claimed them. This node's clock may
	// be behind, so a difference is believed only if all unfinished runs say the same, twice.
	first, err := s.seeLimits(ctx, s.cfg.Clock.Now().Add(skew))
	if err != nil {
		return err
	}
	if err := s.expireUnused(ctx, first.guards); err != nil || len(first.differing()) == 0 {
		return err
	}
	second, err := s.seeLimits(ctx, carillon.Never-1)
	if err != nil {
		return err
	}
	third, err := s.seeLimits(ctx, carillon.Never-1)
	if err != nil {
		return err
	}
	before := second.differing()
	var mends []carillon.Change
	for _, guard := range third.differing() {
		same := func(b carillon.Guard) bool { return b.Compare() == guard.Compare() }
		if third.used.Of(&guard) != second.used.Of(&guard) || !slices.ContainsFunc(before, same) {
			continue
		}
		s.differences.Add(1)
		s.cfg.Logger.Error("a limit does not count what its runs have taken; it is corrected",
			"limit", guard.Key, "counts", string(guard.Value), "taken", third.used.Of(&guard))
		mends = append(mends, third.used.Correct(guard))
	}
	_, err = s.cfg.Ledger.Commit(ctx, mends)
	return err
}

// limitsSeen is what one look at all limits found.
type limitsSeen struct {
	guards []carillon.Guard // those that did not change while the held runs were read
	used   carillon.Used
}

// differing are the guards that count something else than held runs have taken.
func (l *limitsSeen) differing() (guards []carillon.Guard) {
	for i := range l.guards {
		if guard := &l.guards[i]; l.used.Of(guard) != guard.UsedSlots() {
			guards = append(guards, *guard)
		}
	}
	return guards
}

// seeLimits reads the guards of limits, and what held runs with wakes up to until have taken.
func (s *Scheduler) seeLimits(ctx context.Context, until carillon.Time) (seen limitsSeen, err error) {
	before, err := s.limitGuards(ctx)
	if err != nil || len(before) == 0 {
		return seen, err
	}
	if seen.used, err = s.usedSlots(ctx, until); err != nil {
		return seen, err
	}
	after, err := s.limitGuards(ctx)
	for key, guard := range after {
		// The node that was to close the line may have died, and the sweep knows only lines with runs.
		if guard.HasLine() {
			s.lines.look(key)
		}
		if was, known := before[key]; known && was.Rev == guard.Rev {
			seen.guards = append(seen.guards, guard)
		}
	}
	return seen, err
}

// expireBatch is how many guards of limits one commit lets expire.
const expireBatch = 500

// expireUnused lets the guards of limits expire that nothing uses. One that is used again meanwhile stays.
func (s *Scheduler) expireUnused(ctx context.Context, guards []carillon.Guard) error {
	var changes []carillon.Change
	for _, guard := range guards {
		if c, unused := guard.ExpireUnused(s.cfg.Clock.Now()); unused {
			changes = append(changes, c)
		}
	}
	for some := range slices.Chunk(changes, expireBatch) {
		if _, err := s.cfg.Ledger.Commit(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// limitGuards reads the guards of all limits that were used lately, in all namespaces.
func (s *Scheduler) limitGuards(ctx context.Context) (map[carillon.HoldName]carillon.Guard, error) {
	guards, err := s.cfg.Store.Guards(ctx, carillon.GuardQuery{Prefix: string(carillon.GuardLimit) + "/"})
	found := make(map[carillon.HoldName]carillon.Guard, len(guards))
	for _, g := range guards {
		found[carillon.HoldName{Namespace: g.Namespace, Hold: g.Key}] = g
	}
	return found, err
}

// usedSlots counts the slots that the held runs of all shards have taken.
func (s *Scheduler) usedSlots(ctx context.Context, until carillon.Time) (carillon.Used, error) {
	used := carillon.Used{}
	q := carillon.WakeQuery{Held: true, Until: until, Limit: heldPage}
	for {
		runs, err := s.cfg.Store.Wakes(ctx, q)
		if err != nil {
			return nil, err
		}
		for i := range runs {
			if runs[i].State.Held() {
				used.Add(&runs[i])
			}
		}
		if !q.More(runs) {
			return used, nil
		}
		q.After = runs[len(runs)-1].WakePos()
	}
}

// LimitDifferences is how often an audit found a limit that counts something else than its runs have taken.
func (s *Scheduler) LimitDifferences() int64 { return s.differences.Load() }

package scheduler

import (
	"context"
	"time"

	"github.com/carillon-run/carillon/internal/await"
)

const (
	forgetEvery = time.Minute
	forgetBatch = 500
	forgetRest  = 20 * time.Millisecond // between two batches: work goes first
)

// forget removes records that the retention rules no longer keep, in small batches. One node does it for all
// nodes: the owner of the first shard.
func (s *Scheduler) forget(ctx context.Context) error {
	for await.For(ctx, forgetEvery) {
		if !s.members.owns(0) {
			continue
		}
		for ctx.Err() == nil {
			n, err := s.cfg.Store.Forget(ctx, s.cfg.Retention, s.cfg.Clock.Now(), forgetBatch)
			if err != nil && ctx.Err() == nil {
				s.cfg.Logger.Error("forget ended runs", "error", err)
			}
			if err != nil || n == 0 || !await.For(ctx, forgetRest) {
				break
			}
		}
		if err := s.cfg.Logs.Trim(ctx, s.cfg.Clock.Now(), s.cfg.Retention.Logs.Std()); err != nil &&
			ctx.Err() == nil {
			s.cfg.Logger.Error("trim logs", "error", err)
		}
	}
	return nil
}

package conductor

import (
	"context"
	"fmt"

	"github.com/carillon-run/carillon"
)

// lookAtWait ends a node that waits if its time is over, its signal has come, or it is to stop.
func (c *Conductor) lookAtWait(ctx context.Context, of *carillon.Candidate) error {
	run, wait := &of.Run, of.Job.Target.Wait
	if run.Has(carillon.FlagStop) {
		stopped := carillon.Outcome{Kind: carillon.OutcomeStopped, Reason: run.Reason}
		return c.finish(ctx, of, stopped, carillon.Change{})
	}
	if wait.Signal == "" { // its run was due when its time was over
		return c.finish(ctx, of, carillon.Outcome{Kind: carillon.OutcomeSuccess}, carillon.Change{})
	}
	part, is := of.Job.Part()
	if !is {
		return nil
	}
	guards, err := c.cfg.Store.Guards(ctx, carillon.GuardQuery{
		Namespace: run.Namespace, Keys: []string{part.Run.SignalKey(wait.Signal)},
	})
	if err != nil {
		return err
	}
	if len(guards) > 0 {
		return c.finish(ctx, of, carillon.Outcome{
			Kind: carillon.OutcomeSuccess, Output: &carillon.Output{Result: guards[0].Value},
		}, carillon.Change{})
	}
	if wait.Timeout == 0 {
		return c.later(ctx, *run, carillon.Never)
	}
	until := run.Started.Add(wait.Timeout.Std())
	if c.cfg.Clock.Now() >= until {
		return c.finish(ctx, of, carillon.Outcome{
			Kind:   carillon.OutcomeFatal,
			Reason: fmt.Sprintf("no signal %s within %s", wait.Signal, wait.Timeout),
		}, carillon.Change{})
	}
	return c.later(ctx, *run, until)
}

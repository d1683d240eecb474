package conductor

import (
	"context"
	"fmt"

	"github.com/carillon-run/carillon"
)

// none is a change with nothing in it.
var none = carillon.Change{}

// lookAtWait ends a node that waits if its time is over, its signal has come, or it is to stop.
func (c *Conductor) lookAtWait(ctx context.Context, of *carillon.Candidate) error {
	run, wait := &of.Run, of.Job.Target.Wait
	if run.Has(carillon.FlagStop) {
		return c.finish(ctx, of, carillon.Outcome{Kind: carillon.OutcomeStopped, Reason: run.Reason}, none)
	}
	if wait.Signal == "" { // its run was due when its time was over
		return c.finish(ctx, of, carillon.Outcome{Kind: carillon.OutcomeSuccess}, none)
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
		}, none)
	}
	if wait.Timeout == 0 {
		return c.later(ctx, *run, carillon.Never)
	}
	until := run.Started.Add(wait.Timeout.Std())
	if c.cfg.Clock.Now() >= until {
		return c.finish(ctx, of, carillon.Outcome{
			Kind:   carillon.OutcomeFatal,
			Reason: fmt.Sprintf("no signal %s within %s", wait.Signal, wait.Timeout),
		}, none)
	}
	return c.later(ctx, *run, until)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

// queueState is what the gate of a queue does to it.
func queueState(g *client.Gate) string {
	switch {
	case g == nil:
		return "open"
	case g.State == carillon.GateClosed:
		return "paused"
	}
	return string(g.State)
}

// request is what the flags ask for.
func (f *closing) request() (want client.PauseRequest, err error) {
	want = client.PauseRequest{Reason: f.reason}
	if f.running != string(carillon.GateKeep) {
		want.Running = carillon.GateRunning(f.running)
	}
	want.Expires, err = f.until()
	return want, err
}

func (a *app) queuePauseCommand() *cobra.Command {
	var how closing
	cmd := &cobra.Command{
		Use:   "pause QUEUE",
		Short: "Pause a queue: its due runs wait until you resume it",
		Long: `Pause a queue with a gate (see "carillon gate"): its due runs wait until you resume it. Runs that
have started go on, unless you give --running stop: then they are canceled.`,
		Example: `  carillon queue pause mail --reason "the relay is down"
  carillon queue pause mail --expires 2h`,
		Args:              aQueue,
		ValidArgsFunction: a.completeQueues(),
		RunE: func(cmd *cobra.Command, args []string) error {
			want, err := how.request()
			if err != nil {
				return err
			}
			return a.reached(func(ctx context.Context, c *client.Client, args []string) error {
				gate, err := c.PauseQueue(ctx, args[0], want)
				if err != nil {
					return err
				}
				return a.done(gate, "queue %s paused, %s", args[0], goOn(gate.Active))
			})(cmd, args)
		},
	}
	how.flags(cmd)
	return cmd
}

func goOn(active *int) string {
	if active == nil {
		return "its running runs go on"
	}
	if *active == 1 {
		return "1 run is still running"
	}
	return count(*active, "run") + " are still running"
}

func (a *app) queueDrainCommand() *cobra.Command {
	var how closing
	var noWait bool
	cmd := &cobra.Command{
		Use:   "drain QUEUE",
		Short: "Pause a queue, and wait until none of its runs is running",
		Long: `Pause a queue, if it is not paused yet, and wait until its running runs have ended. When the command
ends, no worker holds a run of the queue, and none gets one until you resume it.`,
		Example: `  carillon queue drain mail --reason maintenance
  carillon queue drain mail --no-wait`,
		Args:              aQueue,
		ValidArgsFunction: a.completeQueues(),
		RunE: func(cmd *cobra.Command, args []string) error {
			want, err := how.request()
			if err != nil {
				return err
			}
			return a.reached(func(ctx context.Context, c *client.Client, args []string) error {
				gate, err := c.DrainQueue(ctx, args[0], want)
				if err != nil {
					return err
				}
				if noWait {
					return a.done(gate, "queue %s paused, %s", args[0], goOn(gate.Active))
				}
				if err := a.awaitDrained(ctx, c, args[0], gate.At); err != nil {
					return err
				}
				return a.done(gate, "queue %s drained", args[0])
			})(cmd, args)
		},
	}
	how.flags(cmd)
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "do not wait until running runs have ended")
	return cmd
}

// closedEverywhere is after how long a gate is closed on every node. Until then a run can start.
const closedEverywhere = time.Second

// awaitDrained waits until no worker holds a run of a queue.
func (a *app) awaitDrained(ctx context.Context, c *client.Client, name string, since carillon.Time) error {
	defer a.clearProgress()
	for {
		queue, err := c.Queue(ctx, name)
		var away *client.Unreachable
		switch {
		case errors.As(err, &away) && ctx.Err() == nil:
		case err != nil:
			return err
		case queue.Gate == nil || queue.Gate.State != carillon.GateClosed:
			return fmt.Errorf("queue %s was resumed meanwhile", name)
		case queue.Running == 0 && queue.Counted.Sub(since) >= closedEverywhere:
			return nil
		case a.errTerminal:
			a.clearProgress()
			fmt.Fprintf(a.rawErr, "queue %s: %s", name, goOn(&queue.Running))
		}
		select {
		case <-time.After(followEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (a *app) queueResumeCommand() *cobra.Command {
	var how client.OpenRequest
	cmd := &cobra.Command{
		Use:   "resume QUEUE",
		Short: "Resume a paused queue: its held runs leave",
		Long: `Resume a queue. Its held runs leave in the order of their due times, as fast as it goes or by a
rate. Their release is an operation: "carillon operations" shows its progress, and if you cancel it,
the queue is paused again.`,
		Example: `  carillon queue resume mail
  carillon queue resume mail --rate 100/s`,
		Args:              aQueue,
		ValidArgsFunction: a.completeQueues(),
		RunE: a.reached(func(ctx context.Context, c *client.Client, args []string) error {
			gate, err := c.ResumeQueue(ctx, args[0], how)
			if err != nil {
				return err
			}
			return a.opened(&gate, "queue "+args[0]+" resumed")
		}),
	}
	openFlags(cmd, &how)
	return cmd
}

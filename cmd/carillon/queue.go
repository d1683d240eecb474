package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/internal/wire"
)

func (a *app) queueCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "queue",
		Aliases: []string{"queues"},
		Short:   "Show queues, set their weights, and pause them",
		Long: `Show what waits and runs in each queue, which workers serve it, and what holds its runs back. Set
how much of the workers a queue gets while other queues have due runs too. Pause and resume a queue.`,
		Example: `  carillon queue list
  carillon queue show mail
  carillon queue set mail --weight 3
  carillon queue drain mail --reason maintenance
  carillon queue resume mail --rate 100/s`,
		RunE: subcommand,
		Args: cobra.ArbitraryArgs,
	}
	cmd.AddCommand(a.queueListCommand(), a.queueShowCommand(), a.queueSetCommand(), a.queuePauseCommand(),
		a.queueDrainCommand(), a.queueResumeCommand())
	return cmd
}

func (a *app) queueListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List queues, and what waits and runs in them",
		Long: `List the queues that have due or running runs, or are named by a setting or by a worker.

DEPTH is how many due runs wait for a worker, and OLDEST how long the first of them has waited.
STATE is open, paused, or opening while runs that waited for the pause to end leave. PAUSED are due
runs whose job is paused. WORKERS are those that serve the queue. HELD are due runs
that wait for something else, such as room in a limit. Runs that are not due yet count nowhere.`,
		Example: `  carillon queue list
  carillon queue list -o json`,
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.reached(func(ctx context.Context, c *client.Client, _ []string) error {
			queues, err := c.Queues(ctx)
			if err != nil {
				return err
			}
			list := client.Page[client.Queue]{Items: queues}
			if !a.forPeople() {
				return a.show(wire.List[client.Queue]{Items: queues}, nil)
			}
			return showList(a, list, "queues", a.queueTable)
		}),
	}
}

func (a *app) queueTable(queues []client.Queue) {
	t := a.table(
		"NAME", "STATE", "WEIGHT", "LIMIT", "DEPTH", "OLDEST", "RUNNING", "PAUSED", "WORKERS", "HELD",
	)
	for i := range queues {
		q := &queues[i]
		var held []string
		for _, h := range q.Held {
			held = append(held, fmt.Sprintf("%d by %s", h.Runs, h.By))
		}
		t.row(q.Name, queueState(q.Gate), strconv.Itoa(q.Weight), cmp.Or(limitShort(q.Limit), "-"),
			strconv.Itoa(q.Depth), oldest(q), strconv.Itoa(q.Running), strconv.Itoa(q.Paused),
			strconv.Itoa(q.Workers), cmp.Or(strings.Join(held, ", "), "-"))
	}
	t.end()
}

func oldest(q *client.Queue) string {
	if q.Depth == 0 {
		return "-"
	}
	return span(time.Duration(q.OldestAge))
}

// limitShort is a limit in a few characters, for tables: "10 at once, 5/s".
func limitShort(l *client.Limit) string {
	if l == nil {
		return ""
	}
	var parts []string
	if l.Concurrency > 0 {
		parts = append(parts, fmt.Sprintf("%d at once", l.Concurrency))
	}
	if l.Rate != "" {
		rate := l.Rate
		if l.Burst > 1 {
			rate += fmt.Sprintf(" in bursts of %d", l.Burst)
		}
		parts = append(parts, rate)
	}
	return strings.Join(parts, ", ")
}

func (a *app) queueShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show QUEUE",
		Short: "Show a queue and the workers that serve it",
		Long: `Show a queue: its weight and limit, what waits and runs in it, what holds its runs back, and the
workers that serve it. A queue exists by its name alone: one that no job names is empty.`,
		Example: `  carillon queue show mail
  carillon queue show mail -o json`,
		Args:              aQueue,
		ValidArgsFunction: a.completeQueues(),
		RunE: a.reached(func(ctx context.Context, c *client.Client, args []string) error {
			queue, err := c.Queue(ctx, args[0])
			if err != nil {
				return err
			}
			return a.show(queue, func() { a.printQueue(&queue) })
		}),
	}
}

func (a *app) printQueue(q *client.QueueDetail) {
	t := a.tableTo(a.out)
	defer t.end()
	t.fact("Name", q.Name)
	t.fact("State", queueState(q.Gate)+a.closedBy(q.Gate))
	if q.Gate != nil && q.Gate.Reason != "" {
		t.fact("Reason", q.Gate.Reason)
	}
	t.fact("Weight", strconv.Itoa(q.Weight)+a.setBy(q.SetBy, q.SetAt))
	t.fact("Limit", a.limitFact(q.Limit))
	waiting := strconv.Itoa(q.Depth)
	if q.Depth > 0 {
		waiting += ", the oldest due at " + a.when(q.OldestDue)
	}
	t.fact("Waiting", waiting)
	t.fact("Running", strconv.Itoa(q.Running))
	held := []string{"0"}
	for i, h := range q.Held {
		line := fmt.Sprintf("%d by %s, the oldest due at %s", h.Runs, h.By, a.when(h.OldestDue))
		if i == 0 {
			held = nil
		}
		held = append(held, line)
	}
	t.facts("Held", held)
	t.fact("Paused", strconv.Itoa(q.Paused))
	t.facts("Workers", workerLines(q))
	t.fact("Counted", a.when(q.Counted))
}

// limitFact is a limit with who set it, and when.
func (a *app) limitFact(l *client.Limit) string {
	if l == nil {
		return "none"
	}
	return limitShort(l) + a.setBy(l.SetBy, l.SetAt)
}

// setBy says who set something, and when.
func (a *app) setBy(who string, at carillon.Time) string {
	switch {
	case at == 0:
		return ""
	case who == "":
		return ", set at " + a.when(at)
	}
	return ", set by " + who + " at " + a.when(at)
}

func workerLines(q *client.QueueDetail) (lines []string) {
	for i := range q.ServedBy {
		w := &q.ServedBy[i]
		line := w.ID
		if w.Name != "" {
			line += " (" + w.Name + ")"
		}
		if w.Slots > 0 {
			line += ", " + count(w.Slots, "slot")
		}
		if w.Weight > 0 {
			line += fmt.Sprintf(", its own weight %d", w.Weight)
		}
		lines = append(lines, line)
	}
	if lines == nil {
		return []string{"none serves it"}
	}
	return lines
}

func (a *app) queueSetCommand() *cobra.Command {
	var weight int
	cmd := &cobra.Command{
		Use:   "set QUEUE",
		Short: "Set the weight of a queue",
		Long: `Set how many places a queue gets for each one of a queue with weight 1, while both have due runs.
The default is 1, the most 100; 1 removes the setting. The weight is in force on every node within
a second.

A worker that gives its queues weights itself (carillon worker --queues mail=3,reports) divides its
own slots by those.`,
		Example:           `  carillon queue set mail --weight 3`,
		Args:              aQueue,
		ValidArgsFunction: a.completeQueues(),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("weight") {
				return usage("want something to set: --weight")
			}
			return a.reached(func(ctx context.Context, c *client.Client, args []string) error {
				set, err := c.SetQueue(ctx, args[0], weight)
				if err != nil {
					return err
				}
				return a.done(set, "queue %s has weight %d", set.Name, set.Weight)
			})(cmd, args)
		},
	}
	cmd.Flags().IntVar(
		&weight, "weight", 1, "`number` of places for each one of a queue with weight 1, 1 to 100",
	)
	return cmd
}

// aQueue is for commands that take exactly one queue.
func aQueue(cmd *cobra.Command, args []string) error {
	if err := one("queue")(cmd, args); err != nil {
		return err
	}
	return named(args[0])
}

// named checks a name that becomes a part of a path: an empty one would name another path.
func named(name string) error {
	if !carillon.IsName(name) {
		return fmt.Errorf("%q is not valid: want %s", name, carillon.NameForm)
	}
	return nil
}

func (a *app) completeQueues() cobra.CompletionFunc {
	return a.complete(func(ctx context.Context, c *client.Client) (choices []cobra.Completion) {
		queues, _ := c.Queues(ctx)
		for i := range queues {
			choices = append(choices, queues[i].Name)
		}
		return choices
	})
}

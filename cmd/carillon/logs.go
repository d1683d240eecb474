package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

func (a *app) logsCommand() *cobra.Command {
	var q client.LogQuery
	var times, raw bool
	cmd := &cobra.Command{
		Use:   "logs RUN",
		Short: "Show what a run printed",
		Long: `Shows what a run printed, oldest first; with -f stays and shows lines as they come, until the run has ended. Given a
job, shows its latest run.`,
		Example: `  carillon logs run_0f8j2v5r3c0001jgq9k2w0m
  carillon logs -f report
  carillon logs report --attempt 2 --timestamps`,
		Args:              one("run, its id or its job"),
		ValidArgsFunction: a.completeRuns(),
		RunE: a.reached(func(ctx context.Context, c *client.Client, args []string) error {
			id, err := a.findRun(ctx, c, args[0])
			if err != nil {
				return err
			}
			if raw {
				a.out, a.terminal = a.raw, false
			}
			return a.printLogs(ctx, c, id, q, times)
		}),
	}
	cmd.Flags().BoolVarP(&q.Follow, "follow", "f", false, "stay, and show lines as they come")
	cmd.Flags().IntVar(&q.Attempt, "attempt", 0, "only of this attempt")
	cmd.Flags().BoolVarP(&times, "timestamps", "t", false, "show when each line was printed, and where to")
	cmd.Flags().BoolVar(&raw, "raw", false, "send control characters to a terminal as they are; elsewhere they always are")
	return cmd
}

func (a *app) printLogs(ctx context.Context, c *client.Client, id carillon.RunID, q client.LogQuery, times bool) error {
	lines := c.Logs(ctx, id, q)
	if !a.forPeople() && !q.Follow {
		all, _, err := take(lines, 0)
		if err != nil {
			return err
		}
		return a.show(all, nil)
	}
	for line, err := range lines {
		if err != nil {
			return err
		}
		if err := a.printLine(line, times); err != nil {
			return err
		}
	}
	return nil
}

// printLine shows a line at once. A stream of JSON is one object a line; of YAML one list that grows.
func (a *app) printLine(line carillon.Line, times bool) error {
	switch a.format {
	case "json":
		enc := json.NewEncoder(a.out)
		enc.SetEscapeHTML(false)
		return enc.Encode(line)
	case "yaml":
		return a.show([]carillon.Line{line}, nil)
	}
	text := a.lineFor(a.out, line.Text)
	if line.Stream == "carillon" {
		text = a.paint(yellow, text)
	}
	if times {
		at := line.At.Std().In(a.zone).Format("2006-01-02 15:04:05.000 MST")
		text = fmt.Sprintf("%s %-8s %s", a.paint(dim, at), line.Stream, text)
	}
	_, err := fmt.Fprintln(a.out, text)
	return err
}

// lineFor is what a job printed, as it goes to w.
func (a *app) lineFor(w io.Writer, text string) string {
	if _, terminal := w.(*safeTerminal); terminal {
		return endColours(text)
	}
	return text
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon/cron"
	"github.com/carillon-run/carillon/internal/suggest"
)

// maxTimes is more than any person reads, and few enough to answer at once.
const maxTimes = 10_000

// explanation is what the cron command prints as JSON; scripts rely on its shape.
type explanation struct {
	Expression  string   `json:"expression"`
	Timezone    string   `json:"timezone"`
	Description string   `json:"description"`
	Next        []string `json:"next"`
}

func (a *app) cronCommand() *cobra.Command {
	var zone, from string
	var n int
	cmd := &cobra.Command{
		Use:   "cron EXPRESSION",
		Short: "Explain a cron expression and show its next due times, without a server",
		Long: `Explain in words when a cron expression is due, and show its next due times in the time zone of
--tz, in UTC, and relative to now. A line between two times marks a change of the clocks.

An expression has one of these forms:

  5 fields  minute hour day-of-month month day-of-week
  6 fields  second minute hour day-of-month month day-of-week
  a name    @hourly, @daily, @weekly, @monthly or @yearly
  a period  "@every 90s"

A fixed time that the clocks skip is due right after the gap. A fixed time that the clocks repeat
is due only the first time. Steps and wildcards follow real time.`,
		Example: `  carillon cron "0 3 * * MON-FRI" --tz Europe/Berlin
  carillon cron "30 2 * * *" --tz Europe/Berlin --from 2026-03-27 -n 3
  carillon cron "*/15 9-17 * * *" -o json`,
		Args:              one("cron expression, in quotes"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(_ *cobra.Command, args []string) error {
			return a.explain(args[0], zone, from, n)
		},
	}
	cmd.Flags().StringVar(&zone, "tz", "UTC", "IANA time `zone`, such as Europe/Berlin")
	cmd.Flags().StringVar(
		&from, "from", "",
		"show due times after this `time`: RFC 3339, or a date, or a date and a time of day in the zone of "+
			"--tz (default now)",
	)
	cmd.Flags().IntVarP(&n, "number", "n", 5, "`number` of due times to show")
	return cmd
}

func (a *app) explain(expression, zone, from string, n int) error {
	if n < 1 || n > maxTimes {
		return usage("-n: %d is not valid: want a number from 1 to %d", n, maxTimes)
	}
	loc, err := loadZone(zone)
	if err != nil {
		return err
	}
	start := a.now().Truncate(time.Second)
	if from != "" {
		if start, err = parseInstant(from, loc); err != nil {
			return usage("--from: %q is not valid: %v", from, err)
		}
	}
	schedule, err := cron.Parse(expression, loc)
	var bad *cron.Error
	if errors.As(err, &bad) {
		return usage("%s: want %s", bad.Wrong(), bad.Want)
	}
	// "@every" counts from the start, as it will count from the moment at which a job is submitted.
	times := upcoming(schedule.Anchor(start), start, n)

	e := explanation{schedule.String(), loc.String(), schedule.Describe(), make([]string, len(times))}
	for i, t := range times {
		e.Next[i] = t.Format(time.RFC3339Nano)
	}
	return a.show(e, func() { a.printExplanation(e, times) })
}

func loadZone(name string) (*time.Location, error) {
	loc, err := time.LoadLocation(name)
	if err != nil || name == "Local" { // Local would be another zone on the server
		hint := ""
		if like := suggest.Zone(name); like != "" {
			hint = "; did you mean " + like + "?"
		}
		return nil, usage(
			"--tz: %q is not valid: want an IANA time zone such as Europe/Berlin or UTC%s", name, hint,
		)
	}
	return loc, nil
}

func upcoming(s *cron.Schedule, after time.Time, n int) []time.Time {
	var times []time.Time
	for t := s.Next(after); len(times) < n && !t.IsZero(); t = s.Next(t) {
		times = append(times, t)
	}
	return times
}

func (a *app) printExplanation(e explanation, times []time.Time) {
	fmt.Fprintf(a.out, "%s (%s)\n\n", a.paint(bold, e.Description), e.Timezone)
	if len(times) == 0 {
		fmt.Fprintln(a.out, "Never within the next hundred years.")
		return
	}
	a.printTimes(times)
}

// printTimes shows each time as the clocks of its zone do, and marks where they change.
func (a *app) printTimes(times []time.Time) {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NEXT\tUTC\tFROM NOW")
	for _, t := range times {
		layout := "Mon 2006-01-02 15:04:05.999 -07:00 MST"
		// A zone without a name: MST would print the offset again.
		if name, _ := t.Zone(); strings.ContainsAny(name, "+-") {
			layout = strings.TrimSuffix(layout, " MST")
		}
		fmt.Fprintf(
			w, "%s\t%s\t%s\n", t.Format(layout), t.UTC().Format("2006-01-02 15:04:05.999Z"),
			relative(t, a.now()),
		)
	}
	_ = w.Flush()
	// The marks are added afterwards: inside the table they would end its columns.
	lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
	fmt.Fprintln(a.out, a.paint(bold, lines[0]))
	for i, t := range times {
		if i > 0 {
			if mark := clockChange(times[i-1], t); mark != "" {
				fmt.Fprintln(a.out, a.paint(yellow, "  -- "+mark))
			}
		}
		fmt.Fprintln(a.out, lines[i+1])
	}
}

// clockChange describes the clock change between two times in a row; "" if both have the same offset.
func clockChange(from, to time.Time) string {
	nameBefore, before := from.Zone()
	nameAfter, after := to.Zone()
	if before == after {
		return ""
	}
	step, direction := time.Duration(after-before)*time.Second, "forward"
	if step < 0 {
		step, direction = -step, "back"
	}
	change, _ := to.ZoneBounds()
	return fmt.Sprintf("the clocks go %s %s on %s, from %s to %s", direction, compact(step),
		change.Add(-time.Nanosecond).Format("Mon 2006-01-02"), nameBefore, nameAfter)
}

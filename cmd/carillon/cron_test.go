package main

import (
	"bytes"
	"fmt"
	"testing"
	"time"
)

// offline is a command line without a server and with a clock that stands still.
func offline() (*app, *bytes.Buffer) {
	var out bytes.Buffer
	return &app{
		in: &bytes.Buffer{}, out: &out, err: &marked{&out}, zone: time.UTC,
		env: func(string) string { return "" },
		now: func() time.Time { return time.Date(2026, 3, 26, 12, 0, 0, 0, time.UTC) },
	}, &out
}

func transcript(t *testing.T, commands [][]string) string {
	t.Helper()
	var all bytes.Buffer
	for _, args := range commands {
		a, out := offline()
		code := a.run(t.Context(), args)
		fmt.Fprintf(&all, "$ carillon %s\n%s", quoteAll(args), out)
		if code != 0 {
			fmt.Fprintf(&all, "-> %d\n", code)
		}
		all.WriteString("\n")
	}
	return all.String()
}

func TestCronExplainsAndPrintsTimes(t *testing.T) {
	golden(t, "cron", transcript(t, [][]string{
		{"cron", "0 3 * * MON-FRI", "--tz", "Europe/Berlin"},
		{"cron", "30 2 * * *", "--tz", "Europe/Berlin", "--from", "2026-03-27", "-n", "4"},
		{"cron", "*/30 1-2 * * *", "--tz", "America/New_York", "--from", "2026-11-01", "-n", "8"},
		{"cron", "0 12 1 1 *", "--tz", "Asia/Kathmandu", "--from", "1985-06-01T00:00:00Z", "-n", "2"},
		{"cron", "0 3 * * MON-FRI", "--tz", "Europe/Berlin", "-o", "json"},
		{"cron", "@every 90s", "-n", "2", "-o", "yaml"},
		{"cron", "@every 1500ms", "--from", "2026-03-26 12:00:00", "-n", "2"},
		{"cron", "*/5 2 29 3 *", "--tz", "Europe/Berlin", "-n", "1", "--from", "2026-03-01"},
	}))
}

func TestCronErrorsNameTheField(t *testing.T) {
	golden(t, "cron-errors", transcript(t, [][]string{
		{"cron"},
		{"cron", "0", "3", "*", "*", "*"},
		{"cron", "61 * * * *"},
		{"cron", "0 3 * * MOO"},
		{"cron", "0 3 30 2 *"},
		{"cron", "0 3 * *"},
		{"cron", "@fortnightly"},
		{"cron", "@daily", "--tz", "Mars/Olympus"},
		{"cron", "@daily", "--tz", "Local"},
		{"cron", "@daily", "--tz", "europe/berlin"},
		{"cron", "@daily", "--from", "noon"},
		{"cron", "@daily", "-n", "0"},
		{"cron", "@daily", "-n", "many"},
	}))
}

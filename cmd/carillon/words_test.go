package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
)

func TestRelativeTimesAreRoundedToTheNearest(t *testing.T) {
	const ms, day = time.Millisecond, 24 * time.Hour
	now := time.Date(2026, 3, 26, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0: "now", 499 * ms: "now", 500 * ms: "in 1s", -700 * ms: "1s ago", -time.Second: "1s ago",
		1980 * ms: "in 2s", 2 * time.Second: "in 2s",
		59 * time.Second: "in 59s", 59*time.Second + 600*ms: "in 1m", 119 * time.Second: "in 1m59s",
		2 * time.Minute:                         "in 2m",
		9*time.Minute + 59*time.Second + 800*ms: "in 10m", 12*time.Minute + 29*time.Second: "in 12m",
		12*time.Minute + 31*time.Second:          "in 13m",
		59*time.Minute + 59*time.Second + 990*ms: "in 1h", 111*time.Minute + 59*time.Second: "in 1h52m",
		125 * time.Minute: "in 2h5m",
		-3 * time.Hour:    "3h ago", 47 * time.Hour: "in 1d23h", 49 * time.Hour: "in 2d1h",
		23*time.Hour + 59*time.Minute: "in 1d",
		3*day - 20*ms:                 "in 3d", 4*day - 20*ms: "in 4d", 30 * day: "in 30d",
		364*day + 23*time.Hour + 59*time.Minute: "in 1y",
		-400 * day:                              "1y35d ago", 3 * 365 * day: "in 3y",
		12 * 365 * day: "in 12y",
	} {
		if got := relative(now.Add(d), now); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0ms", 400 * time.Microsecond: "0ms", 7 * ms: "7ms", 999600 * time.Microsecond: "1s",
		1400 * ms: "1s",
	} {
		if got := span(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

func TestSchedulesInWords(t *testing.T) {
	a, _ := offline()
	at := carillon.TimeOf(time.Date(2026, 3, 26, 12, 0, 2, 0, time.UTC))
	for want, s := range map[string]carillon.Schedule{
		"Once, at 2026-03-26 12:00:02 UTC (in 2s)": {At: at},
		"At 03:00, Monday through Friday (0 3 * * MON-FRI, Asia/Tokyo)": {
			Cron: "0 3 * * MON-FRI", Timezone: "Asia/Tokyo",
		},
		"At 00:00 (@daily), until 2026-03-26 12:00:02 UTC": {
			Cron: "@daily", Timezone: "UTC", EndsAt: at,
		},
		"Every 90s, from 2026-03-26 12:00:02 UTC, at most 1 run": {
			Every: carillon.Duration(90 * time.Second), StartsAt: at, MaxRuns: 1,
		},
		"something newer than this (something newer than this)": {Cron: "something newer than this"},
	} {
		if got := a.scheduleWords(&s); got != strings.Replace(want, "90s", "1m30s", 1) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestColoursOnlyOnATerminalThatWantsThem(t *testing.T) {
	for name, c := range map[string]struct {
		terminal bool
		env      map[string]string
		args     []string
		want     bool
	}{
		"a pipe":     {},
		"a terminal": {terminal: true, want: true},
		"NO_COLOR":   {terminal: true, env: map[string]string{"NO_COLOR": "1"}},
		"TERM=dumb":  {terminal: true, env: map[string]string{"TERM": "dumb"}},
		"--no-color": {terminal: true, args: []string{"--no-color"}},
	} {
		a, out := offline()
		a.terminal, a.env = c.terminal, func(name string) string { return c.env[name] }
		a.run(t.Context(), append([]string{"cron", "@daily"}, c.args...))
		if got := strings.Contains(out.String(), "\x1b["); got != c.want {
			t.Errorf("%s: colours are %v", name, got)
		}
	}
}

func TestColouredColumnsStayStraight(t *testing.T) {
	lines := func(terminal bool) []string {
		a, out := offline()
		a.terminal = terminal
		table := a.table("ID", "STATE", "REASON")
		table.row("1", "succeeded", "-")
		table.row("22", "failed", "exit code 1")
		table.end()
		text := out.String()
		for _, code := range []colour{plain, bold, red, green} {
			text = strings.ReplaceAll(text, "\x1b["+string(code)+"m", "")
		}
		return strings.Split(text, "\n")
	}
	plainLines, painted := lines(false), lines(true)
	for i := range plainLines {
		if plainLines[i] != strings.TrimRight(painted[i], " ") {
			t.Errorf("painted %q, plain %q", painted[i], plainLines[i])
		}
	}
}

func TestControlCharactersOfAServerDoNotReachTheTerminal(t *testing.T) {
	if got := oneLine("a\x1b[2Jb\r\nc\td\u009b2Je\x9b2Jf"); got != "a [2Jb c d 2Je\ufffd2Jf" {
		t.Errorf("%q", got)
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	a, _ := offline()
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.Short == "" || cmd.Example == "" {
			t.Errorf("%s has no short help or no example", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			if !strings.HasPrefix(line, "  ") || !strings.Contains(line, "carillon ") {
				t.Errorf("%s: example %q is not an indented command line", cmd.CommandPath(), line)
			}
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(a.root())
}

package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/cron"
)

// relative says how far t is from now: "in 2m", "3s ago", "now".
func relative(t, now time.Time) string {
	d := t.Sub(now)
	switch {
	case d.Abs() < time.Second/2:
		return "now"
	case d < 0:
		return span(max(-d, time.Second)) + " ago"
	}
	return "in " + span(max(d, time.Second))
}

// units of a span, largest first.
var units = []struct {
	name string
	size time.Duration
}{
	{"y", 365 * 24 * time.Hour},
	{"d", 24 * time.Hour},
	{"h", time.Hour},
	{"m", time.Minute},
	{"s", time.Second},
	{"ms", time.Millisecond},
}

// span is a duration rounded to the nearest: in its largest unit, and below 10 of that in the next smaller
// unit too, so that from a minute up it is never wrong by more than a twentieth. Seconds have no fraction:
// 1h52m, 3d, 12h, 45s, 7ms.
func span(d time.Duration) string {
	for i, unit := range units {
		precision := unit.size
		if d < 10*unit.size && unit.size > time.Second {
			precision = units[i+1].size
		}
		// Rounding can bring the duration up to one of a larger unit: 59m59.9s is 1h, not 60m.
		d := d.Round(precision)
		if d < unit.size && unit.size > time.Millisecond {
			continue
		}
		text := fmt.Sprintf("%d%s", d/unit.size, unit.name)
		if rest := d % unit.size; rest > 0 {
			text += fmt.Sprintf("%d%s", rest/precision, units[i+1].name)
		}
		return text
	}
	return "0ms"
}

// ago is relative for tables; no time is a dash.
func (a *app) ago(t carillon.Time) string {
	if t == 0 || t == carillon.Never {
		return "-"
	}
	return relative(t.Std(), a.now())
}

// stamp is an instant in the user's zone, with the name of the zone; milliseconds only if they are not zero.
func (a *app) stamp(t carillon.Time) string { return stampIn(t, a.zone) }

func stampIn(t carillon.Time, zone *time.Location) string {
	layout := "2006-01-02 15:04:05 MST"
	if t%1000 != 0 {
		layout = "2006-01-02 15:04:05.000 MST"
	}
	return t.Std().In(zone).Format(layout)
}

// when is for detail views: the instant, and how far it is from now.
func (a *app) when(t carillon.Time) string { return a.whenIn(t, a.zone) }

func (a *app) whenIn(t carillon.Time, zone *time.Location) string {
	if t == 0 || t == carillon.Never {
		return "-"
	}
	return stampIn(t, zone) + " (" + a.ago(t) + ")"
}

// zoneOf is the zone in which to show the due times of a schedule: its own, else the user's.
func (a *app) zoneOf(s *carillon.Schedule) *time.Location {
	if s.Timezone != "" {
		if zone, err := time.LoadLocation(s.Timezone); err == nil {
			return zone
		}
	}
	return a.zone
}

// took is how long something lasted, to about three digits.
func took(from, to carillon.Time) string {
	if from == 0 || to < from {
		return "-"
	}
	d := to.Sub(from)
	if d > time.Minute {
		d = d.Round(time.Second)
	}
	return carillon.Duration(d).String()
}

// scheduleShort describes a schedule in a few characters, for tables.
func scheduleShort(s *carillon.Schedule) string {
	switch {
	case s.Cron != "" && otherZone(s) != "":
		// In brackets, so that people do not copy the zone as a part of the expression.
		return s.Cron + " (" + otherZone(s) + ")"
	case s.Cron != "":
		return s.Cron
	case s.Every != 0:
		return "every " + s.Every.String()
	}
	return "once"
}

// otherZone is the zone of a cron expression, "" if it is the default.
func otherZone(s *carillon.Schedule) string {
	if s.Timezone == "UTC" {
		return ""
	}
	return s.Timezone
}

// scheduleWords describes a schedule in a sentence, with its bounds.
func (a *app) scheduleWords(s *carillon.Schedule) string {
	var b strings.Builder
	switch {
	case s.Cron != "":
		b.WriteString(describe(s.Cron) + " (" + s.Cron)
		if zone := otherZone(s); zone != "" {
			b.WriteString(", " + zone)
		}
		b.WriteString(")")
	case s.Every != 0:
		b.WriteString("Every " + s.Every.String())
	default:
		return "Once, at " + a.when(s.At)
	}
	if s.StartsAt != 0 {
		b.WriteString(", from " + stampIn(s.StartsAt, a.zoneOf(s)))
	}
	if s.EndsAt != 0 {
		b.WriteString(", until " + stampIn(s.EndsAt, a.zoneOf(s)))
	}
	if s.MaxRuns != 0 {
		fmt.Fprintf(&b, ", at most %s", count(s.MaxRuns, "run"))
	}
	return b.String()
}

// describe falls back to the expression itself: a newer server can know forms that this binary does not.
func describe(expression string) string {
	s, err := cron.Parse(expression, time.UTC)
	if err != nil {
		return expression
	}
	return s.Describe()
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// shorten cuts a text for a table; the detail view shows all of it.
func shorten(s string, limit int) string {
	s = oneLine(s)
	if runes := []rune(s); len(runes) > limit {
		return string(runes[:limit-1]) + "…"
	}
	return s
}

// cut shortens a text on a terminal, where a long one would break the table; a script gets the whole text.
func (a *app) cut(s string, limit int) string {
	if !a.terminal || a.wide() {
		return oneLine(s)
	}
	return shorten(s, limit)
}

// compact writes 1h, not 1h0m0s.
func compact(d time.Duration) string { return carillon.Duration(d).String() }

package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/cron"
)

// wallTime is a date, and perhaps a time of day, without an offset: the reading of a clock. Its zone is known
// only when all flags are read, and for an edit only when the job is read.
type wallTime struct {
	text  string
	shown time.Time // the same clock reading in UTC
}

// readTime reads RFC 3339 as an instant, and a time without an offset as a wall time.
func readTime(s string) (at time.Time, wall *wallTime, err error) {
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return t, nil, nil
	}
	for _, layout := range []string{
		"2006-01-02", "2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05",
	} {
		if t, err := time.Parse(layout, s); err == nil {
			return time.Time{}, &wallTime{text: s, shown: t}, nil
		}
	}
	return time.Time{}, nil, errors.New(
		`want a time such as "2026-03-29T02:30:00+01:00", "2026-03-29 02:30" or "2026-03-29"`,
	)
}

// parseInstant reads RFC 3339, or a date and perhaps a time of day as the zone's clocks show it.
func parseInstant(s string, zone *time.Location) (time.Time, error) {
	at, wall, err := readTime(s)
	if wall != nil {
		at, _, err = wall.in(zone)
	}
	return at, err
}

// in is the instant at which the clocks of a zone show the wall time. It is the due time of a cron expression
// for that minute, so the rule is the same: a time that the clocks skip is right after the gap, and of a time
// that they show twice the first counts. In both cases the note says so.
func (w *wallTime) in(zone *time.Location) (at time.Time, note string, err error) {
	t := w.shown
	expression := fmt.Sprintf("%d %d %d %d %d *", t.Second(), t.Minute(), t.Hour(), t.Day(), t.Month())
	once, err := cron.Parse(expression, zone)
	if err != nil {
		return time.Time{}, "", err // not possible: the fields are those of a date
	}
	at = once.Next(t.Add(-48 * time.Hour)) // no zone is further from UTC, and the same date is a year away
	if at.IsZero() {
		return time.Time{}, "", errors.New("want a time before the year 9999")
	}
	where := zone.String()
	if zone == time.Local {
		where = "this machine"
	}
	switch reading := time.Date(
		at.Year(), at.Month(), at.Day(), at.Hour(), at.Minute(), at.Second(), 0, time.UTC,
	); {
	case !reading.Equal(t.Truncate(time.Second)):
		return at, fmt.Sprintf(
			"the clocks of %s skip %s; it is taken as %s", where, w.text, at.Format("15:04:05 MST"),
		), nil
	case repeated(at):
		note = fmt.Sprintf(
			"the clocks of %s show %s twice; the first is taken, %s", where, w.text,
			at.Format("15:04:05 MST"),
		)
	}
	return at.Add(time.Duration(t.Nanosecond())), note, nil
}

// repeated says that the clocks show the same time again after they are set back.
func repeated(at time.Time) bool {
	_, change := at.ZoneBounds()
	if change.IsZero() {
		return false
	}
	_, before := at.Zone()
	_, after := change.Zone()
	again := at.Add(time.Duration(before-after) * time.Second)
	return after < before && !again.Before(change)
}

// timeFields are the fields of a schedule that are times, with their flags.
var timeFields = []struct{ field, flag string }{
	{"at", "--at"}, {"starts_at", "--starts-at"}, {"ends_at", "--ends-at"},
}

// resolveTimes turns the wall times among the flags into instants, in the zone of the job. was is the
// schedule that an edit changes; nil for a new job.
func (a *app) resolveTimes(given doc, was *carillon.Schedule) error {
	schedule, _ := given["schedule"].(doc)
	for _, f := range timeFields {
		wall, ok := schedule[f.field].(*wallTime)
		if !ok {
			continue
		}
		zone, err := a.jobZone(schedule, was)
		if err != nil {
			return err
		}
		at, note, err := wall.in(zone)
		if err != nil {
			return usage("%s: %q is not valid: %v", f.flag, wall.text, err)
		}
		if note != "" {
			fmt.Fprintf(a.err, "carillon: %s: %s\n", f.flag, note)
		}
		schedule[f.field] = at.Format(time.RFC3339Nano)
	}
	return zoneOfOnce(schedule)
}

// jobZone is the zone of times without an offset: that of --tz, else that of the job's cron expression, else
// that of the machine.
func (a *app) jobZone(schedule doc, was *carillon.Schedule) (*time.Location, error) {
	name, given := schedule["timezone"].(string)
	_, taken := schedule["timezone"]
	switch {
	case given:
		return loadZone(name)
	case was != nil && was.Timezone != "" && !taken && schedule["every"] == nil:
		return loadZone(was.Timezone)
	case schedule["cron"] != nil || was != nil && was.Cron != "" && schedule["every"] == nil:
		return time.UTC, nil
	}
	return a.zone, nil
}

// zoneOfOnce removes --tz from a one-time job: its time is an instant by now, and the server keeps no zone
// with it. If the zone has another offset at that time than the one given, one of the two is a mistake.
func zoneOfOnce(schedule doc) error {
	name, given := schedule["timezone"].(string)
	text, once := schedule["at"].(string)
	if !given || !once || schedule["cron"] != nil || schedule["every"] != nil {
		return nil
	}
	zone, err := loadZone(name)
	if err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return err // not possible: it was written by resolveTimes or read by readTime
	}
	_, offset := at.Zone()
	if _, wanted := at.In(zone).Zone(); offset != wanted {
		return usage(
			"--at: the offset of %q is not that of %s at that time (%s); leave out the offset or --tz",
			text, name,
			at.In(zone).Format("-07:00"),
		)
	}
	delete(schedule, "timezone")
	return nil
}

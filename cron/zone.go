package cron

import (
	"math"
	"time"
)

// span is a stretch of absolute time [start, end) in which a zone keeps one offset, so that the wall clock
// runs evenly: wall = unix + offset.
type span struct {
	start, end int64 // Unix seconds
	offset     int64
}

// reach is how far back a wall reading can repeat. Offsets lie within 16 hours of UTC, so a reading is never
// taken again after 32 hours; two days are on the safe side, and longer than any gap.
const reach = 2 * secondsPerDay

// spanAt returns the span that holds the instant t. A span can be cut short where nothing changes, and the
// next one then has the same offset; callers must not take its ends for transitions.
func spanAt(loc *time.Location, t int64) span {
	at := time.Unix(t, 0).In(loc)
	_, offset := at.Zone()
	sp := span{start: earliest, end: steadyUntil(at), offset: int64(offset)}
	if start, _ := at.ZoneBounds(); !start.IsZero() {
		sp.start = max(sp.start, start.Unix())
	}
	// In the year in which a zone takes up its present rule, Go dates the span back to where the rule would
	// have put it, over a transition that did happen (Metlakatla on 2019-01-20). Ends are never too late, so
	// walk them up to t.
	for next := steadyUntil(sp.first(loc)); next <= t; next = steadyUntil(sp.first(loc)) {
		sp.start = next
	}
	return sp
}

// steadyUntil returns an instant after t up to which the zone keeps the offset it has at t.
func steadyUntil(t time.Time) int64 {
	_, end := t.ZoneBounds()
	switch {
	case end.IsZero():
		return latest
	case end.After(t):
		return min(end.Unix(), latest)
	}
	// Go takes a year that follows the zone's rule to end after 365 days, so on 31 December of a leap year
	// the end lies in the past. The offset holds until that day is over in UTC; without this a search would
	// stand still.
	return t.Truncate(24*time.Hour).Unix() + secondsPerDay
}

func (sp span) first(loc *time.Location) time.Time { return time.Unix(sp.start, 0).In(loc) }

// reached returns the wall second that the clock has never read or passed before the span begins: fixed
// schedules continue there. After a gap it is the first skipped reading, and after a fold it is the first one
// that is new.
func (sp span) reached(loc *time.Location) int64 {
	if sp.start <= earliest {
		return sp.start + sp.offset
	}
	reading := int64(math.MinInt64)
	for at := sp.start; at > earliest && at > sp.start-reach; {
		before := spanAt(loc, at-1)
		reading = max(reading, at+before.offset)
		at = before.start
	}
	return reading
}

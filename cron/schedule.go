package cron

import "time"

// Due times lie in the years 2 to 9998. The limits keep the arithmetic far from overflow, the results apart
// from the zero time, and their year printable in four digits in every zone.
const (
	earliest = -62104060800 // 0002-01-01T00:00:00Z
	latest   = 253370764800 // 9999-01-01T00:00:00Z
)

// horizon is how far a search goes before it gives up. A date and weekday meet again within 40 years, so only
// a schedule whose every match falls into a gap gets this far: every five minutes from 02:00 to 03:00 on the
// very Sunday on which New York skips that hour.
const horizon = 100 * 366 * secondsPerDay

// Schedule is a parsed expression in a zone. It does not change, so it may be shared between goroutines.
type Schedule struct {
	expr   string
	loc    *time.Location
	cal    calendar
	fixed  bool          // a time of day rather than a rhythm; see the package comment
	every  time.Duration // the period of "@every", else 0
	anchor time.Time     // where "@every" counts from
}

// String returns the expression as it was given, without surrounding space.
func (s *Schedule) String() string { return s.expr }

// Location returns the zone that the expression is read in and that due times are returned in.
func (s *Schedule) Location() *time.Location { return s.loc }

// Every returns the period of an "@every" schedule, and 0 for all others.
func (s *Schedule) Every() time.Duration { return s.every }

// Anchor returns a copy in which "@every d" is due at t, t+d, t+2d and so on, and never before t. Without it
// all schedules of one period count from the Unix epoch and so fall due together. It has no effect on other
// schedules.
func (s *Schedule) Anchor(t time.Time) *Schedule {
	anchored := *s
	if s.every > 0 {
		anchored.anchor = t.Round(0).In(s.loc)
	}
	return &anchored
}

// Next returns the first due time strictly after the given time, or the zero time if there is none within a
// century.
func (s *Schedule) Next(after time.Time) time.Time {
	if s.every > 0 {
		return s.nextTick(after)
	}
	t := within(after) + 1
	for limit := min(t+horizon, latest); t < limit; {
		sp := spanAt(s.loc, t)
		lo := t + sp.offset
		switch {
		case s.fixed && t == sp.start:
			lo = sp.reached(s.loc) // readings that the clock skipped on the way here are due now
		case s.fixed && t < sp.start+reach:
			lo = max(lo, sp.reached(s.loc)) // readings that it repeats were due already
		}
		if wall, ok := s.cal.first(lo, sp.end+sp.offset); ok {
			return s.at(max(wall-sp.offset, sp.start))
		}
		t = sp.end
	}
	return time.Time{}
}

// Prev returns the last due time strictly before the given time, or the zero time if there is none within a
// century.
func (s *Schedule) Prev(before time.Time) time.Time {
	if s.every > 0 {
		return s.prevTick(before)
	}
	t := within(before)
	if before.Nanosecond() == 0 || t == latest {
		t--
	}
	for limit := max(t-horizon, earliest); t >= limit; {
		sp := spanAt(s.loc, t)
		lo := sp.start + sp.offset
		if s.fixed {
			lo = sp.reached(s.loc)
		}
		if wall, ok := s.cal.last(lo, t+sp.offset); ok {
			return s.at(max(wall-sp.offset, sp.start))
		}
		t = sp.start - 1
	}
	return time.Time{}
}

// within brings a time into the range of due times, give or take a second, before any arithmetic with it.
func within(t time.Time) int64 { return max(earliest-1, min(t.Unix(), latest)) }

func (s *Schedule) at(unix int64) time.Time { return time.Unix(unix, 0).In(s.loc) }

func (s *Schedule) nextTick(after time.Time) time.Time {
	if after.Before(s.anchor) {
		return s.anchor
	}
	if after.Unix() >= latest {
		return time.Time{}
	}
	return s.tick(s.sinceAnchor(after)/s.every.Milliseconds() + 1)
}

func (s *Schedule) prevTick(before time.Time) time.Time {
	if !before.After(s.anchor) {
		return time.Time{}
	}
	if before.Unix() > latest {
		before = s.at(latest)
	}
	n := s.sinceAnchor(before) / s.every.Milliseconds()
	if tick := s.tick(n); tick.Before(before) {
		return tick
	}
	return s.tick(n - 1)
}

// sinceAnchor counts whole milliseconds, because a time.Duration is too short to hold three centuries.
func (s *Schedule) sinceAnchor(t time.Time) int64 {
	seconds := t.Unix() - s.anchor.Unix()
	return seconds*1000 + int64(t.Nanosecond()-s.anchor.Nanosecond()+1e9)/1e6 - 1000
}

// tick returns the n-th due time of "@every"; the anchor itself is number 0.
func (s *Schedule) tick(n int64) time.Time {
	ms := n * s.every.Milliseconds()
	return time.Unix(s.anchor.Unix()+ms/1000, int64(s.anchor.Nanosecond())+ms%1000*1e6).In(s.loc)
}

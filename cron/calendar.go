package cron

import "time"

const (
	secondsPerHour = 60 * 60
	secondsPerDay  = 24 * secondsPerHour
)

// calendar is a cron expression without a zone. It answers in wall seconds: the seconds since 1970-01-01
// 00:00 that a wall clock would count if it never changed. Keeping zones out makes the search exact and easy
// to bound; zone.go has everything that is hard about zones.
type calendar struct {
	second, minute, hour set
	day, month, weekday  set
	either               bool // a day matches if its date or its weekday does; otherwise both must
}

// first returns the earliest matching wall second in [lo, hi). It looks at each month once and at no more
// than two days of a month.
func (c *calendar) first(lo, hi int64) (int64, bool) {
	at := time.Unix(lo, 0).UTC()
	year, month, from := at.Date()
	clock := secondOfDay(at)
	for {
		start := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
		if start.Unix() >= hi {
			return 0, false
		}
		days := c.days(start)
		for day, ok := days.from(from); ok; day, ok = days.from(day + 1) {
			if day > from {
				clock = 0
			}
			if due, ok := c.clockFrom(clock); ok {
				wall := start.Unix() + int64(day-1)*secondsPerDay + int64(due)
				return wall, wall < hi
			}
		}
		year, month, _ = start.AddDate(0, 1, 0).Date()
		from, clock = 1, 0
	}
}

// last returns the latest matching wall second in [lo, hi]. It is first, mirrored.
func (c *calendar) last(lo, hi int64) (int64, bool) {
	at := time.Unix(hi, 0).UTC()
	year, month, upTo := at.Date()
	clock := secondOfDay(at)
	for {
		start := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
		days := c.days(start)
		for day, ok := days.upTo(upTo); ok; day, ok = days.upTo(day - 1) {
			if day < upTo {
				clock = secondsPerDay - 1
			}
			if due, ok := c.clockUpTo(clock); ok {
				wall := start.Unix() + int64(day-1)*secondsPerDay + int64(due)
				return wall, wall >= lo
			}
		}
		if start.Unix() <= lo {
			return 0, false
		}
		year, month, _ = start.AddDate(0, -1, 0).Date()
		upTo, clock = 31, secondsPerDay-1
	}
}

// days returns the days that match in the month that begins at start.
func (c *calendar) days(start time.Time) set {
	if !c.month.has(int(start.Month())) {
		return 0
	}
	// Six weeks of the weekday field in a row, where bit 0 is Sunday; shifted so that bit 1 is the weekday of
	// the 1st.
	const sixWeeks = 1 | 1<<7 | 1<<14 | 1<<21 | 1<<28 | 1<<35
	weekdays := c.weekday * sixWeeks >> start.Weekday() << 1
	dates := between(1, monthLength(start.Year(), start.Month()))
	if c.either {
		return dates & (c.day | weekdays)
	}
	return dates & c.day & weekdays
}

// clockFrom returns the first matching second of the day that is at least n.
func (c *calendar) clockFrom(n int) (int, bool) {
	h, m, s := n/secondsPerHour, n/60%60, n%60
	if c.hour.has(h) {
		if c.minute.has(m) {
			if s, ok := c.second.from(s); ok {
				return clock(h, m, s), true
			}
		}
		if m, ok := c.minute.from(m + 1); ok {
			return clock(h, m, c.second.min()), true
		}
	}
	h, ok := c.hour.from(h + 1)
	return clock(h, c.minute.min(), c.second.min()), ok
}

// clockUpTo returns the last matching second of the day that is at most n.
func (c *calendar) clockUpTo(n int) (int, bool) {
	h, m, s := n/secondsPerHour, n/60%60, n%60
	if c.hour.has(h) {
		if c.minute.has(m) {
			if s, ok := c.second.upTo(s); ok {
				return clock(h, m, s), true
			}
		}
		if m, ok := c.minute.upTo(m - 1); ok {
			return clock(h, m, c.second.max()), true
		}
	}
	h, ok := c.hour.upTo(h - 1)
	return clock(h, c.minute.max(), c.second.max()), ok
}

// latestDay returns the highest day of the month that any allowed month can have.
//
// This is enough to decide whether an expression can ever match. Over the 400 years of the Gregorian cycle
// every date, 29 February included, falls on every weekday, so the weekday field can postpone a date but
// never rule it out.
func (c *calendar) latestDay() int {
	const leapYear = 2000
	latest := 0
	for _, m := range c.month.values() {
		latest = max(latest, monthLength(leapYear, time.Month(m)))
	}
	return latest
}

func monthLength(year int, month time.Month) int {
	switch month {
	case time.April, time.June, time.September, time.November:
		return 30
	case time.February:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

func clock(h, m, s int) int { return h*secondsPerHour + m*60 + s }

func secondOfDay(t time.Time) int { return clock(t.Clock()) }

package cron

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxTimes is how many times of day Describe spells out before it names minutes and hours instead.
const maxTimes = 4

// Describe says in plain English when the schedule is due: "At 03:00, Monday through Friday". It goes by what
// the fields mean and not by how they are written, so */15 and 0,15,30,45 read the same.
func (s *Schedule) Describe() string {
	if s.every > 0 {
		return "Every " + duration(s.every)
	}
	phrases := append(s.cal.timePhrases(), s.cal.datePhrases()...)
	text := strings.Join(phrases, ", ")
	return strings.ToUpper(text[:1]) + text[1:]
}

// timePhrases go from fine to coarse: seconds, minutes, hours. A phrase that the finer one implies is left
// out.
func (c *calendar) timePhrases() []string {
	if times := c.hour.len() * c.minute.len() * c.second.len(); times <= maxTimes {
		return []string{"at " + join(c.times(), "and")}
	}
	var phrases []string
	if c.second != 1 {
		phrases = append(phrases, c.secondPhrase())
	}
	if p := c.minutePhrase(len(phrases) > 0); p != "" {
		phrases = append(phrases, p)
	}
	if p := c.hourPhrase(len(phrases) > 0); p != "" {
		phrases = append(phrases, p)
	}
	return phrases
}

func (c *calendar) times() []string {
	var list []string
	for _, h := range c.hour.values() {
		for _, m := range c.minute.values() {
			for _, s := range c.second.values() {
				text := fmt.Sprintf("%02d:%02d", h, m)
				if c.second != 1 {
					text += fmt.Sprintf(":%02d", s)
				}
				list = append(list, text)
			}
		}
	}
	return list
}

func (c *calendar) secondPhrase() string {
	if n, ok := rhythm(c.second, 60); ok {
		return every(n, "second", 60)
	}
	return "at " + amount(c.second, "second") + " past the minute"
}

// minutePhrase must keep the rhythm of the seconds: "every 10 seconds, during minute 30 of the hour".
func (c *calendar) minutePhrase(finer bool) string {
	n, ok := rhythm(c.minute, 60)
	during := c.second.len() > 1
	switch {
	case ok && n == 1 && finer, !finer && c.minute == 1:
		return ""
	case ok && during:
		return "during every " + ordinal(n) + " minute from 0"
	case ok:
		return every(n, "minute", 60)
	case during:
		return "during " + numbered(c.minute, "minute", "%d") + " of the hour"
	case c.minute.len() > 2 && isRun(c.minute):
		return fmt.Sprintf("every minute from %d through %d past the hour", c.minute.min(), c.minute.max())
	}
	return "at " + amount(c.minute, "minute") + " past the hour"
}

func (c *calendar) hourPhrase(finer bool) string {
	n, ok := rhythm(c.hour, 24)
	single := c.minute.len() == 1 && c.second.len() == 1
	switch {
	case ok && n == 1 && finer:
		return ""
	case ok && single:
		return every(n, "hour", 24)
	case ok:
		return "during every " + ordinal(n) + " hour from 00"
	case isRun(c.hour) && c.hour.len() > 1:
		return c.hourRange(finer, single)
	case !finer:
		return "at " + list(c.hour, "%02d:00")
	}
	return "during " + numbered(c.hour, "hour", "%02d")
}

// hourRange gives the last minute of the range unless an hour has only one. Otherwise "between 09:00 and
// 17:00" would hide that 17:55 is due as well.
func (c *calendar) hourRange(finer, single bool) string {
	switch {
	case !finer:
		return fmt.Sprintf("every hour between %02d:00 and %02d:00", c.hour.min(), c.hour.max())
	case single:
		return fmt.Sprintf("between %02d and %02d", c.hour.min(), c.hour.max())
	}
	return fmt.Sprintf("between %02d:00 and %02d:59", c.hour.min(), c.hour.max())
}

func (c *calendar) datePhrases() []string {
	allDays, allWeek := c.day == between(1, 31), c.weekday == between(0, 6)
	var phrases []string
	switch {
	case c.either:
		phrases = append(phrases, c.dayPhrase()+" or "+c.weekdayPhrase())
	case !allDays && !allWeek:
		phrases = append(phrases, c.dayPhrase()+" if it is "+c.weekdayNames("or"))
	case !allDays:
		phrases = append(phrases, c.dayPhrase())
	case !allWeek:
		phrases = append(phrases, c.weekdayPhrase())
	}
	if c.month != between(1, 12) {
		phrases = append(phrases, c.monthPhrase())
	}
	return phrases
}

func (c *calendar) dayPhrase() string {
	if n, ok := rhythm(c.day>>1, 31); ok && n > 1 && c.day.len() > maxTimes {
		return "on every " + ordinal(n) + " day of the month from the 1st"
	}
	return "on " + numbered(c.day, "day", "%d") + " of the month"
}

func (c *calendar) weekdayPhrase() string {
	names := c.weekdayNames("and")
	if strings.Contains(names, "through") {
		return names
	}
	return "on " + names
}

// weekdayNames finds a run of days wherever in the week it begins, and otherwise lists the days from Monday
// on.
func (c *calendar) weekdayNames(word string) string {
	n := c.weekday.len()
	for first := range 7 {
		last := first + n - 1
		if n > 2 && n < 7 && c.weekday*(1|1<<7)>>first&between(0, n-1) == between(0, n-1) {
			return weekdayName(first) + " through " + weekdayName(last)
		}
	}
	var names []string
	for d := 1; d <= 7; d++ {
		if c.weekday.has(d % 7) {
			names = append(names, weekdayName(d))
		}
	}
	return join(names, word)
}

func (c *calendar) monthPhrase() string {
	if c.month.len() > 2 && isRun(c.month) {
		return "from " + time.Month(c.month.min()).String() + " through " + time.Month(c.month.max()).String()
	}
	var names []string
	for _, m := range c.month.values() {
		names = append(names, time.Month(m).String())
	}
	return "in " + join(names, "and")
}

// rhythm reports whether s is every n-th of the values 0 to size-1, counted from 0.
func rhythm(s set, size int) (n int, ok bool) {
	if !s.has(0) || s.len() < 2 {
		return 0, false
	}
	n, _ = s.from(1)
	var want set
	for v := 0; v < size; v += n {
		want |= 1 << v
	}
	return n, s == want
}

// every says where the count starts if the unit does not divide evenly, as with */7: cron begins again from
// 0.
func every(n int, unit string, size int) string {
	switch {
	case n == 1:
		return "every " + unit
	case size%n == 0:
		return fmt.Sprintf("every %d %ss", n, unit)
	}
	whole := map[string]string{"second": "minute", "minute": "hour", "hour": "day"}[unit]
	return fmt.Sprintf("every %d %ss from the start of each %s", n, unit, whole)
}

func isRun(s set) bool { return s == between(s.min(), s.max()) }

// list writes a set as "1, 2 and 5", or as "1 through 5" if nothing is missing in between.
func list(s set, format string) string {
	if s.len() > 2 && isRun(s) {
		return fmt.Sprintf(format+" through "+format, s.min(), s.max())
	}
	var items []string
	for _, v := range s.values() {
		items = append(items, fmt.Sprintf(format, v))
	}
	return join(items, "and")
}

func join(items []string, word string) string {
	last := len(items) - 1
	if last == 0 {
		return items[0]
	}
	return strings.Join(items[:last], ", ") + " " + word + " " + items[last]
}

// amount writes "1 minute" but "30 minutes", because the number counts units.
func amount(s set, unit string) string {
	if s == 1<<1 {
		return "1 " + unit
	}
	return list(s, "%d") + " " + unit + "s"
}

// numbered writes "day 15" but "days 1 and 15", because the number is a name.
func numbered(s set, unit, format string) string {
	if s.len() == 1 {
		return unit + " " + list(s, format)
	}
	return unit + "s " + list(s, format)
}

func ordinal(n int) string {
	suffix := "th"
	if n/10 != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}

func weekdayName(d int) string { return time.Weekday(d % 7).String() }

// duration writes 1h30m as "1 hour 30 minutes", and a single unit without its number.
func duration(d time.Duration) string {
	units := []struct {
		name string
		size time.Duration
	}{
		{"day", 24 * time.Hour},
		{"hour", time.Hour},
		{"minute", time.Minute},
		{"second", time.Second},
		{"millisecond", time.Millisecond},
	}
	var parts []string
	for _, unit := range units {
		n := d / unit.size
		d %= unit.size
		switch {
		case n == 1:
			parts = append(parts, "1 "+unit.name)
		case n > 1:
			parts = append(parts, fmt.Sprintf("%d %ss", n, unit.name))
		}
	}
	if len(parts) == 1 {
		return strings.TrimPrefix(parts[0], "1 ")
	}
	return strings.Join(parts, " ")
}

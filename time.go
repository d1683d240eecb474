package carillon

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Time is an instant in whole milliseconds since the Unix epoch, UTC: what the store keeps and what rules
// compare. The zero value means "none" and is null in JSON. It is an integer because every engine compares
// integers alike, while timestamp types differ in range, zone and rounding.
type Time int64

// Never is later than every due time. It is the wake of a run that waits for a person, not for the clock.
const Never Time = math.MaxInt64

// The instants a job may name. Their milliseconds fit the 50 bits that a run id has for them.
var (
	minTime = TimeOf(time.Date(1970, 1, 1, 0, 0, 0, 0, time.UTC))
	maxTime = TimeOf(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))
)

// TimeOf rounds up to whole milliseconds, so that nothing can start before the instant that was asked for.
func TimeOf(t time.Time) Time {
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	return Time(ms)
}

// Now is the present instant by this machine's clock, rounded down. A part of a node asks its Clock instead.
func Now() Time { return (*Clock)(nil).Now() }

// Clock is the store's clock: nodes that share a store decide by one clock, not each by its own. All parts of
// a node have the same Clock. A nil or new Clock is this machine's.
type Clock struct {
	reading atomic.Pointer[reading]
}

// reading is how a clock was set.
type reading struct {
	ahead time.Duration // how far the store's clock was ahead of this machine's
	at    time.Time     // when the two were compared; zero: they were not
}

// now is the store's time, when this machine's clock says machine and elapsed has passed since the clocks
// were compared. What the machine's clock says counts only if they were not.
func (r *reading) now(machine time.Time, elapsed time.Duration) time.Time {
	switch {
	case r == nil:
		return machine
	case r.at.IsZero():
		return machine.Add(r.ahead)
	}
	return r.at.Add(elapsed + r.ahead)
}

func (c *Clock) now() time.Time {
	if c == nil {
		return time.Now()
	}
	r := c.reading.Load()
	if r == nil || r.at.IsZero() {
		return r.now(time.Now(), 0)
	}
	return r.now(time.Time{}, time.Since(r.at)) // by the monotonic clock
}

// Ahead is how far the store's clock is ahead of this machine's.
func (c *Clock) Ahead() time.Duration {
	if c == nil || c.reading.Load() == nil {
		return 0
	}
	return c.reading.Load().ahead
}

// SetAhead moves the clock by d from this machine's clock, and follows that clock when it is set.
func (c *Clock) SetAhead(d time.Duration) { c.reading.Store(&reading{ahead: d}) }

// Compare says that the store's clock was ahead of this machine's by d at a time of this machine. From then
// on the clock goes on by the machine's monotonic clock: if the machine's clock is set, that changes nothing.
func (c *Clock) Compare(at time.Time, d time.Duration) { c.reading.Store(&reading{d, at}) }

// Off is how far the clock is from one that is ahead of this machine's by d at a time of this machine.
func (c *Clock) Off(at time.Time, d time.Duration) time.Duration {
	return c.now().Add(-time.Since(at)).Sub(at.Round(0).Add(d)).Abs()
}

// Moved is how far this machine's clock has moved away from the clock since they were compared: it was set,
// or the machine slept and the monotonic clock stood still.
func (c *Clock) Moved() time.Duration {
	return (time.Until(c.now().Round(0)) - c.Ahead()).Abs()
}

// Now is the present instant, rounded down: a decision must not see a time that has not come yet.
func (c *Clock) Now() Time { return Time(c.now().UnixMilli()) }

// Until is the time that is left until t, to the nanosecond; negative if t has passed.
func (c *Clock) Until(t Time) time.Duration { return t.Std().Sub(c.now()) }

func (t Time) Std() time.Time               { return time.UnixMilli(int64(t)).UTC() }
func (t Time) Add(d time.Duration) Time     { return t + Time(ceilMillis(d)) }
func (t Time) Sub(o Time) time.Duration     { return time.Duration(t-o) * time.Millisecond }
func (t Time) IsZero() bool                 { return t == 0 }
func (t Time) String() string               { return t.Std().Format(timeLayout) }
func (t Time) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// ceilMillis rounds up, also below zero, and cannot overflow.
func ceilMillis(d time.Duration) int64 {
	ms := int64(d / time.Millisecond)
	if d%time.Millisecond > 0 {
		ms++
	}
	return ms
}

const timeLayout = "2006-01-02T15:04:05.000Z07:00"

func (t Time) MarshalJSON() ([]byte, error) {
	if t == 0 || t == Never {
		return []byte("null"), nil
	}
	return []byte(`"` + t.String() + `"`), nil
}

func (t *Time) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*t = 0
		return nil
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return &FieldError{Given: string(b), Want: wantTime}
	}
	parsed, err := ParseTime(s)
	*t = parsed
	return err
}

const wantTime = `an RFC 3339 time such as "2026-03-29T02:30:00+01:00"`

// ParseTime reads an RFC 3339 time with a zone offset.
func ParseTime(s string) (Time, error) {
	std, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return 0, &FieldError{Given: s, Want: wantTime}
	}
	t := TimeOf(std)
	if t <= minTime || t > maxTime {
		return 0, &FieldError{Given: s, Want: "a time after 1970-01-01 and before the year 10000"}
	}
	return t, nil
}

// Duration is a time.Duration that reads and writes as "90s", "1h30m" or "30d".
type Duration time.Duration

func (d Duration) Std() time.Duration { return time.Duration(d) }

// String is what ParseDuration reads: whole days as days, and no trailing zero units ("1h", not "1h0m0s").
func (d Duration) String() string {
	const day = 24 * time.Hour
	std := time.Duration(d)
	days := std / day
	if days == 0 {
		return shortDuration(std)
	}
	if std%day == 0 {
		return strconv.FormatInt(int64(days), 10) + "d"
	}
	return strconv.FormatInt(int64(days), 10) + "d" + shortDuration(std%day)
}

func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = s[:len(s)-2]
	}
	if strings.HasSuffix(s, "h0m") {
		s = s[:len(s)-2]
	}
	return s
}

func (d Duration) MarshalJSON() ([]byte, error) { return []byte(`"` + d.String() + `"`), nil }

func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return &FieldError{Given: string(b), Want: wantDuration}
	}
	parsed, err := ParseDuration(s)
	*d = parsed
	return err
}

const wantDuration = `a duration such as "90s", "1h30m" or "30d", not negative`

// ParseDuration reads Go's duration syntax with days in front: "30d", "1d12h". Finer than a millisecond is
// refused.
func ParseDuration(s string) (Duration, error) {
	bad := func() (Duration, error) { return 0, &FieldError{Given: s, Want: wantDuration} }
	rest, total := s, time.Duration(0)
	if head, tail, ok := strings.Cut(s, "d"); ok {
		days, err := strconv.ParseUint(head, 10, 16)
		if err != nil {
			return bad()
		}
		total, rest = time.Duration(days)*24*time.Hour, tail
		if rest == "" {
			return Duration(total), nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || d > math.MaxInt64-total {
		return bad()
	}
	total += d
	if total%time.Millisecond != 0 {
		return 0, &FieldError{Given: s, Want: "whole milliseconds"}
	}
	return Duration(total), nil
}

// Set and Type make Duration usable as a command line flag.
func (d *Duration) Set(s string) error {
	parsed, err := ParseDuration(s)
	if err != nil {
		return fmt.Errorf("want %s", wantDuration)
	}
	*d = parsed
	return nil
}

func (d *Duration) Type() string { return "duration" }

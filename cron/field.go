package cron

import (
	"fmt"
	"strconv"
	"strings"
)

// field knows what one field of an expression may hold.
type field struct {
	name     string
	min, max int
	names    []string // three letters each, the first one for min
	day      bool     // "?" may stand for "*"
	week     bool     // 7 is 0, and ranges may wrap around
}

// fields are in the order of an expression with six of them.
var fields = [6]field{
	{name: "second", max: 59},
	{name: "minute", max: 59},
	{name: "hour", max: 23},
	{name: "day of month", min: 1, max: 31, day: true},
	{
		name: "month", min: 1, max: 12,
		names: strings.Fields("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC"),
	},
	{
		name: "day of week", max: 6, names: strings.Fields("SUN MON TUE WED THU FRI SAT"), day: true,
		week: true,
	},
}

// read returns the values that the text of a field allows.
func (f field) read(text string) (set, error) {
	if f.day && text == "?" {
		return between(f.min, f.max), nil
	}
	var all set
	for item := range strings.SplitSeq(text, ",") {
		if item == "" {
			return 0, f.wrong(text, "a value on both sides of every comma")
		}
		values, err := f.readItem(item)
		if err != nil {
			return 0, err
		}
		all |= values
	}
	return all, nil
}

// readItem reads one item of a list: a range, and the step to take through it.
func (f field) readItem(item string) (set, error) {
	body, stepText, stepped := strings.Cut(item, "/")
	lo, hi, err := f.readRange(item, body, stepped)
	if err != nil {
		return 0, err
	}
	step := 1
	if stepped {
		var ok bool
		// A longer step would leave only the first value, which is hardly what the author of */90 meant.
		if step, ok = number(stepText); !ok || step < 1 || step > hi-lo+1 {
			return 0, f.wrong(item, fmt.Sprintf("a step from 1 to %d after the /", hi-lo+1))
		}
	}
	var values set
	for v := lo; v <= hi; v += step {
		if f.week {
			values |= 1 << (v % 7)
		} else {
			values |= 1 << v
		}
	}
	return values, nil
}

// readRange returns the ends of a range. For a weekday range that wraps around the week it counts on past the
// end of the week: FRI-MON is 5 to 8.
func (f field) readRange(item, body string, stepped bool) (lo, hi int, err error) {
	if body == "*" {
		return f.min, f.max, nil
	}
	from, to, ranged := strings.Cut(body, "-")
	lo, ok := f.value(from)
	if !ok {
		return 0, 0, f.wrong(item, f.want())
	}
	if !ranged {
		if f.week {
			lo %= 7
		}
		if stepped {
			return lo, f.max, nil
		}
		return lo, lo, nil
	}
	if hi, ok = f.value(to); !ok {
		return 0, 0, f.wrong(item, f.want())
	}
	if lo > hi && f.week {
		hi += 7
	}
	if lo > hi {
		want := fmt.Sprintf(
			"a range from low to high; to go past the end write %s-%d,%d-%s", from, f.max, f.min, to,
		)
		return 0, 0, f.wrong(item, want)
	}
	return lo, hi, nil
}

// value reads a number or a name.
func (f field) value(text string) (int, bool) {
	for i, name := range f.names {
		if strings.EqualFold(text, name) {
			return f.min + i, true
		}
	}
	n, ok := number(text)
	top := f.max
	if f.week {
		top = 7
	}
	return n, ok && f.min <= n && n <= top
}

func (f field) wrong(given, want string) error { return &Error{f.name, given, want} }

func (f field) want() string {
	values := fmt.Sprintf("a number from %d to %d", f.min, f.max)
	if f.week {
		values = "a number from 0 to 7 (0 and 7 are Sunday)"
	}
	if f.names != nil {
		values += fmt.Sprintf(" or a name from %s to %s", f.names[0], f.names[len(f.names)-1])
	}
	return values + ", a range a-b, a step */n, or a list"
}

// number reads digits only; strconv.Atoi alone would let a sign through.
func number(text string) (int, bool) {
	if strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

package cron

import (
	"fmt"
	"strings"
	"time"
)

// maxLength is generous for any expression that a person writes, and short enough that no expression costs
// much to read.
const maxLength = 256

const (
	wantFields = "5 fields (minute hour day-of-month month day-of-week), or 6 with the second first"
	wantMacro  = "@hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually or @every with a duration"
	wantNoZone = "only the fields; give the time zone in timezone, or with --tz on the command line"
	wantEvery  = "a duration of at least 1s in whole milliseconds, such as @every 90s or @every 1h30m"
)

// Parse reads a cron expression of 5 fields (minute hour day-of-month month day-of-week) or 6 (second first),
// a macro (@hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually) or "@every 90s". loc nil means
// UTC. A returned error is an *Error.
func Parse(expr string, loc *time.Location) (*Schedule, error) {
	if loc == nil {
		loc = time.UTC
	}
	s := &Schedule{expr: strings.Trim(expr, " \t\r\n"), loc: loc}
	if err := checkText(s.expr); err != nil {
		return nil, err
	}
	texts := strings.Fields(s.expr)
	if err := s.read(texts); err != nil {
		if last := texts[len(texts)-1]; isZone(strings.Trim(last, "()")) {
			return nil, &Error{"expression", last, wantNoZone}
		}
		return nil, err
	}
	return s, nil
}

// isZone says that a text is the name of a time zone, or written like one in the wrong case. No field looks
// like that.
func isZone(text string) bool {
	area, city, slash := strings.Cut(text, "/")
	letters := func(s string) bool { return s != "" && (s[0]|0x20 >= 'a' && s[0]|0x20 <= 'z') }
	if !letters(text) {
		return false
	}
	_, err := time.LoadLocation(text)
	return err == nil || slash && len(area) > 3 && letters(city)
}

func (s *Schedule) read(texts []string) error {
	if strings.EqualFold(texts[0], "@every") {
		return s.readEvery(texts[1:])
	}
	if strings.Contains(texts[0], "TZ=") {
		return &Error{"expression", texts[0], wantNoZone}
	}
	if strings.HasPrefix(texts[0], "@") {
		fields, ok := macro(s.expr)
		if !ok {
			return &Error{"expression", s.expr, wantMacro}
		}
		texts = strings.Fields(fields)
	}
	return s.readFields(texts)
}

// checkText refuses text that makes no sense in any field. It refuses control characters too, because logs
// and pages show an expression as it was given.
func checkText(expr string) error {
	if expr == "" {
		return &Error{"expression", expr, wantFields}
	}
	if len(expr) > maxLength {
		want := fmt.Sprintf("at most %d bytes, not %d", maxLength, len(expr))
		return &Error{"expression", expr[:32] + "...", want}
	}
	for i := range len(expr) {
		if c := expr[i]; c != '\t' && (c < ' ' || c > '~') {
			return &Error{"expression", expr, "printable ASCII characters only"}
		}
	}
	return nil
}

func macro(expr string) (fields string, ok bool) {
	switch strings.ToLower(expr) {
	case "@hourly":
		return "0 * * * *", true
	case "@daily", "@midnight":
		return "0 0 * * *", true
	case "@weekly":
		return "0 0 * * 0", true
	case "@monthly":
		return "0 0 1 * *", true
	case "@yearly", "@annually":
		return "0 0 1 1 *", true
	}
	return "", false
}

func (s *Schedule) readEvery(args []string) error {
	wrong := &Error{"expression", s.expr, wantEvery}
	if len(args) != 1 {
		return wrong
	}
	d, err := time.ParseDuration(args[0])
	if err != nil || d < time.Second || d%time.Millisecond != 0 {
		return wrong
	}
	s.every = d
	s.anchor = time.Unix(0, 0).In(s.loc)
	return nil
}

func (s *Schedule) readFields(texts []string) error {
	switch len(texts) {
	case 5:
		texts = append([]string{"0"}, texts...)
	case 6:
	default:
		return &Error{"expression", s.expr, wantFields}
	}
	var sets [6]set
	for i, f := range fields {
		var err error
		if sets[i], err = f.read(texts[i]); err != nil {
			return err
		}
	}
	s.cal = calendar{
		second: sets[0], minute: sets[1], hour: sets[2],
		day: sets[3], month: sets[4], weekday: sets[5],
		either: restricted(texts[3]) && restricted(texts[5]),
	}
	s.fixed = !strings.ContainsAny(texts[0]+texts[1]+texts[2], "*/")
	return s.checkPossible(texts[3])
}

// restricted follows vixie cron and looks at the first character only, so */2 does not count as a
// restriction.
func restricted(text string) bool { return text[0] != '*' && text[0] != '?' }

// checkPossible refuses dates that no year has, such as 30 February. A search for one would never end.
func (s *Schedule) checkPossible(days string) error {
	latest := s.cal.latestDay()
	if s.cal.either || s.cal.day.min() <= latest {
		return nil
	}
	want := fmt.Sprintf("a day up to %d, the last day of the given months", latest)
	return &Error{"day of month", days, want}
}

package cron_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon/cron"
)

func TestExpressionsMeanWhatTheySay(t *testing.T) {
	// Each is asked for the first due times after Thursday 2026-01-01 00:00:00 UTC.
	tests := []struct{ name, expr, want string }{
		{"a star is every value", "* * * * *", "01-01 00:01:00, 01-01 00:02:00"},
		{"five fields are due on the full minute", "5 4 * * *", "01-01 04:05:00, 01-02 04:05:00"},
		{"six fields begin with the second", "7 5 4 * * *", "01-01 04:05:07, 01-02 04:05:07"},
		{
			"a list may repeat and overlap", "3,1,1-3 0 * * *",
			"01-01 00:01:00, 01-01 00:02:00, 01-01 00:03:00, 01-02 00:01:00",
		},
		{
			"a step counts from the start of a range", "10-20/5 0 * * *",
			"01-01 00:10:00, 01-01 00:15:00, 01-01 00:20:00",
		},
		{
			"a step after one value goes on to the maximum", "50/4 0 * * *",
			"01-01 00:50:00, 01-01 00:54:00, 01-01 00:58:00, 01-02 00:50:00",
		},
		{
			"a step as long as the range takes its first value", "*/60 */24 * * *",
			"01-02 00:00:00, 01-03 00:00:00",
		},
		{"names have any case", "0 0 1 feb,Mar,APR *", "02-01 00:00:00, 03-01 00:00:00, 04-01 00:00:00"},
		{
			"names and numbers mix in a range", "0 0 * * mon-2",
			"01-05 00:00:00, 01-06 00:00:00, 01-12 00:00:00",
		},
		{"weekday 0 is Sunday", "0 0 * * 0", "01-04 00:00:00, 01-11 00:00:00"},
		{"weekday 7 is Sunday", "0 0 * * 7", "01-04 00:00:00, 01-11 00:00:00"},
		{"a weekday range may end on 7", "0 0 * * 6-7", "01-03 00:00:00, 01-04 00:00:00, 01-10 00:00:00"},
		{"a weekday range may begin on 7", "0 0 * * 7-1", "01-04 00:00:00, 01-05 00:00:00, 01-11 00:00:00"},
		{
			"a weekday range of names wraps around", "0 0 * * FRI-MON",
			"01-02 00:00:00, 01-03 00:00:00, 01-04 00:00:00, 01-05 00:00:00, 01-09 00:00:00",
		},
		{
			"a weekday range of numbers wraps around", "0 0 * * 5-1/2",
			"01-02 00:00:00, 01-04 00:00:00, 01-09 00:00:00",
		},
		{
			"a weekday with a step goes on to Saturday", "0 0 * * 5/1",
			"01-02 00:00:00, 01-03 00:00:00, 01-09 00:00:00",
		},
		{"a question mark is a star in the day fields", "0 0 ? * ?", "01-02 00:00:00, 01-03 00:00:00"},
		{
			"either day field is enough when both are restricted", "0 0 3 * FRI",
			"01-02 00:00:00, 01-03 00:00:00, 01-09 00:00:00",
		},
		{
			"both must match when the weekday begins with a star", "0 0 8-14 * */7",
			"01-11 00:00:00, 02-08 00:00:00, 03-08 00:00:00",
		},
		{
			"both must match when the day begins with a star", "0 0 */10 * MON",
			"05-11 00:00:00, 06-01 00:00:00",
		},
		{"both must match when the day is a question mark", "0 0 ? * MON", "01-05 00:00:00, 01-12 00:00:00"},
		{
			"a list that ends in a star is restricted, as in vixie cron", "0 0 1,* * MON",
			"01-02 00:00:00, 01-03 00:00:00",
		},
		{
			"months without the day are passed over", "0 0 31 * *",
			"01-31 00:00:00, 03-31 00:00:00, 05-31 00:00:00",
		},
		{
			"an impossible date is fine if a weekday makes up for it", "0 0 30 2 MON",
			"02-02 00:00:00, 02-09 00:00:00",
		},
		{"space around and tabs between the fields do not matter", "  0\t0  1 1 * \r\n", "01-01 00:00:00"},
		{"@hourly", "@hourly", "01-01 01:00:00, 01-01 02:00:00"},
		{"@daily", "@daily", "01-02 00:00:00, 01-03 00:00:00"},
		{"@midnight", "@MIDNIGHT", "01-02 00:00:00"},
		{"@weekly is Sunday", "@weekly", "01-04 00:00:00, 01-11 00:00:00"},
		{"@monthly", "@monthly", "02-01 00:00:00, 03-01 00:00:00"},
		{"@yearly", "@yearly", "01-01 00:00:00"},
		{"@annually", "@Annually", "01-01 00:00:00"},
		{"@every counts from the epoch", "@every 25h", "01-01 04:00:00, 01-02 05:00:00"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := parse(t, test.expr, nil)
			due := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			var got []string
			for range strings.Count(test.want, ",") + 1 {
				due = s.Next(due)
				got = append(got, due.Format("01-02 15:04:05"))
			}
			if got := strings.Join(got, ", "); got != test.want {
				t.Errorf("%q is due\n     %s\nwant %s", test.expr, got, test.want)
			}
		})
	}
}

const (
	wantMinute  = "a number from 0 to 59, a range a-b, a step */n, or a list"
	wantDay     = "a number from 1 to 31, a range a-b, a step */n, or a list"
	wantMonth   = "a number from 1 to 12 or a name from JAN to DEC, a range a-b, a step */n, or a list"
	wantWeekday = "a number from 0 to 7 (0 and 7 are Sunday) or a name from SUN to SAT, a range a-b, a step */n, or a list"
	wantComma   = "a value on both sides of every comma"
	wantFields  = "5 fields (minute hour day-of-month month day-of-week), or 6 with the second first"
	wantMacro   = "@hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually or @every with a duration"
	wantEvery   = "a duration of at least 1s in whole milliseconds, such as @every 90s or @every 1h30m"
	wantNoZone  = "only the fields; give the time zone in timezone, or with --tz on the command line"
	wantASCII   = "printable ASCII characters only"
)

func TestErrorsNameTheFieldAndWhatWouldBeRight(t *testing.T) {
	tests := []struct {
		name, expr string
		want       cron.Error
	}{
		{"a number too large", "61 * * * *", cron.Error{"minute", "61", wantMinute}},
		{
			"a number too large for any integer", "99999999999999999999 * * * *",
			cron.Error{"minute", "99999999999999999999", wantMinute},
		},
		{"a number too small", "0 0 0 * *", cron.Error{"day of month", "0", wantDay}},
		{"a signed number", "+5 * * * *", cron.Error{"minute", "+5", wantMinute}},
		{"a negative number", "-5 * * * *", cron.Error{"minute", "-5", wantMinute}},
		{"the wrong item of a list", "1,61,2 * * * *", cron.Error{"minute", "61", wantMinute}},
		{"the second of six fields", "0 60 * * * *", cron.Error{"minute", "60", wantMinute}},
		{"the second itself", "60 0 * * * *", cron.Error{"second", "60", wantMinute}},
		{"month 13", "0 0 1 13 *", cron.Error{"month", "13", wantMonth}},
		{"weekday 8", "0 0 * * 8", cron.Error{"day of week", "8", wantWeekday}},
		{"an unknown name", "0 0 * * MOO", cron.Error{"day of week", "MOO", wantWeekday}},
		{"a name written out", "0 0 * * Monday", cron.Error{"day of week", "Monday", wantWeekday}},
		{"a name in the wrong field", "0 0 MON * *", cron.Error{"day of month", "MON", wantDay}},
		{"an L, which vixie cron does not know", "0 0 L * *", cron.Error{"day of month", "L", wantDay}},
		{"a W, which vixie cron does not know", "0 0 15W * *", cron.Error{"day of month", "15W", wantDay}},
		{
			"a #, which vixie cron does not know", "0 0 * * MON#2",
			cron.Error{"day of week", "MON#2", wantWeekday},
		},
		{"a question mark outside the day fields", "? * * * *", cron.Error{"minute", "?", wantMinute}},
		{"a question mark in a list", "0 0 ?,1 * *", cron.Error{"day of month", "?", wantDay}},
		{"an open range", "5- * * * *", cron.Error{"minute", "5-", wantMinute}},
		{"a range of three", "1-2-3 * * * *", cron.Error{"minute", "1-2-3", wantMinute}},
		{"a range from a star", "*-5 * * * *", cron.Error{"minute", "*-5", wantMinute}},
		{"two stars", "** * * * *", cron.Error{"minute", "**", wantMinute}},
		{
			"a reversed range", "0 22-2 * * *",
			cron.Error{"hour", "22-2", "a range from low to high; to go past the end write 22-23,0-2"},
		},
		{
			"a reversed range of names", "0 0 1 NOV-FEB *",
			cron.Error{"month", "NOV-FEB", "a range from low to high; to go past the end write NOV-12,1-FEB"},
		},
		{"a step of nothing", "*/ * * * *", cron.Error{"minute", "*/", "a step from 1 to 60 after the /"}},
		{"a step of zero", "*/0 * * * *", cron.Error{"minute", "*/0", "a step from 1 to 60 after the /"}},
		{
			"a step longer than the field", "*/90 * * * *",
			cron.Error{"minute", "*/90", "a step from 1 to 60 after the /"},
		},
		{
			"a step longer than the range", "0 9-17/10 * * *",
			cron.Error{"hour", "9-17/10", "a step from 1 to 9 after the /"},
		},
		{
			"a step of a step", "*/2/3 * * * *",
			cron.Error{"minute", "*/2/3", "a step from 1 to 60 after the /"},
		},
		{"a step without a range", "/5 * * * *", cron.Error{"minute", "/5", wantMinute}},
		{"an empty item in a list", "1,,2 * * * *", cron.Error{"minute", "1,,2", wantComma}},
		{"an empty item at the end of a list", "1, * * * *", cron.Error{"minute", "1,", wantComma}},
		{"an empty item at the start of a list", ",1 * * * *", cron.Error{"minute", ",1", wantComma}},
		{"nothing at all", " ", cron.Error{"expression", "", wantFields}},
		{"too few fields", "* * * *", cron.Error{"expression", "* * * *", wantFields}},
		{
			"too many fields", "* * * * * * *",
			cron.Error{"expression", "* * * * * * *", wantFields},
		},
		{"letters beyond ASCII", "0 0 * * M\u00d6N", cron.Error{"expression", "0 0 * * M\u00d6N", wantASCII}},
		{"a space beyond ASCII", "0 0 * *\u00a0*", cron.Error{"expression", "0 0 * *\u00a0*", wantASCII}},
		{"a line break", "0 0 * *\n*", cron.Error{"expression", "0 0 * *\n*", wantASCII}},
		{"an escape sequence", "0 0 * * \x1b[31m", cron.Error{"expression", "0 0 * * \x1b[31m", wantASCII}},
		{
			"more than 256 bytes", strings.Repeat("1,", 200) + "1 * * * *",
			cron.Error{"expression", strings.Repeat("1,", 16) + "...", "at most 256 bytes, not 409"},
		},
		{"a zone in front", "CRON_TZ=UTC 0 0 * * *", cron.Error{"expression", "CRON_TZ=UTC", wantNoZone}},
		{
			"a zone behind, as lists print it", "0 3 * * MON-FRI Europe/Berlin",
			cron.Error{"expression", "Europe/Berlin", wantNoZone},
		},
		{
			"a zone in brackets", "0 3 * * MON-FRI (America/Argentina/Ushuaia)",
			cron.Error{"expression", "(America/Argentina/Ushuaia)", wantNoZone},
		},
		{"a zone without a slash", "0 3 * * * UTC", cron.Error{"expression", "UTC", wantNoZone}},
		{
			"a zone behind six fields", "0 0 3 * * * Europe/Berlin",
			cron.Error{"expression", "Europe/Berlin", wantNoZone},
		},
		{
			"a zone behind a macro", "@daily Europe/Berlin",
			cron.Error{"expression", "Europe/Berlin", wantNoZone},
		},
		{
			"a step that is no number", "0 0 * * MON/TUE",
			cron.Error{"day of week", "MON/TUE", "a step from 1 to 6 after the /"},
		},
		{"an unknown macro", "@reboot", cron.Error{"expression", "@reboot", wantMacro}},
		{"a macro with more to it", "@daily 5", cron.Error{"expression", "@daily 5", wantMacro}},
		{"@every without a duration", "@every", cron.Error{"expression", "@every", wantEvery}},
		{"@every with two durations", "@every 1m 30s", cron.Error{"expression", "@every 1m 30s", wantEvery}},
		{"@every with something else", "@every day", cron.Error{"expression", "@every day", wantEvery}},
		{"@every under a second", "@every 999ms", cron.Error{"expression", "@every 999ms", wantEvery}},
		{
			"@every with a fraction of a millisecond", "@every 1.0005s",
			cron.Error{"expression", "@every 1.0005s", wantEvery},
		},
		{"@every backwards", "@every -5m", cron.Error{"expression", "@every -5m", wantEvery}},
		{
			"30 February", "0 0 30 2 *",
			cron.Error{
				"day of month", "30",
				"a day up to 29, the last day of the given months",
			},
		},
		{
			"31 of months that have 30", "0 0 31 4,6,9,NOV ?",
			cron.Error{
				"day of month", "31",
				"a day up to 30, the last day of the given months",
			},
		},
		{
			"30 February on some weekdays", "0 0 30-31 2 */2",
			cron.Error{
				"day of month", "30-31",
				"a day up to 29, the last day of the given months",
			},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s, err := cron.Parse(test.expr, nil)
			var got *cron.Error
			if !errors.As(err, &got) || s != nil {
				t.Fatalf("%q gives %v, %v; want nil and an *Error", test.expr, s, err)
			}
			if *got != test.want {
				t.Errorf("%q gives\n     %+v\nwant %+v", test.expr, *got, test.want)
			}
		})
	}
}

func TestAnErrorReadsAsASentence(t *testing.T) {
	_, err := cron.Parse("61 * * * *", nil)
	want := `minute "61" is out of range: want a number from 0 to 59, a range a-b, a step */n, or a list`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestAScheduleKnowsWhatItWasMadeFrom(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	s := parse(t, " 0 3 * * *\n", berlin)
	if s.String() != "0 3 * * *" || s.Location() != berlin || s.Every() != 0 {
		t.Errorf("got %q, %v, %v", s.String(), s.Location(), s.Every())
	}
	if got := s.Next(time.Unix(0, 0)).Location(); got != berlin {
		t.Errorf("due times are in %v, want %v", got, berlin)
	}
	s = parse(t, "@every 90s", nil)
	if s.String() != "@every 90s" || s.Location() != time.UTC || s.Every() != 90*time.Second {
		t.Errorf("got %q, %v, %v", s.String(), s.Location(), s.Every())
	}
}

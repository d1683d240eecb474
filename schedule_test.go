package carillon_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/porttest"
)

func at(t *testing.T, text string) carillon.Time {
	t.Helper()
	parsed, err := carillon.ParseTime(text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func schedule(t *testing.T, s carillon.Schedule) *carillon.Schedule {
	t.Helper()
	def := define(t, func(d *carillon.Definition) { d.Schedule = s })
	return &def.Schedule
}

func TestAOneOffIsDueOnce(t *testing.T) {
	for name, c := range map[string]struct {
		given carillon.Schedule
		want  carillon.Time
	}{
		"none of all is now": {carillon.Schedule{}, epoch},
		"after is from now": {
			carillon.Schedule{After: carillon.Duration(90 * time.Second)}, epoch + 90_000,
		},
		"at is what it says":    {carillon.Schedule{At: epoch + 5}, epoch + 5},
		"at may be in the past": {carillon.Schedule{At: epoch - 5}, epoch - 5},
		"as far as a run id goes": {
			carillon.Schedule{At: at(t, "9999-12-31T00:00:00Z")}, at(t, "9999-12-31T00:00:00Z"),
		},
		"as early as a run id can": {carillon.Schedule{At: 1}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := schedule(t, c.given)
			if s.At != c.want || s.After != 0 || s.Recurring() {
				t.Errorf("at %s, after %s, recurring %v", s.At, s.After, s.Recurring())
			}
			if s.Next(c.want-1) != c.want || s.Next(c.want) != 0 || s.Last(c.want) != c.want ||
				s.Last(c.want-1) != 0 {
				t.Errorf(
					"next %s, %s; last %s, %s", s.Next(c.want-1), s.Next(c.want), s.Last(c.want),
					s.Last(c.want-1),
				)
			}
		})
	}
}

func TestEveryCountsFromStartsAt(t *testing.T) {
	s := schedule(t, carillon.Schedule{Every: carillon.Duration(90 * time.Second)})
	if s.StartsAt != epoch+90_000 {
		t.Errorf("starts at %s, want one period from now", s.StartsAt)
	}
	s = schedule(t, carillon.Schedule{
		Every: carillon.Duration(time.Minute), StartsAt: epoch + 500, EndsAt: epoch + 120_500, MaxRuns: 7,
	})
	for given, want := range map[carillon.Time][2]carillon.Time{ // next, last
		epoch - 100_000: {epoch + 500, 0},
		epoch + 499:     {epoch + 500, 0},
		epoch + 500:     {epoch + 60_500, epoch + 500},
		epoch + 60_499:  {epoch + 60_500, epoch + 500},
		epoch + 60_500:  {epoch + 120_500, epoch + 60_500},
		epoch + 120_499: {epoch + 120_500, epoch + 60_500},
		epoch + 120_500: {0, epoch + 120_500},
		epoch + 999_999: {0, epoch + 120_500}, // ends_at is the last possible due time
	} {
		if next, last := s.Next(given), s.Last(given); next != want[0] || last != want[1] {
			t.Errorf("%d: next %d, last %d, want %d", given-epoch, next-epoch, last-epoch, want)
		}
	}
	long := schedule(t, carillon.Schedule{Every: carillon.Duration(time.Hour), StartsAt: 1})
	if next := long.Next(epoch); next-epoch > 3_600_000 || next <= epoch || (next-1)%3_600_000 != 0 {
		t.Errorf("half a century after its start: %s", next)
	}
}

func TestCronFollowsItsZone(t *testing.T) {
	s := schedule(t, carillon.Schedule{
		Cron: "30 2 * * *", Timezone: "Europe/Berlin", StartsAt: at(t, "2027-03-27T01:30:00Z"),
	})
	for given, want := range map[string]string{
		"2027-01-01T00:00:00Z":     "2027-03-27T01:30:00.000Z", // starts_at is the first possible due time
		"2027-03-27T01:30:00Z":     "2027-03-28T01:00:00.000Z", // the clocks skip 02:30
		"2027-03-28T01:00:00Z":     "2027-03-29T00:30:00.000Z",
		"2027-10-30T00:30:00.001Z": "2027-10-31T00:30:00.000Z", // the first of two
		"2027-10-31T00:30:00Z":     "2027-11-01T01:30:00.000Z",
	} {
		if got := s.Next(at(t, given)).String(); got != want {
			t.Errorf("after %s comes %s, want %s", given, got, want)
		}
		if got := s.Last(at(t, want)).String(); got != want {
			t.Errorf("the last at %s is %s", want, got)
		}
	}
	if got := s.Last(at(t, "2027-03-27T01:29:59.999Z")); got != 0 {
		t.Errorf("due before it starts: %s", got)
	}
	if utc := schedule(t, carillon.Schedule{Cron: "@hourly"}); utc.Timezone != "UTC" ||
		utc.Next(epoch) != epoch+3_600_000 {
		t.Errorf("zone %q, next %s", utc.Timezone, utc.Next(epoch))
	}
	if every := schedule(t, carillon.Schedule{Cron: "@every 90s"}); every.StartsAt != epoch+90_000 ||
		every.Next(epoch+90_000) != epoch+180_000 {
		t.Errorf("@every starts at %s, then %s", every.StartsAt, every.Next(epoch+90_000))
	}
}

func TestSchedulesAreRefusedWithAReason(t *testing.T) {
	const hour = carillon.Duration(time.Hour)
	for name, c := range map[string]struct {
		given             carillon.Schedule
		field, was, wants string
	}{
		"two kinds": {
			carillon.Schedule{At: epoch, Every: hour}, "schedule", "at and every", "only one of",
		},
		"all kinds": {
			carillon.Schedule{At: epoch, After: hour, Cron: "x", Every: hour},
			"schedule",
			"at and after and cron and every", "only one of",
		},
		"a zone for a one-off": {
			carillon.Schedule{Timezone: "UTC"},
			"schedule.timezone", "UTC",
			"the offset in at",
		},
		"a start for a one-off": {
			carillon.Schedule{StartsAt: epoch},
			"schedule.starts_at", "2027-",
			"no starts_at, or cron or every with it",
		},
		"an end for a one-off": {
			carillon.Schedule{EndsAt: epoch},
			"schedule.ends_at", "2027-",
			"no ends_at, or cron or every with it",
		},
		"a count for a one-off": {
			carillon.Schedule{MaxRuns: 1}, "schedule.max_runs", "1", "no max_runs, or cron or every with it",
		},
		"too long from now": {
			carillon.Schedule{After: 36501 * 24 * hour}, "schedule.after", "36501d", "36500d",
		},
		"before now":  {carillon.Schedule{After: -hour}, "schedule.after", "-1h", "not negative"},
		"before 1970": {carillon.Schedule{At: -5}, "schedule.at", "1969", "after 1970"},
		"after 9999": {
			carillon.Schedule{At: at(t, "9999-12-31T00:00:00Z") + 1},
			"schedule.at",
			"9999-12-31T00:00:00.001Z", "before the year 10000",
		},
		"too often": {
			carillon.Schedule{Every: carillon.Duration(999 * time.Millisecond)},
			"schedule.every", "999ms",
			"at least 1s",
		},
		"backwards": {carillon.Schedule{Every: -hour}, "schedule.every", "-1h", "not negative"},
		"too rarely": {
			carillon.Schedule{Every: 36501 * 24 * hour}, "schedule.every", "36501d", "36500d",
		},
		"a zone for every": {
			carillon.Schedule{Every: hour, Timezone: "UTC"},
			"schedule.timezone", "UTC",
			"no timezone, or cron instead of every",
		},
		"no such zone": {
			carillon.Schedule{Cron: "@daily", Timezone: "Mars/Olympus"},
			"schedule.timezone", "Mars/Olympus",
			"IANA",
		},
		"a zone in small letters": {
			carillon.Schedule{Cron: "@daily", Timezone: "europe/berlin"},
			"schedule.timezone",
			"europe/berlin", "did you mean Europe/Berlin?",
		},
		"a zone with a space": {
			carillon.Schedule{Cron: "@daily", Timezone: "America/New York"},
			"schedule.timezone",
			"America/New York", "did you mean America/New_York?",
		},
		"a zone of three letters": {
			carillon.Schedule{Cron: "@daily", Timezone: "utc"},
			"schedule.timezone", "utc",
			"did you mean UTC?",
		},
		"a zone with small words": {
			carillon.Schedule{Cron: "@daily", Timezone: "africa/dar_ES_salaam"},
			"schedule.timezone",
			"africa/dar_ES_salaam", "did you mean Africa/Dar_es_Salaam?",
		},
		"the machine's own zone": {
			carillon.Schedule{Cron: "@daily", Timezone: "Local"}, "schedule.timezone", "Local", "IANA",
		},
		"a path as a zone": {
			carillon.Schedule{Cron: "@daily", Timezone: "../etc/passwd"},
			"schedule.timezone",
			"../etc/passwd", "IANA",
		},
		"no cron": {carillon.Schedule{Cron: "* * *"}, "schedule.cron", "* * *", "5 fields"},
		"a minute too far": {
			carillon.Schedule{Cron: "60 * * * *"}, "schedule.cron", "60 * * * *", "a number from 0 to 59",
		},
		"a date that never comes": {
			carillon.Schedule{Cron: "0 0 30 2 *"}, "schedule.cron", "0 0 30 2 *", "day",
		},
		"runs below zero": {
			carillon.Schedule{Every: hour, MaxRuns: -1}, "schedule.max_runs", "-1", "above 0",
		},
		"it is over": {
			carillon.Schedule{Every: hour, EndsAt: epoch},
			"schedule.ends_at", "2027-01-15T08:00:00.000Z",
			"after now",
		},
		"over before it starts": {
			carillon.Schedule{Every: hour, StartsAt: epoch + 9, EndsAt: epoch + 9},
			"schedule.ends_at",
			"08:00:00.009Z", "after starts_at",
		},
		"starts before 1970": {
			carillon.Schedule{Every: hour, StartsAt: -1}, "schedule.starts_at", "1969", "after 1970",
		},
		"ends after 9999": {
			carillon.Schedule{Every: hour, EndsAt: carillon.Never},
			"schedule.ends_at", "",
			"before the year 10000",
		},
		"never due": {
			carillon.Schedule{Every: hour, EndsAt: epoch + 9},
			"schedule", "1h",
			"at least one due time before ends_at",
		},
		"cron never due": {
			carillon.Schedule{Cron: "@yearly", EndsAt: epoch + 9},
			"schedule", "@yearly",
			"at least one due time before ends_at",
		},
	} {
		t.Run(name, func(t *testing.T) {
			def := carillon.Definition{}
			def.Type, def.Target.Handler, def.Schedule = "test", &carillon.Handler{}, c.given
			expectFieldError(t, def.Admit(epoch), c.field, c.was, c.wants)
		})
	}
}

func TestErrorsAboutCronSayWhichFieldIsWrong(t *testing.T) {
	for expression, want := range map[string]string{
		"61 * * * *":    `schedule.cron: minute "61" is out of range: want a number from 0 to 59, a range a-b, a step */n, or a list`,
		"0 3 * * MOO":   `schedule.cron: day of week "MOO" is not valid: want a number from 0 to 7 (0 and 7 are Sunday) or a name from SUN to SAT, a range a-b, a step */n, or a list`,
		"0 3 * *":       `schedule.cron: "0 3 * *" has 4 fields: want 5 fields (minute hour day-of-month month day-of-week), or 6 with the second first`,
		"0 3 * * * UTC": `schedule.cron: "UTC" is a time zone: want only the fields; give the time zone in timezone, or with --tz on the command line`,
	} {
		def := carillon.Definition{}
		def.Type, def.Target.Handler, def.Schedule.Cron = "test", &carillon.Handler{}, expression
		if err := def.Admit(epoch); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", expression, err, want)
		}
	}
}

func expectFieldError(t *testing.T, err error, field, given, want string) {
	t.Helper()
	var fault *carillon.FieldError
	if !errors.As(err, &fault) || !errors.Is(err, carillon.ErrInvalid) {
		t.Fatalf("%v, want an error of field %s", err, field)
	}
	if fault.Field != field || !strings.Contains(fault.Given, given) || !strings.Contains(fault.Want, want) ||
		fault.Want == "" {
		t.Errorf(
			"field %q, given %q, want %q\nwant %q, %q, %q", fault.Field, fault.Given, fault.Want, field,
			given, want,
		)
	}
}

func TestAnEditedScheduleIsTheNewOne(t *testing.T) {
	for name, edit := range map[string]func(*carillon.Schedule){
		"another expression": func(s *carillon.Schedule) { s.Cron = "15 * * * *" },
		"another zone": func(s *carillon.Schedule) {
			s.Cron, s.Timezone = "45 13 * * *", "Asia/Kathmandu"
		},
		"every instead": func(s *carillon.Schedule) {
			*s = carillon.Schedule{Every: carillon.Duration(15 * time.Minute)}
		},
		"every, in place": func(s *carillon.Schedule) {
			s.Cron, s.Timezone, s.Every = "", "", carillon.Duration(15*time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			def := define(t, func(d *carillon.Definition) { d.Schedule.Cron = "30 * * * *" })
			def.Schedule.Next(epoch) // parsed, as in a store that keeps values
			edit(&def.Schedule)
			if err := def.Admit(epoch); err != nil {
				t.Fatal(err)
			}
			want := epoch.Add(15 * time.Minute)
			if strings.Contains(name, "zone") {
				want = at(t, "2027-01-16T08:00:00Z")
			}
			if got := def.Schedule.Next(epoch); got != want {
				t.Errorf("next is %s, want %s", got, want)
			}
		})
	}
}

// Between a time and its next there is no due time, and the next is one.
func TestNextAndLastAgree(t *testing.T) {
	random := rand.New(rand.NewPCG(uint64(porttest.Seed(t)), 1))
	zones := []string{"", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kolkata"}
	for range 300 {
		s := carillon.Schedule{
			Cron: pick(
				random, "*/7 * * * *", "30 2 * * *", "0 0 1 * *", "*/13 5 * * * *", "0 9 * * MON-FRI",
				"@every 17m",
			),
		}
		if s.Timezone = pick(random, zones...); random.IntN(3) == 0 {
			s = carillon.Schedule{
				Every: carillon.Duration(time.Second + time.Duration(random.Int64N(1e6))*time.Millisecond),
			}
		}
		if random.IntN(2) == 0 {
			s.StartsAt = epoch + carillon.Time(random.Int64N(1e8))
		}
		if random.IntN(2) == 0 {
			s.EndsAt = epoch + carillon.Time(2e8+random.Int64N(1e11))
		}
		def := carillon.Definition{}
		def.Type, def.Target.Handler, def.Schedule = "test", &carillon.Handler{}, s
		if def.Admit(epoch) != nil {
			continue // never due
		}
		s = def.Schedule
		for range 50 {
			from := epoch + carillon.Time(random.Int64N(2e11)-1e9)
			if err := agree(&s, from); err != nil {
				t.Fatalf("%+v at %s: %v", s, from, err)
			}
		}
	}
}

func agree(s *carillon.Schedule, from carillon.Time) error {
	next, last := s.Next(from), s.Last(from)
	if next == 0 {
		if s.EndsAt == 0 || s.Last(s.EndsAt) > from {
			return fmt.Errorf("no next, but %s is due", s.Last(s.EndsAt))
		}
		return nil
	}
	switch {
	case next <= from || last > from:
		return fmt.Errorf("next %s, last %s", next, last)
	case next < s.StartsAt || s.EndsAt != 0 && next > s.EndsAt || last != 0 && last < s.StartsAt:
		return fmt.Errorf("next %s, last %s, from %s to %s only", next, last, s.StartsAt, s.EndsAt)
	case s.Last(next) != next:
		return fmt.Errorf("next is %s, but the last at that time is %s", next, s.Last(next))
	case s.Last(next-1) != last:
		return fmt.Errorf("last is %s, but right before the next one it is %s", last, s.Last(next-1))
	case last != 0 && s.Next(last-1) != last:
		return fmt.Errorf("last is %s, but the next after what is before is %s", last, s.Next(last-1))
	}
	return nil
}

package cron_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon/cron"
)

// slowest are the expressions and zones that make a search go furthest.
var slowest = []struct{ expr, zone string }{
	{"0 0 29 2 */7", "America/New_York"},      // up to 40 years
	{"*/5 0 29 2 */7", "Africa/Casablanca"},   // up to 40 years, and a zone with listed changes and no rule
	{"59 59 23 31 12 */7", "Europe/Berlin"},   // the last second before a year ends
	{"*/5 2 8-14 3 */7", "America/New_York"},  // never: the search goes on to the horizon
	{"*/5 2 25-31 3 */7", "Europe/Amsterdam"}, // never, with more transitions to pass in the past
}

func TestNextAndPrevAgree(t *testing.T) {
	rng := rand.New(rand.NewPCG(drawSeed(t), 0))
	zones, err := tzdata()
	if err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(zones))
	for range 5_000 {
		loc := zone(t, names[rng.IntN(len(names))])
		from := time.Unix(rng.Int64N(300*365*86400)-150*365*86400, rng.Int64N(2)*rng.Int64N(1e9)).In(loc)
		r := drawRule(rng, from, true)
		if err := agree(parse(t, r.text, loc), from); err != nil {
			t.Errorf("%q in %v: %v", r.text, loc, err)
		}
	}
}

// agree checks what must hold for any schedule from any time.
func agree(s *cron.Schedule, from time.Time) error {
	next := s.Next(from)
	if next.IsZero() {
		return nil
	}
	if !next.After(from) {
		return fmt.Errorf("Next(%v) is %v, which is not after it", from, next)
	}
	if got := s.Next(next.Add(-1)); !got.Equal(next) {
		return fmt.Errorf("Next(%v) is %v, but just before that it is %v", from, next, got)
	}
	if got := s.Prev(next.Add(time.Second)); s.Every() == 0 && !got.Equal(next) {
		return fmt.Errorf("Next(%v) is %v, but Prev of a second later is %v", from, next, got)
	}
	if got := s.Prev(next.Add(1)); !got.Equal(next) {
		return fmt.Errorf("Next(%v) is %v, but Prev of just after that is %v", from, next, got)
	}
	if got := s.Prev(next); got.After(from) {
		return fmt.Errorf("Next(%v) is %v, but %v is due before that", from, next, got)
	}
	return nil
}

// The Gregorian calendar repeats after 400 years, so these are all the dates there are.
func TestEveryDateOfFourHundredYears(t *testing.T) {
	rng := rand.New(rand.NewPCG(drawSeed(t), 0))
	first := time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC)
	end := first.AddDate(400, 0, 0)
	rules := []*rule{}
	for weekday := range 7 { // 1 and 29 February on each weekday, the rarest dates
		r := &rule{text: fmt.Sprintf("0 0 */28 2 %d", weekday)}
		r.allowed[3].add(1, 29, 28)
		r.allowed[4][2], r.allowed[5][weekday] = true, true
		rules = append(rules, r)
	}
	for range 20 {
		r := drawRule(rng, first, false)
		date := strings.Fields(r.text)
		r.text = "0 0 " + strings.Join(date[len(date)-3:], " ")
		rules = append(rules, r)
	}
	for _, r := range rules {
		r.allowed[0], r.allowed[1], r.allowed[2] = values{true}, values{true}, values{true}
		s := parse(t, r.text, nil)
		got := s.Next(first.Add(-1))
		for day := first; day.Before(end); day = day.AddDate(0, 0, 1) {
			if !r.matches(day) {
				continue
			}
			if !got.Equal(day) {
				t.Fatalf("%q: next is %v, want %v", r.text, got, day)
			}
			got = s.Next(got)
		}
		if got.Before(end) {
			t.Fatalf("%q: next is %v, want nothing before %v", r.text, got, end)
		}
	}
}

func TestADateIsRefusedExactlyIfNoYearHasIt(t *testing.T) {
	for month := 1; month <= 12; month++ {
		for day := 1; day <= 31; day++ {
			expr := fmt.Sprintf("0 0 %d %d *", day, month)
			exists := time.Date(2000, time.Month(month), day, 0, 0, 0, 0, time.UTC).Day() == day
			if _, err := cron.Parse(expr, nil); (err == nil) != exists {
				t.Errorf("%q: got %v, but exists = %v", expr, err, exists)
			}
		}
	}
}

func TestTimesBeyondAllCalendarsAreHarmless(t *testing.T) {
	extremes := []time.Time{
		{},
		time.Unix(math.MinInt64/2, 0), time.Unix(math.MaxInt64/2, 999_999_999),
		time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(50_000, 1, 1, 0, 0, 0, 0, time.UTC),
	}
	for _, expr := range []string{"* * * * * *", "0 3 * * *", "0 0 29 2 */7", "@every 90s"} {
		s := parse(t, expr, zone(t, "Europe/Berlin"))
		for _, extreme := range extremes {
			if next := s.Next(extreme); !next.IsZero() && !next.After(extreme) {
				t.Errorf("%q: Next(%v) is %v", expr, extreme, next)
			}
			if prev := s.Prev(extreme); !prev.IsZero() && !prev.Before(extreme) {
				t.Errorf("%q: Prev(%v) is %v", expr, extreme, prev)
			}
		}
	}
}

// The budget is 1 ms; the test allows ten times that for the race detector. A busy machine can interrupt any
// try, so only one of many has to be quick. The test guards against a search that goes on for years of
// seconds: no try of such a search is quick.
func TestNoSearchTakesLong(t *testing.T) {
	for _, slow := range slowest {
		s := parse(t, slow.expr, zone(t, slow.zone))
		for year := 1850; year <= 2450; year += 25 {
			from := time.Date(year, 3, 1, 0, 0, 0, 0, time.UTC)
			best := time.Hour
			for try := 0; best > 10*time.Millisecond && try < 50; try++ {
				start := time.Now()
				s.Next(from)
				s.Prev(from)
				best = min(best, time.Since(start)/2)
			}
			if best > 10*time.Millisecond {
				t.Errorf("%q in %s from %d takes %v", slow.expr, slow.zone, year, best)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	zones := []*time.Location{time.UTC}
	for _, name := range []string{
		"America/New_York", "Europe/Berlin", "Europe/Dublin", "Pacific/Apia", "Australia/Lord_Howe",
		"Africa/Casablanca", "America/Metlakatla", "America/Santiago",
	} {
		zones = append(zones, zone(f, name))
	}
	for i, expr := range []string{
		"* * * * *", "30 2 * * *", "*/7 1-5,9 */2 FEB,MAR-MAY FRI-MON", "0 0 29 2 */7", "@every 90s",
		"@weekly", "59 59 23 31 12 ?", "0 0 30 2 *", "1,,2 * * * *", "5/ * * * *",
	} {
		f.Add(expr, int64(i)*200_000_000, uint8(i))
	}
	f.Fuzz(func(t *testing.T, expr string, unix int64, zone uint8) {
		s, err := cron.Parse(expr, zones[int(zone)%len(zones)])
		if err != nil {
			var wrong *cron.Error
			if !errors.As(err, &wrong) || wrong.Field == "" || wrong.Want == "" || s != nil {
				t.Fatalf("%q: %v, %#v", expr, s, err)
			}
			return
		}
		if s.Describe() == "" {
			t.Fatalf("%q has no description", expr)
		}
		took := time.Hour
		// One quick try is enough: a busy machine can interrupt any.
		for try := 0; took > 100*time.Millisecond && try < 20; try++ {
			start := time.Now()
			if err := agree(s, time.Unix(unix, 0)); err != nil {
				t.Fatalf("%q in %v: %v", expr, s.Location(), err)
			}
			took = time.Since(start)
		}
		if took > 100*time.Millisecond {
			t.Fatalf("%q in %v from %d takes %v", expr, s.Location(), unix, took)
		}
	})
}

func BenchmarkNext(b *testing.B) {
	cases := []struct{ expr, zone string }{
		{"*/5 * * * *", "UTC"},
		{"*/5 * * * *", "America/New_York"},
		{"0 3 * * 1-5", "UTC"},
		{"0 3 * * 1-5", "America/New_York"},
		{"@every 90s", "UTC"},
	}
	for _, c := range append(cases, slowest...) {
		b.Run(c.expr+" "+c.zone, func(b *testing.B) {
			s := parse(b, c.expr, zone(b, c.zone))
			start := time.Date(2088, 3, 1, 0, 0, 0, 0, time.UTC) // after all tables, before the longest wait
			for b.Loop() {
				s.Next(start)
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	for b.Loop() {
		parse(b, "*/5 9-17 * * MON-FRI", time.UTC)
	}
}

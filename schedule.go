package carillon

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/carillon-run/carillon/cron"
	"github.com/carillon-run/carillon/internal/suggest"
)

// minEvery is the shortest period of a recurring job.
const minEvery = time.Second

// Schedule says when a job is due. One-off: At (Admit turns After, or none, into At). Recurring: Cron or
// Every.
type Schedule struct {
	At       Time     `json:"at,omitzero"`
	After    Duration `json:"after,omitzero"` // from now; becomes At when the job is admitted
	Cron     string   `json:"cron,omitempty"`
	Timezone string   `json:"timezone,omitempty"` // IANA name, for Cron; default UTC
	Every    Duration `json:"every,omitzero"`     // counted from StartsAt
	StartsAt Time     `json:"starts_at,omitzero"` // no due time before; default for Every: a period from now
	EndsAt   Time     `json:"ends_at,omitzero"`   // no due time after
	MaxRuns  int      `json:"max_runs,omitzero"`  // by the clock; skipped due times do not count

	times *cron.Schedule // Cron, parsed
}

// Recurring jobs plan a next run; one-offs have At.
func (s *Schedule) Recurring() bool { return s.Cron != "" || s.Every != 0 }

// Equal says that two schedules are written the same, so that they have the same due times.
func (s Schedule) Equal(other Schedule) bool {
	s.times, other.times = nil, nil
	return s == other
}

func (s *Schedule) admit(now Time) *FieldError {
	s.times = nil // an edit may have changed the fields that it was parsed from
	var set []string
	for _, f := range []struct {
		name string
		set  bool
	}{{"at", s.At != 0}, {"after", s.After != 0}, {"cron", s.Cron != ""}, {"every", s.Every != 0}} {
		if f.set {
			set = append(set, f.name)
		}
	}
	if len(set) > 1 {
		return invalid(
			"schedule", strings.Join(set, " and "), "only one of at, after, cron or every; none means now",
		).because("%s are given", strings.Join(set, " and "))
	}
	if !s.Recurring() {
		return s.admitOneOff(now)
	}
	if s.Every != 0 && s.Every < Duration(minEvery) {
		return invalid("schedule.every", s.Every, "at least %s", Duration(minEvery))
	}
	if s.Every > Duration(100*365*24*time.Hour) {
		return invalid("schedule.every", s.Every, "at most 36500d")
	}
	if s.Every != 0 && s.Timezone != "" {
		return invalid("schedule.timezone", s.Timezone, "no timezone, or cron instead of every").
			because("every counts real time and takes no timezone")
	}
	if err := s.parse(); err != nil {
		return err
	}
	if s.MaxRuns < 0 {
		return invalid("schedule.max_runs", s.MaxRuns, "a number above 0; leave the field out for no limit")
	}
	if s.EndsAt != 0 && s.EndsAt <= max(s.StartsAt, now) {
		return invalid("schedule.ends_at", s.EndsAt, "a time after now and after starts_at")
	}
	if every := s.period(); every != 0 && s.StartsAt == 0 {
		s.StartsAt = now.Add(every)
	}
	if s.Next(now) == 0 {
		given := cmp.Or(s.Cron, s.Every.String())
		return invalid("schedule", given, "at least one due time before ends_at").
			because("%q is never due", given)
	}
	return nil
}

func (s *Schedule) admitOneOff(now Time) *FieldError {
	once := func(field string, given any) *FieldError {
		return invalid("schedule."+field, given, "no %s, or cron or every with it", field).
			because("a job that runs once takes no %s", field)
	}
	switch {
	case s.Timezone != "":
		return invalid("schedule.timezone", s.Timezone, "the offset in at, as in 2026-11-18T09:00:00+01:00").
			because("a job that runs once takes no timezone")
	case s.StartsAt != 0:
		return once("starts_at", s.StartsAt)
	case s.EndsAt != 0:
		return once("ends_at", s.EndsAt)
	case s.MaxRuns != 0:
		return once("max_runs", s.MaxRuns)
	}
	if s.After > Duration(100*365*24*time.Hour) {
		return invalid("schedule.after", s.After, "at most 36500d")
	}
	if s.At == 0 {
		s.At = now.Add(s.After.Std())
	}
	s.After = 0
	return nil
}

// parse compiles Cron. A schedule read from the store is parsed on first use.
func (s *Schedule) parse() *FieldError {
	if s.times != nil || s.Cron == "" {
		return nil
	}
	if s.Timezone == "" {
		s.Timezone = "UTC"
	}
	loc, err := zone(s.Timezone)
	if err != nil {
		return invalid("schedule.timezone", s.Timezone, "%s", wantZone(s.Timezone))
	}
	s.times, err = cron.Parse(s.Cron, loc)
	var bad *cron.Error
	if errors.As(err, &bad) {
		return invalid("schedule.cron", s.Cron, "%s", bad.Want).because("%s", bad.Wrong())
	}
	return nil
}

// Ready parses a schedule that was read from a store. After that many goroutines can use it at once.
func (s *Schedule) Ready() { s.parse() }

// zones keeps the loaded zones: reading a zone from disk takes longer than planning a run. Only names that
// exist get in.
var zones sync.Map

// wantZone says what is wanted in place of a time zone that does not exist, with the zone that was probably
// meant.
func wantZone(given string) string {
	want := "an IANA time zone such as Europe/Berlin or UTC"
	if like := suggest.Zone(given); like != "" {
		want += "; did you mean " + like + "?"
	}
	return want
}

func zone(name string) (*time.Location, error) {
	if loc, ok := zones.Load(name); ok {
		return loc.(*time.Location), nil
	}
	if name == "Local" { // it would mean something else on every machine
		return nil, ErrInvalid
	}
	loc, err := time.LoadLocation(name)
	if err == nil {
		zones.Store(name, loc)
	}
	return loc, err
}

// period is the fixed distance between due times, 0 for calendar schedules.
func (s *Schedule) period() time.Duration {
	if s.times != nil {
		return s.times.Every()
	}
	return s.Every.Std()
}

// Next is the first due time after t; 0 if there is none.
func (s *Schedule) Next(t Time) Time {
	if !s.Recurring() {
		if s.At > t {
			return s.At
		}
		return 0
	}
	if s.parse() != nil {
		return 0
	}
	t = max(t, s.StartsAt-1)
	var next Time
	if every := Time(s.period() / time.Millisecond); every != 0 {
		next = s.StartsAt + ((t-s.StartsAt)/every+1)*every
		if t < s.StartsAt {
			next = s.StartsAt
		}
	} else if std := s.times.Next(t.Std()); !std.IsZero() {
		next = TimeOf(std)
	}
	if next > maxTime || s.EndsAt != 0 && next > s.EndsAt {
		return 0
	}
	return next
}

// Last is the latest due time at or before t; 0 if there is none. It makes downtime cheap: missed due times
// are jumped over, not counted one by one.
func (s *Schedule) Last(t Time) Time {
	if !s.Recurring() {
		if s.At <= t {
			return s.At
		}
		return 0
	}
	if s.parse() != nil {
		return 0
	}
	if s.EndsAt != 0 {
		t = min(t, s.EndsAt)
	}
	var last Time
	if every := Time(s.period() / time.Millisecond); every != 0 {
		if t < s.StartsAt {
			return 0
		}
		last = s.StartsAt + (t-s.StartsAt)/every*every
	} else if std := s.times.Prev((t + 1).Std()); !std.IsZero() {
		last = TimeOf(std)
	}
	if last < s.StartsAt {
		return 0
	}
	return last
}

// Misfire says what happens to due times that passed while no worker could run them.
type Misfire struct {
	Policy MisfirePolicy `json:"policy"` // default once
	Max    int           `json:"max"`    // for all: run at most so many, the latest; default 100
	Window Duration      `json:"window"` // for all: run none that is older than this; default 24h
}

// MisfirePolicy is skip, once or all.
type MisfirePolicy string

const (
	MisfireSkip MisfirePolicy = "skip" // record them as missed, go on with the next
	MisfireOnce MisfirePolicy = "once" // run once for all of them
	MisfireAll  MisfirePolicy = "all"  // run each, up to Max and Window
)

// grace is how late a run can start and still count as late, not as missed.
const grace = time.Minute

// Equal says that two misfire rules are the same.
func (m Misfire) Equal(other Misfire) bool { return m == other }

func (m *Misfire) admit() *FieldError {
	switch {
	case !slices.Contains([]MisfirePolicy{MisfireSkip, MisfireOnce, MisfireAll}, m.Policy):
		return invalid("misfire.policy", m.Policy, "skip, once or all")
	case m.Max < 1 || m.Max > 1000:
		return invalid("misfire.max", m.Max, "a number from 1 to 1000")
	case m.Window <= 0 || m.Window > Duration(366*24*time.Hour):
		return invalid("misfire.window", m.Window, "more than 0s and at most 366d")
	}
	return nil
}

// first is the earliest due time from due on that should still run at now, given that due has come. It
// returns due itself when nothing was missed, and 0 when all due times up to now were missed for good.
func (m Misfire) first(s *Schedule, due, now Time) Time {
	last := max(s.Last(now), due)
	switch m.Policy {
	case MisfireAll:
		return m.firstOfAll(s, due, last, now)
	case MisfireSkip:
		if now.Sub(last) > grace {
			return 0
		}
	}
	return last
}

// firstOfAll walks back from the last due time, so the cost is bounded by Max and not by the downtime.
func (m Misfire) firstOfAll(s *Schedule, due, last, now Time) Time {
	oldest := max(due, now.Add(-max(m.Window.Std(), grace)))
	if last < oldest {
		return 0
	}
	first := last
	for range m.Max - 1 {
		before := s.Last(first - 1)
		if before < oldest || before == 0 {
			break
		}
		first = before
	}
	return first
}

package cron_test

import (
	"flag"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-run/carillon/cron"
)

var (
	seed = flag.Uint64("seed", 0, "seed of the random tests; 0 draws one")
	long = flag.Bool(
		"long", false,
		"oracle: 200 expressions per transition in windows of 48 hours; takes 12 minutes on 2 cores, so add -timeout 1h",
	)
)

func drawSeed(t testing.TB) uint64 {
	drawn := *seed
	if drawn == 0 {
		drawn = rand.Uint64()
	}
	t.Logf("repeat with -seed %d", drawn)
	return drawn
}

// TestOracle compares Next and Prev with brute force around every clock change of every zone. The oracle
// walks over real instants one by one, asks the time package what a wall clock shows, and looks that up in
// plain tables of allowed values. It shares no code with the package, neither for reading expressions nor for
// zones nor for dates.
func TestOracle(t *testing.T) {
	zones, err := tzdata()
	if err != nil {
		t.Fatalf("the tz database of Go is needed: %v", err)
	}
	if len(zones) < 500 {
		t.Fatalf("only %d zones: the tz database is not complete", len(zones))
	}
	seed := drawSeed(t)
	var transitions, expressions, comparisons atomic.Int64
	t.Cleanup(func() {
		t.Logf("zones=%d transitions=%d expressions=%d comparisons=%d",
			len(zones), transitions.Load(), expressions.Load(), comparisons.Load())
	})
	known := map[string]bool{}                             // a zone with several names is walked once
	for _, name := range slices.Sorted(maps.Keys(zones)) { // sorted, so that a seed repeats
		data := string(zones[name])
		if known[data] {
			continue
		}
		known[data] = true
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hash := fnv.New64()
			hash.Write([]byte(name))
			o := oracle{t: t, loc: zone(t, name), rng: rand.New(rand.NewPCG(seed, hash.Sum64()))}
			for _, at := range o.transitions() {
				o.check(at)
				transitions.Add(1)
			}
			expressions.Add(o.expressions)
			comparisons.Add(o.comparisons)
		})
	}
}

type oracle struct {
	t                        *testing.T
	loc                      *time.Location
	rng                      *rand.Rand
	expressions, comparisons int64
}

// reading is what a wall clock shows at an instant.
type reading struct {
	unix  int64
	wall  time.Time // the same date and clock in UTC: a simple way to count wall times
	again bool      // the clock has shown this before
}

// transitions returns the instants from 1900 to 2040 at which the offset changes.
func (o *oracle) transitions() []int64 {
	var list []int64
	t := time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC).In(o.loc)
	for t.Year() < 2040 {
		_, end := t.ZoneBounds()
		if end.IsZero() {
			break
		}
		if !end.After(t) {
			end = t.Add(24 * time.Hour) // on 31 December of leap years Go gives an end in the past
		}
		if o.offset(end.Unix()) != o.offset(end.Unix()-1) {
			list = append(list, end.Unix())
		}
		t = end
	}
	return list
}

func (o *oracle) offset(unix int64) int64 {
	_, offset := time.Unix(unix, 0).In(o.loc).Zone()
	return int64(offset)
}

// check compares some random expressions around one transition. Zones that have odd seconds, and one in fifty
// of the others, are walked by the second, the rest by the minute.
func (o *oracle) check(at int64) {
	before, after := o.offset(at-1), o.offset(at)
	jump := max(after-before, before-after)
	step, margin, count := int64(60), int64(5400), 3
	if before%60 != 0 || after%60 != 0 || at%60 != 0 || o.rng.IntN(50) == 0 {
		step, margin = 1, 300
	}
	if *long {
		margin, count = max(margin, 48*3600/60*step), 200
	}
	readings := o.walk(at-jump-margin, at+jump+margin, step)
	for range count {
		// Draw around a wall time near the change, or nearly all expressions would miss it.
		near := at + min(before, after) - 1800 + o.rng.Int64N(jump+3600)
		r := drawRule(o.rng, time.Unix(near, 0).UTC(), step == 1)
		o.compare(r, readings, r.due(readings, time.Duration(step)*time.Second))
	}
}

func (o *oracle) walk(from, to, step int64) []reading {
	shown := make(map[int64]bool, (to-from)/step)
	readings := make([]reading, 0, (to-from)/step)
	for unix := from; unix < to; unix += step {
		t := time.Unix(unix, 0).In(o.loc)
		year, month, day := t.Date()
		hour, minute, second := t.Clock()
		wall := time.Date(year, month, day, hour, minute, second, 0, time.UTC)
		readings = append(readings, reading{unix, wall, shown[wall.Unix()]})
		shown[wall.Unix()] = true
	}
	return readings
}

// due returns the instants of the walk at which the rule is due.
func (r *rule) due(readings []reading, step time.Duration) []int64 {
	var due []int64
	for i, now := range readings {
		hit := r.matches(now.wall) && !(r.fixed && now.again)
		if r.fixed && i > 0 {
			for wall := readings[i-1].wall.Add(step); wall.Before(now.wall) && !hit; wall = wall.Add(step) {
				hit = r.matches(wall) // skipped by the clock
			}
		}
		if hit {
			due = append(due, now.unix)
		}
	}
	return due
}

// compare asks for all due times of the walk in both directions.
func (o *oracle) compare(r *rule, readings []reading, want []int64) {
	s, err := cron.Parse(r.text, o.loc)
	if err != nil {
		o.t.Fatalf("%q: %v", r.text, err)
	}
	from, to := readings[0].unix, readings[len(readings)-1].unix
	var next, prev []int64
	for t := s.Next(time.Unix(from-1, 0)); !t.IsZero() && t.Unix() <= to; t = s.Next(t) {
		next = append(next, t.Unix())
	}
	for t := s.Prev(time.Unix(to+1, 0)); !t.IsZero() && t.Unix() >= from; t = s.Prev(t) {
		prev = append(prev, t.Unix())
	}
	slices.Reverse(prev)
	o.expressions++
	o.comparisons += int64(len(next) + len(prev) + 2) // plus that nothing more is due, in either direction
	if !slices.Equal(next, want) {
		o.t.Errorf("%q: Next gives\n     %v\nwant %v", r.text, o.times(next), o.times(want))
	}
	if !slices.Equal(prev, want) {
		o.t.Errorf("%q: Prev gives\n     %v\nwant %v", r.text, o.times(prev), o.times(want))
	}
	for range 4 {
		o.probe(r, s, readings[o.rng.IntN(len(readings))].unix, want)
	}
}

// probe asks from any instant of the walk. A chain of due times never asks from inside the second pass of a
// fold when nothing is due there, but a scheduler that starts up can.
func (o *oracle) probe(r *rule, s *cron.Schedule, from int64, want []int64) {
	i, due := slices.BinarySearch(want, from)
	if i > 0 {
		if got := s.Prev(time.Unix(from, 0)).Unix(); got != want[i-1] {
			o.t.Errorf("%q: Prev(%v) is %v, want %v", r.text, from, got, want[i-1])
		}
	}
	if due {
		i++
	}
	if i < len(want) {
		if got := s.Next(time.Unix(from, 0)).Unix(); got != want[i] {
			o.t.Errorf("%q: Next(%v) is %v, want %v", r.text, from, got, want[i])
		}
	}
	o.comparisons += 2
}

func (o *oracle) times(list []int64) []string {
	var texts []string
	for _, unix := range list[:min(len(list), 20)] {
		texts = append(texts, time.Unix(unix, 0).In(o.loc).Format(stamp))
	}
	return texts
}

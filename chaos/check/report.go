package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Report is what a history showed.
type Report struct {
	Jobs, Runs int
	Late       Spread // starts of runs with no fault near
	Takeover   Spread // from the fault of a worker to the next start of each run that it had
	// FrozenOverlap counts handlers that were frozen with their process and wrote a line after they thawed,
	// at most 250 ms later, although another attempt had begun.
	FrozenOverlap int
	// Excused counts late starts, retries and takeovers that a fault explains.
	Excused int
	Busy    int // late starts, retries and takeovers that only the busy machine explains
	Looks   int // at runs and jobs meanwhile
	Open    int // those that saw a run that had not ended
	Refused int // writes of attempts that were given up: the register turned them away
	Broken  []Broken
	count   map[Promise]int
}

// Spread sums up durations.
type Spread struct {
	N             int
	P50, P99, Max time.Duration
}

func spreadOf(list []time.Duration) Spread {
	if len(list) == 0 {
		return Spread{}
	}
	slices.Sort(list)
	at := func(share float64) time.Duration { return list[int(share*float64(len(list)-1))] }
	return Spread{len(list), at(0.5), at(0.99), at(1)}
}

// Passed says that no promise was broken.
func (r *Report) Passed() bool { return len(r.Broken) == 0 }

// Trial is what the report says besides what the history shows.
type Trial struct {
	Store   string
	Minutes float64
	Load    float64 // jobs a second that the generator offered
	Seed    uint64
	Commit  string
	Faults  map[string]int
}

// Line is the report in one line.
func (r *Report) Line(of Trial) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(of.Faults)) {
		names = append(names, fmt.Sprintf("%s=%d", name, of.Faults[name]))
	}
	var counts []string
	for _, p := range promises {
		counts = append(counts, fmt.Sprintf("%s=%d", p, r.count[p]))
	}
	return fmt.Sprintf(
		"store=%s minutes=%.1f jobs=%d runs=%d load=%.0f/s p50_late=%s p99_late=%s max_late=%s faults{%s} "+
			"%s frozen_overlap=%d looks=%d open=%d refused=%d excused=%d busy=%d takeovers=%d "+
			"takeover_p99=%s seed=%d commit=%s",
		of.Store, of.Minutes, r.Jobs, r.Runs, of.Load, short(r.Late.P50), short(r.Late.P99),
		short(r.Late.Max), strings.Join(names, ","), strings.Join(counts, " "), r.FrozenOverlap, r.Looks,
		r.Open, r.Refused, r.Excused, r.Busy, r.Takeover.N, short(r.Takeover.P99), of.Seed, of.Commit,
	)
}

func short(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

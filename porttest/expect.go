package porttest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

func every10s(overlap carillon.Overlap, maxRuns int) func(*carillon.Definition) {
	return func(d *carillon.Definition) {
		d.Schedule.Every, d.Schedule.MaxRuns, d.Overlap = carillon.Duration(10*time.Second), maxRuns, overlap
	}
}

func sleepFor(d time.Duration) executor.Handler {
	return func(context.Context, executor.Task) error { time.Sleep(d); return nil }
}

func untilStopped(ctx context.Context, _ executor.Task) error {
	<-ctx.Done()
	return ctx.Err()
}

// expect compares the job's runs, latest due first, each as "state attempts reason".
func (h *House) expect(job carillon.JobID, want ...string) {
	h.T.Helper()
	var got []string
	for _, run := range h.Runs(job) {
		got = append(got, strings.TrimSpace(fmt.Sprint(run.State, " ", run.Attempt, " ", run.Reason)))
	}
	if !slices.Equal(got, want) {
		h.T.Errorf("runs of %s:\n  got  %q\n  want %q", job, got, want)
	}
}

// expectLike compares states and looks for words in reasons.
func (h *House) expectLike(job carillon.JobID, want ...string) {
	h.T.Helper()
	runs := h.Runs(job)
	ok := len(runs) == len(want)
	for i := 0; ok && i < len(want); i++ {
		state, words, _ := strings.Cut(want[i], " ")
		ok = runs[i].State.String() == state && strings.Contains(runs[i].Reason, words)
	}
	if !ok {
		h.expect(job, want...)
	}
}

// expectPauses compares the times between the end of one attempt and the start of the next.
func (h *House) expectPauses(want ...time.Duration) {
	h.T.Helper()
	seen := h.Seen()
	var got []time.Duration
	for i := 1; i < len(seen); i++ {
		got = append(got, seen[i].Start.Sub(seen[i-1].End))
	}
	if !slices.Equal(got, want) {
		h.T.Errorf("pauses %v, want %v", got, want)
	}
}

// checkNeverTwice checks the promise that holds in every scenario: attempts of one job are disjoint, and
// their fences rise.
func (h *House) checkNeverTwice() {
	h.T.Helper()
	seen := h.Seen()
	slices.SortStableFunc(seen, func(a, b Seen) int { return cmp.Compare(a.Start, b.Start) })
	last := map[carillon.JobID]Seen{}
	for _, s := range seen {
		if s.Start < s.Run.Due {
			h.T.Errorf("%s started early: %s", s.Run, s.Start)
		}
		before, any := last[s.Run.Job]
		if any && (before.End > s.Start || before.Fence >= s.Fence) {
			h.T.Errorf("two at once, or a fence that does not rise:\n  %+v\n  %+v", before, s)
		}
		last[s.Run.Job] = s
	}
}

package check

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

func TestSkipsAndAttemptsThatNothingExplainsAreFound(t *testing.T) {
	due := func(at int) carillon.RunID { return carillon.RunID{Job: 1, Due: carillon.Time(at)} }
	record := func(at int, state carillon.State, reason string) Record {
		return Record{ID: due(at), State: state, Reason: reason, Covers: carillon.Time(at)}
	}
	attempts := func(state carillon.State, attempt, losses, failures int32) Record {
		r := record(10, state, "")
		r.Attempt, r.Losses, r.Failures = attempt, losses, failures
		return r
	}
	ran := attempts(carillon.StateSucceeded, 1, 0, 0)
	skipped := func(at int, reason string, of carillon.RunID) Record {
		return record(at, carillon.StateSkipped, fmt.Sprintf(reason, of))
	}
	const unfinished, waits, missed = "overlap: %s has not ended", "overlap: %s waits already",
		"missed: %s runs in its place"
	for _, c := range []struct {
		name    string
		overlap carillon.Overlap
		fails   int32
		records []Record
		want    string // empty: everything is explained
	}{
		{"skip", carillon.OverlapSkip, 0, []Record{ran, skipped(20, unfinished, due(10))}, ""},
		{"queue", carillon.OverlapQueue, 0, []Record{ran, skipped(20, waits, due(10))}, ""},
		{"missed", carillon.OverlapQueueAll, 0, []Record{skipped(5, missed, due(10)), ran}, ""},
		{"replaced", carillon.OverlapReplace, 0, []Record{skipped(5, "replaced by %s", due(10)), ran}, ""},
		{
			"overlap that the job does not ask for", carillon.OverlapQueueAll, 0,
			[]Record{ran, skipped(20, unfinished, due(10))},
			"reason",
		},
		{"a later run", carillon.OverlapSkip, 0, []Record{skipped(5, unfinished, due(10)), ran}, "reason"},
		{"no such run", carillon.OverlapSkip, 0, []Record{ran, skipped(20, unfinished, due(15))}, "does not have"},
		{
			"no reason", carillon.OverlapSkip, 0,
			[]Record{ran, record(20, carillon.StateSkipped, "")},
			"does not have",
		},
		{
			"a pause that no caller asked for", carillon.OverlapSkip, 0,
			[]Record{ran, record(20, carillon.StateSkipped, "the job was paused")},
			"paused",
		},
		{"a one-off", "", 0, []Record{ran, skipped(20, unfinished, due(10))}, "one-off"},
		{"losses and a failure", "", 1, []Record{attempts(carillon.StateSucceeded, 4, 2, 1)}, ""},
		{"an attempt too many", "", 0, []Record{attempts(carillon.StateSucceeded, 3, 1, 0)}, "attempts"},
		{"a failure too many", "", 1, []Record{attempts(carillon.StateSucceeded, 3, 0, 2)}, "asked to fail"},
		{
			"a failure that was left out", "", 1,
			[]Record{attempts(carillon.StateSucceeded, 1, 0, 0)},
			"asked to fail",
		},
		{"failed for good", "", 0, []Record{attempts(carillon.StateFailed, 2, 1, 1)}, ""},
		{
			"failed for good, an attempt too many", "", 0,
			[]Record{attempts(carillon.StateFailed, 3, 1, 1)},
			"attempts",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := Job{ID: 1, Overlap: c.overlap, Fails: c.fails}
			if c.overlap != "" {
				job.Every = time.Second
			}
			got := strings.Join(Ends(job, c.records), "; ")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

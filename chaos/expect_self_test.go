package chaos

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

func TestSkipsAndAttemptsThatNothingExplainsAreFound(t *testing.T) {
	due := func(at int) carillon.RunID { return carillon.RunID{Job: 1, Due: carillon.Time(at)} }
	ran := carillon.Run{ID: due(10), State: carillon.StateSucceeded, Attempt: 1}
	skipped := func(at int, reason string, of carillon.RunID) carillon.Run {
		return carillon.Run{ID: due(at), State: carillon.StateSkipped, Reason: fmt.Sprintf(reason, of)}
	}
	attempts := func(state carillon.State, attempt, losses, failures int32) carillon.Run {
		return carillon.Run{ID: due(10), State: state, Attempt: attempt, Losses: losses, Failures: failures}
	}
	const unfinished, waits, missed = "overlap: %s has not ended", "overlap: %s waits already",
		"missed: %s runs in its place"
	for _, c := range []struct {
		name    string
		overlap carillon.Overlap
		fails   int32
		runs    []carillon.Run
		want    string // empty: everything is explained
	}{
		{"skip", carillon.OverlapSkip, 0, []carillon.Run{ran, skipped(20, unfinished, due(10))}, ""},
		{"queue", carillon.OverlapQueue, 0, []carillon.Run{ran, skipped(20, waits, due(10))}, ""},
		{"missed", carillon.OverlapQueueAll, 0, []carillon.Run{skipped(5, missed, due(10)), ran}, ""},
		{
			"overlap that the job does not ask for", carillon.OverlapQueueAll, 0,
			[]carillon.Run{ran, skipped(20, unfinished, due(10))},
			"reason",
		},
		{
			"a later run", carillon.OverlapSkip, 0,
			[]carillon.Run{skipped(5, unfinished, due(10)), ran},
			"reason",
		},
		{
			"no such run", carillon.OverlapSkip, 0,
			[]carillon.Run{ran, skipped(20, unfinished, due(15))},
			"does not have",
		},
		{
			"no reason", carillon.OverlapSkip, 0,
			[]carillon.Run{ran, {ID: due(20), State: carillon.StateSkipped}},
			"does not have",
		},
		{"a one-off", "", 0, []carillon.Run{ran, skipped(20, unfinished, due(10))}, "one-off"},
		{"losses and a failure", "", 1, []carillon.Run{attempts(carillon.StateSucceeded, 4, 2, 1)}, ""},
		{
			"an attempt too many", "", 0,
			[]carillon.Run{attempts(carillon.StateSucceeded, 3, 1, 0)},
			"attempts",
		},
		{
			"a failure too many", "", 1,
			[]carillon.Run{attempts(carillon.StateSucceeded, 3, 0, 2)},
			"asked to fail 1",
		},
		{
			"a failure that was left out", "", 1,
			[]carillon.Run{attempts(carillon.StateSucceeded, 1, 0, 0)},
			"asked to fail 1",
		},
		{"failed for good", "", 0, []carillon.Run{attempts(carillon.StateFailed, 2, 1, 1)}, ""},
		{
			"failed for good, an attempt too many", "", 0,
			[]carillon.Run{attempts(carillon.StateFailed, 3, 1, 1)},
			"attempts",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := carillon.Job{ID: 1}
			job.Payload, _ = json.Marshal(Work{Fails: c.fails})
			if job.Overlap = c.overlap; c.overlap != "" {
				job.Schedule.Every = carillon.Duration(time.Second)
			}
			runs := map[carillon.RunID]carillon.Run{}
			for _, run := range c.runs {
				runs[run.ID] = run
			}
			got := strings.Join(explained([]carillon.Job{job}, runs), "; ")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

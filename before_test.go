package carillon

import (
	"testing"
	"time"
)

func TestAHigherPriorityComesBeforeAndThenTheOlderRun(t *testing.T) {
	run := func(priority int8, wake time.Duration) Run {
		return Run{ID: RunID{Job: JobID(priority)}, Priority: priority, Wake: Time(wake.Milliseconds())}
	}
	low := run(4, 0)
	for _, c := range []struct {
		other Run
		want  bool
	}{
		{run(5, time.Hour), true},
		{run(4, -1*time.Millisecond), true},
		{run(3, 0), false},
		{run(4, time.Millisecond), false},
	} {
		if got := c.other.Before(&low); got != c.want {
			t.Errorf("priority %d of %d ms: %v", c.other.Priority, c.other.Wake, got)
		}
	}
}

package carillon_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
)

func TestARunThatWaitsForItsNextAttemptIsTriedNow(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapSkip))
	run := retrying(planned(job, minute(1)), minute(9))
	c, tried, err := whole(
		job, line(job, minute(1)), run, planned(job, minute(6)),
	).Retry(run, false, minute(5))
	if err != nil || tried.ID != run.ID || tried.Wake != minute(5) {
		t.Errorf("%+v, %v", tried, err)
	}
	expectChange(t, c, "1m r5 v1 waiting guarded planned #1 wakes 5m")
}

// With a wake it would leave the line when the gate opens before runs that were due earlier.
func TestARunThatWaitsInALineKeepsItsPlaceWhenItIsTriedNow(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapSkip))
	run := retrying(planned(job, minute(1)), carillon.Never)
	run.Hold = "gate/g"
	_, tried, err := whole(
		job, line(job, minute(1)), run, planned(job, minute(6)),
	).Retry(run, false, minute(5))
	if err != nil || tried.Wake != carillon.Never || tried.Hold != run.Hold {
		t.Errorf("%+v, %v", tried, err)
	}
}

func TestWhatIsNoRetryIsRefusedAndSaysWhy(t *testing.T) {
	job := newJob(t, minutely(carillon.OverlapSkip))
	onHold := retrying(planned(job, minute(1)), carillon.Never)
	onHold.Flags |= carillon.FlagOnHold
	for want, run := range map[string]carillon.Run{
		"is paused":          onHold,
		"run --now":          planned(job, minute(9)),
		"is claimed; only a": claimed(planned(job, minute(1))),
	} {
		_, _, err := whole(job, line(job, 0), run).Retry(run, false, minute(5))
		if !errors.Is(err, carillon.ErrConflict) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

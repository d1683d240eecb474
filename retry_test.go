package carillon_test

import (
	"math"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

func TestRetriesWaitLongerEachTimeUpToTheCap(t *testing.T) {
	retry := carillon.Retry{
		Backoff: carillon.BackoffExponential, Delay: carillon.Duration(time.Second),
		MaxDelay: carillon.Duration(10 * time.Second), Jitter: 0,
	}
	for failures, want := range map[int]time.Duration{
		0: time.Second, 1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 8 * time.Second,
		5:    10 * time.Second,
		1000: 10 * time.Second, 5000: 10 * time.Second, math.MaxInt32: 10 * time.Second,
	} {
		if got := retry.After(failures, 0.999); got != want {
			t.Errorf("after %d failures: %s, want %s", failures, got, want)
		}
	}
	retry.Backoff = carillon.BackoffFixed
	if got := retry.After(7, 0); got != time.Second {
		t.Errorf("fixed: %s", got)
	}
	retry.Delay, retry.Backoff = 0, carillon.BackoffExponential
	if got := retry.After(1000, 0.5); got != 0 {
		t.Errorf("no delay: %s", got)
	}
}

func TestJitterOnlyAdds(t *testing.T) {
	for _, delay := range []time.Duration{
		0, time.Millisecond, 3 * time.Millisecond, time.Second, 90 * time.Minute, 365 * 24 * time.Hour,
	} {
		for _, jitter := range []float64{0, 0.2, 1} {
			retry := carillon.Retry{
				Backoff: carillon.BackoffFixed, Delay: carillon.Duration(delay),
				MaxDelay: carillon.Duration(delay), Jitter: jitter,
			}
			last := time.Duration(0)
			for _, random := range []float64{0, 0.1, 0.5, 0.9, math.Nextafter(1, 0)} {
				got := retry.After(1, random)
				most := time.Duration(float64(delay) * (1 + jitter))
				if got < delay || got > most || got < last || got%time.Millisecond != 0 {
					t.Errorf(
						"%s with jitter %v at %v: %s, want %s to %s in whole milliseconds", delay, jitter,
						random, got, delay, most,
					)
				}
				last = got
			}
			if spread := last - delay; jitter > 0 && delay >= time.Second &&
				spread < time.Duration(float64(delay)*jitter*0.99) {
				t.Errorf("%s with jitter %v spreads over %s only", delay, jitter, spread)
			}
		}
	}
}

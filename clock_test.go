package carillon

import (
	"testing"
	"time"
)

func TestAClockThatWasComparedDoesNotFollowTheMachines(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	set := at.Add(time.Hour + 10*time.Second) // the machine's clock was set by an hour, 10 s later
	for _, c := range []struct {
		name string
		r    *reading
		want time.Time
	}{
		{"a new clock is the machine's", nil, set},
		{"a clock that was only moved follows the machine's", &reading{ahead: time.Minute}, set.Add(time.Minute)},
		{"a clock that was compared does not", &reading{3 * time.Second, at}, at.Add(13 * time.Second)},
	} {
		if got := c.r.now(set, 10*time.Second); !got.Equal(c.want) {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	var clock Clock
	clock.Compare(time.Now(), -time.Hour)
	if now := Now(); clock.Ahead() != -time.Hour || clock.Moved() > time.Second ||
		now.Sub(clock.Now()) < 59*time.Minute {
		t.Errorf("ahead %s, moved %s, %s at %s", clock.Ahead(), clock.Moved(), clock.Now(), now)
	}
}

func TestHowFarAClockIsOffIsMeasuredAtTheTimeOfTheComparison(t *testing.T) {
	var clock Clock
	at := time.Now().Add(-10 * time.Second)
	clock.Compare(at, time.Minute)
	for d, want := range map[time.Duration]time.Duration{
		time.Minute: 0, 2 * time.Minute: time.Minute, -time.Minute: 2 * time.Minute,
	} {
		if off := clock.Off(at.Add(time.Second), d); (off - want).Abs() > time.Millisecond {
			t.Errorf("ahead by %s: off by %s, want %s", d, off, want)
		}
	}
}

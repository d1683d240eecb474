package carillon_test

import (
	"encoding/json"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

func TestTimesAreRoundedUpToMilliseconds(t *testing.T) {
	for _, c := range []struct {
		given time.Time
		want  carillon.Time
	}{
		{time.Unix(0, 0), 0},
		{time.Unix(0, 1), 1},
		{time.Unix(0, 999_999), 1},
		{time.Unix(0, 1_000_000), 1},
		{time.Unix(0, 1_000_001), 2},
		{time.Unix(-1, 999_999_999), 0},
		{time.Unix(-1, 1), -999},
		{time.Unix(1_800_000_000, 123_000_001), 1_800_000_000_124},
	} {
		if got := carillon.TimeOf(c.given); got != c.want {
			t.Errorf("%s is %d, want %d", c.given, got, c.want)
		}
	}
}

func TestAddRoundsUpOnBothSidesOfZero(t *testing.T) {
	for d, want := range map[time.Duration]carillon.Time{
		0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2, 1500 * time.Microsecond: 2,
		-1: 0, -time.Millisecond: -1, -1500 * time.Microsecond: -1, -24 * time.Hour: -86_400_000,
		math.MaxInt64: math.MaxInt64/1_000_000 + 1, math.MinInt64: math.MinInt64 / 1_000_000,
	} {
		if got := epoch.Add(d) - epoch; got != want {
			t.Errorf("adding %d ns adds %d ms, want %d", d, got, want)
		}
	}
	if got := (epoch + 1500).Sub(epoch); got != 1500*time.Millisecond {
		t.Errorf("the difference is %s", got)
	}
}

func TestParseTime(t *testing.T) {
	for text, want := range map[string]carillon.Time{
		"2027-01-15T08:00:00Z":              epoch,
		"2027-01-15T09:00:00+01:00":         epoch,
		"2027-01-14T20:00:00.000-12:00":     epoch,
		"2027-01-15T08:00:00.0000001Z":      epoch + 1,
		"1970-01-01T00:00:00.001Z":          1,
		"9999-12-31T00:00:00Z":              carillon.TimeOf(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)),
		"2027-01-15T08:00:00.000000000001Z": epoch, // finer than Go reads
	} {
		if got, err := carillon.ParseTime(text); err != nil || got != want {
			t.Errorf("%s is %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{
		"", "now", "2027-01-15", "2027-01-15T08:00:00", "2027-01-15 08:00:00Z", "2027-02-30T00:00:00Z",
		"2027-01-15T25:00:00Z", "1800000000",
		"1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "9999-12-31T00:00:00.001Z",
		"10000-01-01T00:00:00Z",
	} {
		if got, err := carillon.ParseTime(text); !errors.Is(err, carillon.ErrInvalid) {
			t.Errorf("%q is read as %s, %v", text, got, err)
		}
	}
}

func TestTimeInJSON(t *testing.T) {
	for at, want := range map[carillon.Time]string{
		0: "null", carillon.Never: "null", epoch + 7: `"2027-01-15T08:00:00.007Z"`,
	} {
		if got, err := json.Marshal(at); err != nil || string(got) != want {
			t.Errorf("%d is written as %s, %v, want %s", at, got, err, want)
		}
	}
	at := carillon.Time(7)
	if err := json.Unmarshal([]byte("null"), &at); err != nil || at != 0 {
		t.Errorf("null is read as %d, %v", at, err)
	}
	if err := json.Unmarshal([]byte(`"2027-01-15T09:00:00.0001+01:00"`), &at); err != nil || at != epoch+1 {
		t.Errorf("read as %d, %v", at, err)
	}
	for _, bad := range []string{`1800000000000`, `"soon"`, `true`, `{}`, `""`} {
		if err := json.Unmarshal([]byte(bad), &at); !errors.Is(err, carillon.ErrInvalid) {
			t.Errorf("%s is read as %d, %v", bad, at, err)
		}
	}
}

func TestDurationsReadWhatTheyWrite(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s": 0, "1ms": time.Millisecond, "90s": 90 * time.Second, "1h30m": 90 * time.Minute,
		"30d":   720 * time.Hour,
		"1d12h": 36 * time.Hour, "0d1h": time.Hour, "1.5h": 90 * time.Minute, "0": 0,
		"65535d": 65535 * 24 * time.Hour, "2d0s": 48 * time.Hour,
		"100h": 100 * time.Hour, "1d1ms": 24*time.Hour + time.Millisecond, "10m0s": 10 * time.Minute,
	} {
		got, err := carillon.ParseDuration(text)
		if err != nil || got.Std() != want {
			t.Errorf("%q is %s, %v, want %s", text, got.Std(), err, want)
		}
		again, err := carillon.ParseDuration(got.String())
		if err != nil || again != got {
			t.Errorf("%q is written as %q, which is read as %s, %v", text, got, again.Std(), err)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0s", time.Hour: "1h", 20 * time.Minute: "20m", 25 * time.Hour: "1d1h", 61 * time.Second: "1m1s",
		time.Hour + time.Second: "1h0m1s",
		1500 * time.Millisecond: "1.5s", 24 * time.Hour: "1d",
	} {
		if got := carillon.Duration(d).String(); got != want {
			t.Errorf("%s is written as %q, want %q", d, got, want)
		}
	}
}

func TestBadDurationsAreRefused(t *testing.T) {
	for _, text := range []string{
		"", "d", "1", "90", "1x", "-1s", "-1d", "1d-1h", "+1d", "1.5d", "1d1d", "1h1d", " 1s", "1s ", "1µs",
		"1ns", "1.0005s", "65536d", "1d1us",
		"106751d24h", "99999999999h", "1 d", "one day",
	} {
		if d, err := carillon.ParseDuration(text); !errors.Is(err, carillon.ErrInvalid) {
			t.Errorf("%q is read as %s, %v", text, d, err)
		}
		var flag carillon.Duration
		if flag.Set(text) == nil {
			t.Errorf("the flag takes %q as %s", text, flag)
		}
	}
	var d carillon.Duration
	for _, bad := range []string{`60`, `null1`, `"soon"`, `true`} {
		if err := json.Unmarshal([]byte(bad), &d); err == nil {
			t.Errorf("%s is read as %s", bad, d)
		}
	}
	if err := json.Unmarshal([]byte(`"1d12h"`), &d); err != nil || d.Std() != 36*time.Hour {
		t.Errorf("read as %s, %v", d, err)
	}
	if b, err := json.Marshal(d); err != nil || string(b) != `"1d12h"` {
		t.Errorf("written as %s, %v", b, err)
	}
}

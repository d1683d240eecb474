package cron_test

import (
	"testing"
	"time"
)

// TestClockChanges has the cases from the comparison of cron libraries in DEPENDENCIES.md section 3, with the
// answers of vixie cron, and the oddest transitions of the tz database.
func TestClockChanges(t *testing.T) {
	const (
		newYork  = "America/New_York"
		berlin   = "Europe/Berlin"
		santiago = "America/Santiago"
		lordHowe = "Australia/Lord_Howe"
		apia     = "Pacific/Apia"
	)
	tests := []struct {
		name, zone, expr, after string
		want                    []string
	}{
		{
			"a fixed time in the gap runs once, right after it", newYork, "30 2 * * *",
			"2026-03-07 12:00:00 -0500",
			[]string{"2026-03-08 03:00:00 -0400", "2026-03-09 02:30:00 -0400"},
		},
		{
			"a fixed time in the gap of Berlin runs once, right after it", berlin, "30 2 * * *",
			"2026-03-28 12:00:00 +0100",
			[]string{"2026-03-29 03:00:00 +0200", "2026-03-30 02:30:00 +0200"},
		},
		{
			"a fixed time that comes twice runs the first time", newYork, "30 1 * * *",
			"2026-10-31 12:00:00 -0400",
			[]string{"2026-11-01 01:30:00 -0400", "2026-11-02 01:30:00 -0500"},
		},
		{
			"a fixed time that comes twice in Berlin runs the first time", berlin, "30 2 * * *",
			"2026-10-24 12:00:00 +0200",
			[]string{"2026-10-25 02:30:00 +0200", "2026-10-26 02:30:00 +0100"},
		},
		{
			"a fixed time stays done when asked from inside the second pass", berlin, "30 2 * * *",
			"2026-10-25 02:10:00 +0100",
			[]string{"2026-10-26 02:30:00 +0100"},
		},
		{
			"every half hour runs on both passes", newYork, "*/30 * * * *", "2026-11-01 00:45:00 -0400",
			[]string{
				"2026-11-01 01:00:00 -0400", "2026-11-01 01:30:00 -0400", "2026-11-01 01:00:00 -0500",
				"2026-11-01 01:30:00 -0500", "2026-11-01 02:00:00 -0500",
			},
		},
		{
			"every half hour runs on both passes in Berlin", berlin, "*/30 * * * *",
			"2026-10-25 01:45:00 +0200",
			[]string{
				"2026-10-25 02:00:00 +0200", "2026-10-25 02:30:00 +0200", "2026-10-25 02:00:00 +0100",
				"2026-10-25 02:30:00 +0100", "2026-10-25 03:00:00 +0100",
			},
		},
		{
			"every hour runs on both passes", newYork, "0 * * * *", "2026-11-01 00:30:00 -0400",
			[]string{"2026-11-01 01:00:00 -0400", "2026-11-01 01:00:00 -0500", "2026-11-01 02:00:00 -0500"},
		},
		{
			"every half hour goes on across the gap", newYork, "*/30 * * * *", "2026-03-08 01:15:00 -0500",
			[]string{"2026-03-08 01:30:00 -0500", "2026-03-08 03:00:00 -0400", "2026-03-08 03:30:00 -0400"},
		},
		{
			"every second hour does not make up for the gap", newYork, "0 */2 * * *",
			"2026-03-07 23:30:00 -0500",
			[]string{"2026-03-08 00:00:00 -0500", "2026-03-08 04:00:00 -0400"},
		},
		{
			"a midnight that is skipped runs the same day", santiago, "0 0 * * *",
			"2026-09-05 12:00:00 -0400",
			[]string{"2026-09-06 01:00:00 -0300", "2026-09-07 00:00:00 -0300"},
		},
		{
			"a gap of half an hour ends after half an hour", lordHowe, "15 2 * * *",
			"2026-10-03 12:00:00 +1030",
			[]string{"2026-10-04 02:30:00 +1100", "2026-10-05 02:15:00 +1100"},
		},
		{
			"several fixed times in one gap are one run", newYork, "0,15,30,45 2 * * *",
			"2026-03-07 12:00:00 -0500",
			[]string{"2026-03-08 03:00:00 -0400", "2026-03-09 02:00:00 -0400"},
		},
		{
			"a fixed time in the gap and one right after it are one run", newYork, "0 2,3 * * *",
			"2026-03-07 12:00:00 -0500",
			[]string{"2026-03-08 03:00:00 -0400", "2026-03-09 02:00:00 -0400", "2026-03-09 03:00:00 -0400"},
		},
		{
			"the times of a day that does not exist run when the next one begins", apia, "0 9,17 * * *",
			"2011-12-29 12:00:00 -1000",
			[]string{"2011-12-29 17:00:00 -1000", "2011-12-31 00:00:00 +1400", "2011-12-31 09:00:00 +1400"},
		},
		{
			"a date that does not exist runs when the next day begins", apia, "0 12 30 12 *",
			"2011-06-01 00:00:00 -1100",
			[]string{"2011-12-31 00:00:00 +1400", "2012-12-30 12:00:00 +1400"},
		},
		{
			"a day that comes twice is one day to a fixed time", "Pacific/Kwajalein", "0 12 * * *",
			"1969-09-29 13:00:00 +1100",
			[]string{"1969-09-30 12:00:00 +1100", "1969-10-01 12:00:00 -1200"},
		},
		{
			"a gap of seconds is a gap", "Asia/Kolkata", "0 0 * * *", "1905-12-31 12:00:00 +0521",
			[]string{"1906-01-01 00:08:50 +0530", "1906-01-02 00:00:00 +0530"},
		},
		{
			"the gap before the first yearly rule is not lost", "America/Metlakatla", "30 2 * * *",
			"2018-11-03 12:00:00 -0800",
			[]string{"2018-11-04 02:30:00 -0800"},
		},
		{
			"the last day of a leap year does not stop the search", newYork, "0 12 * * *",
			"2040-12-31 12:00:00 -0500",
			[]string{"2041-01-01 12:00:00 -0500"},
		},
		{
			"29 February waits for a leap year", newYork, "0 0 29 2 *", "2026-01-01 00:00:00 -0500",
			[]string{"2028-02-29 00:00:00 -0500", "2032-02-29 00:00:00 -0500"},
		},
		{
			"29 February on a Sunday waits for 40 years if it has to", newYork, "0 0 29 2 */7",
			"2088-03-01 00:00:00 -0500",
			[]string{"2128-02-29 00:00:00 -0500"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := parse(t, test.expr, zone(t, test.zone))
			from := at(t, test.after)
			due := from
			for _, want := range test.want {
				due = s.Next(due)
				if got := due.Format(stamp); got != want {
					t.Fatalf("next is %s, want %s", got, want)
				}
			}
			for i := len(test.want) - 2; i >= 0; i-- {
				due = s.Prev(due)
				if got := due.Format(stamp); got != test.want[i] {
					t.Fatalf("previous is %s, want %s", got, test.want[i])
				}
			}
			if before := s.Prev(due); before.After(from) {
				t.Fatalf("previous of the first is %v, which is after %v", before, from)
			}
		})
	}
}

func TestTheOddSecondsOfAnOffsetCount(t *testing.T) {
	s := parse(t, "0 12 * * *", zone(t, "Europe/Amsterdam")) // at +00:19:32 in those days
	want := "1925-01-01 11:40:28 +0000"
	if got := s.Next(at(t, "1925-01-01 00:00:00 +0000")).UTC().Format(stamp); got != want {
		t.Errorf("next is %v, want %v", got, want)
	}
}

func TestAScheduleWhoseEveryMatchIsSkippedIsNeverDue(t *testing.T) {
	// From 2007 on New York skips this hour on exactly this Sunday of March.
	s := parse(t, "*/5 2 8-14 3 */7", zone(t, "America/New_York"))
	if got := s.Next(at(t, "2026-01-01 00:00:00 +0000")); !got.IsZero() {
		t.Errorf("next is %v, want the zero time", got)
	}
	want := "2006-03-12 02:55:00 -0500"
	if got := s.Prev(at(t, "2026-01-01 00:00:00 +0000")).Format(stamp); got != want {
		t.Errorf("previous is %v, want %v", got, want)
	}
}

func TestEveryCountsAbsoluteTimeFromItsAnchor(t *testing.T) {
	loc := zone(t, "America/New_York")
	anchor := time.Date(2026, 3, 8, 0, 30, 0, 123456789, loc)
	s := parse(t, "@every 1h", loc).Anchor(anchor)

	if got := s.Next(anchor.Add(-time.Hour)); !got.Equal(anchor) {
		t.Errorf("before the anchor, next is %v, want the anchor", got)
	}
	if got := s.Prev(anchor); !got.IsZero() {
		t.Errorf("nothing is due before the anchor, got %v", got)
	}
	want := anchor
	for range 5 {
		want = want.Add(time.Hour)
		if got := s.Next(want.Add(-time.Nanosecond)); !got.Equal(want) {
			t.Errorf("next is %v, want %v", got, want)
		}
		if got := s.Next(want); !got.Equal(want.Add(time.Hour)) {
			t.Errorf("next of a due time is %v, want %v", got, want.Add(time.Hour))
		}
		if got := s.Prev(want); !got.Equal(want.Add(-time.Hour)) {
			t.Errorf("previous of a due time is %v, want %v", got, want.Add(-time.Hour))
		}
		if got := s.Prev(want.Add(time.Nanosecond)); !got.Equal(want) {
			t.Errorf("previous is %v, want %v", got, want)
		}
	}
}

func TestAnchorLeavesOthersAlone(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 34, 56, 0, time.UTC)
	daily, every := parse(t, "@daily", nil), parse(t, "@every 1h", nil)
	if got, want := daily.Anchor(now).Next(now), daily.Next(now); !got.Equal(want) {
		t.Errorf("an anchored @daily is due at %v, want %v", got, want)
	}
	every.Anchor(now)
	if got, want := every.Next(now), now.Truncate(time.Hour).Add(time.Hour); !got.Equal(want) {
		t.Errorf("anchoring a copy moved the original to %v, want %v", got, want)
	}
}

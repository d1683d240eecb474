package main

import (
	"testing"
	"time"
)

// The machine is in UTC here, so the test sees whether a time is in the zone of the job or of the machine.
func TestTimesWithoutAnOffsetAreInTheZoneOfTheJob(t *testing.T) {
	inHouse(t, "zones", func(h *house) {
		h.app.zone = time.UTC
		h.carillon(
			"submit", "--name", "berlin", "--at", "2026-11-18 09:00", "--tz", "Europe/Berlin", "--", "echo",
		)
		h.carillon("submit", "--name", "summer", "--tz", "Europe/Berlin", "--at", "2026-07-01", "--", "echo")
		h.carillon("submit", "--name", "machine", "--at", "2026-11-18 09:00", "--", "echo")
		h.carillon(
			"submit", "--name", "skipped", "--at", "2026-03-29 02:30", "--tz", "Europe/Berlin", "--", "echo",
		)
		h.carillon(
			"submit", "--name", "twice", "--at", "2026-10-25 02:30", "--tz", "Europe/Berlin", "--", "echo",
		)
		h.carillon(
			"submit", "--name", "agree", "--at", "2026-11-18T09:00:00+01:00", "--tz", "Europe/Berlin", "--",
			"echo",
		)
		h.carillon("submit", "--at", "2026-11-18T09:00:00+02:00", "--tz", "Europe/Berlin", "--", "echo")
		h.carillon("submit", "--at", "2026-11-18 09:00", "--tz", "europe/berlin", "--", "echo")
		h.carillon("submit", "--at", "2026-03-28 11:30", "--tz", "Europe/Berlin", "--", "echo")
		h.carillon("submit", "--after", "1h", "--tz", "Europe/Berlin", "--", "echo")
		h.carillon("submit", "--every", "1h", "--tz", "Europe/Berlin", "--", "echo")
		h.carillon("submit", "--name", "report", "--cron", "0 3 * * MON-FRI", "--tz", "Europe/Berlin",
			"--starts-at", "2027-03-26", "--ends-at", "2027-05-01 12:00", "--", "echo")
		h.carillon("submit", "--name", "utc", "--cron", "@daily", "--starts-at", "2027-03-26", "--", "echo")
		h.carillon("submit", "--name", "often", "--every", "1h", "--starts-at", "2027-03-26", "--", "echo")
		h.carillon("edit", "report", "--starts-at", "2027-04-01")
		h.carillon("edit", "report", "--tz", "America/New_York", "--starts-at", "2027-04-01")
		h.carillon("jobs", "--status", "active", "--limit", "3")
		h.carillon("edit", "report", "--every", "1h", "--ends-at", "2027-05-02")
		h.carillon("edit", "berlin", "--at", "2026-11-19 09:00", "--tz", "Europe/Berlin")
		h.carillon("edit", "berlin", "--at", "2026-03-28 11:30", "--tz", "Europe/Berlin")
		h.carillon("edit", "utc", "--at", "2027-01-01")
		h.carillon("edit", "often", "--after", "3d")
		h.carillon("submit", "--cron", "0 3 * * MON-FRI Europe/Berlin", "--", "echo")
	})
}

func TestAWallTimeIsAnInstantByTheRuleOfCron(t *testing.T) {
	for _, c := range []struct{ zone, wall, want, note string }{
		{"Europe/Berlin", "2026-07-01 12:00", "2026-07-01T12:00:00+02:00", ""},
		{"Europe/Berlin", "2026-03-29 01:59:59", "2026-03-29T01:59:59+01:00", ""},
		{
			"Europe/Berlin", "2026-03-29 02:00", "2026-03-29T03:00:00+02:00",
			"the clocks of Europe/Berlin skip 2026-03-29 02:00; it is taken as 03:00:00 CEST",
		},
		{
			"Europe/Berlin", "2026-03-29 02:59:59", "2026-03-29T03:00:00+02:00",
			"the clocks of Europe/Berlin skip 2026-03-29 02:59:59; it is taken as 03:00:00 CEST",
		},
		{"Europe/Berlin", "2026-03-29 03:00", "2026-03-29T03:00:00+02:00", ""},
		{"Europe/Berlin", "2026-10-25 01:59", "2026-10-25T01:59:00+02:00", ""},
		{
			"Europe/Berlin", "2026-10-25 02:00", "2026-10-25T02:00:00+02:00",
			"the clocks of Europe/Berlin show 2026-10-25 02:00 twice; the first is taken, 02:00:00 CEST",
		},
		{"Europe/Berlin", "2026-10-25 03:00", "2026-10-25T03:00:00+01:00", ""},
		{"Europe/Berlin", "2026-07-01 12:00:00.25", "2026-07-01T12:00:00.25+02:00", ""},
		{
			"Pacific/Apia", "2011-12-30 12:00", "2011-12-31T00:00:00+14:00",
			"the clocks of Pacific/Apia skip 2011-12-30 12:00; it is taken as 00:00:00 +14",
		},
		{"Pacific/Kiritimati", "2026-12-31", "2026-12-31T00:00:00+14:00", ""},
		{"Pacific/Pago_Pago", "2028-02-29", "2028-02-29T00:00:00-11:00", ""},
		{"UTC", "2026-01-01", "2026-01-01T00:00:00Z", ""},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		_, wall, err := readTime(c.wall)
		if err != nil {
			t.Fatal(err)
		}
		at, note, err := wall.in(zone)
		if got := at.Format(time.RFC3339Nano); err != nil || got != c.want || note != c.note {
			t.Errorf("%s in %s: %s %q %v, want %s %q", c.wall, c.zone, got, note, err, c.want, c.note)
		}
	}
}

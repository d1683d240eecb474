package main

import (
	"testing"
	"time"
)

func TestRetriedRunsWaitForEachOtherAndAManualRunThatWouldBeSkippedIsRefused(t *testing.T) {
	inHouse(t, "retry", func(h *house) {
		h.carillon(
			"submit", "-q", "--name", "ping", "--every", "10s", "--max-runs", "3", "--max-attempts", "1",
			"--", "fail", "no answer",
		)
		h.later(time.Minute)
		h.carillon("dead", "retry", "--all", "--yes")
		h.later(time.Minute)
		h.carillon("runs", "ping")
		h.carillon("submit", "-q", "--name", "slow", "--", "sleep", "1h")
		h.later(time.Second)
		h.carillon("run", "--now", "slow")
		h.carillon("retry", "slow")
		h.carillon("submit", "-q", "--name", "import", "--retry-delay", "1h", "--", "fail", "no such table")
		h.later(time.Second)
		h.carillon("run", "--now", "import")
		h.carillon("retry", "import")
		h.later(time.Second)
		h.carillon("runs", "import")
	})
}

func TestAFieldThatIsGivenSaysSomething(t *testing.T) {
	inHouse(t, "given", func(h *house) {
		h.carillon("submit", "--cron", "", "--", "echo")
		h.carillon("submit", "--every", "0", "--", "echo")
		h.carillon("submit", "--every", "1m", "--max-runs", "0", "--", "echo")
		h.carillon("submit", "--name", "", "--", "echo")
		h.carillon("submit", "--starts-at", "", "--every", "1m", "--", "echo")
		h.in = "target: {command: {argv: [echo]}}\nschedule: {cron: \"\"}\n"
		h.carillon("submit", "-f", "-")
		h.carillon(
			"submit", "-q", "--name", "a", "--cron", "0 3 * * *", "--tz", "Europe/Berlin", "--max-runs", "3",
			"--starts-at", "2027-03-26", "--ends-at", "2028-03-26", "--", "echo",
		)
		h.carillon("edit", "a", "--starts-at", "", "--ends-at", "", "--max-runs", "", "--tz", "")
		h.carillon("job", "a")
	})
}

func TestAfterItsEndAJobCanBeEditedButForItsSchedule(t *testing.T) {
	inHouse(t, "ended", func(h *house) {
		h.carillon(
			"submit", "-q", "--name", "a", "--every", "1m", "--ends-at", "2026-03-28 12:05", "--", "echo",
		)
		h.later(10 * time.Minute)
		h.carillon("edit", "a", "--name", "b", "--max-attempts", "7")
		h.carillon("edit", "b", "--every", "2m")
		h.carillon("edit", "b", "--ends-at", "2026-03-28 12:30")
	})
}

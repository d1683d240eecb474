package main

import (
	"testing"
	"time"
)

func TestRetriedRunsWaitForEachOtherAndAManualRunThatWouldBeSkippedIsRefused(t *testing.T) {
	inHouse(t, "retry", func(h *house) {
		h.carillon("submit", "-q", "--name", "ping", "--every", "10s", "--max-runs", "3", "--max-attempts", "1", "--", "fail", "no answer")
		h.later(time.Minute)
		h.carillon("dead", "retry", "--all")
		h.later(time.Minute)
		h.carillon("runs", "ping")
		h.carillon("submit", "-q", "--name", "slow", "--", "sleep", "1h")
		h.later(time.Second)
		h.carillon("run", "--now", "slow")
	})
}

package main

import (
	"testing"
	"time"
)

func TestFailuresAreExplained(t *testing.T) {
	inHouse(t, "failures", func(h *house) {
		h.in = "name: import\nschedule: {every: 1m}\npause_after: 2\ntarget: {command: {argv: [fail, no]}}\n" +
			"retry: {max_attempts: 1, jitter: 0, rules: [{exit: [1], after: 10s, max_attempts: 2}, " +
			"{status: 4xx, fatal: true}]}\n"
		h.carillon("submit", "-q", "-f", "-")
		h.later(10 * time.Minute)
		h.carillon("job", "import")
		h.carillon("run", "import")
		h.carillon("resume", "import")
		h.carillon("job", "import")
		h.carillon("edit", "import", "--retry-rule", "", "--pause-after", "0")
		h.carillon("job", "import")
		h.carillon("submit", "--retry-rule", "exit=1,fatal,retry", "--", "true")
		h.carillon("submit", "--retry-rule", "fatal,match=(", "--", "true")
		h.carillon("submit", "--retry-rule", "code=1", "--", "true")
	})
}

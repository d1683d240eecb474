package main

import (
	"testing"
	"time"
)

func TestFailuresAreExplained(t *testing.T) {
	inHouse(t, "failures", func(h *house) {
		// So short a delay that the jitter, which is random, adds less than the millisecond that is shown.
		h.carillon(
			"submit", "-q", "--name", "import", "--every", "1m", "--pause-after", "2", "--max-attempts", "1",
			"--retry-rule", "exit=1,after=4ms,max_attempts=2", "--retry-rule", "status=4xx,fatal",
			"--", "fail", "no",
		)
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

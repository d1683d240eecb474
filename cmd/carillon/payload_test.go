package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestARunNowTakesAPayloadForItself(t *testing.T) {
	file := filepath.Join(t.TempDir(), "payload.json")
	writeTestFile(t, file, `{"from":"file"}`)
	inHouse(t, "payload", func(h *house) {
		h.carillon(
			"submit", "-q", "--name", "report", "--payload", `{"month":"this"}`, "--cron", "@daily", "--",
			"cat",
		)
		run := idIn(h.carillon("run", "--now", "report", "--payload", `{"month": "2026-03"}`), "run_")
		h.later(10 * time.Second)
		h.carillon("logs", run)
		h.carillon("run", run)
		h.carillon("retry", run, "--wait")
		h.carillon("run", "--now", "report", "--wait")
		h.in = "[1, 2]"
		h.carillon("run", "--now", "report", "--payload", "-", "--wait")
		if out, code := h.run("run", "--now", "report", "--payload", "@"+file, "--wait"); code != 0 ||
			!strings.Contains(out, `{"from":"file"}`) {
			t.Errorf("%d: %s", code, out)
		}
		h.carillon("run", "--now", "report", "--payload", "null")
		h.later(10 * time.Second)
		h.carillon("run", "report")
		h.carillon("run", "--now", "report", "--payload", "{")
		h.carillon("run", "--now", "report", "--payload", "")
		h.carillon("run", "report", "--payload", "{}")
	})
}

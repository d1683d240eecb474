package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestFlagsThatChooseJobsBeginAnOperation(t *testing.T) {
	inHouse(t, "operations", func(h *house) {
		var jobs []string
		for i := range 12 {
			kind := []string{"report.day", "report.week", "mail"}[i%3]
			jobs = append(jobs, fmt.Sprintf(
				`{"name":"%s-%d","type":"%s","owner":"%s","labels":{"team":"%s"},"schedule":{"every":"1h"},`+
					`"target":{"command":{"argv":["sleep","3h"]}}}`,
				kind, i, kind, []string{"ann", "bob"}[i%2], []string{"blue", "red"}[i/6],
			))
		}
		h.in = strings.Join(jobs, "\n")
		h.carillon("submit", "-q", "-f", "-")
		h.in = ""
		h.carillon("operations")
		h.carillon("pause", "--type", "report.*", "--dry-run")
		h.carillon(
			"pause", "--type", "report.*", "--owner", "ann", "--label", "team=red", "--dry-run", "-o", "json",
		)
		h.carillon("pause", "--type", "report.*")
		h.carillon("pause", "--type", "nothing", "--dry-run")
		h.carillon("pause", "--type", "report.*", "--yes")
		h.carillon("jobs", "--status", "paused")
		op := idIn(h.carillon("resume", "--all", "--rate", "1", "--yes", "--no-wait"), "op_")
		h.later(3 * time.Second)
		h.carillon("operations", op)
		h.carillon("operations", "cancel", op)
		h.carillon("operations", op, "-o", "json")
		h.carillon("run", "--name", "report.day-*", "--yes")
		h.carillon("run", "--name", "report.day-*", "--yes") // the policy is skip, and the runs have not ended
		h.interrupt(2500*time.Millisecond, "cancel", "--all", "--keep-running", "--rate", "2", "--yes")
		h.carillon("operations", "--state", "counting,running")
		h.carillon("operations")
		h.carillon("operations", "--state", "idle")
		h.carillon("operations", "--limit", "1", "-o", "json")
		h.carillon("operations", "cancel", "op_0f8j2v5r3c000")
		h.carillon("operations", "report")
		h.carillon("operations", op, "--state", "done")
	})
}

func TestWrongFlagsThatChooseJobs(t *testing.T) {
	inHouse(t, "operations-errors", func(h *house) {
		h.carillon("pause")
		h.carillon("pause", "report", "--type", "mail")
		h.carillon("pause", "report", "--dry-run")
		h.carillon("pause", "--rate", "5")
		h.carillon("pause", "--type", "", "--yes")
		h.carillon("pause", "--all", "--status", "", "--yes")
		h.carillon("pause", "--label", "team", "--yes")
		h.carillon("pause", "--all", "--type", "mail", "--yes")
		h.carillon("resume", "--all", "--status", "active", "--yes")
		h.carillon("resume", "--all", "--status", "idle", "--yes")
		h.carillon("run", "--all", "--payload", "{}", "--yes")
		h.carillon("run", "--all", "--rate", "-5", "--yes")
		h.carillon("operations", "--wait")
		h.carillon("operations", "a", "b")
		h.carillon("operations", "cancel")
	})
}

func TestAPersonIsAskedBeforeAnOperationBegins(t *testing.T) {
	inHouse(t, "", func(h *house) {
		for range 2 {
			h.run("submit", "--name", "hourly", "--every", "1h", "--", "echo")
		}
		h.app.inTerminal, h.app.errTerminal = true, true
		h.in = "n\n"
		out, code := h.run("cancel", "--all")
		if !strings.Contains(out, "Cancel 2 jobs? [y/N] ") || !strings.Contains(out, "nothing was done") ||
			code != exitFailed {
			t.Errorf("exit code %d:\n%s", code, out)
		}
		if out, _ := h.run("operations"); out != "! no operations\n" {
			t.Errorf("after no:\n%s", out)
		}
		h.in = "y\n"
		out, code = h.run("cancel", "--all")
		if !strings.Contains(out, "done: 2 of 2 jobs canceled") || code != 0 {
			t.Errorf("exit code %d:\n%s", code, out)
		}
		out, code = h.run("cancel", "--all")
		if out != "! no jobs match\n" || code != 0 {
			t.Errorf("without jobs, exit code %d:\n%s", code, out)
		}
		ctx, cancel := context.WithCancel(h.t.Context())
		cancel()
		if out, code := h.runIn(ctx, "run", "--all", "--status", "finished"); code != exitInterrupted {
			t.Errorf("exit code %d:\n%s", code, out)
		}
	})
}

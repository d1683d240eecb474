package main

import (
	"strings"
	"testing"
	"time"
)

func TestAJobSaysTheSameAloneAsInTheList(t *testing.T) {
	inHouse(t, "alike", func(h *house) {
		h.in = "name: hourly\nschedule: {every: 1h}\nretry: {delay: 10m, jitter: 0}\ntarget: {command: {argv: [fail, no]}}\n"
		h.carillon("submit", "-q", "-f", "-")
		h.later(time.Hour + time.Minute)
		h.carillon("jobs")
		h.carillon("job", "hourly")
		h.carillon("submit", "-q", "--name", "long", "--overlap", "queue_all", "--", "sleep", "1h")
		h.later(time.Second)
		h.carillon("run", "--now", "long")
		h.carillon("run", "--now", "long")
		h.later(3 * time.Second)
		h.carillon("jobs", "--name", "long")
		h.carillon("job", "long")
	})
}

func TestAnswersAreWhatTheHelpSays(t *testing.T) {
	inHouse(t, "answers", func(h *house) {
		h.carillon("submit", "--wait", "-q", "--", "echo", "hi")
		h.carillon("submit", "--wait", "-q", "--max-attempts", "1", "--", "fail", "no")
		h.in = `[{"name":"only","target":{"command":{"argv":["echo"]}}}]`
		h.carillon("submit", "-f", "-", "-q")
		h.carillon("submit", "-f", "-", "-o", "json")
		h.in = "- name: only\n  target: {command: {argv: [echo]}}\n"
		h.carillon("submit", "-f", "-")
		h.in = "name: a\n\tb: c\n"
		h.carillon("submit", "-f", "-")
		h.carillon(
			"submit", "-q", "--name", "import", "--max-attempts", "1", "--every", "1m", "--max-runs", "2",
			"--", "fail", "no",
		)
		h.carillon("dead", "retry", "import")
		h.later(3 * time.Minute)
		h.carillon("dead")
		h.carillon("dead", "retry", "import")
		h.carillon("dead", "retry", "nosuch")
		h.carillon("logs", "import", "--tail", "0")
		h.carillon("logs", "import", "--tail", "0", "-o", "json")
		h.carillon("logs", "import", "--tail", "0", "-f")
		h.carillon("help", "nosuch")
		h.carillon("help", "job", "nosuch")
		h.carillon("jobs", "foo")
		h.carillon("version", "foo")
	})
}

func TestTheHelpOfACommandIsFound(t *testing.T) {
	a, out := offline()
	a.out = out
	if code := a.run(t.Context(), []string{"help", "dead", "retry"}); code != 0 ||
		!strings.Contains(out.String(), "carillon dead retry {RUN | JOB}") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func TestALogWithoutLinesSaysSoOnATerminal(t *testing.T) {
	inHouse(t, "", func(h *house) {
		h.run("submit", "-q", "--name", "later", "--after", "1h", "--", "echo")
		if got := h.output("logs", "later"); got != "" {
			t.Errorf("to a file: %q", got)
		}
		h.app.errTerminal = true
		if got := h.output("logs", "later"); !strings.HasPrefix(got, "! run_") {
			t.Errorf("on a terminal: %q", got)
		}
	})
}

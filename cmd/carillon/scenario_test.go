package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

// idIn finds the first id with a prefix in the output of a command.
func idIn(out, prefix string) string {
	_, rest, _ := strings.Cut(out, prefix)
	end := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'z') })
	if end < 0 {
		end = len(rest)
	}
	return prefix + rest[:end]
}

func TestAOneTimeJobFromSubmitToLog(t *testing.T) {
	inHouse(t, "one-time", func(h *house) {
		h.carillon("jobs")
		job := idIn(
			h.carillon(
				"submit", "--name", "hello", "--after", "2s", "--label", "team=blue", "--label", "env=prod",
				"--", "echo", "hello", "world",
			),
			"job_",
		)
		h.carillon("jobs")
		h.carillon("job", job)
		h.carillon("runs", "hello")
		h.later(3 * time.Second)
		h.carillon("job", "hello")
		run := idIn(h.carillon("runs"), "run_")
		h.carillon("run", run)
		h.carillon("run", run, "-o", "json")
		h.carillon("logs", run)
		h.carillon("logs", "hello", "--timestamps")
		h.carillon("logs", "hello", "-o", "json")
		h.carillon("logs", "hello", "-f", "-o", "yaml")
		h.carillon("job", "hello", "-o", "yaml")
		h.carillon(
			"jobs", "--status", "finished,succeeded", "--label", "team=blue", "--created-from", "1h", "-o",
			"json",
		)
		h.carillon("jobs", "--status", "failed")
		h.carillon("jobs", "--label", "team=red", "--label", "env=prod")
		h.carillon("jobs", "--label", "team=blue", "--label", "env=prod")
		h.carillon("retry", run)
	})
}

func TestAUniqueKeyOnTheCommandLine(t *testing.T) {
	inHouse(t, "unique", func(h *house) {
		submit := func(name string, flags ...string) {
			h.carillon(append(append(
				[]string{"submit", "--name", name, "--unique", "invoice-42"}, flags...,
			), "--", "echo", name)...)
		}
		submit("first", "--after", "1h")
		submit("second", "--after", "1h")
		submit("third", "--after", "2h", "--on-conflict", "replace")
		submit("fourth", "--on-conflict", "refuse")
		submit("fifth", "--on-conflict", "drop")
		submit("sixth", "--unique-for", "10 minutes")
		h.carillon("job", "third")
		h.carillon("edit", "third", "--on-conflict", "refuse")
		h.in = `[{"target":{"command":{"argv":["echo"]}},"unique":{"key":"invoice-42"}},{"target":{"command":{"argv":["echo"]}},
			"unique":{"key":"b","for":"10m"},"name":"b"}]`
		h.carillon("submit", "-f", "-")
		h.in = `[{"name":"x","target":{"command":{"argv":["echo"]}}},
{"target":{"command":{"argv":["echo"]}},"unique":{"key":"b","on_conflict":"refuse"}}]`
		h.carillon("submit", "-f", "-")
		h.carillon("cancel", "third")
		submit("last", "--wait")
		submit("once more", "--wait", "--unique-for", "1h")
	})
}

func TestLogsOfSeveralAttemptsAndRuns(t *testing.T) {
	inHouse(t, "logs", func(h *house) {
		h.in = `{"name":"flaky","retry":{"max_attempts":3,"backoff":"fixed","delay":"5s","jitter":0},"target":{"command":{"argv":["fail","no such host"]}}}`
		h.carillon("submit", "-f", "-")
		h.in = ""
		h.carillon("logs", "-f", "flaky")
		h.carillon("logs", "flaky", "--attempt", "2")
		h.carillon("logs", "flaky", "-n", "1")
		h.carillon("logs", "flaky", "--tail", "2", "--timestamps")
		h.carillon("logs", "flaky", "--since", "4s")
		h.carillon("logs", "flaky", "--since", "2026-03-28T12:00:03+01:00", "--tail", "1", "-o", "json")
		h.carillon("logs", "flaky", "--tail", "-1")
		h.carillon("logs", "flaky", "--since", "yesterday")
		h.carillon("submit", "--name", "tick", "--every", "1m", "--max-runs", "3", "--", "echo", "tick")
		h.later(90 * time.Second)
		h.carillon("logs", "-f", "tick") // its next runs, too, until it has no more
		h.carillon("logs", "tick")
	})
}

func TestARecurringJobIsHeldEditedAndCanceled(t *testing.T) {
	inHouse(t, "recurring", func(h *house) {
		h.carillon("submit", "--name", "report", "--cron", "30 2 * * *", "--tz", "Europe/Berlin", "--owner",
			"billing",
			"--env", "LEVEL=info", "--timeout", "10m", "--", "echo", "it's done")
		h.carillon("next", "report", "-n", "3")
		h.carillon("next", "report", "-n", "1", "-o", "json")
		h.carillon("pause", "report")
		h.carillon("pause", "report")
		h.carillon("runs", "report")
		h.carillon("resume", "report")
		h.carillon(
			"edit", "report", "--priority", "9", "--cron", "0 4 * * MON-FRI", "--label", "team=blue", "--env",
			"LEVEL-", "--env", "TRACE=1",
		)
		h.carillon("edit", "report", "--label", "team-", "--", "echo", "better")
		h.carillon("edit", "report")
		h.carillon("edit", "report", "--every", "10m", "--max-runs", "5")
		h.carillon("job", "report")
		h.carillon("run", "--now", "report")
		h.later(time.Second)
		h.carillon("run", "--now", "report", "--wait")
		h.carillon("cancel", "report", "--keep-running")
		h.carillon("cancel", "report")
		h.carillon("next", "report")
		h.carillon("jobs")
	})
}

func TestARunThatFailsForGoodIsADeadLetter(t *testing.T) {
	inHouse(t, "dead", func(h *house) {
		h.carillon(
			"submit", "--wait", "--name", "import", "--max-attempts", "1", "--", "fail", "no such table",
		)
		h.in = "{name: sync, target: {command: {argv: [fail, no route to host]}}, retry: {max_attempts: 2, delay: 1s, jitter: 0}}"
		h.carillon("submit", "-q", "-f", "-")
		h.later(10 * time.Second)
		out := h.carillon("dead")
		h.carillon("dead", "retry")
		h.carillon("dead", "retry", idIn(out, "run_"))
		h.later(10 * time.Second)
		h.carillon("runs", "--state", "failed", "--limit", "1")
		h.carillon("cancel", "import")
		h.carillon("dead", "retry", "--all")
		h.carillon("dead", "retry", "--all", "--yes")
		h.carillon("dead", "-o", "yaml", "--limit", "0")
	})
}

func TestDeadLettersAreChosenGroupedShownAndExported(t *testing.T) {
	inHouse(t, "dead-letters", func(h *house) {
		for i := range 3 {
			h.carillon(
				"submit", "-q", "--name", fmt.Sprint("import-", i), "--type", "import", "--owner", "ann",
				"--label", "team=blue", "--max-attempts", "1", "--payload", fmt.Sprintf(`{"month":%d}`, i),
				"--", "fail", fmt.Sprintf("open /data/%d.csv: no such file", i),
			)
		}
		h.in = "{name: sync, target: {command: {argv: [fail, no route]}}, retry: {max_attempts: 1}, " +
			"retention: {dead_letters: 2d}, payload: {region: eu}}"
		h.carillon("submit", "-q", "-f", "-")
		h.in = ""
		h.later(5 * time.Second)
		h.carillon("dead", "groups")
		h.carillon("dead", "groups", "--type", "import", "-o", "json")
		h.carillon("dead", "--type", "imp*", "--owner", "ann", "--label", "team=blue", "--error", "EXIT")
		h.carillon("dead", "--job", "sync", "-o", "wide")
		h.carillon("dead", "--from", "2024-01-01", "--to", "2024-01-02")
		h.carillon("dead", "--fingerprint", "x")
		h.carillon("dead", "--owner", "")
		h.carillon("dead", "show", "sync")
		h.carillon("dead", "show", "import-1", "-o", "json")
		h.carillon("dead", "export", "--job", "import-2")
		out := h.carillon("dead", "--job", "import-0")
		old := idIn(out, "run_")
		h.carillon("dead", "retry", old, "--payload", `{"month":7}`)
		h.later(5 * time.Second)
		h.carillon("run", old)
		h.carillon("run", "import-0")
		h.carillon("dead", "retry", "--type", "import", "--dry-run")
		h.carillon("dead", "retry", "--type", "import", "--rate", "2", "--yes")
		h.carillon("operations")
		h.carillon("operations", idIn(h.carillon("operations", "-o", "json"), "op_"))
		h.carillon("dead", "retry", "--type", "import", "--payload", "1", "--yes")
		h.carillon("dead", "retry", "import-1", "--yes")
		h.carillon("dead", "retry", "import-1", "--all")
		h.carillon("dead", "retry", "--type", "none", "--yes")
	})
}

func TestANameMeansTheJobThatIsNotOver(t *testing.T) {
	inHouse(t, "names", func(h *house) {
		// The banner of the server and the README both submit a job named hello.
		h.carillon("submit", "--name", "hello", "--after", "2s", "--", "echo", "first")
		h.later(5 * time.Second)
		h.carillon("submit", "--name", "hello", "--after", "2s", "--", "echo", "second")
		h.carillon("runs", "hello")
		h.later(5 * time.Second)
		h.carillon("logs", "hello")
		h.carillon("submit", "-q", "--name", "hello", "--cron", "@daily", "--", "echo", "a")
		twin := idIn(
			h.carillon("submit", "-q", "--name", "hello", "--every", "5m", "--", "echo", "b"), "job_",
		)
		h.carillon("pause", twin)
		h.carillon("cancel", "hello")
		h.carillon("cancel", twin)
		h.carillon("next", "hello", "-n", "1")
		h.carillon("cancel", "hello")
		h.carillon("run", "--now", "hello")
	})
}

func TestANameCanBeginLikeAnID(t *testing.T) {
	inHouse(t, "ids", func(h *house) {
		h.carillon("submit", "-q", "--name", "run_backup", "--every", "1h", "--", "echo", "a")
		h.carillon("submit", "-q", "--name", "job_1", "--every", "1h", "--", "echo", "b")
		h.carillon("next", "run_backup", "-n", "1")
		h.carillon("pause", "job_1")
		h.carillon("run", "run_backup")
		h.carillon("cancel", "run_backup")
		h.carillon("job", "job_2")
		h.carillon("logs", "run_2")
		h.carillon("submit", "--name", "job_06w1zyvjw0000", "--", "date")
	})
}

func TestSeveralJobsAtOnce(t *testing.T) {
	inHouse(t, "several", func(h *house) {
		a := idIn(h.carillon("submit", "-q", "--name", "a", "--every", "1h", "--", "echo"), "job_")
		h.carillon("submit", "-q", "--name", "b", "--every", "1h", "--", "echo")
		h.carillon("pause", a, "b", "c")
		h.carillon("resume", a, "b", "-o", "json")
		h.carillon("submit", "-q", "--name", "slow", "--", "sleep", "1h")
		h.later(time.Second)
		h.carillon("cancel", idIn(h.carillon("runs", "slow"), "run_"), "b", a)
		h.carillon("cancel")
		h.carillon("__complete", "cancel", "x", "job_")
	})
}

func TestWhatAPersonMayHaveMeantOtherwise(t *testing.T) {
	inHouse(t, "meant", func(h *house) {
		h.carillon("submit", "--at", "2020-01-01", "--", "date")
		h.carillon("submit", "-q", "--at", "2020-01-01", "--late", "--", "date")
		h.carillon("submit", "-q", "--at", "2026-03-28 11:59:30", "--", "date")
		h.in = "name: old\nschedule:\n  at: 2020-01-01T00:00:00Z\ntarget: {command: {argv: [date]}}\n"
		h.carillon("submit", "-q", "-f", "-")
		h.carillon("submit", "-q", "-f", "-", "--late")
		h.carillon("submit", "-q", "echo", "hi", "--name", "foo")
		h.carillon("submit", "-q", "--", "echo", "hi", "--name", "foo")
		h.carillon("submit", "-q", "ls", "--color", "-f")
		h.carillon("submit", "-q", "--name", "later", "--at", "2026-03-29 09:00", "--", "date")
		h.carillon("edit", "later", "--at", "2025-03-29 09:00")
		h.carillon(
			"edit", "later", "--at", "2026-03-30 09:00", "--priority", "9", "--label", "a=b", "--payload",
			`{"n":1}`,
		)
		h.carillon("edit", "later", "--priority", "9")
		h.in = "name: flaky\ntarget: {command: {argv: [fail, no]}}\nretry: {delay: 5m, jitter: 0}\n"
		h.carillon("submit", "-q", "-f", "-")
		h.later(time.Second)
		h.carillon("job", "flaky")
		h.carillon("run", "flaky")
		h.carillon("jobs", "--name", "flaky")
	})
}

func TestWaitingForARun(t *testing.T) {
	inHouse(t, "wait", func(h *house) {
		h.carillon("submit", "--wait", "--name", "good", "--after", "90s", "--", "echo", "at last")
		h.carillon("submit", "--wait", "-o", "json", "--name", "json", "--", "echo", "to standard error")
		h.carillon("submit", "--name", "slow", "--", "sleep", "1h")
		h.later(time.Second)
		h.carillon("run", "slow")
		h.carillon("cancel", "--keep-running", idIn(h.carillon("runs", "slow"), "run_"))
		h.carillon("cancel", idIn(h.carillon("runs", "slow"), "run_"))
		h.later(2 * time.Second)
		h.carillon("run", "slow")
		h.carillon("cancel", idIn(h.carillon("runs", "slow"), "run_"))
		h.carillon("retry", "good", "--wait")
		h.in = "name: flaky\ntarget: {command: {argv: [fail, no]}}\nretry: {max_attempts: 2, delay: 5m, jitter: 0}\n"
		h.carillon("submit", "-f", "-", "--wait")
		h.in = "name: quick\ntarget: {command: {argv: [fail, no]}}\nretry: {max_attempts: 3, delay: 10ms, jitter: 0}\n"
		h.carillon("submit", "-f", "-", "--wait")
		h.carillon(
			"submit", "--cron", "10 12 * * *", "--tz", "Europe/Berlin", "--wait", "--", "echo", "at noon",
		)
		h.carillon("run", "flaky")
	})
}

func TestAnInterruptedWaitSaysThatTheRunGoesOn(t *testing.T) {
	inHouse(t, "interrupted", func(h *house) {
		h.interrupt(3500*time.Millisecond, "submit", "--name", "slow", "--wait", "--", "sleep", "1m")
		h.carillon("submit", "-q", "--name", "held", "--every", "1h", "--", "date")
		h.carillon("pause", "held")
		h.interrupt(3500*time.Millisecond, "run", "--now", "held", "--wait")
	})
}

func TestAWaitSaysEachThingOnce(t *testing.T) {
	a, out := offline()
	a.err = out
	now := carillon.TimeOf(a.now())
	id := carillon.RunID{Job: 1, Due: now.Add(time.Hour)}
	run := client.RunDetail{
		Run:      carillon.Run{ID: id, State: carillon.StateWaiting, Wake: id.Due},
		WaitsFor: &client.Wait{Kind: client.WaitTime, Until: id.Due},
	}
	w := watcher{a: a}
	w.tell(&run)
	w.tell(&run)
	run.Wake, run.WaitsFor = now, &client.Wait{
		Kind: client.WaitSlot, Text: "all 3 slots are taken; 2 due runs come before it",
	}
	w.tell(&run)
	run.WaitsFor.Text = "all 3 slots are taken; it is the next of its queue"
	w.tell(&run)
	run.State, run.Attempt, run.WaitsFor = carillon.StateClaimed, 1, nil
	w.tell(&run)
	run.State, run.Failures, run.Reason, run.Wake = carillon.StateWaiting, 1, "exit code 1", now.Add(
		5*time.Minute,
	)
	run.WaitsFor = &client.Wait{Kind: client.WaitTime, Until: run.Wake}
	w.tell(&run)
	w.tell(&run)
	run.State, run.Attempt, run.Losses, run.Reason, run.WaitsFor = carillon.StateRunning, 3, 1, "", nil
	w.tell(&run)
	run.State, run.Losses, run.Reason = carillon.StateWaiting, 2, "example.com:443 gets no request"
	run.WaitsFor = &client.Wait{Kind: client.WaitTime, Until: run.Wake}
	w.tell(&run)
	run.WaitsFor = &client.Wait{
		Kind: client.WaitResume, Text: "it waits until its job is resumed",
	}
	w.tell(&run)
	if diff := cmp.Diff(`carillon: waiting for RUN, due 2026-03-26 13:00:00 UTC (in 1h)
carillon: all 3 slots are taken; 2 due runs come before it
carillon: attempt 1 failed: exit code 1; next attempt at 2026-03-26 12:05:00 UTC (in 5m)
carillon: attempt 2 ended without a result; attempt 3 has begun
carillon: attempt 3 ended without a result: example.com:443 gets no request; next attempt at 2026-03-26 12:05:00 UTC (in 5m)
carillon: it waits until its job is resumed
`, strings.ReplaceAll(out.String(), id.String(), "RUN")); diff != "" {
		t.Error(diff)
	}
}

func TestJobsFromAFile(t *testing.T) {
	inHouse(t, "file", func(h *house) {
		h.in = "name: one\ntarget: {command: {argv: [echo, one]}}\nschedule: {at: 2026-03-28T13:00:00+01:00}\n"
		h.carillon("submit", "-f", "-")
		h.in = `[{"name":"two","target":{"handler":{}},"type":"demo","schedule":{"every":"30s"}},{"name":"three","target":{"http":{"url":"https://example.com"}}}]`
		h.carillon("submit", "-f", "-")
		h.in = "name: four\ntarget: {command: {shell: date}}\n---\n- name: five\n  target: {command: {agrv: [date]}}\n"
		h.carillon("submit", "-f", "-")
		h.carillon("submit", "-f", "-", "--name", "six")
		h.in = "name: [\n"
		h.carillon("submit", "-f", "-")
		h.in = "max: .inf\n"
		h.carillon("submit", "-f", "-")
		h.in = ""
		h.carillon("submit", "-f", "-")
		h.carillon("submit", "-f", "missing.yaml")
		h.carillon("jobs", "--type", "demo")
	})
}

func TestErrorsAreOneLineAndHaveACode(t *testing.T) {
	inHouse(t, "errors", func(h *house) {
		h.carillon("submit")
		h.carillon("submit", "--shell", "date", "--", "date")
		h.carillon("submit", "--handler", "--env", "A=b")
		h.carillon("submit", "--every", "soon", "--", "date")
		h.carillon("submit", "--at", "tomorrow", "--", "date")
		h.carillon("submit", "--label", "blue", "--", "date")
		h.carillon("submit", "--env", "A=b", "--env", "A=c", "--", "date")
		h.carillon("submit", "--cron", "@daily", "--cron", "@hourly", "--", "date")
		h.carillon("jobs", "--owner", "a", "--owner", "b")
		h.carillon("submit", "--payload", "{", "--", "date")
		h.carillon("submit", "--cron", "61 * * * *", "--", "date")
		h.carillon("submit", "--every", "1ms", "--", "date")
		h.carillon("job")
		h.carillon("job", "unknown")
		h.carillon("job", "job_0000000000001")
		h.carillon("job", "job_1")
		h.carillon("run", "run_1")
		h.carillon("pause", "run_00000000000010000000001")
		h.carillon("logs", "run_00000000000010000000001")
		h.carillon("jobs", "--status", "happy")
		h.carillon("jobs", "--created-to", "soon")
		h.carillon("jobs", "-o", "xml")
		h.carillon("runs", "--state", "happy")
		h.carillon("fly")
		h.carillon("subimt")
		h.carillon("jobs", "--fly")
		h.carillon("submit", "--nmae", "x", "--", "date")
		h.carillon("submit", "--cron", "@daily", "--tz", "europe/berlin", "--", "date")
		h.in = "name: twin\ntarget: {command: {argv: [echo]}}\n---\nname: twin\ntarget: {command: {argv: [echo]}}\n"
		h.carillon("submit", "-q", "-f", "-")
		h.later(time.Second)
		h.carillon("pause", "twin")
		h.carillon("jobs", "--limit", "1")
		h.carillon("jobs", "--token", "wrong")
		h.carillon("jobs", "--token", "wrong", "--server", "127.0.0.1:8420")
		h.env["CARILLON_DATA"] = "elsewhere"
		h.carillon("jobs", "--server", "carillon.test")
	})
}

func TestCompletionAsksTheServer(t *testing.T) {
	inHouse(t, "completion", func(h *house) {
		h.carillon("submit", "-q", "--name", "alpha", "--every", "1h", "--", "echo", "a")
		h.carillon("submit", "-q", "--name", "beta", "--", "echo", "b")
		h.later(time.Second)
		h.carillon("__complete", "job", "")
		h.carillon("__complete", "pause", "job_")
		h.carillon("__complete", "logs", "run_")
		h.carillon("__complete", "job", "x")
		h.carillon("__complete", "job", "job_0", "")
		h.carillon("__complete", "jobs", "--status", "f")
		h.carillon("__complete", "-o", "")
		for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
			if out, code := h.run("completion", shell); code != 0 || !strings.Contains(out, "carillon") {
				t.Errorf("completion %s: exit code %d, %d bytes", shell, code, len(out))
			}
		}
	})
}

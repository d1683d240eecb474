package check

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// works is what a body writes that begins at a time and takes a moment.
func works(from float64) string { return fmt.Sprintf("START %g END %g", from, from+0.05) }

// each is a job whose two runs by the clock both ran.
func each(seconds ...float64) func(h *History) {
	return func(h *History) {
		for _, s := range seconds {
			h.Records = append(h.Records, ended(run(1, s), succeeded, 1, 0, 0))
			body{run: run(1, s), attempt: 1, claimed: s, process: 7, says: works(s)}.add(h)
		}
	}
}

// TestEachBrokenPromiseIsFound has a small history for every way to break a promise, and some that break
// none.
func TestEachBrokenPromiseIsFound(t *testing.T) {
	redriven := Record{ID: run(1, 5), State: succeeded, Covers: first.Due, RetryOf: first.Due, Attempt: 1}
	manual := Record{ID: run(1, 1.5), State: succeeded, Attempt: 1}
	missing := because(ended(run(1, 1), skipped, 0, 0, 0), "missed: "+run(1, 2).String()+" runs in its place")
	long := ended(run(1, 1), succeeded, 1, 0, 0)
	long.Until = at(2).Wall
	for _, c := range []struct {
		name  string
		parts []func(h *History)
		want  Promise // empty: none is broken
	}{
		{"a clean one-off", of(job(once, 0), bodies(good), ran), ""},
		{"a clean recurring job", of(job(twice, 0), each(1, 2)), ""},
		{"a run that was missed", of(job(twice, 0), each(2, 3), records(missing)), ""},
		{"no record", of(job(once, 0), bodies(good)), PromiseLost},
		{"a success that no witness saw", of(job(once, 0), ran), PromiseLost},
		{
			"a run that does not end",
			of(job(once, 0), records(ended(first, carillon.StateWaiting, 0, 0, 0))),
			PromiseLost,
		},
		{"an answered submit without a job", of(said(VerbSubmit, AnswerOK, 0)), PromiseLost},
		{"a submit without an answer or a job", of(said(VerbSubmit, AnswerUnknown, 0)), ""},
		{"a schedule that stops", of(job(twice, 0), each(1)), PromiseLost},
		{"a body of an unknown job", of(bodies(good)), PromiseUnaccounted},
		{
			"a body without a record",
			of(
				job(once, 0),
				bodies(good, body{run: run(1, 3), attempt: 1, claimed: 3, says: works(3)}),
				ran,
			),
			PromiseUnaccounted,
		},
		{"a due time without a record", of(job(twice, 0), each(1, 3)), PromiseUnaccounted},
		{
			"a failure that was not asked for",
			of(job(once, 0), bodies(good), records(because(ended(first, failed, 1, 0, 1), "boom"))),
			PromiseUnaccounted,
		},
		{
			"a cancel that was not asked for",
			of(job(once, 0), records(because(ended(first, canceled, 1, 0, 0), "canceled by request"))),
			PromiseUnaccounted,
		},
		{
			"early",
			of(job(once, 0), bodies(body{run: first, attempt: 1, says: "START -0.5 END 0.2"}), ran),
			PromiseEarly,
		},
		{"two records", of(job(once, 0), bodies(good), ran, ran), PromiseOccurrence},
		{"a run off the schedule", of(job(twice, 0), each(1, 1.5)), PromiseOccurrence},
		{"a run too many", of(job(twice, 0), each(1, 2, 3)), PromiseOccurrence},
		{
			"a success that stands for several times",
			of(job(twice, 0), records(long), each(3)),
			PromiseOccurrence,
		},
		{
			"a job that is due later than asked",
			of(job(once, 0), func(h *History) { h.Jobs[0].First += 700 }),
			PromiseOccurrence,
		},
		{
			"a submit that was stored twice",
			of(job(once, 0), job(Job{ID: 2}, 0), func(h *History) { h.Jobs[1].Key = h.Jobs[0].Key }),
			PromiseOccurrence,
		},
		{
			"an attempt too many",
			of(job(once, 0), bodies(good), records(ended(first, succeeded, 2, 0, 0))),
			PromiseRetries,
		},
		{
			"an attempt after the success",
			of(
				job(once, 0),
				bodies(good, body{run: first, attempt: 2, claimed: 1, says: works(1)}),
				ran,
			),
			PromiseRetries,
		},
		{
			"a failure that no witness saw",
			of(
				job(Job{ID: 1, Fails: 1}, 0),
				bodies(body{run: first, attempt: 2, claimed: 0.5, says: works(0.5)}),
				records(ended(first, succeeded, 2, 0, 1)),
			),
			PromiseRetries,
		},
		{
			"a retry too soon",
			of(
				job(Job{ID: 1, Fails: 1, Delay: time.Second}, 0),
				bodies(
					body{run: first, attempt: 1, says: "START 0.1 FAIL 0.2"},
					body{run: first, attempt: 2, claimed: 0.5, says: works(0.5)},
				),
				records(ended(first, succeeded, 2, 0, 1)),
			),
			PromiseRetries,
		},
		{
			"a retry too late",
			of(
				job(Job{ID: 1, Fails: 1, Delay: time.Second}, 0),
				bodies(
					body{run: first, attempt: 1, says: "START 0.1 FAIL 0.2"},
					body{run: first, attempt: 2, claimed: 2.5, says: works(2.5)},
				),
				records(ended(first, succeeded, 2, 0, 1)),
			),
			PromiseRetries,
		},
		{
			"a retry that a fault put off",
			of(
				job(Job{ID: 1, Fails: 1, Delay: time.Second}, 0),
				happened(killing, 0.3, 1),
				bodies(
					body{run: first, attempt: 1, process: 7, says: "START 0.1 FAIL 0.2"},
					body{run: first, attempt: 2, claimed: 5, says: works(5)},
				),
				records(ended(first, succeeded, 2, 0, 1)),
			),
			"",
		},
		{
			"a retry minutes late, with a fault of another worker in between",
			of(
				job(Job{ID: 1, Fails: 1, Delay: time.Second}, 0),
				happened(killing, 100, 101),
				bodies(
					body{run: first, attempt: 1, process: 8, says: "START 0.1 FAIL 0.2"},
					body{run: first, attempt: 2, process: 8, claimed: 120, says: works(120)},
				),
				records(ended(first, succeeded, 2, 0, 1)),
			),
			PromiseRetries,
		},
		{
			"a retry long after the fault that put it off",
			of(
				job(Job{ID: 1, Fails: 1, Delay: time.Second}, 0),
				happened(killing, 0.3, 1),
				bodies(
					body{run: first, attempt: 1, process: 7, says: "START 0.1 FAIL 0.2"},
					body{run: first, attempt: 2, claimed: 20, says: works(20)},
				),
				records(ended(first, succeeded, 2, 0, 1)),
			),
			PromiseRetries,
		},
		{
			"a dead letter and its repetition",
			of(
				job(Job{ID: 1, Fatal: true}, 0),
				said(VerbRedrive, AnswerUnknown, 4),
				bodies(
					body{run: first, attempt: 1, says: "START 0.1 FAIL 0.2"},
					body{run: run(1, 5), attempt: 1, claimed: 5, says: works(5)},
				),
				records(because(ended(first, failed, 1, 0, 1), AskedReason), redriven),
			),
			"",
		},
		{
			"a repetition that no caller asked for",
			of(
				job(once, 0),
				bodies(good, body{run: run(1, 5), attempt: 1, claimed: 5, says: works(5)}),
				ran,
				records(redriven),
			),
			PromiseUnaccounted,
		},
		{
			"a manual run that no caller asked for",
			of(
				job(twice, 0),
				each(1, 2),
				bodies(body{run: manual.ID, attempt: 1, claimed: 1.5, says: works(1.5)}),
				records(manual),
			),
			PromiseUnaccounted,
		},
		{
			"a manual run that is lost",
			of(
				job(twice, 0),
				each(1, 2),
				said(VerbRunNow, AnswerOK, 1.5),
				func(h *History) { h.Commands[1].Run = manual.ID },
			),
			PromiseLost,
		},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, history(c.parts...), c.want) })
	}
}

func TestBrokenPromisesAboutTimeAndFaultsAreFound(t *testing.T) {
	worked := func(attempt int32, from, to string) body {
		return body{run: first, attempt: attempt, process: 7, says: "START " + from + " END " + to}
	}
	canceledAt := func(s float64) func(h *History) { return said(VerbCancel, AnswerOK, s) }
	taken := func(again string) []func(h *History) {
		return of(job(once, 0), happened(killing, 0.5, 1), bodies(
			body{run: first, attempt: 1, process: 7, says: "START 0.1"},
			body{run: first, attempt: 2, claimed: 8, process: 8, says: "START " + again + " END 30"},
		), records(ended(first, succeeded, 2, 1, 0)))
	}
	log := func(lines ...int) func(h *History) {
		return func(h *History) {
			h.Logs = []Log{{Run: first, Attempt: 1}}
			for _, n := range lines {
				h.Logs[0].Lines = append(h.Logs[0].Lines, h.Lines[n].String())
			}
		}
	}
	older := Job{ID: 1, After: time.Second, Every: time.Second, MaxRuns: 2, Overlap: carillon.OverlapAllow}
	node := Fault{Name: "kill", Part: PartNode}
	for _, c := range []struct {
		name  string
		parts []func(h *History)
		want  Promise // empty: none is broken
	}{
		{"a frozen handler that stops when it thaws", of(frozen("10.1")), ""},
		{"a frozen handler that goes on", of(frozen("11")), PromiseConcurrent},
		{
			"an attempt that lives on",
			of(
				job(once, 0),
				bodies(
					body{run: first, attempt: 1, says: "START 0.1 ALIVE 9"},
					body{run: first, attempt: 2, claimed: 8, says: "START 8 END 10"},
				),
				records(ended(first, succeeded, 2, 1, 0)),
			),
			PromiseConcurrent,
		},
		{
			"a lock that is held",
			of(
				job(once, 0),
				bodies(body{run: first, attempt: 1, says: "START 0.1 BUSY 0.1 END 0.2"}),
				ran,
			),
			PromiseConcurrent,
		},
		{
			"two runs that may overlap",
			of(
				job(older, 0),
				bodies(
					body{run: run(1, 1), attempt: 1, claimed: 1, says: "START 1 END 3"},
					body{run: run(1, 2), attempt: 1, claimed: 2, says: "START 2 END 4"},
				),
				records(ended(run(1, 1), succeeded, 1, 0, 0), second),
			),
			"",
		},
		{
			"two runs that may not",
			of(
				job(twice, 0),
				bodies(
					body{run: run(1, 1), attempt: 1, claimed: 1, says: "START 1 END 3"},
					body{run: run(1, 2), attempt: 1, claimed: 2, says: "START 2 END 4"},
				),
				records(ended(run(1, 1), succeeded, 1, 0, 0), second),
			),
			PromiseConcurrent,
		},
		{
			"a stale write that is refused",
			of(
				frozen("10.1"),
				func(h *History) {
					h.Writes = append(h.Writes, Write{Key: 1, Run: first, Attempt: 1, Mono: at(10.1).Mono})
				},
			),
			"",
		},
		{"a stale write that is accepted", of(frozen("10.1"), func(h *History) {
			stale := Write{Key: 1, Run: first, Attempt: 1, Accepted: true, Mono: at(10.1).Mono}
			h.Writes = append(h.Writes, stale)
		}), PromiseStale},
		{
			"a write of the newest attempt that is refused",
			of(job(once, 0), bodies(good), ran, func(h *History) { h.Writes[1].Accepted = false }),
			PromiseStale,
		},
		{"late", of(job(once, 0), bodies(worked(1, "2", "3")), ran), PromiseLate},
		{
			"late after the fault of a node",
			of(job(once, 0), happened(node, -5, -4), bodies(worked(1, "2", "3")), ran),
			"",
		},
		{
			"late long after the fault of a node",
			of(job(once, 0), happened(node, -5, -4), bodies(worked(1, "20", "21")), ran),
			PromiseLate,
		},
		{
			"late after the fault of a worker that did not have it",
			of(job(once, 0), happened(killing, -5, -4), bodies(worked(1, "2", "3")), ran),
			PromiseLate,
		},
		{
			"late after the fault of a worker that had it",
			of(
				job(once, 0),
				happened(killing, -5, -4),
				bodies(worked(2, "2", "3")),
				records(ended(first, succeeded, 2, 1, 0)),
			),
			"",
		},
		{"taken over in time", taken("9"), ""},
		{"taken over too late", taken("12"), PromiseTakeover},
		{
			"claimed after a cancel",
			of(
				job(once, 0),
				canceledAt(0.1),
				bodies(body{run: first, attempt: 1, claimed: 0.5, says: works(0.5)}),
				ran,
			),
			PromiseCommands,
		},
		{
			"begun long after a cancel",
			of(job(once, 0), canceledAt(0.1), happened(node, 0, 1), bodies(worked(1, "5", "6")), ran),
			PromiseCommands,
		},
		{"claimed before a cancel", of(job(once, 0), canceledAt(0.5), bodies(good), ran), ""},
		{
			"claimed in a pause",
			of(
				job(once, 0),
				said(VerbPause, AnswerOK, 0.1),
				said(VerbResume, AnswerOK, 3),
				bodies(body{run: first, attempt: 1, claimed: 1, says: works(1)}),
				ran,
			),
			PromiseCommands,
		},
		{
			"claimed after a pause",
			of(
				job(once, 0),
				said(VerbPause, AnswerOK, 0.1),
				said(VerbResume, AnswerOK, 3),
				bodies(body{run: first, attempt: 1, claimed: 3, says: works(3)}),
				ran,
			),
			"",
		},
		{
			"the old definition after an edit",
			of(
				job(once, 0),
				said(VerbEdit, AnswerOK, 0.1),
				bodies(body{run: first, attempt: 1, claimed: 0.5, says: works(0.5)}),
				ran,
			),
			PromiseCommands,
		},
		{
			"the new definition after an edit",
			of(
				job(once, 0),
				said(VerbEdit, AnswerOK, 0.1),
				bodies(body{run: first, attempt: 1, claimed: 0.5, version: 2, says: works(0.5)}),
				ran,
			),
			"",
		},
		{
			"the new definition before an edit",
			of(
				job(once, 0),
				said(VerbEdit, AnswerOK, 1),
				bodies(body{run: first, attempt: 1, version: 2, says: works(0.5)}),
				ran,
			),
			PromiseCommands,
		},
		{"a whole log", of(job(once, 0), bodies(good), ran, log(0, 1)), ""},
		{"a log without a line", of(job(once, 0), bodies(good), ran, log(0)), PromiseLogs},
		{"a log out of order", of(job(once, 0), bodies(good), ran, log(1, 0)), PromiseLogs},
		{
			"a process that is left",
			of(job(once, 0), bodies(good), ran, func(h *History) { h.Left = []string{"77 sleep"} }),
			PromiseLeaks,
		},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, history(c.parts...), c.want) })
	}
}

func of(list ...func(h *History)) []func(h *History) { return list }

// expect judges a history: it must break the given promise, or none.
func expect(t *testing.T, h *History, want Promise) {
	t.Helper()
	report := Judge(h)
	found := want == ""
	for _, b := range report.Broken {
		found = found || b.Promise == want
		if want == "" {
			t.Errorf("found %s\n%s", b, b.Story)
		}
	}
	if !found {
		t.Errorf("found %v, want %s", report.Broken, want)
	}
	if report.Passed() != (want == "") {
		t.Errorf("passed: %t", report.Passed())
	}
}

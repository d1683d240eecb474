package check

import (
	"testing"

	"github.com/carillon-run/carillon"
)

func TestWhatNodesSayMeanwhileIsTrueAndGoesOnlyForward(t *testing.T) {
	const (
		waiting = carillon.StateWaiting
		claimed = carillon.StateClaimed
		running = carillon.StateRunning
		active  = carillon.JobActive
		paused  = carillon.JobPaused
		over    = carillon.JobFinished
	)
	look := func(seconds float64, state carillon.State, attempt, losses int32) func(h *History) {
		return func(h *History) {
			h.Looks = append(h.Looks, Look{
				Node: "a node", Run: first, RunState: state, Attempt: attempt, Losses: losses, Asked: at(seconds).Mono,
				Answered: at(seconds + 0.01).Mono,
			})
		}
	}
	lookAtJob := func(seconds float64, state carillon.JobState, version int32) func(h *History) {
		return func(h *History) {
			h.Looks = append(h.Looks, Look{
				Node: "a node", Run: carillon.RunID{Job: 1}, JobState: state, Version: version, Asked: at(seconds).Mono,
				Answered: at(seconds + 0.01).Mono,
			})
		}
	}
	lost := join(
		happened(killing, 0.15, 1), records(ended(first, succeeded, 2, 1, 0)),
		bodies(
			body{run: first, attempt: 1, process: 7, says: "START 0.1"},
			body{run: first, attempt: 2, claimed: 8, process: 8, says: "START 8 END 9"},
		),
	)
	clean := join(bodies(good), ran)
	frozenLate := join(
		happened(freezing, 0.05, 10), records(ended(first, succeeded, 2, 1, 0)),
		bodies(
			body{run: first, attempt: 2, claimed: 8, process: 8, says: "START 8 END 9"},
			body{run: first, attempt: 1, process: 7, says: "START 10.05"},
		),
	)
	for _, c := range []struct {
		name  string
		parts []func(h *History)
		want  Promise // empty: none is broken
	}{
		{"nothing odd", of(
			clean, look(0.01, waiting, 0, 0), look(0.1, claimed, 1, 0), look(0.15, running, 1, 0),
			look(0.3, succeeded, 1, 0), lookAtJob(0.1, active, 1), lookAtJob(0.3, over, 1),
		), ""},
		{"a second attempt", of(
			lost, look(0.1, running, 1, 0), look(7, waiting, 1, 1), look(8.1, claimed, 2, 1),
			look(9.5, succeeded, 2, 1),
		), ""},
		{"no such run", of(clean, look(0.01, 0, 0, 0)), PromiseStates},
		{"no such job", of(clean, lookAtJob(0.01, 0, 0)), PromiseStates},
		{"waiting after claimed", of(clean, look(0.01, claimed, 1, 0), look(0.03, waiting, 0, 0)), PromiseStates},
		{
			"two answers at the same time, the older one first",
			of(clean, look(0.02, claimed, 1, 0), look(0.015, waiting, 0, 0)),
			"",
		},
		{"running after its end", of(clean, look(0.3, succeeded, 1, 0), look(0.5, running, 1, 0)), PromiseStates},
		{"waiting although it has begun", of(clean, look(0.15, waiting, 0, 0)), PromiseStates},
		{"the attempt before the one that has begun", of(lost, look(8.5, waiting, 1, 1)), PromiseStates},
		{"succeeded before its body ended", of(clean, look(0.15, succeeded, 1, 0)), PromiseStates},
		{"an end that is not its record", of(clean, look(0.3, canceled, 1, 0)), PromiseStates},
		{"an attempt that nothing explains", of(lost, look(0.12, running, 2, 0)), PromiseStates},
		{"paused by no caller", of(clean, lookAtJob(0.1, paused, 1)), PromiseStates},
		{"canceled by no caller", of(clean, lookAtJob(0.1, carillon.JobCanceled, 1)), PromiseStates},
		{"edited by no caller", of(clean, lookAtJob(0.1, active, 2)), PromiseStates},
		{
			"active after a cancel",
			of(clean, said(VerbCancel, AnswerOK, 0.3), lookAtJob(0.4, active, 1)),
			PromiseStates,
		},
		{
			"active after a cancel without an answer",
			of(clean, said(VerbCancel, AnswerUnknown, 0.3), lookAtJob(0.4, active, 1)),
			"",
		},
		{
			"active after a pause",
			of(clean, said(VerbPause, AnswerOK, 0.3), lookAtJob(0.4, active, 1)),
			PromiseStates,
		},
		{
			"active after a resume",
			of(
				clean, said(VerbPause, AnswerOK, 0.3), said(VerbResume, AnswerOK, 0.4),
				lookAtJob(0.5, active, 1),
			),
			"",
		},
		{"finished after a pause", of(clean, said(VerbPause, AnswerOK, 0.3), lookAtJob(0.4, over, 1)), PromiseStates},
		{
			"finished after a cancel",
			of(clean, said(VerbCancel, AnswerOK, 0.3), lookAtJob(0.4, over, 1)),
			PromiseStates,
		},
		{
			"active after a pause without an answer that had happened",
			of(
				clean, said(VerbPause, AnswerUnknown, 0.3), lookAtJob(0.4, paused, 1),
				lookAtJob(0.5, active, 1),
			),
			PromiseStates,
		},
		{
			"paused after a resume",
			of(
				clean, said(VerbPause, AnswerOK, 0.3), said(VerbResume, AnswerOK, 0.4),
				lookAtJob(0.5, paused, 1),
			),
			PromiseStates,
		},
		{
			"paused after a resume, by a pause without an answer",
			of(
				clean, said(VerbPause, AnswerUnknown, 0.3), said(VerbResume, AnswerOK, 0.4),
				lookAtJob(0.5, paused, 1),
			),
			"",
		},
		{"finished before its body ended", of(clean, lookAtJob(0.15, over, 1)), PromiseStates},
		{
			"finished, and a frozen attempt begins later",
			of(frozenLate, lookAtJob(9.5, over, 1)),
			"",
		},
		{"finished, and then active", of(clean, lookAtJob(0.3, over, 1), lookAtJob(0.5, active, 1)), PromiseStates},
		{
			"finished, and then active for another run",
			of(
				clean, said(VerbRunNow, AnswerUnknown, 0.4), lookAtJob(0.3, over, 1),
				lookAtJob(0.5, active, 1),
			),
			"",
		},
		{"more attempts than its record", of(lost, look(0.12, running, 5, 4)), PromiseStates},
		{
			"waiting after a cancel",
			of(
				said(VerbCancel, AnswerOK, 0.05), look(0.1, waiting, 0, 0),
				records(ended(first, canceled, 0, 0, 0)),
			),
			PromiseStates,
		},
		{
			"the old version after an edit",
			of(clean, said(VerbEdit, AnswerOK, 0.3), lookAtJob(0.4, active, 1)),
			PromiseStates,
		},
		{
			"the old version after the new one",
			of(
				clean, said(VerbEdit, AnswerUnknown, 0.3), lookAtJob(0.4, active, 2),
				lookAtJob(0.5, active, 1),
			),
			PromiseStates,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, history(append(of(job(once, 0)), c.parts...)...), c.want)
		})
	}
}

package porttest

import (
	"strings"

	"github.com/carillon-run/carillon"
)

// attemptOf is a record in which every field differs from zero and from the fields beside it.
func attemptOf(run carillon.RunID, number int32) *carillon.Attempt {
	at := run.Due + carillon.Time(number)*1000
	return &carillon.Attempt{
		Run: run, Number: number, Worker: "worker_a", Claimed: at, Started: at + 1, Ended: at + 2,
		Outcome: carillon.OutcomeRetriable, Reason: "it's “so”\\", Exit: 255, Status: 599,
	}
}

func (t *storeTest) attempts(run carillon.RunID, after int32, limit int) []carillon.Attempt {
	t.Helper()
	found, err := t.store.Attempts(t.Context(), run, after, limit)
	t.must(err)
	return found
}

// record writes an unfinished run with the record of an attempt.
func (t *storeTest) record(run carillon.Run, a *carillon.Attempt) carillon.Run {
	t.Helper()
	run.Output = &carillon.Output{Attempt: a}
	t.win(carillon.Change{Runs: []carillon.Run{run}})
	run.Rev, run.Output = run.Rev+1, nil
	return run
}

func storeAttempts(t *storeTest) {
	_, run := t.submit(nil)
	_, other := t.submit(nil)
	t.equal("none", t.attempts(run.ID, 0, 0), []carillon.Attempt(nil))
	// A commit with several of them at once, one of which has little to tell.
	little := &carillon.Attempt{Run: other.ID, Number: 1, Claimed: 1, Ended: 2, Outcome: carillon.OutcomeLost}
	run.Output = &carillon.Output{Attempt: attemptOf(run.ID, 2)}
	other.Output = &carillon.Output{Attempt: little}
	lost, err := t.store.Commit(t.Context(), []carillon.Change{
		{Runs: []carillon.Run{run}}, {Runs: []carillon.Run{other}},
	})
	t.must(err)
	t.equal("lost", lost, []int(nil))
	run.Rev, run.Output = run.Rev+1, nil
	t.equal("with the run", t.run(run.ID).Output, (*carillon.Output)(nil))
	first := attemptOf(run.ID, 1)
	first.Reason = strings.Repeat("x", 1000)
	run = t.record(run, first)
	again := attemptOf(run.ID, 2)
	again.Worker, again.Outcome, again.Reason = "worker_b", carillon.OutcomeCrashed, "so"
	again.Exit, again.Status, again.Started = 0, 0, 0
	run = t.record(run, again)
	run.Output = &carillon.Output{Result: []byte("r"), Attempt: attemptOf(run.ID, 3)}
	run = t.end(run, carillon.StateFailed)
	want := []carillon.Attempt{*first, *again, *attemptOf(run.ID, 3)}
	t.equal("all", t.attempts(run.ID, 0, 0), want)
	t.equal("of the other", t.attempts(other.ID, 0, 0), []carillon.Attempt{*little})
	t.equal("output", t.run(run.ID).Output, &carillon.Output{Result: []byte("r")})
}

func storeAttemptPages(t *storeTest) {
	_, run := t.submit(nil)
	for number := int32(1); number <= 5; number++ {
		run = t.record(run, attemptOf(run.ID, number))
	}
	of := func(numbers ...int32) (all []carillon.Attempt) {
		for _, number := range numbers {
			all = append(all, *attemptOf(run.ID, number))
		}
		return all
	}
	t.equal("first", t.attempts(run.ID, 0, 2), of(1, 2))
	t.equal("second", t.attempts(run.ID, 2, 2), of(3, 4))
	t.equal("third", t.attempts(run.ID, 4, 2), of(5))
	t.equal("fourth", t.attempts(run.ID, 5, 2), of())
}

func storeAttemptLost(t *storeTest) {
	_, run := t.submit(nil)
	old := run
	run = t.record(run, attemptOf(run.ID, 1))
	old.Output = &carillon.Output{Attempt: attemptOf(run.ID, 2)}
	lost, err := t.store.Commit(t.Context(), []carillon.Change{{Runs: []carillon.Run{old}}})
	t.must(err)
	t.equal("lost", lost, []int{0})
	t.equal("attempts", t.attempts(run.ID, 0, 0), []carillon.Attempt{*attemptOf(run.ID, 1)})
}

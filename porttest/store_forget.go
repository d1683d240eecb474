package porttest

import (
	"slices"
	"time"

	"github.com/carillon-run/carillon"
)

var storeForget = []storeCase{
	{"what ended longer ago than the rule keeps is forgotten, and nothing else", storeForgetRule},
	{"an expiry of its own goes before the rule, both ways", storeForgetOwn},
	{"a rule of zero keeps everything", func(t *storeTest) {
		t.finished(carillon.StateFailed, nil)
		t.now += 1 << 40
		t.equal("forgotten", t.forget(carillon.Retention{}), 0)
	}},
	{"no more than the limit goes at a time, and 0 means that nothing is left", storeForgetLimit},
	{"dead letters have a rule of their own", storeForgetDead},
	{"a one-off job goes with the last that is left of it, and all that belonged to it", storeForgetJob},
	{"a dead letter keeps its job, its definition and its output", storeForgetKept},
	{"an unfinished run keeps its job", storeForgetUnfinished},
	{"a recurring job stays", storeForgetRecurring},
	{"many that are kept for long do not hide those behind them", storeForgetBehind},
	{"records need not have come in the order of their ends", storeForgetDisorder},
	{"a place that is free again is not passed over", storeForgetAgain},
}

// hour is a rule that keeps everything for an hour.
var hour = carillon.Retention{Runs: carillon.Duration(time.Hour), DeadLetters: carillon.Duration(time.Hour)}

const hourMillis = carillon.Time(time.Hour / time.Millisecond)

// forget forgets until nothing is left.
func (t *storeTest) forget(rule carillon.Retention) (forgotten int) {
	t.Helper()
	for {
		n, err := t.store.Forget(t.Context(), rule, t.now, 3)
		t.must(err)
		if n > 3 {
			t.Fatalf("forgot %d, limit 3", n)
		}
		if n == 0 {
			return forgotten
		}
		forgotten += n
	}
}

func storeForgetRule(t *storeTest) {
	_, old := t.finished(carillon.StateSucceeded, nil)
	t.now++
	_, young := t.finished(carillon.StateCanceled, nil)
	_, waiting := t.submit(nil)
	t.now += hourMillis - 1
	t.equal("forgotten", t.forget(hour), 1)
	t.equal("old", t.run(old.ID), (*carillon.Run)(nil))
	t.equal("left", t.findRuns(carillon.RunQuery{}), []carillon.Run{waiting, young})
}

func storeForgetOwn(t *storeTest) {
	ended := func(keep time.Duration) carillon.Run {
		_, run := t.submit(nil)
		run.Expires = t.now.Add(keep)
		return t.end(run, carillon.StateSucceeded)
	}
	long, short := ended(2*time.Hour), ended(time.Minute)
	_, plain := t.finished(carillon.StateSucceeded, nil)
	left := func() []carillon.Run { t.Helper(); t.forget(hour); return t.findRuns(carillon.RunQuery{}) }
	t.now += carillon.Time(time.Minute/time.Millisecond) - 1
	t.equal("before", left(), []carillon.Run{plain, short, long})
	t.now++
	t.equal("after a minute", left(), []carillon.Run{plain, long})
	t.now += hourMillis
	t.equal("after an hour", left(), []carillon.Run{long})
	t.now += hourMillis
	t.equal("after two", left(), []carillon.Run(nil))
}

func storeForgetLimit(t *storeTest) {
	for range 5 {
		t.finished(carillon.StateFailed, nil)
	}
	t.now += 2 * hourMillis
	for _, want := range []int{4, 4, 2, 0} { // five records and five dead letters
		n, err := t.store.Forget(t.Context(), hour, t.now, 4)
		t.must(err)
		t.equal("forgotten", n, want)
	}
	t.equal("jobs", len(t.findJobs(carillon.JobQuery{})), 0)
}

func storeForgetDead(t *storeTest) {
	_, plain := t.finished(carillon.StateFailed, nil)
	_, own := t.submit(nil)
	own.DeadExpires = t.now.Add(3 * time.Hour)
	own = t.end(own, carillon.StateFailed)
	letter := own
	own.DeadExpires = 0
	rule := carillon.Retention{
		Runs: carillon.Duration(3 * time.Hour), DeadLetters: carillon.Duration(time.Hour),
	}
	t.now += hourMillis
	t.equal("forgotten", t.forget(rule), 1)
	t.equal("letters", t.findRuns(carillon.RunQuery{Dead: true}), []carillon.Run{letter})
	t.equal("records", t.findRuns(carillon.RunQuery{}), []carillon.Run{own, plain})
	t.now += 2 * hourMillis
	t.equal("forgotten", t.forget(rule), 3)
	t.equal("letters", t.findRuns(carillon.RunQuery{Dead: true}), []carillon.Run(nil))
}

func storeForgetJob(t *storeTest) {
	job, run := t.submit(func(j *carillon.Job) { j.Labels = map[string]string{"team": "a"} })
	other, _ := t.submit(func(j *carillon.Job) { j.Labels = map[string]string{"team": "a"} })
	job.Version = 2
	run.Output = &carillon.Output{
		Result: []byte("r"), Checkpoint: []byte("c"), Payload: []byte("1"), Attempt: attemptOf(run.ID, 1),
	}
	t.win(carillon.Change{
		Job: &job, Runs: []carillon.Run{run}, Guards: []carillon.Guard{job.OverlapGuard()},
	})
	run.Rev, run.Output = 2, nil
	t.end(run, carillon.StateSucceeded)
	t.now += 2 * hourMillis
	t.equal("forgotten", t.forget(hour), 1)
	for version := range int32(3) {
		t.equal("job", t.jobAt(job.ID, version), (*carillon.Job)(nil))
	}
	t.equal("guard", t.guard(job.Namespace, job.ID.OverlapKey()), (*carillon.Guard)(nil))
	t.equal(
		"labeled",
		jobIDs(t.findJobs(carillon.JobQuery{
			Namespace: job.Namespace, Labels: []carillon.Label{{Key: "team", Value: "a"}},
		})),
		[]carillon.JobID{other.ID},
	)
	run.Rev = 0
	// A new run of that name has nothing of the old one.
	t.win(carillon.Change{Job: &other, Runs: []carillon.Run{run}})
	t.equal("output", t.run(run.ID).Output, (*carillon.Output)(nil))
	t.equal("attempts", t.attempts(run.ID, 0, 0), []carillon.Attempt(nil))
}

func storeForgetKept(t *storeTest) {
	job, run := t.submit(nil)
	edited := job
	edited.Version = 2
	run.Output = &carillon.Output{Checkpoint: []byte("c"), Attempt: attemptOf(run.ID, 1)}
	t.win(carillon.Change{Job: &edited, Runs: []carillon.Run{run}})
	run.Rev, run.Output = 2, nil
	run = t.end(run, carillon.StateFailed)
	rule := carillon.Retention{Runs: hour.Runs}
	t.now += 2 * hourMillis
	t.equal("forgotten", t.forget(rule), 1)
	t.equal("records", t.findRuns(carillon.RunQuery{}), []carillon.Run(nil))
	run.Output = &carillon.Output{Checkpoint: []byte("c")}
	t.equal("run", t.run(run.ID), &run)
	t.equal("attempts", t.attempts(run.ID, 0, 0), []carillon.Attempt{*attemptOf(run.ID, 1)})
	t.equal("definition", t.jobAt(job.ID, 1).Payload, job.Payload)
	t.equal("forgotten", t.forget(hour), 1)
	t.equal("run", t.run(run.ID), (*carillon.Run)(nil))
	t.equal("job", t.job(job.ID), (*carillon.Job)(nil))
}

func storeForgetUnfinished(t *storeTest) {
	job, run := t.finished(carillon.StateSucceeded, nil)
	extra := carillon.NewRun(&job, run.ID.Due+1)
	extra.Flags |= carillon.FlagAdditional
	t.win(carillon.Change{Job: &job, Runs: []carillon.Run{extra}})
	t.now += 2 * hourMillis
	t.equal("forgotten", t.forget(hour), 1)
	t.equal("job", t.job(job.ID).ID, job.ID)
}

func storeForgetRecurring(t *storeTest) {
	job, _ := t.finished(carillon.StateFailed, every)
	t.now += 2 * hourMillis
	t.equal("forgotten", t.forget(hour), 2)
	t.equal(
		"job", t.findJobs(carillon.JobQuery{States: []carillon.JobState{carillon.JobFinished}})[0].ID, job.ID,
	)
	t.equal("guard", t.guard(job.Namespace, job.ID.OverlapKey()).Rev, int32(1))
}

func storeForgetBehind(t *storeTest) {
	for i := range 20 {
		_, run := t.submit(nil)
		if i%4 != 3 {
			run.Expires = t.now.Add(100 * time.Hour)
		}
		t.end(run, carillon.StateSucceeded)
		t.now += hourMillis / 10
		t.forget(hour)
	}
	t.now += 2 * hourMillis
	t.forget(hour)
	t.equal("left", len(t.findRuns(carillon.RunQuery{})), 15)
}

func storeForgetDisorder(t *storeTest) {
	var want []carillon.Run
	for i := range 12 {
		_, run := t.submit(nil)
		// as if the nodes' clocks differed
		run = run.End(carillon.StateSucceeded, "", t.now+carillon.Time(i*7%12)*1000)
		t.win(carillon.Change{Runs: []carillon.Run{run}})
		run.Rev, run.Flags = 0, 0
		want = append([]carillon.Run{run}, want...)
	}
	t.now += hourMillis
	for range 12 {
		t.equal("forgotten", t.forget(hour), 1)
		want = slices.DeleteFunc(want, func(r carillon.Run) bool { return r.Ended <= t.now-hourMillis })
		t.equal("left", t.findRuns(carillon.RunQuery{}), want)
		t.now += 1000
	}
}

// storeForgetAgain empties history more than once: the store must see records that come then, wherever it
// puts them.
func storeForgetAgain(t *storeTest) {
	for round := range 3 {
		for range 5 - round { // fewer each time: they end where others were
			_, run := t.submit(nil)
			run.Expires = t.now.Add(time.Minute)
			t.end(run, carillon.StateSucceeded)
		}
		t.finished(carillon.StateSucceeded, nil)
		t.now += 2 * hourMillis
		t.equal("forgotten", t.forget(hour), 6-round)
		t.equal("left", len(t.findRuns(carillon.RunQuery{})), 0)
	}
}

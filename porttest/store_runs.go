package porttest

import (
	"errors"
	"slices"

	"github.com/carillon-run/carillon"
)

var storeRuns = []storeCase{
	{
		"of all jobs come the unfinished runs, earliest due first, then the ended, latest end first",
		storeRunPages,
	},
	{"of one job come its runs by due time, latest first, unfinished or not", storeRunsOfJob},
	{"dead letters come latest first", storeDeadPages},
	{"runs are found by state", storeRunStates},
	{"runs are found by the word that people see for them", storeRunStatuses},
	{"runs are found by worker, due time and namespace", storeRunFilters},
	{"a page goes on where the one before ended, though runs end in between", storeRunPagesMove},
	{"the last page has no next", storeRunLastPage},
	{"a cursor that no page gave is refused", storeBadCursor},
}

// mixed makes some unfinished and some ended runs, and returns them in the order of FindRuns.
func (t *storeTest) mixed() (want []carillon.Run) {
	t.Helper()
	for i := range 8 {
		_, run := t.submit(func(j *carillon.Job) { j.Schedule.At = t.now + carillon.Time(100-10*i) })
		want = append([]carillon.Run{run}, want...)
	}
	want[3] = t.claim(want[3], "worker-2")
	var ended []carillon.Run
	for i := range 9 {
		_, run := t.finished(
			[]carillon.State{
				carillon.StateSucceeded, carillon.StateFailed, carillon.StateCanceled, carillon.StateSkipped,
			}[i%4],
			nil,
		)
		ended = append(ended, run)
	}
	return append(want, reversed(ended)...)
}

func storeRunPages(t *storeTest) {
	want := t.mixed()
	for _, limit := range []int{0, 1, 3, 8, 9, 17, 100} {
		t.equal("runs", t.findRuns(carillon.RunQuery{Limit: limit}), want)
	}
}

func storeRunsOfJob(t *storeTest) {
	job, run := t.submit(every)
	var want []carillon.Run
	for i := range 12 {
		next := carillon.NewRun(&job, run.ID.Due+carillon.Time(i+1)*10)
		t.win(carillon.Change{Job: &job, Runs: []carillon.Run{next}})
		job.Rev++
		next.Rev = 1
		if i%3 != 0 {
			next = t.end(t.claim(next, "worker-1"), carillon.StateSucceeded)
		}
		want = append([]carillon.Run{next}, want...)
	}
	want = append(want, run)
	t.mixed() // of other jobs
	for _, limit := range []int{0, 1, 4, 13, 100} {
		t.equal("runs", t.findRuns(carillon.RunQuery{Job: job.ID, Limit: limit}), want)
	}
	unfinished := slices.DeleteFunc(slices.Clone(want), func(r carillon.Run) bool { return r.State.Ended() })
	t.equal(
		"unfinished",
		t.findRuns(carillon.RunQuery{Job: job.ID, States: []carillon.State{carillon.StateWaiting}, Limit: 2}),
		unfinished,
	)
	t.equal("of no job", t.findRuns(carillon.RunQuery{Job: 1}), []carillon.Run(nil))
	oneOff, first := t.finished(carillon.StateFailed, nil)
	t.equal("of a one-off", t.findRuns(carillon.RunQuery{Job: oneOff.ID}), []carillon.Run{first})
	waiting, second := t.submit(nil)
	t.equal("of a waiting one", t.findRuns(carillon.RunQuery{Job: waiting.ID}), []carillon.Run{second})
}

func storeDeadPages(t *storeTest) {
	var want []carillon.Run
	for i := range 7 {
		_, run := t.finished(carillon.StateFailed, func(j *carillon.Job) {
			j.Schedule.At = t.now - carillon.Time(i)
		})
		want = append([]carillon.Run{run}, want...)
		t.finished(carillon.StateSucceeded, nil)
	}
	for _, limit := range []int{0, 1, 3, 7} {
		t.equal("dead letters", t.findRuns(carillon.RunQuery{Dead: true, Limit: limit}), want)
	}
	t.equal("of one job", t.findRuns(carillon.RunQuery{Dead: true, Job: want[2].ID.Job}), want[2:3])
	t.equal("from", t.findRuns(carillon.RunQuery{Dead: true, From: want[3].ID.Due}), want[3:])
}

func storeRunStates(t *storeTest) {
	all := t.mixed()
	for _, states := range [][]carillon.State{
		{carillon.StateWaiting},
		{carillon.StateClaimed},
		{carillon.StateRunning},
		{carillon.StateSucceeded},
		{carillon.StateFailed},
		{carillon.StateCanceled},
		{carillon.StateSkipped},
		{carillon.StateFailed, carillon.StateCanceled},
		{carillon.StateSkipped, carillon.StateFailed, carillon.StateCanceled},
		{carillon.StateWaiting, carillon.StateFailed},
		{carillon.StateClaimed, carillon.StateSucceeded, carillon.StateSkipped},
	} {
		want := slices.DeleteFunc(slices.Clone(all), func(r carillon.Run) bool {
			return !slices.Contains(states, r.State)
		})
		for _, limit := range []int{1, 2, 100} {
			t.equal("found", t.findRuns(carillon.RunQuery{States: states, Limit: limit}), want)
		}
	}
}

func storeRunFilters(t *storeTest) {
	all := t.mixed()
	_, other := t.finished(carillon.StateFailed, func(j *carillon.Job) { j.Namespace = "other" })
	_, waiting := t.submit(func(j *carillon.Job) { j.Namespace = "other" })
	where := func(f func(carillon.Run) bool) []carillon.Run {
		return slices.DeleteFunc(slices.Clone(all), func(r carillon.Run) bool { return !f(r) })
	}
	space := carillon.DefaultNamespace
	for name, c := range map[string]struct {
		q    carillon.RunQuery
		want []carillon.Run
	}{
		"namespace": {carillon.RunQuery{Namespace: "other"}, []carillon.Run{waiting, other}},
		"dead":      {carillon.RunQuery{Namespace: "other", Dead: true}, []carillon.Run{other}},
		"no such":   {carillon.RunQuery{Namespace: "none"}, nil},
		"worker": {
			carillon.RunQuery{Namespace: space, Worker: "worker-2"},
			where(func(r carillon.Run) bool { return r.Worker == "worker-2" }),
		},
		"workers": {
			carillon.RunQuery{Namespace: space, Worker: "worker-1"},
			where(func(r carillon.Run) bool { return r.Worker == "worker-1" }),
		},
		"from": {
			carillon.RunQuery{Namespace: space, From: t.now + 50},
			where(func(r carillon.Run) bool { return r.ID.Due >= t.now+50 }),
		},
		"to": {
			carillon.RunQuery{Namespace: space, To: t.now + 50},
			where(func(r carillon.Run) bool { return r.ID.Due < t.now+50 }),
		},
		"between": {
			carillon.RunQuery{Namespace: space, From: t.now + 1, To: t.now + 60},
			where(func(r carillon.Run) bool {
				return r.ID.Due > t.now && r.ID.Due < t.now+60
			}),
		},
	} {
		for _, limit := range []int{2, 100} {
			c.q.Limit = limit
			t.equal(name, t.findRuns(c.q), c.want)
		}
	}
}

func storeRunPagesMove(t *storeTest) {
	all := t.mixed()
	page, err := t.store.FindRuns(t.Context(), carillon.RunQuery{Limit: 3})
	t.must(err)
	t.end(all[1], carillon.StateCanceled) // it was on the first page
	ended := t.end(all[5], carillon.StateCanceled)
	rest := t.findRuns(carillon.RunQuery{Limit: 3, After: page.Next})
	want := slices.Concat(
		all[3:5], all[6:8], []carillon.Run{ended}, []carillon.Run{*t.run(all[1].ID)}, all[8:],
	)
	t.equal("the rest", rest, want)
}

func storeRunLastPage(t *storeTest) {
	all := t.mixed()
	for _, q := range []carillon.RunQuery{
		{Limit: len(all)},
		{Limit: 1, Job: all[0].ID.Job},
		{Limit: 2, Dead: true},
		{Limit: 1, States: []carillon.State{carillon.StateClaimed}},
	} {
		page, err := t.store.FindRuns(t.Context(), q)
		t.must(err)
		t.equal("next", page.Next, "")
	}
}

func storeBadCursor(t *storeTest) {
	all := t.mixed()
	next := func(q carillon.RunQuery) string {
		q.Limit = 1
		page, err := t.store.FindRuns(t.Context(), q)
		t.must(err)
		return page.Next
	}
	ofAll, ofDead := next(carillon.RunQuery{}), next(carillon.RunQuery{Dead: true})
	for _, q := range []carillon.RunQuery{
		{After: "x"},
		{After: ofAll + "0"},
		{After: ofAll[1:]},
		{After: ofAll[:len(ofAll)-1]},
		{After: " " + ofAll},
		{After: "e\x00"},
		{After: ofDead},
		{After: ofAll, Dead: true},
		{After: ofAll, Job: all[0].ID.Job},
		{After: "u" + ofDead[1:]},
		{After: "ezzzzzzzzzzzzz"},
	} {
		_, err := t.store.FindRuns(t.Context(), q)
		var field *carillon.FieldError
		if !errors.As(err, &field) || field.Field != "cursor" {
			t.Errorf("%q: %v", q.After, err)
		}
	}
}

func storeRunStatuses(t *storeTest) {
	at := func(due carillon.Time) (run carillon.Run) {
		t.Helper()
		_, run = t.submit(func(j *carillon.Job) { j.Schedule.At = due })
		return run
	}
	change := func(run carillon.Run, f func(*carillon.Run)) carillon.Run {
		t.Helper()
		f(&run)
		t.win(carillon.Change{Runs: []carillon.Run{run}})
		run.Rev++
		return run
	}
	queued, late := at(t.now-50), at(t.now)
	later := at(t.now + 1)
	retried := change(at(t.now-40), func(r *carillon.Run) { r.Attempt, r.Wake = 1, t.now+1000 })
	paused := change(at(t.now-30), func(r *carillon.Run) {
		r.Flags |= carillon.FlagOnHold
		r.Wake = carillon.Never
	})
	running := t.claim(at(t.now-20), "worker-1")
	stopping := change(t.claim(at(t.now-10), "worker-1"), func(r *carillon.Run) {
		r.Flags |= carillon.FlagStop
		r.Reason = "asked to"
	})
	t.finished(carillon.StateCanceled, nil)
	_, failed := t.finished(carillon.StateFailed, nil)
	for name, c := range map[string]struct {
		states   []carillon.State
		statuses []carillon.Status
		want     []carillon.Run
	}{
		"queued":   {nil, []carillon.Status{carillon.StatusQueued}, []carillon.Run{queued, late}},
		"paused":   {nil, []carillon.Status{carillon.StatusPaused}, []carillon.Run{paused}},
		"stopping": {nil, []carillon.Status{carillon.StatusStopping}, []carillon.Run{stopping}},
		"queued or stopping": {
			nil,
			[]carillon.Status{carillon.StatusStopping, carillon.StatusQueued},
			[]carillon.Run{queued, stopping, late},
		},
		"paused or failed": {
			[]carillon.State{carillon.StateFailed},
			[]carillon.Status{carillon.StatusPaused},
			[]carillon.Run{paused, failed},
		},
		"stopping or waiting": {
			[]carillon.State{carillon.StateWaiting},
			[]carillon.Status{carillon.StatusStopping},
			[]carillon.Run{queued, retried, paused, stopping, late, later},
		},
		"paused or claimed": {
			[]carillon.State{carillon.StateClaimed},
			[]carillon.Status{carillon.StatusPaused},
			[]carillon.Run{paused, running, stopping},
		},
	} {
		for _, limit := range []int{0, 1, 2} {
			t.equal(
				name,
				t.findRuns(carillon.RunQuery{
					States: c.states, Statuses: c.statuses, Now: t.now, Limit: limit,
				}),
				c.want,
			)
		}
	}
	own := carillon.RunQuery{
		Job: stopping.ID.Job, Statuses: []carillon.Status{carillon.StatusStopping}, Now: t.now,
	}
	t.equal("of one job", t.findRuns(own), []carillon.Run{stopping})
	own.Job = running.ID.Job
	t.equal("of another", t.findRuns(own), []carillon.Run(nil))
}

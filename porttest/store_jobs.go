package porttest

import (
	"github.com/carillon-run/carillon"
)

var storeJobs = []storeCase{
	{"jobs come newest first, page by page", storeJobPages},
	{"an active job without an unfinished run is finished, in lists and only there", storeJobFinished},
	{"jobs are found by state", storeJobStates},
	{"jobs are found by what became of their latest run", storeJobLatest},
	{"jobs come with their last run", storeJobLast},
	{"jobs are found by namespace, owner, type, name and time", storeJobFilters},
	{"jobs are found by label, as it is after an edit", storeJobLabels},
	{"parts of workflows are found only if they are asked for", storeJobParts},
	{"filters add up", func(t *storeTest) {
		both, _ := t.submit(func(j *carillon.Job) { j.Owner, j.Type = "anna", "report" })
		t.submit(func(j *carillon.Job) { j.Owner = "anna" })
		t.submit(func(j *carillon.Job) { j.Type = "report" })
		t.equal(
			"found", jobIDs(t.findJobs(carillon.JobQuery{Owner: "anna", Type: "report"})),
			[]carillon.JobID{both.ID},
		)
	}},
}

func storeJobPages(t *storeTest) {
	var want []carillon.Job
	for range 25 {
		job, _ := t.submit(nil)
		want = append(want, job)
	}
	for _, limit := range []int{0, 1, 5, 24, 25, 26} {
		t.equal("jobs", t.findJobs(carillon.JobQuery{Limit: limit}), reversed(want))
	}
	page, err := t.store.FindJobs(t.Context(), carillon.JobQuery{Limit: 25})
	t.must(err)
	t.equal("after the last page", page.Next, carillon.JobID(0))
}

func storeJobFinished(t *storeTest) {
	job, run := t.submit(nil)
	state := func() carillon.JobState { t.Helper(); return t.findJobs(carillon.JobQuery{})[0].State }
	t.equal("waiting", state(), carillon.JobActive)
	run = t.claim(run, "worker-1")
	t.equal("held", state(), carillon.JobActive)
	t.end(run, carillon.StateSucceeded)
	t.equal("ended", state(), carillon.JobFinished)
	t.equal("stored", t.job(job.ID).State, carillon.JobActive)
	extra := carillon.NewRun(&job, t.now+1)
	extra.Flags |= carillon.FlagAdditional
	t.win(carillon.Change{Job: &job, Runs: []carillon.Run{extra}})
	t.equal("run again", state(), carillon.JobActive)
	job.Rev, job.State = 2, carillon.JobCanceled
	extra.Rev = 1
	t.win(carillon.Change{Job: &job, Runs: []carillon.Run{extra.End(carillon.StateCanceled, "", t.now)}})
	t.equal("canceled", state(), carillon.JobCanceled)
}

func storeJobStates(t *storeTest) {
	active, _ := t.submit(nil)
	recurring, _ := t.submit(every)
	paused, _ := t.submit(nil)
	paused.State = carillon.JobPaused
	t.win(carillon.Change{Job: &paused})
	finished, _ := t.finished(carillon.StateSucceeded, nil)
	canceled, run := t.submit(nil)
	canceled.State = carillon.JobCanceled
	t.win(carillon.Change{Job: &canceled, Runs: []carillon.Run{run.End(carillon.StateCanceled, "", t.now)}})
	for _, c := range []struct {
		states []carillon.JobState
		want   []carillon.JobID
	}{
		{[]carillon.JobState{carillon.JobActive}, []carillon.JobID{recurring.ID, active.ID}},
		{[]carillon.JobState{carillon.JobPaused}, []carillon.JobID{paused.ID}},
		{[]carillon.JobState{carillon.JobFinished}, []carillon.JobID{finished.ID}},
		{[]carillon.JobState{carillon.JobCanceled}, []carillon.JobID{canceled.ID}},
		{
			[]carillon.JobState{carillon.JobFinished, carillon.JobPaused},
			[]carillon.JobID{finished.ID, paused.ID},
		},
	} {
		t.equal("found", jobIDs(t.findJobs(carillon.JobQuery{States: c.states, Limit: 1})), c.want)
	}
}

func storeJobLatest(t *storeTest) {
	pending, _ := t.submit(nil)
	running, run := t.submit(nil)
	t.claim(run, "worker-1")
	failed, _ := t.finished(carillon.StateFailed, nil)
	succeeded, _ := t.finished(carillon.StateSucceeded, nil)
	// A recurring job whose latest run succeeded; after it one run was skipped, and the next waits.
	recurring, first := t.submit(every)
	ended := t.claim(first, "worker-1")
	next, skipped := carillon.NewRun(&recurring, first.ID.Due+2), carillon.NewRun(&recurring, first.ID.Due+1)
	t.win(carillon.Change{
		Runs: []carillon.Run{
			ended.End(carillon.StateSucceeded, "", t.now), skipped.End(carillon.StateSkipped, "", t.now),
			next,
		},
	})
	for _, c := range []struct {
		latest []carillon.LatestState
		want   []carillon.JobID
	}{
		{[]carillon.LatestState{carillon.LatestPending}, []carillon.JobID{pending.ID}},
		{[]carillon.LatestState{carillon.LatestRunning}, []carillon.JobID{running.ID}},
		{[]carillon.LatestState{carillon.LatestFailed}, []carillon.JobID{failed.ID}},
		{[]carillon.LatestState{carillon.LatestSucceeded}, []carillon.JobID{recurring.ID, succeeded.ID}},
		{
			[]carillon.LatestState{carillon.LatestSucceeded, carillon.LatestRunning},
			[]carillon.JobID{recurring.ID, succeeded.ID, running.ID},
		},
	} {
		t.equal("found", jobIDs(t.findJobs(carillon.JobQuery{Latest: c.latest})), c.want)
	}
}

func storeJobLast(t *storeTest) {
	t.submit(nil) // none has begun
	_, run := t.submit(nil)
	running := t.claim(run, "worker-1")
	_, failed := t.finished(carillon.StateFailed, nil)
	// A recurring job: one run succeeded, a later one was skipped, one waits for its next attempt, one has
	// not begun.
	recurring, first := t.submit(every)
	ended := t.claim(first, "worker-1")
	skipped, retried, next := carillon.NewRun(
		&recurring, first.ID.Due+1,
	), carillon.NewRun(&recurring, first.ID.Due+2), carillon.NewRun(&recurring, first.ID.Due+3)
	retried.Attempt, retried.Reason, retried.Wake = 1, "exit code 1", t.now+1000
	t.win(carillon.Change{
		Runs: []carillon.Run{
			ended.End(carillon.StateSucceeded, "", t.now), skipped.End(carillon.StateSkipped, "", t.now),
			retried, next,
		},
	})
	// A held run counts before one that is due later.
	double, early := t.submit(every)
	held := t.claim(early, "worker-1")
	later := carillon.NewRun(&double, early.ID.Due+1)
	later.Attempt = 3
	t.win(carillon.Change{Runs: []carillon.Run{later}})

	page, err := t.store.FindJobs(t.Context(), carillon.JobQuery{WithLast: true, Limit: 4})
	if err != nil || len(page.Last) != len(page.Jobs) {
		t.Fatalf("%d jobs with %d last runs, %v", len(page.Jobs), len(page.Last), err)
	}
	rest, err := t.store.FindJobs(t.Context(), carillon.JobQuery{WithLast: true, Before: page.Next})
	if err != nil {
		t.Fatal(err)
	}
	type last struct {
		ID     carillon.RunID
		State  carillon.State
		Reason string
		About  *carillon.About
	}
	var got []last
	for _, r := range append(page.Last, rest.Last...) {
		if r == nil {
			r = &carillon.Run{}
		}
		got = append(got, last{r.ID, r.State, r.Reason, r.About})
	}
	t.equal("last runs", got, []last{
		{held.ID, carillon.StateClaimed, held.Reason, nil},
		{retried.ID, carillon.StateWaiting, "exit code 1", nil},
		{failed.ID, carillon.StateFailed, failed.Reason, nil},
		{running.ID, carillon.StateClaimed, running.Reason, nil},
		{},
	})
	if page, err := t.store.FindJobs(t.Context(), carillon.JobQuery{}); err != nil || page.Last != nil {
		t.Errorf("not asked for: %v, %v", page.Last, err)
	}
}

func storeJobFilters(t *storeTest) {
	plain, _ := t.submit(nil)
	t.now += 1000
	other, _ := t.submit(func(j *carillon.Job) {
		j.Namespace, j.Owner, j.Type, j.Name = "other", "anna", "report", "nightly"
	})
	for name, c := range map[string]struct {
		q    carillon.JobQuery
		want []carillon.JobID
	}{
		"all":       {carillon.JobQuery{}, []carillon.JobID{other.ID, plain.ID}},
		"namespace": {carillon.JobQuery{Namespace: "other"}, []carillon.JobID{other.ID}},
		"its own":   {carillon.JobQuery{Namespace: carillon.DefaultNamespace}, []carillon.JobID{plain.ID}},
		"no such":   {carillon.JobQuery{Namespace: "none"}, nil},
		"owner":     {carillon.JobQuery{Owner: "anna"}, []carillon.JobID{other.ID}},
		"type":      {carillon.JobQuery{Type: "report"}, []carillon.JobID{other.ID}},
		"name":      {carillon.JobQuery{Name: "nightly"}, []carillon.JobID{other.ID}},
		"from":      {carillon.JobQuery{CreatedFrom: t.now}, []carillon.JobID{other.ID}},
		"to":        {carillon.JobQuery{CreatedTo: t.now}, []carillon.JobID{plain.ID}},
		"from and to": {
			carillon.JobQuery{CreatedFrom: t.now - 1000, CreatedTo: t.now + 1},
			[]carillon.JobID{other.ID, plain.ID},
		},
	} {
		t.equal(name, jobIDs(t.findJobs(c.q)), c.want)
	}
}

func storeJobLabels(t *storeTest) {
	a, _ := t.submit(func(j *carillon.Job) { j.Labels = map[string]string{"team": "a", "env": "prod"} })
	b, _ := t.submit(func(j *carillon.Job) { j.Labels = map[string]string{"team": "b", "flag": ""} })
	t.submit(nil)
	t.submit(func(j *carillon.Job) { j.Namespace, j.Labels = "other", map[string]string{"team": "a"} })
	find := func(key, value string) []carillon.JobID {
		t.Helper()
		return jobIDs(t.findJobs(carillon.JobQuery{
			Namespace: carillon.DefaultNamespace, Labels: []carillon.Label{{Key: key, Value: value}},
			Limit: 1,
		}))
	}
	t.equal("empty value of a key that has others", find("team", ""), []carillon.JobID(nil))
	t.equal("empty value", find("flag", ""), []carillon.JobID{b.ID})
	t.equal("key and value", find("team", "a"), []carillon.JobID{a.ID})
	t.equal("value of another key", find("env", "a"), []carillon.JobID(nil))
	both := func(labels ...carillon.Label) []carillon.JobID {
		t.Helper()
		return jobIDs(t.findJobs(carillon.JobQuery{
			Namespace: carillon.DefaultNamespace, Labels: labels, Limit: 1,
		}))
	}
	t.equal(
		"two labels of one job",
		both(carillon.Label{Key: "team", Value: "a"}, carillon.Label{Key: "env", Value: "prod"}),
		[]carillon.JobID{a.ID},
	)
	t.equal(
		"a value and an empty one",
		both(carillon.Label{Key: "flag"}, carillon.Label{Key: "team", Value: "b"}), []carillon.JobID{b.ID},
	)
	t.equal(
		"labels of two jobs",
		both(carillon.Label{Key: "team", Value: "b"}, carillon.Label{Key: "env", Value: "prod"}),
		[]carillon.JobID(nil),
	)
	t.equal(
		"two values of one key",
		both(carillon.Label{Key: "team", Value: "a"}, carillon.Label{Key: "team", Value: "b"}),
		[]carillon.JobID(nil),
	)
	t.equal(
		"any namespace",
		len(t.findJobs(carillon.JobQuery{Labels: []carillon.Label{{Key: "team", Value: "a"}}})), 2,
	)
	a.Version, a.Labels = 2, map[string]string{"team": "b"}
	t.win(carillon.Change{Job: &a})
	t.equal(
		"after the edit", [][]carillon.JobID{find("team", "a"), find("team", "b"), find("env", "prod")},
		[][]carillon.JobID{nil, {b.ID, a.ID}, nil},
	)
}

func storeJobParts(t *storeTest) {
	a, _ := t.submit(func(j *carillon.Job) { j.Labels = map[string]string{"team": "a"} })
	partOf := func(run string, labels map[string]string) *carillon.Job {
		job := t.newJob(nil)
		job.Labels = labels // a caller cannot submit a job with such a label
		job.Labels[carillon.WorkflowLabel] = run
		t.win(carillon.Submit(job, t.now))
		return job
	}
	part := partOf("run_1", map[string]string{"team": "a"})
	another := partOf("run_2", map[string]string{})
	b, _ := t.submit(nil)
	team := carillon.Label{Key: "team", Value: "a"}
	of := carillon.Label{Key: carillon.WorkflowLabel, Value: "run_1"}
	type query = carillon.JobQuery
	for name, c := range map[string]struct {
		q    query
		want []carillon.JobID
	}{
		"without":          {query{}, []carillon.JobID{b.ID, a.ID}},
		"with":             {query{Parts: true}, []carillon.JobID{b.ID, another.ID, part.ID, a.ID}},
		"by another label": {query{Labels: []carillon.Label{team}}, []carillon.JobID{a.ID}},
		"of a workflow":    {query{Labels: []carillon.Label{of}}, []carillon.JobID{part.ID}},
		"by both":          {query{Labels: []carillon.Label{team, of}}, []carillon.JobID{part.ID}},
		"by label and with": {
			query{Labels: []carillon.Label{team}, Parts: true}, []carillon.JobID{part.ID, a.ID},
		},
		"by state": {
			query{States: []carillon.JobState{carillon.JobActive}}, []carillon.JobID{b.ID, a.ID},
		},
		"by latest": {
			query{Latest: []carillon.LatestState{carillon.LatestPending}}, []carillon.JobID{b.ID, a.ID},
		},
	} {
		for _, limit := range []int{1, 100} {
			for _, namespace := range []string{"", carillon.DefaultNamespace} {
				c.q.Limit, c.q.Namespace = limit, namespace
				t.equal(name, jobIDs(t.findJobs(c.q)), c.want)
			}
		}
	}
	page, err := t.store.FindJobs(t.Context(), query{WithLast: true})
	t.equal("last runs", len(page.Last), 2)
	t.equal("error", err, nil)
}

package porttest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/carillon-run/carillon"
)

var storeRaces = []storeCase{
	{"a job is lost if it exists already, does not exist, or is not as it was", storeLostJob},
	{"a run is lost if it exists already, does not exist, or is not as it was", storeLostRun},
	{"a guard is lost if it exists already, does not exist, or is not as it was", storeLostGuard},
	{"a dead letter that does not exist cannot be retried", func(t *storeTest) {
		_, run := t.finished(carillon.StateSucceeded, nil)
		t.lose(carillon.Change{Retried: []carillon.RunID{run.ID}})
	}},
	{"a record of a run that never waited is lost if one of its name waits", func(t *storeTest) {
		_, run := t.submit(nil)
		record := run.End(carillon.StateSkipped, "missed", t.now)
		record.Rev = 0
		t.lose(carillon.Change{Runs: []carillon.Run{record}})
		t.equal("run", t.run(run.ID), &run)
	}},
	{"a lost change leaves no trace, whichever of its rows was lost", storeNoTrace},
	{"a submission is lost whole if a run of that name exists", storeLostSubmission},
	{"changes are applied in order: a later one sees an earlier one", storeOrder},
	{"lost changes are told by ascending index, and the others stand", storeLostIndexes},
	{"joined changes are written all or none, whichever of them is lost", storeJoined},
	{"joined changes of two commits, of which one can win", storeJoinedRace},
	{"nothing of one namespace is found in another", storeNamespaces},
	{"an empty commit is no error", func(t *storeTest) { t.win() }},
	{"nothing is committed or read when the context has ended", storeCanceled},
}

func storeLostJob(t *storeTest) {
	job, _ := t.submit(nil)
	again := job
	again.Rev = 0
	t.lose(carillon.Change{Job: &again})
	none := job
	none.ID++
	t.lose(carillon.Change{Job: &none})
	t.win(carillon.Change{Job: &job})
	for _, version := range []int32{1, 2} { // on revision 1, which is out of date
		stale := job
		stale.Version, stale.State = version, carillon.JobPaused
		t.lose(carillon.Change{Job: &stale})
	}
	job.Rev = 2
	t.equal("job", t.job(job.ID), &job)
}

func storeLostRun(t *storeTest) {
	_, run := t.submit(nil)
	again := run
	again.Rev = 0
	t.lose(carillon.Change{Runs: []carillon.Run{again}})
	none := run
	none.ID.Due++
	t.lose(carillon.Change{Runs: []carillon.Run{none}})
	stale := run
	run = t.claim(run, "worker-1")
	t.lose(carillon.Change{Runs: []carillon.Run{stale.Claim("worker-2", t.now)}})
	t.lose(carillon.Change{Runs: []carillon.Run{stale.End(carillon.StateCanceled, "", t.now)}})
	t.equal("run", t.run(run.ID), &run)
	ended := t.end(run, carillon.StateSucceeded)
	t.lose(carillon.Change{Runs: []carillon.Run{run.End(carillon.StateFailed, "", t.now)}})
	t.lose(carillon.Change{Runs: []carillon.Run{run}})
	t.equal("all", t.findRuns(carillon.RunQuery{}), []carillon.Run{ended})
	t.equal("dead", t.findRuns(carillon.RunQuery{Dead: true}), []carillon.Run(nil))
}

func storeLostGuard(t *storeTest) {
	g := carillon.Guard{Namespace: "default", Key: "limit", Value: []byte("1")}
	put := func(rev int32, value []byte) carillon.Change {
		g.Rev, g.Value = rev, value
		return carillon.Change{Guards: []carillon.Guard{g}}
	}
	t.lose(put(1, []byte("none")))
	t.lose(put(1, nil))
	t.win(put(0, []byte("1")))
	t.lose(put(0, []byte("again")))
	t.win(put(1, []byte("2")))
	t.lose(put(1, []byte("stale")))
	t.lose(put(1, nil))
	t.equal("guard", t.guard("default", "limit"), &carillon.Guard{
		Namespace: "default", Key: "limit", Rev: 2, Value: []byte("2"),
	})
}

// storeNoTrace puts one row that loses into a change that otherwise does everything a change can do.
func storeNoTrace(t *storeTest) {
	job, run := t.submit(func(j *carillon.Job) { j.Labels = map[string]string{"team": "a"} })
	_, dead := t.finished(carillon.StateFailed, nil)
	t.win(carillon.Change{Guards: []carillon.Guard{
		{Namespace: "default", Key: "limit", Value: []byte("1")},
		{Namespace: "default", Key: "stays", Value: []byte("1")},
	}})
	before := t.everything()
	whole := func() carillon.Change {
		edited := job
		edited.Version, edited.Name, edited.Labels = 2, "edited", map[string]string{"team": "b"}
		ended := run.End(carillon.StateFailed, "because", t.now)
		ended.Output = &carillon.Output{Result: []byte("r"), Checkpoint: []byte("c")}
		return carillon.Change{
			Job:  &edited,
			Runs: []carillon.Run{ended, carillon.NewRun(&job, t.now+1)},
			Guards: []carillon.Guard{
				{Namespace: "default", Key: "limit", Rev: 1, Value: []byte("2")},
				{Namespace: "default", Key: "new", Value: []byte("1")},
			},
			Compared: []carillon.GuardRev{
				{Namespace: "default", Key: "stays", Rev: 1}, {Namespace: "default", Key: "none"},
			},
			Retried: []carillon.RunID{dead.ID},
		}
	}
	for name, spoil := range map[string]func(*carillon.Change){
		"job":      func(c *carillon.Change) { c.Job.Rev = 7 },
		"run":      func(c *carillon.Change) { c.Runs[0].Rev = 7 },
		"new run":  func(c *carillon.Change) { c.Runs[1].ID = run.ID; c.Runs = c.Runs[1:] },
		"guard":    func(c *carillon.Change) { c.Guards[0].Rev = 7 },
		"no guard": func(c *carillon.Change) { c.Guards[1].Rev = 1 },
		"compared": func(c *carillon.Change) { c.Compared[0].Rev = 7 },
		"none":     func(c *carillon.Change) { c.Compared[1].Rev = 1 },
		"letter":   func(c *carillon.Change) { c.Retried[0].Due++ },
	} {
		c := whole()
		spoil(&c)
		t.lose(c)
		t.equal("after a lost "+name, t.everything(), before)
	}
	t.win(whole())
}

// everything returns all that a search can read from the store.
func (t *storeTest) everything() []any {
	t.Helper()
	jobs := t.findJobs(carillon.JobQuery{})
	runs := t.findRuns(carillon.RunQuery{})
	for i := range runs {
		runs[i] = *t.run(runs[i].ID)
	}
	guards, err := t.store.Guards(t.Context(), carillon.GuardQuery{Namespace: "default"})
	t.must(err)
	var versions, labeled []carillon.Job
	for _, job := range jobs {
		found, err := t.store.Jobs(t.Context(), []carillon.JobVersion{
			{Job: job.ID, Version: 1}, {Job: job.ID, Version: 2},
		})
		t.must(err)
		versions = append(versions, found...)
	}
	for _, team := range []string{"a", "b"} {
		labeled = append(
			labeled,
			t.findJobs(carillon.JobQuery{
				Namespace: "default", Labels: []carillon.Label{{Key: "team", Value: team}},
			})...,
		)
	}
	return []any{jobs, versions, labeled, runs, sortGuards(guards), t.findRuns(carillon.RunQuery{Dead: true})}
}

func storeLostSubmission(t *storeTest) {
	other, first := t.submit(nil)
	job := t.newJob(nil)
	orphan := carillon.NewRun(job, t.now) // put there by the test: no part of Carillon does this
	orphan.Flags |= carillon.FlagAdditional
	t.win(carillon.Change{Job: &other, Runs: []carillon.Run{orphan}})
	third := t.newJob(nil)
	before := carillon.Change{Runs: []carillon.Run{first.Claim("w", t.now)}}
	t.equal("lost", t.commit(before, carillon.Submit(job, t.now), carillon.Submit(third, t.now)), []int{1})
	t.equal("job", t.job(job.ID), (*carillon.Job)(nil))
	t.equal("the change before", t.run(first.ID).State, carillon.StateClaimed)
	t.equal("the change after", t.job(third.ID).ID, third.ID)
}

func storeNamespaces(t *storeTest) {
	fill := func(namespace string) []any {
		edit := func(j *carillon.Job) { j.Namespace, j.Labels = namespace, map[string]string{"team": "a"} }
		job, run := t.submit(edit)
		other, dead := t.finished(carillon.StateFailed, edit)
		t.putGuards(namespace, "limit")
		other.State = carillon.JobFinished
		jobs := []carillon.Job{other, job}
		return []any{
			jobs, jobs, []carillon.Run{run, dead}, []carillon.Run{dead}, []string{namespace + " limit"},
		}
	}
	want := map[string][]any{"a": fill("a"), "b": fill("b"), "ab": fill("ab")}
	for namespace, want := range want {
		t.equal(namespace, []any{
			t.findJobs(carillon.JobQuery{Namespace: namespace}),
			t.findJobs(carillon.JobQuery{
				Namespace: namespace, Labels: []carillon.Label{{Key: "team", Value: "a"}},
			}),
			t.findRuns(carillon.RunQuery{Namespace: namespace}),
			t.findRuns(carillon.RunQuery{Namespace: namespace, Dead: true}),
			t.guardKeys(carillon.GuardQuery{Namespace: namespace}),
		}, want)
	}
}

func storeOrder(t *storeTest) {
	submit := carillon.Submit(t.newJob(nil), t.now)
	run := submit.Runs[0]
	run.Rev = 1
	claimed := run.Claim("worker-1", t.now)
	other := run.Claim("worker-2", t.now)
	held := claimed
	held.Rev = 2
	ended := held.End(carillon.StateSucceeded, "", t.now)
	t.equal("lost", t.commit(
		carillon.Change{Runs: []carillon.Run{claimed}}, // not there yet
		submit,
		carillon.Change{Runs: []carillon.Run{claimed}},
		carillon.Change{Runs: []carillon.Run{other}}, // too late
		carillon.Change{Runs: []carillon.Run{ended}},
		carillon.Change{Runs: []carillon.Run{ended}}, // gone
	), []int{0, 3, 5})
	ended.Rev = 0
	t.equal("run", t.run(run.ID), &ended)
}

func storeLostIndexes(t *storeTest) {
	var changes []carillon.Change
	var want []int
	for i := range 100 {
		c := carillon.Submit(t.newJob(nil), t.now)
		if i%3 == 0 || i == 99 {
			c.Job.Rev = 1
			want = append(want, i)
		}
		changes = append(changes, c)
	}
	t.equal("lost", t.commit(changes...), want)
	t.equal("won", len(t.findJobs(carillon.JobQuery{})), 100-len(want))
}

func storeCanceled(t *storeTest) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	job := t.newJob(nil)
	_, err := t.store.Commit(ctx, []carillon.Change{carillon.Submit(job, t.now)})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("commit: %v", err)
	}
	if _, err := t.store.Jobs(ctx, []carillon.JobVersion{{Job: job.ID}}); !errors.Is(err, context.Canceled) {
		t.Errorf("jobs: %v", err)
	}
	t.equal("job", t.job(job.ID), (*carillon.Job)(nil))
}

var storeConcurrent = []storeCase{
	{"of many who write at the same time exactly one wins each revision", storeWriters},
	{"what a commit wrote is there for every reader after it", storeReadYourWrites},
	{"lines have their runs after many writers moved them at the same time", storeLineWriters},
}

// storeWriters counts with a guard: every writer reads it, adds one, and tries again when it lost.
func storeWriters(t *storeTest) {
	const writers, each = 24, 3
	t.win(carillon.Change{Guards: []carillon.Guard{{Namespace: "default", Key: "count", Value: []byte("0")}}})
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for won := 0; won < each; {
				guards, err := t.store.Guards(context.Background(), carillon.GuardQuery{
					Namespace: "default", Keys: []string{"count"},
				})
				if len(guards) != 1 || err != nil {
					t.Error(guards, err)
					return
				}
				n, _ := strconv.Atoi(string(guards[0].Value))
				guards[0].Value = strconv.AppendInt(nil, int64(n+1), 10)
				lost, err := t.store.Commit(context.Background(), []carillon.Change{{Guards: guards}})
				if err != nil {
					t.Error(err)
					return
				}
				won += 1 - len(lost)
			}
		})
	}
	all.Wait()
	t.equal("count", string(t.guard("default", "count").Value), strconv.Itoa(writers*each))
}

func storeReadYourWrites(t *storeTest) {
	var all sync.WaitGroup
	for range 8 {
		jobs := make([]*carillon.Job, 10)
		for i := range jobs {
			jobs[i] = t.newJob(nil)
		}
		all.Go(func() {
			for _, job := range jobs {
				c := carillon.Submit(job, t.now)
				if lost, err := t.store.Commit(context.Background(), []carillon.Change{c}); len(lost) > 0 ||
					err != nil {
					t.Error(lost, err)
				}
				runs, err := t.store.Runs(context.Background(), []carillon.RunID{c.Runs[0].ID}, true)
				if len(runs) != 1 || err != nil {
					t.Error("a run that was committed is not there", err)
				}
			}
		})
	}
	all.Wait()
}

// storeLineWriters has writers that move the same few runs in and out of lines, together with runs that never
// were in one. Most of their changes lose.
func storeLineWriters(t *storeTest) {
	const writers, rounds = 8, 12
	holds := []string{"", "limit/key/a", "limit/key/b"}
	var ids []carillon.RunID
	for i := range 12 {
		_, run := t.submit(nil)
		if run.Hold = holds[i%len(holds)]; run.Hold != "" {
			run = t.put(run)
		}
		ids = append(ids, run.ID)
	}
	var all sync.WaitGroup
	for writer := range writers {
		all.Go(func() {
			for round := range rounds {
				some := []carillon.RunID{ids[(writer+round)%len(ids)], ids[(5*writer+7*round+1)%len(ids)]}
				if some[0] == some[1] {
					some = some[:1]
				}
				runs, err := t.store.Runs(context.Background(), some, false)
				if err != nil {
					t.Error(err)
					return
				}
				var changes []carillon.Change
				for _, run := range runs {
					run.Hold = holds[(writer+round)%len(holds)]
					changes = append(changes, carillon.Change{Runs: []carillon.Run{run}})
				}
				if _, err := t.store.Commit(context.Background(), changes); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	want := map[string][]carillon.RunID{}
	for _, id := range ids {
		hold := t.run(id).Hold
		want[hold] = append(want[hold], id)
	}
	for _, hold := range holds[1:] {
		slices.SortFunc(want[hold], func(a, b carillon.RunID) int {
			return cmp.Or(cmp.Compare(a.Due, b.Due), cmp.Compare(a.Job, b.Job))
		})
		t.equal(hold, t.lineIDs(hold), want[hold])
	}
}

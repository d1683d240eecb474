package porttest

import (
	"context"
	"slices"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/idgen"
	gocmp "github.com/google/go-cmp/cmp"
)

// Store checks what carillon.Store promises. open returns an empty store.
func Store(t *testing.T, open func(t *testing.T) carillon.Store) {
	for _, group := range [][]storeCase{
		storeRows, storeRaces, storeGuards, storeWakes, storeJobs, storeRuns, storeForget, storeConcurrent,
		storeFolds, storeHooks, storeCatalog, storeLines, storeUnique, storeKeys, storeOperations,
		storeReleases, storeDeadLetters,
	} {
		for _, c := range group {
			t.Run(c.name, func(t *testing.T) {
				c.check(&storeTest{T: t, store: open(t), ids: idgen.New(1, carillon.Never), now: epoch})
			})
		}
	}
}

type storeCase struct {
	name  string
	check func(t *storeTest)
}

// storeTest is a store whose calls must not fail, and the present time.
type storeTest struct {
	*testing.T
	store carillon.Store
	ids   *idgen.IDs
	now   carillon.Time
}

func (t *storeTest) equal(what string, got, want any) {
	t.Helper()
	if d := gocmp.Diff(want, got, rows...); d != "" {
		t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

func (t *storeTest) must(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// commit returns the indexes of the lost changes.
func (t *storeTest) commit(changes ...carillon.Change) []int {
	t.Helper()
	lost, err := t.store.Commit(context.Background(), changes)
	t.must(err)
	return lost
}

// win commits changes of which none may lose.
func (t *storeTest) win(changes ...carillon.Change) {
	t.Helper()
	if lost := t.commit(changes...); len(lost) > 0 {
		t.Fatalf("lost %v of %d changes", lost, len(changes))
	}
}

// lose commits a change that must lose.
func (t *storeTest) lose(c carillon.Change) {
	t.Helper()
	t.equal("lost", t.commit(c), []int{0})
}

// newJob returns a one-off for a handler, due now, unless edit changes that.
func (t *storeTest) newJob(edit func(*carillon.Job)) *carillon.Job {
	t.Helper()
	id, err := t.ids.Next(t.now)
	t.must(err)
	job := &carillon.Job{ID: id, Namespace: carillon.DefaultNamespace}
	job.Type, job.Target.Handler, job.Payload = "mail.send", &carillon.Handler{}, []byte(`{"to":"anna"}`)
	if edit != nil {
		edit(job)
	}
	t.must(job.Admit(t.now))
	return job
}

// submit commits a new job and returns the job and its first run as they are stored.
func (t *storeTest) submit(edit func(*carillon.Job)) (carillon.Job, carillon.Run) {
	t.Helper()
	c := carillon.Submit(t.newJob(edit), t.now)
	t.win(c)
	c.Job.Rev, c.Runs[0].Rev = 1, 1
	return *c.Job, c.Runs[0]
}

// claim gives a run to a worker; end ends it. Both return the run as it is stored then.
func (t *storeTest) claim(run carillon.Run, worker string) carillon.Run {
	t.Helper()
	run = run.Claim(worker, max(t.now, run.ID.Due)) // never early
	t.win(carillon.Change{Runs: []carillon.Run{run}})
	run.Rev++
	return run
}

func (t *storeTest) end(run carillon.Run, state carillon.State) carillon.Run {
	t.Helper()
	run = run.End(state, "because", t.now)
	t.win(carillon.Change{Runs: []carillon.Run{run}})
	run.Rev, run.Flags = 0, 0
	return run
}

// finished submits a job and ends its run after one attempt.
func (t *storeTest) finished(state carillon.State, edit func(*carillon.Job)) (carillon.Job, carillon.Run) {
	t.Helper()
	job, run := t.submit(edit)
	return job, t.end(t.claim(run, "worker-1"), state)
}

// job returns the latest definition; nil if there is none. jobAt returns one of its versions.
func (t *storeTest) job(id carillon.JobID) *carillon.Job { t.Helper(); return t.jobAt(id, 0) }

func (t *storeTest) jobAt(id carillon.JobID, version int32) *carillon.Job {
	t.Helper()
	jobs, err := t.store.Jobs(context.Background(), []carillon.JobVersion{{Job: id, Version: version}})
	t.must(err)
	if len(jobs) == 0 {
		return nil
	}
	return &jobs[0]
}

// run returns a run with its output; nil if there is none.
func (t *storeTest) run(id carillon.RunID) *carillon.Run {
	t.Helper()
	runs, err := t.store.Runs(context.Background(), []carillon.RunID{id}, true)
	t.must(err)
	if len(runs) == 0 {
		return nil
	}
	return &runs[0]
}

func (t *storeTest) guard(namespace, key string) *carillon.Guard {
	t.Helper()
	guards, err := t.store.Guards(context.Background(), carillon.GuardQuery{
		Namespace: namespace, Keys: []string{key},
	})
	t.must(err)
	if len(guards) == 0 {
		return nil
	}
	return &guards[0]
}

func (t *storeTest) wakes(q carillon.WakeQuery) []carillon.Run {
	t.Helper()
	runs, err := t.store.Wakes(context.Background(), q)
	t.must(err)
	return runs
}

// findJobs follows the pages to the end.
func (t *storeTest) findJobs(q carillon.JobQuery) (jobs []carillon.Job) {
	t.Helper()
	for pages := 0; ; pages++ {
		t.goesOn(pages)
		page, err := t.store.FindJobs(context.Background(), q)
		t.must(err)
		if q.Limit > 0 && len(page.Jobs) > q.Limit {
			t.Fatalf("a page of %d, limit %d", len(page.Jobs), q.Limit)
		}
		jobs = append(jobs, page.Jobs...)
		if page.Next == 0 {
			return jobs
		}
		q.Before = page.Next
	}
}

// findRuns follows the pages to the end.
func (t *storeTest) findRuns(q carillon.RunQuery) (runs []carillon.Run) {
	t.Helper()
	for pages := 0; ; pages++ {
		t.goesOn(pages)
		page, err := t.store.FindRuns(context.Background(), q)
		t.must(err)
		if q.Limit > 0 && len(page.Runs) > q.Limit {
			t.Fatalf("a page of %d, limit %d", len(page.Runs), q.Limit)
		}
		runs = append(runs, page.Runs...)
		if page.Next == "" {
			return runs
		}
		q.After = page.Next
	}
}

// goesOn stops a test whose pages do not end.
func (t *storeTest) goesOn(pages int) {
	t.Helper()
	if pages > 10_000 {
		t.Fatal("the pages do not end")
	}
}

func jobIDs(jobs []carillon.Job) (ids []carillon.JobID) {
	for _, job := range jobs {
		ids = append(ids, job.ID)
	}
	return ids
}

func reversed[T any](items []T) []T {
	items = slices.Clone(items)
	slices.Reverse(items)
	return items
}

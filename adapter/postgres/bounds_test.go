package postgres_test

import (
	"context"
	"slices"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/internal/idgen"
)

// bounded returns a store whose searches give up after seven rows. Every tenth of its jobs is of type "rare".
func bounded(t *testing.T) (store *postgres.Store, rare []carillon.JobID) {
	t.Helper()
	store = open(t, database(t), postgres.Config{})
	store.ScanAtMost(7)
	ids := idgen.New(1, carillon.Never)
	var changes []carillon.Change
	for i := range 100 {
		job := carillon.Job{Namespace: "default", Definition: carillon.Definition{Queue: "default", Priority: 5}}
		job.ID, _ = ids.Next(now)
		job.Type, job.Target.Handler = "common", &carillon.Handler{}
		if i%10 == 0 {
			job.Type = "rare"
			rare = append(rare, job.ID)
		}
		job.Schedule.At, job.Timeout = now, 0
		c := carillon.Submit(&job, now)
		if i%2 == 0 {
			c.Runs[0] = c.Runs[0].Claim("worker-"+job.Type, now).End(carillon.StateSucceeded, "", now)
		}
		changes = append(changes, c)
	}
	if lost, err := store.Commit(context.Background(), changes); len(lost) > 0 || err != nil {
		t.Fatal(lost, err)
	}
	slices.Reverse(rare)
	return store, rare
}

func TestASearchGivesUpItsTurnAndGoesOnWhereItStood(t *testing.T) {
	store, want := bounded(t)
	var jobs, runs []carillon.JobID
	jobPages, runPages := 0, 0
	for q := (carillon.JobQuery{Type: "rare"}); ; {
		page, err := store.FindJobs(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, job := range page.Jobs {
			jobs = append(jobs, job.ID)
		}
		jobPages++
		if q.Before = page.Next; page.Next == 0 {
			break
		}
	}
	for q := (carillon.RunQuery{Worker: "worker-rare"}); ; {
		page, err := store.FindRuns(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range page.Runs {
			runs = append(runs, run.ID.Job)
		}
		runPages++
		if q.After = page.Next; page.Next == "" {
			break
		}
	}
	if !slices.Equal(jobs, want) || !slices.Equal(runs, want) {
		t.Errorf("jobs %v, runs %v, want %v", jobs, runs, want)
	}
	if jobPages != 15 || runPages != 15 { // 100 rows, 7 a turn
		t.Errorf("%d and %d pages", jobPages, runPages)
	}
}

func TestRunsOfALaneAreFoundBehindManyOfAnother(t *testing.T) {
	store := open(t, database(t), postgres.Config{})
	store.ScanAtMost(3)
	changes := submissions(t, idgen.New(1, carillon.Never), 1000)
	var want []carillon.RunID
	for i := range changes {
		if i%100 == 99 {
			changes[i].Runs[0].Priority = 9
			want = append(want, changes[i].Runs[0].ID)
		}
		if i%200 == 99 {
			changes[i].Runs[0].Wake++
		}
	}
	commit(t, store, changes...)
	var got []carillon.RunID
	lane := changes[99].Runs[0].Lane()
	q := carillon.WakeQuery{Until: carillon.Never, Lane: &lane, Limit: 2}
	for len(got) <= len(want) {
		page, err := store.Wakes(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for i := range page {
			got, q.After = append(got, page[i].ID), page[i].WakePos()
		}
	}
	slices.SortFunc(got, func(a, b carillon.RunID) int { return int(a.Job - b.Job) })
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAReadStopsAfterManyRunsOfAFullLane(t *testing.T) {
	full := submissions(t, idgen.New(1, carillon.Never), 1)[0].Runs[0].Lane()
	testStops(
		t, carillon.WakeQuery{Full: []carillon.Lane{full}},
		func(run *carillon.Run) { run.Priority = 9 },
	)
}

// testStops makes some runs that a query wants, and expects the query to find all of them, in several pages
// if it stops.
func testStops(t *testing.T, query carillon.WakeQuery, want func(*carillon.Run)) {
	for _, atMost := range []int{1, 64, 500, 100_000} {
		store := open(t, database(t), postgres.Config{})
		store.ScanAtMost(atMost)
		changes := submissions(t, idgen.New(1, carillon.Never), 1000)
		var wanted []carillon.RunID
		for i := range changes {
			// Many are of one shard: more than one read takes from it.
			if i%100 == 99 || changes[i].Job.ID.Shard() == 5 {
				want(&changes[i].Runs[0])
				wanted = append(wanted, changes[i].Runs[0].ID)
			}
			if i%300 == 99 {
				changes[i].Runs[0].Wake++
			}
		}
		commit(t, store, changes...)
		var got []carillon.RunID
		pages, q := 0, query
		q.Until, q.Limit = carillon.Never, 2
		for more := true; more; pages++ {
			page, err := store.Wakes(context.Background(), q)
			if err != nil {
				t.Fatal(err)
			}
			for i := range page {
				if q.Wants(&page[i]) {
					got = append(got, page[i].ID)
				}
				q.After = page[i].WakePos()
			}
			more = q.More(page)
		}
		slices.SortFunc(got, func(a, b carillon.RunID) int { return int(a.Job - b.Job) })
		if !slices.Equal(got, wanted) {
			t.Errorf("at most %d: got %v, want %v", atMost, got, wanted)
		}
		if few := len(wanted)/q.Limit + 1; (pages > few) != (atMost <= 64) {
			t.Errorf("at most %d: %d pages; %d without a stop", atMost, pages, few)
		}
	}
}

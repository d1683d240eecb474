package postgres_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/postgres"
)

// Rows as they were written before zeros were left out.
const widely = `
INSERT INTO carillon.job (id, created, updated, due, rev, version, state, namespace, name, type, owner, spec, payload)
  VALUES (1, 1000, 1000, 1000, 1, 1, 1, 'default', 'old', 'old', 'default', NULL, NULL);
INSERT INTO carillon.run (due, job, wake, covers, claimed, started, retry_of, rev, version, seq, attempt, failures, losses, crashes, shard, state, priority,
  flags, extra, namespace, queue, worker, reason)
  SELECT 1000, 1, 1000, 1000, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, carillon.shard_of(1), 1, 5, 0, false, 'default', 'default', '', '';
INSERT INTO carillon.history (place, job, due, covers, until, claimed, started, ended, retry_of, version, seq, attempt, failures, losses, crashes, state, priority,
  namespace, queue, name, type, owner, worker, reason)
  VALUES (7, 1, 500, 0, 0, 600, 600, 700, 0, 1, 0, 1, 0, 0, 0, 4, 5, 'default', 'default', 'old', 'old', 'default', '', '')`

func TestRowsWithZerosReadLikeThoseWithout(t *testing.T) {
	url := database(t)
	store := open(t, url, postgres.Config{})
	execute(t, url, widely)
	runs, err := store.Wakes(t.Context(), carillon.WakeQuery{Until: carillon.Now()})
	if err != nil || len(runs) != 1 {
		t.Fatal(runs, err)
	}
	want := carillon.Run{
		ID: carillon.RunID{Job: 1, Due: 1000}, Namespace: "default", Queue: "default", Wake: 1000,
		Covers: 1000, Rev: 1, Version: 1, State: carillon.StateWaiting,
		Priority: 5,
	}
	if runs[0] != want {
		t.Errorf("got %+v, want %+v", runs[0], want)
	}
	page, err := store.FindRuns(t.Context(), carillon.RunQuery{Namespace: "default", Job: 1})
	if err != nil || len(page.Runs) != 2 || page.Runs[1].Covers != 0 || page.Runs[1].Ended != 700 {
		t.Errorf("got %+v, %v: want the record that stands for no scheduled time last", page.Runs, err)
	}
}

func TestDeadLettersOfSeveralConnectionsComeLatestFirst(t *testing.T) {
	url := database(t)
	stores := []*postgres.Store{open(t, url, postgres.Config{}), open(t, url, postgres.Config{})}
	commit := func(i int, c carillon.Change) {
		if lost, err := stores[i%2].Commit(t.Context(), []carillon.Change{c}); err != nil || len(lost) > 0 {
			t.Fatal(lost, err)
		}
	}
	const letters = 10
	for i := range letters {
		now := carillon.Now()
		def := carillon.Definition{}
		def.Type, def.Target.Handler = "test", &carillon.Handler{}
		if err := def.Admit(now); err != nil {
			t.Fatal(err)
		}
		c := carillon.Submit(
			&carillon.Job{ID: carillon.JobID(i + 1), Namespace: "default", Definition: def}, now,
		)
		commit(i, c)
		run := c.Runs[0]
		run.Rev = 1
		commit(i, carillon.Change{Runs: []carillon.Run{run.End(carillon.StateFailed, "exit code 1", now)}})
		// Dead letters of one millisecond come in the order of the connections' sequences. The server rounds
		// to the nearest millisecond and this process rounds down, so the next letter waits for the second
		// millisecond.
		for written := carillon.Now(); carillon.Now() <= written+1; {
			runtime.Gosched()
		}
	}
	page, err := stores[0].FindRuns(t.Context(), carillon.RunQuery{Namespace: "default", Dead: true})
	if err != nil || len(page.Runs) != letters {
		t.Fatal(len(page.Runs), err)
	}
	for i, run := range page.Runs {
		if want := carillon.JobID(letters - i); run.ID.Job != want {
			t.Errorf("letter %d is of %s, want %s", i, run.ID.Job, want)
		}
	}
}

// A dump holds all tables until it ends. A session that waits for the lock that a migration needs would make
// all other sessions wait.
func TestAMigrationThatWaitsForATableHoldsUpNoQuery(t *testing.T) {
	url := database(t)
	before, _, _ := strings.Cut(postgres.Script(), "-- 0005_narrow.sql")
	execute(t, url, before)
	other := client(t, url)
	dump, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer dump.Close(context.Background())
	if _, err := dump.Exec(
		t.Context(), `BEGIN; SELECT FROM carillon.run; SELECT FROM carillon.history`,
	); err != nil {
		t.Fatal(err)
	}
	migrated := make(chan error, 1)
	go func() {
		other, err := postgres.Open(context.Background(), url, postgres.Config{})
		if err == nil {
			err = other.Close()
		}
		migrated <- err
	}()
	untilBlocked(t, url)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a failing test would wait for ever
	defer cancel()
	if _, err := other.Exec(ctx, `SELECT FROM carillon.run`); err != nil {
		t.Errorf("others wait: %v", err)
	}
	if _, err := dump.Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Errorf("the migration did not come to its end: %v", err)
	}
}

package postgres_test

import (
	"context"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/porttest"
)

const stricter = `DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = "repeatable read"', current_database()); END $$`

func TestTenNodesMayStartAtOnceWhateverIsolationIsTheDefault(t *testing.T) {
	url := database(t)
	execute(t, url, stricter)
	startTen(t, url)
}

// A statement that waited for another session's commit goes on from what that commit wrote.
func TestNothingDependsOnWhichIsolationIsTheDefault(t *testing.T) {
	direct, behind := behindPooler(t)
	execute(t, direct, stricter)
	for name, url := range map[string]string{"direct": direct, "behind a pooler": behind} {
		t.Run(name, func(t *testing.T) {
			store, other := emptied(t, url, postgres.Config{}), client(t, direct)
			submit := submissions(t, idgen.New(1, carillon.Never), 1)[0]
			commit(t, store, submit)
			coordinator := postgres.NewCoordinator(store)
			if err := coordinator.Join(t.Context(), []carillon.Member{{ID: name}}); err != nil {
				t.Fatal(err)
			}
			for what, do := range map[string]func() error{
				`UPDATE carillon.session SET beat = beat + 1`: func() error {
					_, err := coordinator.Beat(context.Background(), []carillon.Beat{{ID: name}})
					return err
				},
				`UPDATE carillon.job SET updated = updated + 1`: func() error {
					job := *submit.Job
					job.Rev = 1
					return store.Try(context.Background(), carillon.Change{Job: &job})
				},
			} {
				if _, err := other.Exec(t.Context(), `BEGIN; `+what); err != nil {
					t.Fatal(err)
				}
				done := make(chan error, 1)
				go func() { done <- do() }()
				untilBlocked(t, direct)
				if _, err := other.Exec(t.Context(), `COMMIT`); err != nil {
					t.Fatal(err)
				}
				if err := <-done; err != nil {
					t.Errorf("after %s: %v", what, err)
				}
			}
		})
	}
}

// A pooler gives every transaction to another session, so the suite notices what a store leaves behind in a
// session, or expects to find there. The isolation that the store needs is among that: it is not the default.
func TestStoreBehindAPoolerWhereAnotherIsolationIsTheDefault(t *testing.T) {
	direct, behind := behindPooler(t)
	execute(t, direct, stricter)
	porttest.Store(t, func(t *testing.T) carillon.Store { return emptied(t, behind, postgres.Config{}) })
}

package postgres_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/porttest/server"
)

// outlast commits changes one by one, each until it is known to be written, and returns how often that failed.
func outlast(t *testing.T, store *postgres.Store, changes []carillon.Change) (failures int) {
	t.Helper()
	for _, c := range changes {
		for try := 0; ; try++ {
			_, err := store.Commit(context.Background(), []carillon.Change{c}) // lost: an earlier try was written after all
			if err == nil {
				break
			}
			failures++
			if errors.Is(err, carillon.ErrPermanent) || try > 100_000 {
				t.Fatal(err)
			}
		}
	}
	return failures
}

func TestAServerThatWasAwayIsFoundAgainWithAllThatWasCommitted(t *testing.T) {
	for name, away := range map[string]func(*server.Server) error{
		"restarted": func(s *server.Server) error { return s.Restart(context.Background()) },
		"crashed":   func(s *server.Server) error { return errors.Join(s.Kill(), s.Start(context.Background())) },
	} {
		t.Run(name, func(t *testing.T) {
			pg := server.Postgres(t)
			store := open(t, pg.URL, postgres.Config{})
			changes := submissions(t, carillon.NewIDs(1, carillon.Never), 300)
			outlast(t, store, changes[:100])
			gone := make(chan error, 1)
			go func() { gone <- away(pg) }()
			outlast(t, store, changes[100:])
			if err := <-gone; err != nil {
				t.Fatal(err)
			}
			found, err := store.Wakes(context.Background(), carillon.WakeQuery{Until: carillon.Never, Limit: 1000})
			if len(found) == 0 && err != nil { // the last connection was cut
				found, err = store.Wakes(context.Background(), carillon.WakeQuery{Until: carillon.Never, Limit: 1000})
			}
			if len(found) != len(changes) || err != nil {
				t.Errorf("%d of %d are there: %v", len(found), len(changes), err)
			}
		})
	}
}

func TestACallToAServerThatDoesNotAnswerEnds(t *testing.T) {
	pg := server.Postgres(t)
	open(t, pg.URL, postgres.Config{}) // makes the schema, which may take longer
	store := open(t, pg.URL, postgres.Config{Timeout: 300 * time.Millisecond})
	changes := submissions(t, carillon.NewIDs(1, carillon.Never), 2)
	outlast(t, store, changes[:1])
	if err := pg.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	_, err := store.Commit(context.Background(), changes[1:])
	_, readErr := store.Jobs(context.Background(), []carillon.JobVersion{{Job: changes[0].Job.ID}})
	if err := pg.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if err == nil || readErr == nil || errors.Is(err, carillon.ErrPermanent) {
		t.Errorf("commit: %v, read: %v", err, readErr)
	}
	outlast(t, store, changes[1:])
}

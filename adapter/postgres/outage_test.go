package postgres_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/porttest/server"
)

// outlast commits changes one by one, each until it is known to be written. After an error it waits until the
// server is back, unless back is nil: then the server is there. In both cases a few calls may find that their
// connection died while the server was away.
func outlast(t *testing.T, store *postgres.Store, changes []carillon.Change, back <-chan struct{}) {
	t.Helper()
	for _, c := range changes {
		for try := 0; ; try++ {
			// A change that is lost was written by an earlier try after all.
			_, err := store.Commit(context.Background(), []carillon.Change{c})
			if err == nil {
				break
			}
			if errors.Is(err, carillon.ErrPermanent) || try > 10 {
				t.Fatal(err)
			}
			if back != nil {
				<-back
			}
		}
	}
}

func TestAServerThatWasAwayIsFoundAgainWithAllThatWasCommitted(t *testing.T) {
	pg := server.Postgres(t)
	store := open(t, pg.URL, postgres.Config{})
	changes := submissions(t, idgen.New(1, carillon.Never), 300)
	for i, away := range []func() error{
		func() error { return pg.Restart(context.Background()) },
		func() error { return errors.Join(pg.Kill(), pg.Start(context.Background())) },
	} {
		some := changes[150*i:][:150]
		outlast(t, store, some[:50], nil)
		back := make(chan struct{})
		go func() {
			defer close(back)
			if err := away(); err != nil {
				t.Error(err)
			}
		}()
		outlast(t, store, some[50:], back)
		<-back
	}
	var found []carillon.Run
	for range 5 { // calls notice cut connections one by one
		var err error
		if found, err = store.Wakes(context.Background(), carillon.WakeQuery{
			Until: carillon.Never, Limit: 1000,
		}); err == nil {
			break
		}
	}
	if len(found) != len(changes) {
		t.Errorf("%d of %d are there", len(found), len(changes))
	}
}

func TestACallToAServerThatDoesNotAnswerEnds(t *testing.T) {
	pg := server.Postgres(t)
	open(t, pg.URL, postgres.Config{}) // makes the schema, which may take longer
	store := open(t, pg.URL, postgres.Config{Timeout: 300 * time.Millisecond})
	changes := submissions(t, idgen.New(1, carillon.Never), 2)
	outlast(t, store, changes[:1], nil)
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
	thawed := make(chan struct{})
	close(thawed)
	outlast(t, store, changes[1:], thawed)
}

package postgres_test

import (
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/porttest"
)

// As if the triggers were not there yet.
const ageDead = `ALTER TABLE carillon.dead DISABLE TRIGGER USER; UPDATE carillon.dead SET fingerprint = NULL;
ALTER TABLE carillon.dead ENABLE TRIGGER USER; DELETE FROM carillon.dead_group`

func TestDeadLettersOfAnOlderVersionAreGroupedToo(t *testing.T) {
	for name, reopen := range map[string]func(t *testing.T, url string, store *postgres.Store) carillon.Store{
		"when the store is opened": func(t *testing.T, url string, _ *postgres.Store) carillon.Store {
			return open(t, url, postgres.Config{})
		},
		"while it is open": func(t *testing.T, _ string, store *postgres.Store) carillon.Store {
			if _, err := store.Forget(t.Context(), carillon.Retention{}, carillon.Now(), 1); err != nil {
				t.Fatal(err)
			}
			return store
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := database(t)
			store := open(t, url, postgres.Config{})
			porttest.OlderDeadLetters(t, store, func() { execute(t, url, ageDead) },
				func() carillon.Store { return reopen(t, url, store) })
		})
	}
}

package mysql_test

import (
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mysql"
	"github.com/carillon-run/carillon/porttest"
)

func TestDeadLettersOfAnOlderVersionAreGroupedToo(t *testing.T) {
	for name, reopen := range map[string]func(t *testing.T, url string, store *mysql.Store) carillon.Store{
		"when the store is opened": func(t *testing.T, url string, _ *mysql.Store) carillon.Store {
			return openAt(t, url)
		},
		"while it is open": func(t *testing.T, _ string, store *mysql.Store) carillon.Store {
			if _, err := store.Forget(t.Context(), carillon.Retention{}, carillon.Now(), 1); err != nil {
				t.Fatal(err)
			}
			return store
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := database(t)
			store := openAt(t, url)
			porttest.OlderDeadLetters(t, store, func() {
				// An older node also deletes letters that are counted, and does not count.
				const age = `UPDATE dead SET fingerprint = NULL; UPDATE dead_group SET letters = 7
					WHERE fingerprint > 0`
				if err := store.Exec(t.Context(), age); err != nil {
					t.Fatal(err)
				}
			}, func() carillon.Store { return reopen(t, url, store) })
		})
	}
}

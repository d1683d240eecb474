package sqlite_test

import (
	"path/filepath"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/porttest"
)

func TestDeadLettersOfAnOlderVersionAreGroupedToo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "carillon.db")
	store := openPath(t, path)
	porttest.OlderDeadLetters(t, store, func() {
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		conn, err := sqlite.OpenConn(path, sqlite.OpenReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		const age = `UPDATE dead SET fingerprint = NULL; DELETE FROM dead_group`
		if err := sqlitex.ExecuteScript(conn, age, nil); err != nil {
			t.Fatal(err)
		}
	}, func() carillon.Store { return openPath(t, path) })
}

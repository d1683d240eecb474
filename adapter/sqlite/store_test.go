package sqlite_test

import (
	"path/filepath"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/sqlite"
	"github.com/carillon-run/carillon/porttest"
)

func open(t testing.TB) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(filepath.Join(t.TempDir(), "carillon.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

func TestModel(t *testing.T) {
	porttest.Model(t, func(t *testing.T) carillon.Store { return open(t) })
}

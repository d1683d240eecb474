package postgres_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/carillon-run/carillon/adapter/postgres"
)

func TestTenNodesMayStartAtOnceOnAnEmptyDatabase(t *testing.T) {
	startTen(t, database(t))
}

// startTen opens ten stores at once on an empty database.
func startTen(t *testing.T, url string) {
	t.Helper()
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			store, err := postgres.Open(context.Background(), url, postgres.Config{})
			if err != nil {
				t.Error(err)
				return
			}
			store.Close()
		})
	}
	all.Wait()
	if got := number(
		t, url, `SELECT count(*) FROM carillon.migration`,
	); got != int64(len(postgres.Migrations())) {
		t.Errorf("%d migrations were applied, there are %d", got, len(postgres.Migrations()))
	}
}

func TestADatabaseOfANewerProgramIsRefused(t *testing.T) {
	url := database(t)
	open(t, url, postgres.Config{})
	execute(t, url, `INSERT INTO carillon.migration (version, name) VALUES (99, '0099_later.sql')`)
	_, err := postgres.Open(context.Background(), url, postgres.Config{})
	if err == nil || !strings.Contains(err.Error(), "schema version 99, this program knows up to ") {
		t.Errorf("got %v", err)
	}
}

func TestASchemaThatIsToBeKeptIsNotMigrated(t *testing.T) {
	url := database(t)
	_, err := postgres.Open(context.Background(), url, postgres.Config{KeepSchema: true})
	if err == nil || !strings.Contains(err.Error(), "schema version 0, this program needs ") {
		t.Errorf("got %v", err)
	}
	if got := number(t, url, `SELECT count(*) FROM pg_namespace WHERE nspname = 'carillon'`); got != 0 {
		t.Error("a schema was made")
	}
	open(t, url, postgres.Config{})
	open(t, url, postgres.Config{KeepSchema: true})
}

func TestMigrationsAreNumberedWithoutAGap(t *testing.T) {
	for i, m := range postgres.Migrations() {
		if m.Version != i+1 || m.SQL == "" {
			t.Errorf("migration %d is %s", i+1, m.Name)
		}
	}
}

package mysql_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon/adapter/mysql"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

func TestTenNodesMayStartAtOnce(t *testing.T) {
	url := database(t)
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			store, err := mysql.Open(context.Background(), url, mysql.Config{})
			if err != nil {
				t.Error(err)
				return
			}
			store.Close()
		})
	}
	all.Wait()
	store := openAt(t, url)
	applied, err := store.Query(t.Context(), `SELECT count(*), max(version) FROM migration`)
	newest := mysql.Migrations()[len(mysql.Migrations())-1].Version
	if err != nil || applied[0][0] != applied[0][1] || len(mysql.Migrations()) != newest {
		t.Error(applied, err)
	}
	days, err := store.Query(t.Context(), `SELECT PARTITION_NAME FROM information_schema.PARTITIONS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'history'`)
	if err != nil || len(days) != 5 { // one for older records, three days, and one for later records
		t.Error(days, err)
	}
}

func TestADatabaseOfANewerProgramIsRefused(t *testing.T) {
	url := database(t)
	if err := openAt(t, url).Exec(
		t.Context(), `INSERT INTO migration VALUES (99, '0099_later.sql', 0)`,
	); err != nil {
		t.Fatal(err)
	}
	_, err := mysql.Open(t.Context(), url, mysql.Config{})
	if err == nil || !strings.Contains(err.Error(), "schema version 99, this program knows up to ") {
		t.Errorf("got %v", err)
	}
}

func TestASchemaThatIsToBeKeptIsNotMigrated(t *testing.T) {
	url := database(t)
	_, err := mysql.Open(t.Context(), url, mysql.Config{KeepSchema: true})
	if err == nil || !strings.Contains(err.Error(), "schema version 0, this program needs ") {
		t.Errorf("got %v", err)
	}
	openAt(t, url)
	store, err := mysql.Open(t.Context(), url, mysql.Config{KeepSchema: true})
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
}

// A crash leaves the first statements of a migration done and the migration not recorded.
func TestAMigrationIsRepeatedAfterACrashInTheMiddle(t *testing.T) {
	store := openAt(t, database(t))
	win(t, store, guard("k", 0, "1"))
	if err := store.Exec(t.Context(), `DELETE FROM migration; DROP TABLE checkpoint`); err != nil {
		t.Fatal(err)
	}
	again := openAt(t, strings.Replace(sharedServer(t).URL, "/carillon", "/"+databaseOf(t, store), 1))
	win(t, again, submits(t, 1, nil)...)
	win(t, again, guard("k", 1, "2"))
}

func TestAMigrationMayTakeLongerThanACall(t *testing.T) {
	url := database(t)
	store := openAt(t, url)
	slow := []sqlcommon.Migration{{Version: 99, Name: "0099_slow.sql", SQL: "DO SLEEP(0.5);"}}
	if err := store.Apply(t.Context(), url, 100*time.Millisecond, slow); err != nil {
		t.Fatal(err)
	}
}

func TestWhoWaitsForAnotherNodesMigrationIsToldSo(t *testing.T) {
	url := database(t)
	store, other := openAt(t, url), openAt(t, url)
	err := other.Migrating(t.Context(), func() error {
		return store.Apply(t.Context(), url, time.Second, mysql.Migrations())
	})
	if err == nil || err.Error() != "another node's migration takes too long" {
		t.Errorf("got %v", err)
	}
}

func databaseOf(t *testing.T, store *mysql.Store) string {
	t.Helper()
	name, err := store.Query(t.Context(), `SELECT DATABASE()`)
	if err != nil {
		t.Fatal(err)
	}
	return name[0][0]
}

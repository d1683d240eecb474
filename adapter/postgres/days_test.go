package postgres_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/jackc/pgx/v5"
)

// oldDay makes a day of history of long ago, as the store makes them.
const (
	oldDay = `CREATE TABLE carillon.history_20200101 (LIKE carillon.history);
ALTER TABLE carillon.history ATTACH PARTITION carillon.history_20200101
FOR VALUES FROM (1577836800000::bigint << 20) TO (1577923200000::bigint << 20)`
	oldDays   = `SELECT count(*) FROM pg_class WHERE relname = 'history_20200101'`
	oldRecord = `INSERT INTO carillon.history SELECT (1577836800000::bigint << 20) + 1, job, due, covers, until, claimed, started, ended, expires,
retry_of, version, seq, attempt, failures, losses, crashes, state, priority, namespace, queue, name, type, owner, worker, reason FROM carillon.history`
	dropDays = `DO $$ DECLARE day text; BEGIN
  FOR day IN SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'carillon.history'::regclass AND c.relname <> 'history_rest'
  LOOP EXECUTE 'DROP TABLE carillon.' || day; END LOOP; END $$`
)

// ended commits a run and its end.
func ended(t *testing.T, store *postgres.Store) carillon.Run {
	t.Helper()
	submit := submissions(t, idgen.New(1, carillon.Never), 1)[0]
	submit.Runs[0] = submit.Runs[0].Claim("w", now).End(carillon.StateSucceeded, "", now)
	commit(t, store, submit)
	return submit.Runs[0]
}

func forgetAll(t *testing.T, store *postgres.Store) (forgotten int) {
	t.Helper()
	forgotten, err := store.Forget(context.Background(), carillon.Retention{Runs: 1}, now+1000, 100)
	if err != nil {
		t.Fatal(err)
	}
	return forgotten
}

func TestADayOfHistoryIsDroppedWhenAllOfItIsForgotten(t *testing.T) {
	url := database(t)
	store := open(t, url, postgres.Config{})
	ended(t, store)
	execute(t, url, oldDay)
	execute(t, url, oldRecord)
	tend := func(want int64) {
		t.Helper()
		if err := store.TendDays(context.Background()); err != nil {
			t.Fatal(err)
		}
		if got := number(t, url, oldDays); got != want {
			t.Errorf("%d such days, want %d", got, want)
		}
	}
	tend(1)
	if got := forgetAll(t, store); got != 2 {
		t.Errorf("forgot %d, want the old record and the new one", got)
	}
	reader, err := pgx.Connect(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close(context.Background())
	if _, err := reader.Exec(context.Background(), `BEGIN; SELECT FROM carillon.history`); err != nil {
		t.Fatal(err)
	}
	tend(1) // it does not wait for a reader
	if _, err := reader.Exec(context.Background(), `ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	tend(0)
}

func TestARecordForWhoseDayThereIsNoPartitionIsKept(t *testing.T) {
	url := database(t)
	store := open(t, url, postgres.Config{})
	execute(t, url, dropDays)
	run := ended(t, store)
	if err := store.TendDays(context.Background()); err != nil { // history_rest has a record of today
		t.Fatal(err)
	}
	found, err := store.Runs(context.Background(), []carillon.RunID{run.ID}, false)
	if len(found) != 1 || err != nil {
		t.Fatal(found, err)
	}
	if got := forgetAll(t, store); got != 1 {
		t.Errorf("forgot %d", got)
	}
}

func TestARecordOnItsWayToTheRestWhileItsDayIsMadeIsCommitted(t *testing.T) {
	url := database(t)
	store, tending := open(t, url, postgres.Config{}), client(t, url)
	execute(t, url, dropDays)
	today := time.Now().UTC().Truncate(24 * time.Hour)
	sql := fmt.Sprintf(`BEGIN; CREATE TABLE carillon.today (LIKE carillon.history);
ALTER TABLE carillon.history ATTACH PARTITION carillon.today FOR VALUES FROM (%d::bigint << 20) TO (%d::bigint << 20)`,
		today.UnixMilli(), today.AddDate(0, 0, 2).UnixMilli())
	if _, err := tending.Exec(t.Context(), sql, pgx.QueryExecModeSimpleProtocol); err != nil {
		t.Fatal(err)
	}
	var committing sync.WaitGroup
	committing.Go(func() { ended(t, store) })
	untilBlocked(t, url)
	if _, err := tending.Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	committing.Wait()
	if got := number(t, url, `SELECT count(*) FROM carillon.today`); got != 1 {
		t.Errorf("%d records", got)
	}
}

func TestWhatCouldNotBeForgottenIsForgottenTheNextTime(t *testing.T) {
	url := database(t)
	store := open(t, url, postgres.Config{})
	ended(t, store)
	execute(t, url, oldDay)
	execute(t, url, oldRecord)
	execute(t, url, `CREATE FUNCTION carillon.fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not now'; END $$;
CREATE TRIGGER fail BEFORE DELETE ON carillon.history FOR EACH ROW EXECUTE FUNCTION carillon.fail()`)
	_, err := store.Forget(context.Background(), carillon.Retention{Runs: 1}, now+1000, 100)
	// The error names the statement that failed, not one after it.
	if err == nil || !strings.Contains(err.Error(), "delete_history: ") {
		t.Errorf("got %v", err)
	}
	execute(t, url, `DROP TRIGGER fail ON carillon.history`)
	if got := forgetAll(t, store); got != 2 {
		t.Errorf("forgot %d, want both", got)
	}
}

func TestThatDaysCannotBeMadeIsSaidOnce(t *testing.T) {
	url := database(t)
	open(t, url, postgres.Config{})
	execute(t, url, dropDays)
	var said bytes.Buffer
	store := open(t, guest(t, url), postgres.Config{
		KeepSchema: true, Logger: slog.New(slog.NewTextHandler(&said, nil)),
	})
	for range 2 {
		if err := store.TendDays(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if lines := strings.Count(said.String(), "\n"); lines != 1 ||
		!strings.Contains(said.String(), "permission denied") {
		t.Errorf("said %q", said.String())
	}
}

func TestWhatIsForgottenLeavesNothingBehind(t *testing.T) {
	url := database(t)
	store := open(t, url, postgres.Config{})
	submit := submissions(t, idgen.New(1, carillon.Never), 1)[0]
	submit.Job.Labels = map[string]string{"team": "a"}
	submit.Runs[0] = submit.Runs[0].Claim("w", now).End(carillon.StateFailed, "because", now)
	submit.Runs[0].Output = &carillon.Output{
		Result: []byte("r"), Checkpoint: []byte("c"), Payload: []byte("p"),
		Attempt: &carillon.Attempt{Number: 1},
	}
	submit.Guards = []carillon.Guard{submit.Job.OverlapGuard()}
	commit(t, store, submit)
	job := *submit.Job
	job.Rev, job.Version = 1, 2
	commit(t, store, carillon.Change{Job: &job})
	forgotten, err := store.Forget(
		context.Background(), carillon.Retention{Runs: 1, DeadLetters: 1}, now+1000, 100,
	)
	if forgotten != 2 || err != nil {
		t.Fatal(forgotten, err)
	}
	for _, table := range []string{
		"job", "definition", "job_label", "run", "history", "dead", "result", "checkpoint", "run_payload",
		"attempt", "guard",
	} {
		if got := number(t, url, `SELECT count(*) FROM carillon.`+table); got != 0 {
			t.Errorf("%d rows left in %s", got, table)
		}
	}
}

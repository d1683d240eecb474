package mysql_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mysql"
)

const minute = carillon.Time(time.Minute / time.Millisecond)

// printed makes a run print a line, with its due time as the time of writing.
func printed(t *testing.T, store *mysql.Store, logs *mysql.Logs, due carillon.Time) {
	t.Helper()
	run := carillon.RunID{Job: 1, Due: due}
	chunk := carillon.Chunk{Namespace: "default", Run: run, Attempt: 1, Lines: []carillon.Line{{Text: "x"}}}
	if err := logs.Append(t.Context(), []carillon.Chunk{chunk}); err != nil {
		t.Fatal(err)
	}
	if err := store.Exec(
		t.Context(), fmt.Sprintf(`UPDATE log SET written = due WHERE due = %d`, due),
	); err != nil {
		t.Fatal(err)
	}
}

// partitionsOf returns the names of the partitions of a table.
func partitionsOf(t *testing.T, store *mysql.Store, table string) string {
	t.Helper()
	return count(t, store, `SELECT group_concat(PARTITION_NAME ORDER BY PARTITION_ORDINAL_POSITION) FROM information_schema.PARTITIONS
WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = '`+table+`'`)
}

func TestADayIsDroppedAnotherTimeWhileHistoryIsRead(t *testing.T) {
	url := database(t)
	store, other := openAt(t, url), openAt(t, url)
	store.Bound(1000, 20)
	history(t, store, nil)
	at := midnight + 31*dayLength + dayLength/24
	before := partitionsOf(t, store, "history")
	err := other.During(t.Context(), `SELECT 1 FROM history LIMIT 1`, func() {
		start := time.Now()
		if n := forgetAll(t, store, at); n != 20 { // gone through, but not dropped
			t.Errorf("forgot %d", n)
		}
		if took := time.Since(start); took > 10*time.Second { // by default it would be a day
			t.Errorf("commits may have waited for %v", took)
		}
		if got := partitionsOf(t, store, "history") +
			count(t, store, `SELECT count(*) FROM history`); got != before+"60" {
			t.Errorf("left %s", got)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	forgetAll(t, store, at+minute)
	if got := count(t, store, `SELECT count(*) FROM history`); got != "40" {
		t.Errorf("a minute later %s are left", got)
	}
	if patience := count(t, store, `SELECT @@SESSION.lock_wait_timeout`); patience != "5" {
		t.Errorf("others wait for %s s from now on", patience)
	}
}

func TestADayOfLogsIsDroppedAnotherTimeWhileTheyAreRead(t *testing.T) {
	url := database(t)
	store, other := openAt(t, url), openAt(t, url)
	logs, at := mysql.NewLogs(store), carillon.Now()+2*dayLength
	printed(t, store, logs, carillon.Now())
	before := partitionsOf(t, store, "log")
	err := other.During(t.Context(), `SELECT 1 FROM log LIMIT 1`, func() {
		start := time.Now()
		if err := logs.Trim(t.Context(), at, time.Hour); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took > 10*time.Second { // by default it would be a day
			t.Errorf("who prints may have waited for %v", took)
		}
		if got := partitionsOf(t, store, "log"); got != before {
			t.Errorf("partitions %s, were %s", got, before)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := logs.Trim(t.Context(), at+minute, time.Hour); err != nil {
		t.Fatal(err)
	}
	if got := partitionsOf(t, store, "log") + count(
		t, store, `SELECT count(*) FROM log`,
	); strings.HasPrefix(got, before[:14]) ||
		!strings.HasSuffix(got, "later0") {
		t.Errorf("a minute later: %s, was %s", got, before)
	}
}

// limited returns the address of a database for an account that has no right to change its tables.
func limited(t *testing.T, store *mysql.Store, address string) string {
	t.Helper()
	name := databaseOf(t, store)
	for _, statement := range []string{
		`CREATE USER 'limited_%s'@'%%' IDENTIFIED BY 'secret'`,
		`GRANT SELECT, INSERT, UPDATE, DELETE ON %[1]s.* TO 'limited_%[1]s'@'%%'`,
	} {
		if err := store.Exec(t.Context(), fmt.Sprintf(statement, name)); err != nil {
			t.Fatal(err)
		}
	}
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("limited_"+name, "secret")
	return u.String()
}

func TestAnAccountThatMayNotChangeTablesForgetsRowByRow(t *testing.T) {
	for _, days := range []string{"made", "not made"} {
		t.Run("days were "+days, func(t *testing.T) {
			address := database(t)
			admin := openAt(t, address)
			if days == "not made" {
				err := admin.Exec(t.Context(), `ALTER TABLE log REMOVE PARTITIONING; ALTER TABLE history REMOVE PARTITIONING;
ALTER TABLE log PARTITION BY RANGE (due) (PARTITION later VALUES LESS THAN MAXVALUE);
ALTER TABLE history PARTITION BY RANGE (ended) (PARTITION later VALUES LESS THAN MAXVALUE)`)
				if err != nil {
					t.Fatal(err)
				}
			} else if _, err := admin.Forget(t.Context(), month, midnight, 1); err != nil {
				t.Fatal(err)
			}
			var said bytes.Buffer
			store, err := mysql.Open(
				t.Context(), limited(t, admin, address),
				mysql.Config{Logger: slog.New(slog.NewTextHandler(&said, nil))},
			)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			store.Bound(1000, 20)
			history(t, store, nil)
			forgetAll(t, store, midnight+40*dayLength)
			logs := mysql.NewLogs(store)
			printed(t, store, logs, carillon.Now())
			for range 2 {
				if err := logs.Trim(t.Context(), carillon.Now()+2*dayLength, time.Hour); err != nil {
					t.Fatal(err)
				}
			}
			if got := count(
				t, store,
				`SELECT concat_ws(' ', (SELECT count(*) FROM history), (SELECT count(*) FROM job), (SELECT count(*) FROM log))`,
			); got != "0 0 0" {
				t.Errorf("left %s", got)
			}
			if lines := strings.Count(said.String(), "\n"); lines != 1 {
				t.Errorf("it said %q", said.String())
			}
		})
	}
}

func TestTheDaysOfLogsAreThereBeforeTheFirstOutput(t *testing.T) {
	store := openAt(t, database(t))
	printed(t, store, mysql.NewLogs(store), carillon.Now())
	if got := count(t, store, `SELECT count(*) FROM log PARTITION (later)`); got != "0" {
		t.Errorf("%s, partitions %s", got, partitionsOf(t, store, "log"))
	}
}

func TestTooManyPiecesToBeMovedStayUntilTheyAreOver(t *testing.T) {
	store := openAt(t, database(t))
	store.Bound(1000, 2)
	logs, at := mysql.NewLogs(store), carillon.Now()+10*dayLength
	printed(t, store, logs, at)
	printed(t, store, logs, at+1)
	for i, c := range []struct {
		at    carillon.Time
		later string
	}{{at, "2"}, {at + 4*dayLength, "0"}} {
		before := partitionsOf(t, store, "log")
		if err := logs.Trim(t.Context(), c.at, 24*time.Hour); err != nil {
			t.Fatal(err)
		}
		if got := count(t, store, `SELECT count(*) FROM log PARTITION (later)`); got != c.later {
			t.Errorf("turn %d: %s are left", i, got)
		}
		if after := partitionsOf(t, store, "log"); strings.Count(after, ",") > strings.Count(before, ",") {
			t.Errorf("turn %d: partitions %s, were %s", i, after, before)
		}
	}
	before := partitionsOf(t, store, "log")
	if err := logs.Trim(t.Context(), at+4*dayLength, 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	if after := partitionsOf(t, store, "log"); strings.Count(after, ",") <= strings.Count(before, ",") {
		t.Errorf("there are no new days: %s", after)
	}
}

func TestAViewBeginsAgainWhenPartitionsWereChanged(t *testing.T) {
	address := database(t)
	store, other := openAt(t, address), openAt(t, address)
	for _, query := range []string{`SELECT 1 FROM history LIMIT 1`, `SELECT 1 FROM job LIMIT 1`} {
		tries := 0
		err := store.View(t.Context(), query, func() {
			if tries++; tries > 1 {
				return
			}
			if err := other.Exec(
				t.Context(),
				`ALTER TABLE history REORGANIZE PARTITION later INTO (PARTITION later VALUES LESS THAN MAXVALUE)`,
			); err != nil {
				t.Error(err)
			}
		})
		want := map[bool]int{true: 2, false: 1}[strings.Contains(query, "history")]
		if err != nil || tries != want {
			t.Errorf("%s: %d tries, %v", query, tries, err)
		}
	}
}

func TestBeatsAndCommitsDoNotWaitForLists(t *testing.T) {
	store, err := mysql.Open(t.Context(), database(t), mysql.Config{Connections: 1, Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	sessions := mysql.NewCoordinator(store)
	err = store.During(t.Context(), `SELECT 1 FROM job`, func() {
		win(t, store, submits(t, 1, nil)...)
		if err := sessions.Join(t.Context(), []carillon.Member{
			{ID: "a", Kind: carillon.MemberNode},
		}); err != nil {
			t.Error(err)
		}
		if said, err := sessions.Beat(t.Context(), []carillon.Beat{{ID: "a"}}); err != nil ||
			said[0] != carillon.StandingProlonged {
			t.Error(said, err)
		}
		if _, _, err := sessions.Members(
			t.Context(), carillon.MemberQuery{IDs: []string{"a"}},
		); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

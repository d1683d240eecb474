package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/internal/idgen"
	"github.com/carillon-run/carillon/porttest"
)

// client returns a connection as an application has one.
func client(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func TestIntake(t *testing.T) {
	url := database(t)
	applications, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer applications.Close()
	porttest.Intake(t, porttest.IntakeTest{
		Open: func(t *testing.T) carillon.Intake {
			store := open(t, url, postgres.Config{})
			execute(t, url, `DELETE FROM carillon.intake`)
			return postgres.NewIntake(store)
		},
		Leave: func(t *testing.T, namespace, body string) carillon.JobID {
			var text string
			if err := applications.QueryRow(
				t.Context(), `SELECT carillon.submit($1, $2)`, body, namespace,
			).Scan(&text); err != nil {
				t.Error(err)
				return 0
			}
			id, err := carillon.ParseJobID(text)
			if err != nil {
				t.Error(err)
			}
			return id
		},
	})
}

// submit leaves a job and returns its id, or the error of the database.
func submit(t testing.TB, conn *pgx.Conn, body string) (carillon.JobID, error) {
	t.Helper()
	var text string
	if err := conn.QueryRow(t.Context(), `SELECT carillon.submit($1)`, body).Scan(&text); err != nil {
		return 0, err
	}
	id, err := carillon.ParseJobID(text)
	if err != nil {
		t.Fatal(err)
	}
	return id, nil
}

func leftIn(t testing.TB, intake *postgres.Intake) (ids []carillon.JobID) {
	t.Helper()
	left, err := intake.Submissions(t.Context(), carillon.SubmissionQuery{Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range left {
		ids = append(ids, s.ID)
	}
	return ids
}

const aKey = "1 to 100 characters of a-z A-Z 0-9 . _ - / @, the first a letter or digit"

const plainJob = `{"target": {"command": {"argv": ["true"]}}}`

func TestASubmittedJobStandsAndFallsWithItsTransaction(t *testing.T) {
	url := database(t)
	intake, conn := postgres.NewIntake(open(t, url, postgres.Config{})), client(t, url)
	for _, end := range []string{"ROLLBACK", "COMMIT"} {
		if _, err := conn.Exec(t.Context(), "BEGIN"); err != nil {
			t.Fatal(err)
		}
		id, err := submit(t, conn, plainJob)
		if err != nil {
			t.Fatal(err)
		}
		if left := leftIn(t, intake); len(left) > 0 {
			t.Fatalf("%v is there before its time", left)
		}
		if _, err := conn.Exec(t.Context(), end); err != nil {
			t.Fatal(err)
		}
		if left := leftIn(t, intake); end == "COMMIT" != slices.Equal(left, []carillon.JobID{id}) {
			t.Fatalf("after %s there is %v", end, left)
		}
	}
}

func TestSubmitSaysWhatIsWrong(t *testing.T) {
	url := database(t)
	intake, conn := postgres.NewIntake(open(t, url, postgres.Config{})), client(t, url)
	long := strings.Repeat("x", 300_000)
	with := func(field string) string { return `{"target": {"command": {"argv": ["true"]}}, ` + field + `}` }
	labels := `"labels": {"a": "b"`
	for i := range 32 {
		labels += fmt.Sprintf(`, "k%d": ""`, i)
	}
	for body, want := range map[string]string{
		`[]`:               `job: "a list" is not valid: want a JSON object`,
		`null`:             `job: "null" is not valid: want a JSON object`,
		`"x"`:              `job: "x" is not valid: want a JSON object`,
		`{}`:               `target: "" is not valid: want exactly one of command, http, handler or workflow`,
		`{"target": {}}`:   `target: "" is not valid: want exactly one of command, http, handler or workflow`,
		`{"target": null}`: `target: "null" is not valid: want an object`,
		`{"target": {"http": {}, "command": {}}}`: `target: "command and http" is not valid: want exactly one of command, http, handler or workflow`,
		`{"target": {"comand": {}}}`:              `target.comand: "comand" is not valid: want a known field: command, http, handler, workflow, wait`,
		`{"target": {"command": "date"}}`:         `target.command: "date" is not valid: want an object`,
		`{"target": {"handler": {}}}`:             `type: "" is not valid: want the type that a worker registered a handler for, e.g. email.send`,
		with(
			`"cron": "* * * * *"`,
		): `cron: "cron" is not valid: want a known field: fair_by, fair_weight, labels, late, limits, misfire, ` +
			`name, needs, on_failure, on_success, overlap, owner, pause_after, payload, priority, queue, retention, ` +
			`retry, schedule, target, timeout, type, unique`,
		with(
			`"type": "-x"`,
		): `type: "-x" is not valid: want 1 to 64 characters of a-z A-Z 0-9 . _ - / @, the first a letter or digit`,
		with(
			`"queue": ""`,
		): `queue: "" is not valid: want a value that is not empty; leave the field out for its default`,
		with(
			`"name": ""`,
		): `name: "" is not valid: want a value that is not empty; leave the field out for its default`,
		with(
			`"type": ""`,
		): `type: "" is not valid: want a value that is not empty; leave the field out for its default`,
		with(
			`"schedule": {"cron": ""}`,
		): `schedule.cron: "" is not valid: want an expression such as 0 3 * * MON-FRI; leave the field out for a ` +
			`job that runs once`,
		with(
			`"schedule": {"every": "0s"}`,
		): `schedule.every: "0s" is not valid: want at least 1s; leave the field out for a job that runs once`,
		with(
			`"schedule": {"cron": "* * * * *", "every": "0s"}`,
		): `schedule: "cron and every" is not valid: want only one of at, after, cron or ` +
			`every; none means now`,
		with(
			`"schedule": {"every": "1m", "max_runs": 0}`,
		): `schedule.max_runs: "0" is not valid: want a number above 0; leave the field out for ` +
			`no limit`,
		with(`"name": "` + strings.Repeat("é", 201) + `"`): `name: "` + strings.Repeat("é", 77) +
			`..." is not valid: want 1 to 200 printable characters`,
		with(
			`"owner": "ä"`,
		): `owner: "ä" is not valid: want 1 to 64 characters of a-z A-Z 0-9 . _ - / @, the first a letter or digit`,
		with(
			`"queue": "a\n"`,
		): "queue: \"a\n\" is not valid: want 1 to 64 characters of a-z A-Z 0-9 . _ - / @, the first a letter or digit",
		with(`"queue": 5`): `queue: "5" is not valid: want text`,
		with(
			`"name": "a\u0007"`,
		): "name: \"a\u0007\" is not valid: want 1 to 200 printable characters",
		with(`"name": "` + long + `"`): `name: "` + long[:77] +
			`..." is not valid: want 1 to 200 printable characters`,
		with(
			`"priority": 10`,
		): `priority: "10" is not valid: want a whole number from 0 to 9, higher first`,
		with(
			`"priority": -1`,
		): `priority: "-1" is not valid: want a whole number from 0 to 9, higher first`,
		with(
			`"priority": 1.5`,
		): `priority: "1.5" is not valid: want a whole number from 0 to 9, higher first`,
		with(
			`"priority": "5"`,
		): `priority: "5" is not valid: want a whole number from 0 to 9, higher first`,
		with(
			`"payload": "` + long + `"`,
		): `payload: "300002 bytes" is not valid: want at most 256 KiB of JSON; keep larger data elsewhere and pass its address`,
		with(
			`"overlap": "never"`,
		): `overlap: "never" is not valid: want skip, queue, queue_all, replace or allow`,
		with(
			`"timeout": 5`,
		): `timeout: "5" is not valid: want a duration such as "90s", "1h30m" or "30d"`,
		with(
			`"misfire": 5`,
		): `misfire: "5" is not valid: want an object, or text`,
		with(`"limits": {}`):    `limits: "an object" is not valid: want a list of objects`,
		with(`"limits": [{}]`):  `limits[0].key: "" is not valid: want ` + aKey,
		with(`"limits": ["a"]`): `limits[0]: "a" is not valid: want an object`,
		with(
			`"limits": [{"key": "a", "concurrency": 0}]`,
		): `limits[0].concurrency: "0" is not valid: want a number from 1 to 1000000`,
		with(`"limits": [{"key": "a", "concurrency": 1}, {"key": "b", "rate": "10 per s"}]`): `limits[1].rate: ` +
			`"10 per s" is not valid: want a number of starts in a second, a minute or an hour, such as "10/s", ` +
			`"100/m" or "5000/h"`,
		with(
			`"limits": [{"key": "a", "max": 1}]`,
		): `limits[0].max: "max" is not valid: want a known field: burst, concurrency, key, rate, weight`,
		with(`"limits": [{},{},{},{},{},{},{},{},{}]`): `limits: "9 limits" is not valid: want at most 8`,
		with(`"unique": "a"`):                          `unique: "a" is not valid: want an object`,
		with(`"unique": {"for": "1m"}`):                `unique.key: "" is not valid: want ` + aKey,
		with(`"unique": {"key": "a b"}`):               `unique.key: "a b" is not valid: want ` + aKey,
		with(`"unique": {"key": "a", "until": "done"}`): `unique.until: "done" is not valid: want ended; for a ` +
			`time give for`,
		with(`"unique": {"key": "a", "for": "1m", "until": "ended"}`): `unique: "for and until" is not valid: ` +
			`want only one of for or until; none means until ended`,
		with(
			`"unique": {"key": "a", "on_conflict": "drop"}`,
		): `unique.on_conflict: "drop" is not valid: want return, replace or refuse`,
		with(
			`"unique": {"keys": "a", "key": "b"}`,
		): `unique.keys: "keys" is not valid: want a known field: for, key, on_conflict, until`,
		with(`"schedule": "now"`): `schedule: "now" is not valid: want an object`,
		with(
			labels + "}",
		): `labels: "33 labels" is not valid: want at most 32`,
		with(
			`"payload": 1, "name": "` + strings.Repeat(long, 4) + `"`,
		): `job: "1200069 bytes" is not valid: want at most 1 MiB`,
	} {
		_, err := submit(t, conn, body)
		var answer *pgconn.PgError
		if !errors.As(err, &answer) || answer.Code != "22023" || answer.Message != want {
			t.Errorf("%.100s:\n got %v\nwant %s", body, err, want)
		}
	}
	for _, namespace := range []any{nil, "", "a/b", strings.Repeat("x", 65)} {
		_, err := conn.Exec(t.Context(), `SELECT carillon.submit($1, $2)`, plainJob, namespace)
		if err == nil || !strings.Contains(err.Error(), "namespace: ") {
			t.Errorf("namespace %v: %v", namespace, err)
		}
	}
	if left := leftIn(t, intake); len(left) > 0 {
		t.Errorf("%v was left all the same", left)
	}
}

func TestSubmitTakesWhatIsValid(t *testing.T) {
	url := database(t)
	open(t, url, postgres.Config{})
	conn := client(t, url)
	for _, body := range []string{
		plainJob,
		`{"target": {"http": {"url": "https://example.com"}}, "payload": null, "misfire": "skip"}`,
		`{"name": "Übung ` + "\U0001F514" + `", "type": "email.send", "target": {"handler": {}}, "owner": "a/b@c", "queue": "Q-1_2.3", "priority": 0,
		  "labels": {"a": "b"}, "schedule": {"cron": "0 3 * * *", "timezone": "Europe/Berlin"}, "timeout": "1h", "retry": {"max_attempts": 5},
		  "overlap": "queue_all", "misfire": {"policy": "all", "max": 3}, "retention": {"runs": "1d"}, "payload": [1, {"a": null}],
		  "limits": [{"key": "a", "concurrency": 3}, {"key": "b", "rate": "10/s", "burst": 5, "weight": 2}], "unique": {"key": "a/b", "for": "10m", "on_conflict": "replace"}}`,
		`{"target": {"handler": {}}, "type": "a", "limits": [], "unique": {"key": "a", "until": "ended"}}`,
		`{"target": {"handler": {}}, "type": "a", "payload": "` + strings.Repeat("x", carillon.MaxPayload-2) +
			`"}`,
	} {
		if _, err := submit(t, conn, body); err != nil {
			t.Errorf("%.100s: %v", body, err)
		}
	}
}

func TestTheDatabaseKnowsTheShardAndTheTextOfAnyID(t *testing.T) {
	url := database(t)
	open(t, url, postgres.Config{})
	conn, rnd := client(t, url), rand.New(rand.NewPCG(uint64(porttest.Seed(t)), 0))
	ids := []int64{1, 2, 4096, 1 << 22, math.MaxInt64, math.MaxInt64 - 1}
	for range 20_000 {
		ids = append(ids, 1+rnd.Int64N(1<<(1+rnd.IntN(62))))
	}
	rows, err := conn.Query(
		t.Context(), `SELECT id, carillon.shard_of(id), carillon.job_text(id) FROM unnest($1::bigint[]) id`,
		ids,
	)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var id carillon.JobID
		var shard int
		var text string
		if err := rows.Scan(&id, &shard, &text); err != nil {
			t.Fatal(err)
		}
		if shard != id.Shard() || text != id.String() {
			t.Fatalf("%d: shard %d, text %s; want %d and %s", id, shard, text, id.Shard(), id)
		}
	}
	if n != len(ids) || rows.Err() != nil {
		t.Fatal(n, rows.Err())
	}
}

func TestIDsMadeByTheDatabaseAreItsOwnAndNeverTwice(t *testing.T) {
	url := database(t)
	store := open(t, url, postgres.Config{})
	const callers, each = 4, 5000
	before := carillon.Now()
	var all sync.WaitGroup
	for range callers {
		conn := client(t, url)
		all.Go(func() {
			if _, err := conn.Exec(
				t.Context(), `SELECT carillon.submit($1) FROM generate_series(1, $2)`, plainJob, each,
			); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	left, err := postgres.NewIntake(store).Submissions(
		t.Context(), carillon.SubmissionQuery{Limit: callers*each + 1},
	)
	if err != nil || len(left) != callers*each { // ids are the key, so none came twice
		t.Fatal(len(left), err)
	}
	for _, s := range left {
		if node := int64(s.ID) >> 12 & 1023; node != 1023 ||
			s.ID < idgen.First(s.At) || s.ID >= idgen.First(s.At+1) ||
			s.At < before-1 || s.At > carillon.Now()+1 {
			t.Fatalf("%s: node %d, left %s", s.ID, node, s.At)
		}
	}
}

// The clock is stopped at a time for which all numbers but one are taken.
func TestAnIDThatExistsIsNotMadeAgain(t *testing.T) {
	url := database(t)
	open(t, url, postgres.Config{})
	conn := client(t, url)
	stopped := carillon.Now()
	execute(
		t, url,
		fmt.Sprintf(
			`CREATE OR REPLACE FUNCTION carillon.clock() RETURNS bigint LANGUAGE sql AS 'SELECT %d::bigint'`,
			stopped,
		),
	)
	first := idgen.First(stopped) | 1023<<12
	execute(t, url, fmt.Sprintf(`
INSERT INTO carillon.intake (id, shard, at, namespace, body) SELECT %[1]d + n, 0, 0, 'default', '{}' FROM generate_series(0, 2000) n;
INSERT INTO carillon.job (id, created, updated, rev, version, state, namespace, name, type, owner)
SELECT %[1]d + n, 0, 0, 1, 1, 1, 'default', '', '', '' FROM generate_series(2001, 4095) n WHERE n <> 3000`, first))
	if id, err := submit(t, conn, plainJob); err != nil || id != first+3000 {
		t.Fatalf("%s %v, want %s", id, err, first+3000)
	}
}

func TestARoleThatMayOnlySubmitCanDoNothingElse(t *testing.T) {
	url := database(t)
	intake := postgres.NewIntake(open(t, url, postgres.Config{}))
	role := fmt.Sprintf("shop_%d", time.Now().UnixNano())
	execute(t, url, fmt.Sprintf(`CREATE ROLE %[1]s LOGIN; GRANT USAGE ON SCHEMA carillon TO %[1]s`, role))
	t.Cleanup(func() { execute(t, url, fmt.Sprintf(`DROP OWNED BY %[1]s; DROP ROLE %[1]s`, role)) })
	conn := client(t, strings.Replace(url, "carillon@", role+"@", 1))
	refused := func(sql string) {
		t.Helper()
		var answer *pgconn.PgError
		if _, err := conn.Exec(t.Context(), sql); !errors.As(err, &answer) || answer.Code != "42501" {
			t.Errorf("%s: %v", sql, err)
		}
	}
	refused(`SELECT carillon.submit('` + plainJob + `')`)
	execute(t, url, `GRANT EXECUTE ON FUNCTION carillon.submit(jsonb) TO `+role)
	// A function of the same name in the caller's schema is not called instead of the built-in one.
	execute(t, url, fmt.Sprintf(`CREATE SCHEMA %[1]s AUTHORIZATION %[1]s`, role))
	for _, sql := range []string{
		`CREATE FUNCTION octet_length(text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN RAISE 'called'; END $$`,
		`SET search_path = ` + role + `, pg_catalog`,
	} {
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	id, err := submit(t, conn, plainJob)
	if err != nil {
		t.Fatal(err)
	}
	if left := leftIn(t, intake); !slices.Equal(left, []carillon.JobID{id}) {
		t.Errorf("left: %v", left)
	}
	refused(`SELECT carillon.submit('` + plainJob + `', 'other')`)
	refused(`SELECT * FROM carillon.intake`)
	refused(`INSERT INTO carillon.intake (id, shard, at, namespace, body) VALUES (1, 1, 1, 'default', '{}')`)
	refused(`SELECT nextval('carillon.intake_number')`)
}

func TestOldRefusalsAreForgotten(t *testing.T) {
	url := database(t)
	intake, conn := postgres.NewIntake(open(t, url, postgres.Config{})), client(t, url)
	old := idgen.First(carillon.Now().Add(-91 * 24 * time.Hour))
	execute(t, url,
		fmt.Sprintf(`INSERT INTO carillon.intake (id, shard, state, at, namespace, body) VALUES (%d, 0, 1, 0, 'default', '{}'), (%d, 0, 1, 0, 'other', '{}')`,
			old, old+1))
	id, err := submit(t, conn, plainJob)
	if err != nil {
		t.Fatal(err)
	}
	refusal := carillon.Submission{ID: id, Namespace: "default", Reason: "x"}
	if err := intake.Acknowledge(t.Context(), nil, []carillon.Submission{refusal}); err != nil {
		t.Fatal(err)
	}
	for namespace, want := range map[string]carillon.JobID{"default": id, "other": old + 1} {
		refused, err := intake.Submissions(t.Context(), carillon.SubmissionQuery{
			Refused: true, Namespace: namespace,
		})
		if err != nil || len(refused) != 1 || refused[0].ID != want {
			t.Errorf("%s: %v %v", namespace, refused, err)
		}
	}
}

// check_job and check_target of the newest migration that makes them have lists of their own.
func TestSubmitKnowsTheFieldsOfADefinition(t *testing.T) {
	url := database(t)
	open(t, url, postgres.Config{})
	conn := client(t, url)
	known := func(body string) []string {
		t.Helper()
		_, err := conn.Exec(t.Context(), `SELECT carillon.submit($1)`, body)
		_, list, found := strings.Cut(fmt.Sprint(err), "a known field: ")
		if !found {
			t.Fatalf("%s: got %v, want the known fields", body, err)
		}
		list, _, _ = strings.Cut(list, " (SQLSTATE")
		names := strings.Split(list, ", ")
		slices.Sort(names)
		return names
	}
	var want []string
	for _, path := range porttest.DefinitionFields() {
		name, _, _ := strings.Cut(path, ".")
		want = append(want, name)
	}
	slices.Sort(want)
	want = slices.Compact(want)
	if got := known(`{"nonesuch": 1}`); !slices.Equal(got, want) {
		t.Errorf("carillon.check_job knows the fields %q, a definition has %q: write a migration", got, want)
	}
	want = porttest.TargetKinds()
	slices.Sort(want)
	if got := known(`{"target": {"nonesuch": {}}}`); !slices.Equal(got, want) {
		t.Errorf("carillon.check_target knows the targets %q, there are %q: write a migration", got, want)
	}
}

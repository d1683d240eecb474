package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/porttest"
)

const emptyLogs = `TRUNCATE carillon.log; UPDATE carillon.log_horizon SET at = 0, before = 0`

func TestLogs(t *testing.T) {
	url := database(t)
	porttest.Logs(t, func(t *testing.T) carillon.LogStore {
		store := open(t, url, postgres.Config{})
		execute(t, url, emptyLogs)
		return postgres.NewLogs(store)
	})
}

// logsIn are logs whose calls must not fail.
type logsIn struct {
	testing.TB
	*postgres.Logs
	url string
}

func openLogs(t testing.TB) logsIn {
	t.Helper()
	url := database(t)
	return logsIn{t, postgres.NewLogs(open(t, url, postgres.Config{})), url}
}

// say appends texts as the lines of the first attempt of a run.
func (l logsIn) say(run carillon.RunID, keep time.Duration, texts ...string) {
	l.Helper()
	c := carillon.Chunk{Namespace: "default", Run: run, Attempt: 1, Keep: keep}
	for _, text := range texts {
		c.Lines = append(c.Lines, carillon.Line{At: run.Due, Stream: "stdout", Text: text})
	}
	if err := l.Append(l.Context(), []carillon.Chunk{c}); err != nil {
		l.Fatal(err)
	}
}

func (l logsIn) heard(run carillon.RunID) (texts []string) {
	l.Helper()
	lines, err := l.Read(l.Context(), carillon.LogQuery{Namespace: "default", Run: run, Limit: 100_000})
	if err != nil {
		l.Fatal(err)
	}
	for _, line := range lines {
		texts = append(texts, line.Text)
	}
	return texts
}

func (l logsIn) trim(now carillon.Time, keep time.Duration) {
	l.Helper()
	if err := l.Trim(l.Context(), now, keep); err != nil {
		l.Fatal(err)
	}
}

// parts returns the partitions and how many rows each has.
func (l logsIn) parts() map[string]int {
	l.Helper()
	conn := client(l, l.url)
	const query = `SELECT relname::text, (xpath('//n/text()', query_to_xml(format('SELECT count(*) AS n FROM carillon.%I', relname), false, true, '')))[1]::text::int
FROM pg_inherits JOIN pg_class c ON c.oid = inhrelid WHERE inhparent = 'carillon.log'::regclass`
	rows, err := conn.Query(l.Context(), query)
	if err != nil {
		l.Fatal(err)
	}
	parts := map[string]int{}
	var name string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&name, &n}, func() error {
		parts[name] = n
		return nil
	}); err != nil {
		l.Fatal(err)
	}
	return parts
}

// day returns the first millisecond of the day that is so many days from today, and the name of its
// partition.
func day(from int) (carillon.Time, string) {
	t := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, from)
	return carillon.TimeOf(t), t.Format("log_20060102")
}

func (l logsIn) addDay(from int) {
	l.Helper()
	first, _ := day(from)
	execute(l, l.url, fmt.Sprintf(`SELECT carillon.add_log_day(%d)`, first))
}

func TestTodayAndTomorrowHaveTheirPartitions(t *testing.T) {
	logs := openLogs(t)
	today, todayName := day(0)
	tomorrow, tomorrowName := day(1)
	for i, due := range []carillon.Time{
		today, tomorrow - 1, tomorrow, today - 1, tomorrow.Add(24 * time.Hour),
	} {
		logs.say(carillon.RunID{Job: carillon.JobID(i + 1), Due: due}, 0, "x")
	}
	want := map[string]int{todayName: 2, tomorrowName: 1, "log_other": 2}
	if got := logs.parts(); !maps.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestADayTakesWhatIsThereOfItAlready(t *testing.T) {
	logs := openLogs(t)
	due, name := day(-3)
	run := carillon.RunID{Job: 1, Due: due + 5}
	logs.say(run, 0, "before")
	logs.addDay(-3)
	logs.addDay(-3) // once is enough
	if got := logs.parts(); got[name] != 1 || got["log_other"] != 0 {
		t.Errorf("%v", got)
	}
	if texts := logs.heard(run); !slices.Equal(texts, []string{"before"}) {
		t.Errorf("%q", texts)
	}
}

func TestADayOfWhichNoLogIsKeptGoesAtOnce(t *testing.T) {
	logs, now := openLogs(t), carillon.Now()
	const week = 7 * 24 * time.Hour
	for from := -3; from <= -1; from++ {
		logs.addDay(from)
	}
	run := func(from, job int) carillon.RunID {
		due, _ := day(from)
		return carillon.RunID{Job: carillon.JobID(job), Due: due}
	}
	logs.say(run(-3, 1), 0, "by the rule")
	logs.say(run(-2, 1), 0, "by the rule")
	logs.say(run(-2, 2), 2*week, "long")
	logs.say(run(-2, 3), time.Hour, "short")
	logs.say(run(-1, 1), time.Hour, "short")
	logs.say(run(-1, 2), 0, "by the rule")
	logs.say(run(-100, 1), 0, "by the rule") // has no day

	logs.trim(now.Add(3*time.Hour), week)
	_, third := day(-3)
	_, second := day(-2)
	_, first := day(-1)
	if got := logs.parts(); got[third] != 1 || got[second] != 2 || got[first] != 1 || got["log_other"] != 1 {
		t.Errorf("after three hours: %v", got)
	}
	logs.trim(now.Add(week+time.Hour), week)
	_, there := logs.parts()[third]
	if got := logs.parts(); there || got[second] != 1 || got["log_other"] != 0 {
		t.Errorf("after a week: %v", got)
	}
	if texts := logs.heard(run(-2, 2)); !slices.Equal(texts, []string{"long"}) {
		t.Errorf("the run with the longer rule has %q", texts)
	}
	logs.trim(now.Add(2*week+time.Hour), week)
	if _, there := logs.parts()[second]; there {
		t.Errorf("after two weeks: %v", logs.parts())
	}
	logs.say(run(-2, 2), 0, "it goes on")
	if texts := logs.heard(run(-2, 2)); !slices.Equal(texts, []string{"it goes on"}) {
		t.Errorf("%q", texts)
	}
}

func TestWhatWasTrimmedDoesNotComeBackUnderALongerRule(t *testing.T) {
	logs, now := openLogs(t), carillon.Now()
	run := carillon.RunID{Job: 1, Due: now}
	logs.say(run, 0, "x")
	logs.trim(now.Add(2*time.Hour), time.Hour)
	logs.trim(now.Add(2*time.Hour), 24*time.Hour)
	if len(logs.heard(run)) > 0 {
		t.Error("it is back")
	}
}

// A slow reader must not make all writers wait behind a drop that waits for the reader.
func TestADayIsNotDroppedUnderAReader(t *testing.T) {
	logs, now := openLogs(t), carillon.Now()
	logs.addDay(-3)
	due, name := day(-3)
	logs.say(carillon.RunID{Job: 1, Due: due}, 0, "x")
	reader := client(t, logs.url)
	if _, err := reader.Exec(t.Context(), `BEGIN; SELECT count(*) FROM carillon.log`); err != nil {
		t.Fatal(err)
	}
	logs.trim(now.Add(30*24*time.Hour), time.Hour)
	if _, there := logs.parts()[name]; !there {
		t.Error("it was dropped")
	}
	if _, err := reader.Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	logs.trim(now.Add(30*24*time.Hour), time.Hour)
	if _, there := logs.parts()[name]; there {
		t.Error("it was not dropped")
	}
}

func TestADayThatMayNotBeDroppedIsEmptied(t *testing.T) {
	logs, now := openLogs(t), carillon.Now()
	logs.addDay(-3)
	due, name := day(-3)
	logs.say(carillon.RunID{Job: 1, Due: due}, 0, "x")
	logs.say(carillon.RunID{Job: 1, Due: now}, 0, "x")
	_, today := day(0)
	guests := logsIn{
		t, postgres.NewLogs(open(t, guest(t, logs.url), postgres.Config{KeepSchema: true})), logs.url,
	}
	guests.trim(now.Add(30*24*time.Hour), time.Hour)
	if rows, there := logs.parts()[name]; !there || rows > 0 || logs.parts()[today] > 0 {
		t.Errorf("%v", logs.parts())
	}
}

// Nodes append to days while other nodes add, trim and drop them.
func TestDaysComeAndGoWhileManyAppend(t *testing.T) {
	logs := openLogs(t)
	const nodes, rounds, days = 4, 30, 5
	ctx, stop := context.WithCancel(t.Context())
	var tending, appending sync.WaitGroup
	for range 2 {
		tending.Go(func() {
			conn := client(t, logs.url)
			for i := 0; ctx.Err() == nil; i++ {
				first, _ := day(-(i % days))
				var answer *pgconn.PgError
				_, err := conn.Exec(ctx, `SELECT carillon.add_log_day($1)`, int64(first))
				if err != nil && ctx.Err() == nil && !(errors.As(err, &answer) && answer.Code == "55P03") {
					t.Error(err)
				}
				if i%5 == 0 {
					if err := logs.Trim(ctx, carillon.Now(), time.Hour); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
			}
		})
	}
	runs := make([]carillon.RunID, nodes*days)
	for n := range nodes {
		appending.Go(func() {
			own := postgres.NewLogs(open(t, logs.url, postgres.Config{}))
			for i := range rounds {
				var chunks []carillon.Chunk
				for d := range days {
					due, _ := day(-(d + n) % days)
					runs[n*days+d] = carillon.RunID{Job: carillon.JobID(n + 1), Due: due}
					for _, offset := range []int64{int64(i), int64(max(i-1, 0))} { // the one before again
						chunks = append(chunks, carillon.Chunk{
							Namespace: "default", Run: runs[n*days+d], Attempt: 1, Offset: offset,
							Lines: []carillon.Line{{Text: fmt.Sprint(offset)}},
						})
					}
				}
				if err := own.Append(t.Context(), chunks); err != nil {
					t.Error(err)
				}
			}
		})
	}
	appending.Wait()
	stop()
	tending.Wait()
	// stop broke off a trim, whose connection may be broken by that without its pool knowing it.
	reader := logsIn{t, postgres.NewLogs(open(t, logs.url, postgres.Config{})), logs.url}
	for _, run := range runs {
		if n := len(reader.heard(run)); n != rounds {
			t.Errorf("%s has %d lines, want %d", run, n, rounds)
		}
	}
}

func TestALongLogIsReadInOrderAndFollowed(t *testing.T) {
	logs, rnd := openLogs(t), rand.New(rand.NewPCG(uint64(porttest.Seed(t)), 0))
	run := carillon.RunID{Job: 1, Due: carillon.Now()}
	const total = 30_000
	line := func(i int64) carillon.Line {
		return carillon.Line{
			At: run.Due + carillon.Time(i), Stream: []string{"stdout", "stderr", "carillon", "own"}[i%4],
			Text: strings.Repeat("x", int(i%97)) + fmt.Sprint(i),
		}
	}
	for offset := int64(0); offset < total; {
		c := carillon.Chunk{Namespace: "default", Run: run, Attempt: 1, Offset: offset}
		for n := 1 + rnd.Int64N(6000); n > 0 && offset < total; n-- {
			c.Lines = append(c.Lines, line(offset))
			offset++
		}
		if err := logs.Append(t.Context(), []carillon.Chunk{c}); err != nil {
			t.Fatal(err)
		}
	}
	for after := int64(-1); after < total-1; {
		lines, err := logs.Read(t.Context(), carillon.LogQuery{
			Namespace: "default", Run: run, AfterAttempt: 1, AfterOffset: after, Limit: 1 + rnd.IntN(9000),
		})
		if err != nil || len(lines) == 0 {
			t.Fatal(len(lines), err)
		}
		for _, got := range lines {
			after++
			want := line(after)
			want.Attempt, want.Offset = 1, after
			if got != want {
				t.Fatalf("%+v, want %+v", got, want)
			}
		}
	}
}

package mysql

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/porttest"
	"github.com/carillon-run/carillon/porttest/server"
)

func TestLogs(t *testing.T) {
	store := openURL(t, server.MariaDB(t, quickDDL...).URL)
	open := func(t *testing.T) *Logs {
		makeAgain(t, store, "log")
		return NewLogs(store)
	}
	porttest.Logs(t, func(t *testing.T) carillon.LogStore { return open(t) })
	run := func(name string, f func(logsTest)) {
		t.Run(name, func(t *testing.T) { f(logsTest{t, open(t)}) })
	}
	run("a long log is read from any place", logsLong)
	run("a piece that is sent again with more lines is replaced", logsLonger)
	run("nodes send the same again while others trim", logsNodes)
	run("read and trim look only at the rows that they use", logsLook)
	run("trim makes the partitions of the next days", trimAhead)
	run("a day in which nothing is kept is dropped", trimDrops)
	run("trim has patience for a day", trimWaits)
	run("a day is not dropped if a run has just printed something", trimLooksAgain)
	run("what is printed while its day is dropped is not lost", trimWhilePrinting)
	run("trim deletes many pieces in steps", trimMany)
	run("one node trims at a time", trimAlone)
	run("trim leaves connections as they were", trimTidies)
}

// logsTest is a log store. A call that fails fails the test.
type logsTest struct {
	testing.TB
	*Logs
}

func (t logsTest) say(run carillon.RunID, offset int64, texts ...string) {
	t.Helper()
	t.sayFor(0, run, offset, texts...)
}

func (t logsTest) sayFor(keep time.Duration, run carillon.RunID, offset int64, texts ...string) {
	t.Helper()
	c := carillon.Chunk{Namespace: "default", Run: run, Attempt: 1, Offset: offset, Keep: keep}
	for _, text := range texts {
		c.Lines = append(c.Lines, carillon.Line{At: run.Due, Stream: "stdout", Text: text})
	}
	if err := t.Append(t.Context(), []carillon.Chunk{c}); err != nil {
		t.Fatal(err)
	}
}

func (t logsTest) texts(run carillon.RunID, after int64, limit int) (texts []string) {
	t.Helper()
	lines, err := t.Read(t.Context(), carillon.LogQuery{
		Namespace: "default", Run: run, AfterAttempt: 1, AfterOffset: after, Limit: limit,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		texts = append(texts, line.Text)
	}
	return texts
}

// number reads one number from the database.
func (t logsTest) number(query string, args ...any) (n int64) {
	t.Helper()
	err := t.store.use(t.Context(), func(l *conn) error {
		return l.query(func(r row) error { n = r.int(0); return nil }, query, args...)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// someLines returns lines of different lengths; each says its number.
func someLines(from, to int) (texts []string) {
	for i := from; i < to; i++ {
		texts = append(texts, fmt.Sprint(i, strings.Repeat(" x", i%150)))
	}
	return texts
}

var someRun = carillon.RunID{Job: 77, Due: 1794718800000}

func logsLong(t logsTest) {
	const lines = 7_500
	all := someLines(0, lines)
	for from := 0; from < lines; from += 2500 {
		t.say(someRun, int64(from), all[from:from+2500]...)
		t.say(someRun, int64(from+300), all[from+300:from+1700]...) // and again, cut at other places
	}
	for _, after := range []int{
		-1, 0, 1, 298, 299, 300, 998, 999, 1000, 1299, 2499, 2500, 4_321, lines - 2, lines - 1, lines,
	} {
		for _, limit := range []int{1, 2, 5000} {
			want := all[min(after+1, lines):min(after+1+limit, lines)]
			if got := t.texts(someRun, int64(after), limit); !slices.Equal(got, want) {
				t.Fatalf("%d lines after %d: %d lines, %.100q", limit, after, len(got), got)
			}
		}
	}
	if n := t.number(`SELECT MAX(log.lines) FROM log`); n > maxLines {
		t.Errorf("a piece of %d lines", n)
	}
}

func logsLonger(t logsTest) {
	t.say(someRun, 0, "a", "b")
	t.say(someRun, 0, "a", "b", "c")
	t.say(someRun, 0, "a")
	if got := t.texts(someRun, -1, 10); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("%q", got)
	}
	if n := t.number(`SELECT COUNT(*) FROM log`); n != 1 {
		t.Errorf("%d pieces", n)
	}
}

func logsNodes(t logsTest) {
	now := carillon.Now()
	var chunks []carillon.Chunk
	for i := range 50 {
		c := carillon.Chunk{
			Namespace: "default", Run: carillon.RunID{Job: carillon.JobID(i % 5), Due: now}, Attempt: 1,
			Offset: int64(i / 5 * 3),
		}
		for j := range int64(3) {
			c.Lines = append(c.Lines, carillon.Line{
				At: now, Stream: "stdout", Text: fmt.Sprint(c.Offset + j),
			})
		}
		chunks = append(chunks, c)
	}
	var all sync.WaitGroup
	for node := range 6 {
		mine := slices.Clone(chunks)
		if node%2 == 0 {
			slices.Reverse(mine)
		}
		all.Go(func() {
			for range 10 {
				if err := NewLogs(t.store).Append(t.Context(), mine); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Go(func() {
		for range 50 {
			if n := len(t.texts(chunks[0].Run, -1, 1000)); n%3 != 0 {
				t.Errorf("%d lines: half of a piece", n)
			}
		}
	})
	for range 2 {
		all.Go(func() {
			for i := range 10 { // each adds another partition while the others write
				if err := NewLogs(t.store).Trim(
					t.Context(), now.Add(time.Duration(i)*24*time.Hour), 1000*time.Hour,
				); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	for job := range 5 {
		if n := len(t.texts(carillon.RunID{Job: carillon.JobID(job), Due: now}, -1, 1000)); n != 30 {
			t.Errorf("%d lines", n)
		}
	}
	if n := t.number(`SELECT COUNT(*) FROM log`); n != 50 {
		t.Errorf("%d pieces", n)
	}
}

func logsLook(t logsTest) {
	var chunks []carillon.Chunk
	for i := range 3000 {
		run := carillon.RunID{Job: carillon.JobID(i % 10), Due: someRun.Due}
		chunks = append(chunks, carillon.Chunk{
			Namespace: "default", Run: run, Offset: int64(i), Lines: []carillon.Line{{Text: "x"}},
		})
	}
	if err := t.Append(t.Context(), chunks); err != nil {
		t.Fatal(err)
	}
	looked := func(what string, most int64, query string, args ...any) {
		t.Helper()
		err := t.store.use(t.Context(), func(l *conn) error {
			if err := l.exec([]byte(`FLUSH STATUS`)); err != nil {
				return err
			}
			if err := l.query(func(row) error { return nil }, query, args...); err != nil {
				return err
			}
			return l.query(func(r row) error {
				if n := r.int(0); n > most {
					t.Errorf("%s looked at %d rows", what, n)
				}
				return nil
			}, `SELECT CAST(SUM(VARIABLE_VALUE) AS SIGNED) FROM information_schema.SESSION_STATUS
WHERE VARIABLE_NAME IN ('HANDLER_READ_NEXT', 'HANDLER_READ_PREV', 'HANDLER_READ_RND', 'HANDLER_READ_RND_NEXT')`)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	due := someRun.Due
	looked("read", 70, readPieces, "default", due, 5, 0, 0, 1500, 0, 0, 1500, somePieces)
	looked("trim", 2, nextLogClass, raw("later"), -1)
	looked("trim", 2, lastInClass, raw("later"), 0)
}

package porttest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// Logs checks what carillon.LogStore promises. open returns an empty log store.
func Logs(t *testing.T, open func(t *testing.T) carillon.LogStore) {
	run := func(name string, f func(logsTest)) {
		t.Run(name, func(t *testing.T) { f(logsTest{t, open(t)}) })
	}
	run("lines come back whole, with their attempt and offset", logsWhole)
	run("a text may have any bytes", logsBytes)
	run("the same run, attempt and offset twice is once", logsTwice)
	run("lines come in the order printed, whatever came first", logsOrder)
	run("reading goes on after a position, up to a limit", logsPages)
	run("the notice of an attempt comes before its lines", logsNotice)
	run("a run that printed nothing has no lines", logsNothing)
	run("runs and namespaces do not see each other's lines", logsApart)
	run("trim removes what is older than keep", logsTrim)
	run("trim goes by the chunk's own keep where there is one", logsTrimOwn)
	run("many append at once, and no line is lost or torn", logsConcurrent)
	run("it does what a sorted map would do", logsModel)
}

// logsTest is a log store whose calls must not fail.
type logsTest struct {
	testing.TB
	carillon.LogStore
}

func (t logsTest) append(chunks ...carillon.Chunk) {
	t.Helper()
	if err := t.Append(t.Context(), chunks); err != nil {
		t.Fatalf("append: %v", err)
	}
}

func (t logsTest) read(q carillon.LogQuery) []carillon.Line {
	t.Helper()
	q.Namespace, q.Limit = cmp.Or(q.Namespace, "default"), cmp.Or(q.Limit, 1000)
	lines, err := t.Read(t.Context(), q)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return lines
}

// printed returns a chunk of lines that carry their offset and attempt.
func printed(run carillon.RunID, attempt int32, offset int64, n int) carillon.Chunk {
	c := carillon.Chunk{Namespace: "default", Run: run, Attempt: attempt, Offset: offset}
	for i := range n {
		line := lineAt(attempt, offset+int64(i))
		c.Lines = append(c.Lines, carillon.Line{At: line.At, Stream: line.Stream, Text: line.Text})
	}
	return c
}

func lineAt(attempt int32, offset int64) carillon.Line {
	return carillon.Line{
		At: epoch + carillon.Time(offset), Stream: "stdout",
		Text:    fmt.Sprintf("line %d of attempt %d", offset, attempt),
		Attempt: attempt, Offset: offset,
	}
}

func linesAt(attempt int32, from, to int64) (lines []carillon.Line) {
	for o := from; o < to; o++ {
		lines = append(lines, lineAt(attempt, o))
	}
	return lines
}

var logRun = carillon.RunID{Job: 77, Due: epoch}

func logsWhole(t logsTest) {
	chunk := carillon.Chunk{Namespace: "default", Run: logRun, Attempt: 3, Offset: 10, Lines: []carillon.Line{
		{At: epoch, Stream: "stdout", Text: "hello  world "},
		{At: epoch + 1, Stream: "stderr", Text: ""},
		{At: epoch + 2, Stream: "carillon", Text: "timeout: killed after 5s"},
	}}
	want := slices.Clone(chunk.Lines)
	for i := range want {
		want[i].Attempt, want[i].Offset = 3, int64(10+i)
	}
	t.append(chunk)
	same(t, "lines", t.read(carillon.LogQuery{Run: logRun}), want)
}

func logsBytes(t logsTest) {
	all := make([]byte, 0, 256)
	for b := range 256 {
		if b != '\n' {
			all = append(all, byte(b))
		}
	}
	texts := []string{
		string(all), `back\slash`, `\n`, `\`, `\\`, `\x41`, "\r", "\ttab", "\x1b[31mred\x1b[0m", "naïve 日本 🙂",
		"\u0085\u009b", "\xff\xfe", "\x00",
		"1 2 3 stdout text", " ", string(make([]byte, 100_000)),
	}
	chunk := carillon.Chunk{Namespace: "default", Run: logRun, Attempt: 1}
	for _, text := range texts {
		chunk.Lines = append(chunk.Lines, carillon.Line{At: epoch, Stream: "stdout", Text: text})
	}
	t.append(chunk)
	lines := t.read(carillon.LogQuery{Run: logRun})
	same(t, "number of lines", len(lines), len(texts))
	for i := range lines {
		same(t, fmt.Sprintf("text %q", texts[i][:min(len(texts[i]), 40)]), lines[i].Text, texts[i])
	}
}

func logsTwice(t logsTest) {
	t.append(printed(logRun, 1, 0, 5))
	t.append(printed(logRun, 1, 0, 5), printed(logRun, 1, 3, 5))
	t.append(printed(logRun, 1, 8, 1))
	t.append(printed(logRun, 1, 6, 2))
	t.append(printed(logRun, 1, 8, 4)) // a worker sends lines again with those that came meanwhile
	same(t, "lines", t.read(carillon.LogQuery{Run: logRun}), linesAt(1, 0, 12))
}

func logsOrder(t logsTest) {
	t.append(printed(logRun, 2, 0, 3))
	t.append(printed(logRun, 1, 4, 2), printed(logRun, 2, 3, 1))
	t.append(printed(logRun, 1, 0, 2))
	t.append(printed(logRun, 10, 0, 1), printed(logRun, 1, 2, 2))
	want := slices.Concat(linesAt(1, 0, 6), linesAt(2, 0, 4), linesAt(10, 0, 1))
	same(t, "lines", t.read(carillon.LogQuery{Run: logRun}), want)
}

func logsPages(t logsTest) {
	t.append(printed(logRun, 1, 0, 7), printed(logRun, 2, 0, 4), printed(logRun, 4, 0, 1))
	want := slices.Concat(linesAt(1, 0, 7), linesAt(2, 0, 4), linesAt(4, 0, 1))
	for limit := 1; limit <= 13; limit++ {
		var got []carillon.Line
		q := carillon.LogQuery{Run: logRun, Limit: limit}
		for page := t.read(q); len(page) > 0; page = t.read(q) {
			if len(page) > limit {
				t.Fatalf("%d lines in a page of %d", len(page), limit)
			}
			got = append(got, page...)
			last := page[len(page)-1]
			q.AfterAttempt, q.AfterOffset = last.Attempt, last.Offset
		}
		same(t, fmt.Sprintf("pages of %d", limit), got, want)
	}
	from := func(attempt int32, offset int64) []carillon.Line {
		return t.read(carillon.LogQuery{Run: logRun, AfterAttempt: attempt, AfterOffset: offset})
	}
	same(t, "from the beginning of an attempt", from(2, -1), want[7:])
	same(t, "after an attempt that printed nothing", from(3, 5), want[11:])
	same(t, "after the end", from(4, 0), []carillon.Line(nil))
	t.append(printed(logRun, 4, 1, 2))
	same(t, "what was added since", from(4, 0), linesAt(4, 1, 3))
}

func logsNotice(t logsTest) {
	t.append(printed(logRun, 1, 0, 2), printed(logRun, 2, 0, 2))
	t.append(printed(logRun, 2, -1, 1), printed(logRun, 3, -1, 1))
	t.append(printed(logRun, 2, -1, 1))
	want := slices.Concat(linesAt(1, 0, 2), linesAt(2, -1, 2), linesAt(3, -1, 0))
	same(t, "lines", t.read(carillon.LogQuery{Run: logRun}), want)
	from := func(attempt int32, offset int64) []carillon.Line {
		return t.read(carillon.LogQuery{Run: logRun, AfterAttempt: attempt, AfterOffset: offset})
	}
	same(t, "after the attempt before", from(1, 1), want[2:])
	same(t, "with the notice", from(2, -2), want[2:])
	same(t, "without it", from(2, -1), want[3:])
	same(
		t, "one by one", t.read(carillon.LogQuery{Run: logRun, AfterAttempt: 2, AfterOffset: 0, Limit: 1}),
		want[4:5],
	)
}

func logsNothing(t logsTest) {
	same(t, "lines", len(t.read(carillon.LogQuery{Run: logRun})), 0)
	t.append(printed(logRun, 1, 0, 0))
	t.append()
	same(t, "lines", len(t.read(carillon.LogQuery{Run: logRun})), 0)
}

func logsApart(t logsTest) {
	theirs := printed(logRun, 1, 0, 2)
	theirs.Namespace = "other"
	later := carillon.RunID{Job: logRun.Job, Due: logRun.Due + 1}
	t.append(theirs, printed(later, 1, 5, 1), printed(logRun, 1, 2, 1))
	same(t, "ours", t.read(carillon.LogQuery{Run: logRun}), linesAt(1, 2, 3))
	same(t, "of the next run", t.read(carillon.LogQuery{Run: later}), linesAt(1, 5, 6))
	same(t, "theirs", t.read(carillon.LogQuery{Namespace: "other", Run: logRun}), linesAt(1, 0, 2))
}

func (t logsTest) trim(now carillon.Time, keep time.Duration) {
	t.Helper()
	if err := t.Trim(t.Context(), now, keep); err != nil {
		t.Fatalf("trim: %v", err)
	}
}

func logsTrim(t logsTest) {
	now := carillon.Now()
	run := carillon.RunID{Job: 1, Due: now}
	t.append(printed(run, 1, 0, 2))
	t.trim(now.Add(30*time.Minute), time.Hour)
	same(t, "before", t.read(carillon.LogQuery{Run: run}), linesAt(1, 0, 2))
	t.trim(now.Add(2*time.Hour), time.Hour)
	same(t, "after", len(t.read(carillon.LogQuery{Run: run})), 0)
	t.append(printed(run, 2, 0, 2)) // the run may go on printing
	same(t, "since", t.read(carillon.LogQuery{Run: run}), linesAt(2, 0, 2))
}

func logsTrimOwn(t logsTest) {
	now := carillon.Now()
	long, short, byRule := carillon.RunID{
		Job: 1, Due: now,
	}, carillon.RunID{Job: 2, Due: now}, carillon.RunID{Job: 3, Due: now}
	keep := func(run carillon.RunID, d time.Duration) carillon.Chunk {
		c := printed(run, 1, 0, 1)
		c.Keep = d
		return c
	}
	t.append(keep(long, 48*time.Hour), keep(short, time.Minute), keep(byRule, 0))
	left := func() (runs []carillon.RunID) {
		for _, run := range []carillon.RunID{long, short, byRule} {
			if len(t.read(carillon.LogQuery{Run: run})) > 0 {
				runs = append(runs, run)
			}
		}
		return runs
	}
	same(t, "at first", left(), []carillon.RunID{long, short, byRule})
	t.trim(now.Add(time.Hour), 24*time.Hour)
	same(t, "after an hour", left(), []carillon.RunID{long, byRule})
	t.trim(now.Add(47*time.Hour), 24*time.Hour)
	same(t, "after 47 hours", left(), []carillon.RunID{long})
	t.trim(now.Add(49*time.Hour), 24*time.Hour)
	same(t, "after 49 hours", left(), []carillon.RunID(nil))
}

func logsConcurrent(t logsTest) {
	const runs, attempts, lines = 4, 4, 60
	var all sync.WaitGroup
	for r := range runs {
		for a := range attempts {
			all.Go(func() {
				for o := int64(0); o < lines; o += 3 {
					chunk := printed(carillon.RunID{Job: carillon.JobID(1 + r), Due: epoch}, int32(1+a), o, 3)
					if err := t.Append(t.Context(), []carillon.Chunk{chunk}); err != nil {
						t.Error(err)
					}
					if _, err := t.Read(t.Context(), carillon.LogQuery{
						Namespace: "default", Run: chunk.Run, Limit: 10,
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	for r := range runs {
		var want []carillon.Line
		for a := range attempts {
			want = append(want, linesAt(int32(1+a), 0, lines)...)
		}
		same(
			t, "lines",
			t.read(carillon.LogQuery{Run: carillon.RunID{Job: carillon.JobID(1 + r), Due: epoch}}), want,
		)
	}
}

// logsModel appends and reads at random.
func logsModel(t logsTest) {
	rnd, model := random(t), map[[2]int64]carillon.Line{}
	for range 300 {
		chunk := printed(logRun, rnd.Int32N(4), rnd.Int64N(60), rnd.IntN(8))
		chunk.Keep = time.Duration(rnd.IntN(2)) * time.Hour
		for o := chunk.Offset; o < chunk.Offset+int64(len(chunk.Lines)); o++ {
			model[[2]int64{int64(chunk.Attempt), o}] = lineAt(chunk.Attempt, o)
		}
		t.append(chunk)
		q := carillon.LogQuery{
			Run: logRun, AfterAttempt: rnd.Int32N(5) - 1, AfterOffset: rnd.Int64N(61) - 1,
			Limit: 1 + rnd.IntN(100),
		}
		var want []carillon.Line
		keys := slices.SortedFunc(maps.Keys(model), func(a, b [2]int64) int {
			return slices.Compare(a[:], b[:])
		})
		for _, key := range keys {
			if slices.Compare(key[:], []int64{int64(q.AfterAttempt), q.AfterOffset}) > 0 &&
				len(want) < q.Limit {
				want = append(want, model[key])
			}
		}
		same(t, fmt.Sprintf("after %d/%d, limit %d", q.AfterAttempt, q.AfterOffset, q.Limit), t.read(q), want)
	}
}

package mysql

import (
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

const aDay = 24 * time.Hour

func (t logsTest) trim(now carillon.Time, keep time.Duration) {
	t.Helper()
	if err := t.Trim(t.Context(), now, keep); err != nil {
		t.Fatal(err)
	}
}

// days returns the names of the partitions.
func (t logsTest) days() (names []string) {
	t.Helper()
	err := t.store.use(t.Context(), func(l *conn) error {
		days, err := l.logDays()
		for _, d := range days {
			names = append(names, d.name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// age moves the time at which a run's output was written into the past.
func (t logsTest) age(run carillon.RunID, d time.Duration) {
	t.Helper()
	err := t.store.use(t.Context(), func(l *conn) error {
		_, err := l.do(
			`UPDATE log SET written = written - ? WHERE due = ? AND job = ?`, d.Milliseconds(), run.Due,
			run.Job,
		)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (t logsTest) left(runs ...carillon.RunID) (jobs []carillon.JobID) {
	t.Helper()
	for _, run := range runs {
		if len(t.texts(run, -1, 10)) > 0 {
			jobs = append(jobs, run.Job)
		}
	}
	return jobs
}

var startOfTests = time.Now()

// today returns noon of the day that comes the given number of days after the tests.
func today(days int) carillon.Time {
	return carillon.TimeOf(startOfTests.UTC().Truncate(aDay).Add(12*time.Hour + time.Duration(days)*aDay))
}

// untilDay returns the name of that day's partition.
func untilDay(days int) string { return string(dayName(today(days + 1))) }

func trimAhead(t logsTest) {
	runs := []carillon.RunID{
		{Job: 1, Due: today(-1)}, {Job: 2, Due: today(0)}, {Job: 3, Due: today(1)}, {Job: 4, Due: today(9)},
	}
	for _, run := range runs {
		t.say(run, 0, "x")
	}
	t.trim(today(0), 100*aDay)
	t.trim(today(0), 100*aDay)
	want := []string{untilDay(0), untilDay(1), untilDay(2), untilDay(3), "later"}
	if got := t.days(); !slices.Equal(got, want) {
		t.Errorf("partitions %v, want %v", got, want)
	}
	for part, pieces := range map[string]int64{untilDay(0): 2, untilDay(1): 1, untilDay(2): 0, "later": 1} {
		if n := t.number(`SELECT COUNT(*) FROM log PARTITION (?)`, raw(part)); n != pieces {
			t.Errorf("partition %s has %d pieces, want %d", part, n, pieces)
		}
	}
	t.trim(today(2), 100*aDay)
	if got, want := t.days(), append(
		want[:4:4], untilDay(4), untilDay(5), "later",
	); !slices.Equal(got, want) {
		t.Errorf("two days later: partitions %v, want %v", got, want)
	}
	t.trim(today(30), 100*aDay) // no node has trimmed for a month
	if got := t.days(); !slices.Contains(got, untilDay(30)) || slices.Contains(got, untilDay(29)) {
		t.Errorf("a month later: partitions %v", got)
	}
	if got := t.left(runs...); len(got) != len(runs) {
		t.Errorf("left: %v", got)
	}
}

func trimDrops(t logsTest) {
	t.trim(today(0), aDay)
	old, long, next := carillon.RunID{
		Job: 1, Due: today(0),
	}, carillon.RunID{Job: 2, Due: today(0)}, carillon.RunID{Job: 3, Due: today(1)}
	t.say(old, 0, "x")
	t.sayFor(5*aDay, long, 0, "x")
	t.say(next, 0, "x")
	t.age(next, -aDay)
	for _, step := range []struct {
		day   int
		left  []carillon.JobID
		first string
	}{
		{1, []carillon.JobID{1, 2, 3}, untilDay(0)},
		{2, []carillon.JobID{2, 3}, untilDay(0)},
		{3, []carillon.JobID{2}, untilDay(0)},
		{6, nil, untilDay(6)},
	} {
		t.trim(today(step.day), aDay+12*time.Hour)
		if got := t.left(old, long, next); !slices.Equal(got, step.left) {
			t.Errorf("day %d: %v are left, want %v", step.day, got, step.left)
		}
		if got := t.days()[0]; got != step.first {
			t.Errorf("day %d: the first partition is %s, want %s", step.day, got, step.first)
		}
	}
	t.say(old, 1, "late") // its day is gone, another one takes it
	if got := t.texts(old, -1, 10); !slices.Equal(got, []string{"late"}) {
		t.Errorf("%q", got)
	}
}

func trimWaits(t logsTest) {
	t.trim(today(0), aDay)
	early, late := carillon.RunID{Job: 1, Due: today(0)}, carillon.RunID{Job: 2, Due: today(0)}
	t.say(early, 0, "x")
	t.say(late, 0, "x")
	t.age(late, -10*aDay) // as if it printed for very long
	now, keep := carillon.Now(), 4*aDay
	for _, step := range []struct {
		after time.Duration
		left  int
	}{{keep + trimPatience - time.Hour, 2}, {keep + trimPatience + time.Hour, 1}} {
		t.trim(now.Add(step.after), keep)
		if got := t.left(early, late); len(got) != step.left {
			t.Errorf("after %v: %v are left", step.after, got)
		}
	}
	short := carillon.RunID{Job: 3, Due: today(0)}
	t.sayFor(time.Minute, short, 0, "x")
	t.sayFor(time.Minute, short, 1, "y")
	if err := t.store.use(t.Context(), func(l *conn) error {
		_, err := l.do(`UPDATE log SET written = written - 130000 WHERE job = 3 AND first = 0`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.trim(carillon.Now(), keep)
	if got := t.texts(short, -1, 10); !slices.Equal(got, []string{"y"}) {
		t.Errorf("what is kept for a minute is there after two: %q", got)
	}
}

func trimLooksAgain(t logsTest) {
	t.trim(today(0), aDay)
	run := carillon.RunID{Job: 1, Due: today(0)}
	t.say(run, 0, "x")
	err := t.store.use(t.Context(), func(l *conn) error {
		days, err := l.logDays()
		if err != nil {
			return err
		}
		return logTrim{l, carillon.Now(), aDay}.drop(days[0])
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := t.texts(run, -1, 1); len(got) != 1 {
		t.Error("it is gone")
	}
}

func trimWhilePrinting(t logsTest) {
	for range 4 {
		makeAgain(t, t.store, "log")
		t.trim(today(-6), aDay)
		var all sync.WaitGroup
		all.Go(func() { t.trim(carillon.Now(), aDay) }) // drops all but today
		var runs []carillon.RunID
		for i := range 12 {
			run := carillon.RunID{Job: carillon.JobID(i), Due: today(-6 + i%4)}
			runs = append(runs, run)
			all.Go(func() { t.say(run, 0, "late") })
		}
		all.Wait()
		if got := t.left(runs...); len(got) != len(runs) {
			t.Fatalf("left: %v of %v", got, runs)
		}
	}
}

func trimMany(t logsTest) {
	var chunks []carillon.Chunk
	for i := range 2*most + 10 {
		run := carillon.RunID{Job: carillon.JobID(i), Due: today(0)}
		chunks = append(chunks, carillon.Chunk{
			Namespace: "default", Run: run, Lines: []carillon.Line{{Text: "x"}},
		})
	}
	if err := t.Append(t.Context(), chunks); err != nil {
		t.Fatal(err)
	}
	t.trim(carillon.Now().Add(10*time.Second), time.Second)
	if n := t.number(`SELECT COUNT(*) FROM log`); n != 0 {
		t.Errorf("%d are left", n)
	}
}

func trimAlone(t logsTest) {
	err := t.store.alone(t.Context(), "log", func(*conn) error {
		t.trim(today(0), aDay)
		if got := t.days(); len(got) != 1 {
			t.Errorf("two at once: %v", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.trim(today(0), aDay)
	if got := t.days(); len(got) == 1 {
		t.Error("no node trims any more")
	}
}

func trimTidies(t logsTest) {
	t.trim(today(0), aDay)
	t.trim(today(9), aDay) // drops some
	for range 5 {
		t.say(carillon.RunID{Job: 1, Due: today(0)}, 0, "x")
		t.number(`SELECT COUNT(*) FROM history`) // nothing is locked
	}
}

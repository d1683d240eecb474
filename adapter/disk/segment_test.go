package disk

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

func TestManySmallRunsMakeFewFiles(t *testing.T) {
	logs := openIn(t, t.TempDir(), limits{size: 64 << 20, extents: 1000, held: 1 << 18, files: 32})
	for i := range 10_500 {
		id := carillon.RunID{Job: carillon.JobID(i + 1), Due: due}
		if err := logs.Append(t.Context(), []carillon.Chunk{chunkOf(id, 0, "x")}); err != nil {
			t.Fatal(err)
		}
	}
	if lines, indexes := len(logs.files(".log")), len(logs.files(".idx")); lines != 11 || indexes != 10 {
		t.Errorf("%d segments, %d indexes", lines, indexes)
	}
}

// sealing makes every appended line fill a segment.
var sealing = limits{size: 1, extents: 1, held: 1 << 18, files: 32}

func TestARestartRepeatsNothing(t *testing.T) {
	for name, limits := range map[string]limits{"open": defaultLimits, "sealed": sealing} {
		t.Run(name, func(t *testing.T) {
			logs := openIn(t, t.TempDir(), limits)
			logs.say(0, "a", "b")
			logs = logs.restart()
			logs.say(0, "a", "b", "c")
			logs = logs.restart()
			logs.say(2, "c", "d")
			logs.expect("a", "b", "c", "d")
			logs.restart().expect("a", "b", "c", "d")
		})
	}
}

func TestAnIndexThatDoesNotFitIsMadeAnew(t *testing.T) {
	for name, spoil := range map[string]func(index string) error{
		"empty": func(index string) error { return os.WriteFile(index, nil, 0o640) },
		"cut":   func(index string) error { return os.Truncate(index, headSize+extentWidth/2) },
		"another": func(index string) error {
			return os.WriteFile(index, make([]byte, headSize+extentWidth), 0o640)
		},
		"half": func(index string) error {
			return os.Rename(index, strings.Replace(index, ".idx", ".idx.tmp", 1))
		},
		"no lines": func(index string) error { return os.Remove(strings.Replace(index, ".idx", ".log", 1)) },
		"removed":  os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			logs := openIn(t, t.TempDir(), sealing)
			logs.say(0, "a")
			if err := spoil(logs.files(".idx")[0]); err != nil {
				t.Fatal(err)
			}
			logs = logs.restart()
			want := []string{"a"}
			if name == "no lines" {
				want = nil
			}
			logs.expect(want...)
			if got := logs.files(".idx*"); len(got) != len(want) {
				t.Errorf("left are %q", got)
			}
		})
	}
}

// A person cut a sealed segment. It takes lines again, and its old index must not come back when it is long
// enough again.
func TestAnIndexThatDoesNotFitDoesNotComeBack(t *testing.T) {
	logs := openIn(t, t.TempDir(), sealing)
	logs.say(0, "a", "b")
	if err := os.Truncate(logs.file(), int64(len(logs.content(logs.file())))-1); err != nil {
		t.Fatal(err)
	}
	logs.limits = defaultLimits
	logs = logs.restart()
	logs.expect("a")
	logs.say(1, "b", "c")
	logs.restart().expect("a", "b", "c")
}

func TestWithoutASealedIndexReadingGoesOn(t *testing.T) {
	logs := openIn(t, t.TempDir(), limits{size: 1 << 20, extents: 2, held: 1 << 18, files: 32})
	logs.say(0, "a")
	obstacle := strings.Replace(logs.file(), ".log", ".idx.tmp", 1)
	if err := os.Mkdir(obstacle, 0o750); err != nil {
		t.Fatal(err)
	}
	logs.say(9, "b") // fills the segment
	logs.expect("a", "b")
	if err := logs.Trim(t.Context(), carillon.Now(), time.Hour); err == nil {
		t.Error("that an index cannot be written is not told")
	}
	logs.say(10, "c")
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	logs.trim(0, time.Hour)
	logs.expect("a", "b", "c")
	if logs.held != 1 || len(logs.files(".idx")) != 1 {
		t.Errorf("%d extents in memory, indexes %q", logs.held, logs.files(".idx"))
	}
}

func TestOddEntriesDoNotKeepTheServerFromStarting(t *testing.T) {
	l := open(t)
	l.say(0, "hello")
	dir := filepath.Dir(l.file())
	outside := filepath.Join(t.TempDir(), "outside.log")
	name := func(n carillon.Time) string { return filepath.Join(dir, stemOf(due+n)+logSuffix) }
	if err := errors.Join(os.Mkdir(name(1), 0o700), os.WriteFile(outside, nil, 0o600),
		os.Symlink(outside, name(2)),
		syscall.Mkfifo(name(3), 0o600), os.Mkdir(filepath.Join(dir, stemOf(due+4)+writingSuffix), 0o700),
		os.WriteFile(filepath.Join(dir, stemOf(due+4)+writingSuffix, "x"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	l = l.restart()
	l.expect("hello")
	l.say(1, "again")
	l.expect("hello", "again")
}

// A hundred thousand runs: only the index of open segments is in memory, however much is kept.
func TestWhatIsInMemoryIsBounded(t *testing.T) {
	limits := limits{size: 64 << 20, extents: 5000, held: 8000, files: 3}
	logs := openIn(t, t.TempDir(), limits)
	id := func(i int) carillon.RunID {
		return carillon.RunID{Job: carillon.JobID(i + 1), Due: due + carillon.Time(i)}
	}
	for i := 0; i < 100_000; i += 100 {
		var chunks []carillon.Chunk
		for j := range 100 {
			c := chunkOf(id(i+j), 0, fmt.Sprint("run ", i+j))
			c.Namespace = fmt.Sprint("ns", j%10)
			chunks = append(chunks, c)
		}
		if err := logs.Append(t.Context(), chunks); err != nil {
			t.Fatal(err)
		}
		if logs.held > limits.held+100 || len(logs.Logs.files) > limits.files {
			t.Fatalf("%d extents in memory, %d files open", logs.held, len(logs.Logs.files))
		}
	}
	if n := len(logs.files(".log")); n > 300 {
		t.Errorf("%d segments", n)
	}
	for i := 0; i < 100_000; i += 997 {
		lines, err := logs.Read(t.Context(), carillon.LogQuery{Namespace: fmt.Sprint("ns", i%10), Run: id(i)})
		if err != nil || len(lines) != 1 || lines[0].Text != fmt.Sprint("run ", i) {
			t.Fatalf("run %d: %v %v", i, lines, err)
		}
	}
	if len(logs.skips) > maxSkips {
		t.Errorf("%d runs are remembered", len(logs.skips))
	}
}

// The shared suite does this with one open segment. This test does it with many small ones, sealed and not,
// and after restarts.
func TestManySegmentsAreOneLog(t *testing.T) {
	logs := openIn(t, t.TempDir(), limits{size: 700, extents: 7, held: 20, files: 2})
	rnd := rand.New(rand.NewPCG(1, 2))
	printed := map[position]string{}
	for range 400 {
		c := chunkOf(run, rnd.Int64N(60))
		c.Attempt, c.Keep = 1+rnd.Int32N(3), time.Duration(rnd.IntN(2))*time.Hour
		for i := range rnd.Int64N(8) {
			p := position{c.Attempt, c.Offset + i}
			printed[p] = fmt.Sprint(p)
			c.Lines = append(c.Lines, carillon.Line{At: due, Stream: "stdout", Text: printed[p]})
		}
		if err := logs.Append(t.Context(), []carillon.Chunk{
			c, chunkOf(carillon.RunID{Job: 5, Due: due}, 0, "other"),
		}); err != nil {
			t.Fatal(err)
		}
		if rnd.IntN(40) == 0 {
			logs = logs.restart()
		}
		after, limit := position{rnd.Int32N(4), rnd.Int64N(61) - 1}, 1+rnd.IntN(100)
		var want, got []string
		for _, p := range slices.SortedFunc(maps.Keys(printed), position.compare) {
			if after.less(p) && len(want) < limit {
				want = append(want, printed[p])
			}
		}
		q := carillon.LogQuery{
			Namespace: "default", Run: run, AfterAttempt: after.attempt, AfterOffset: after.offset,
			Limit: limit,
		}
		lines, err := logs.Read(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range lines {
			got = append(got, line.Text)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("after %v, limit %d: got %q, want %q", after, limit, got, want)
		}
	}
}

package disk

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

const due carillon.Time = 1_800_000_000_000 // 2027-01-15

var run = carillon.RunID{Job: 77, Due: due}

// lineStart is the beginning of every line of run in a segment.
var lineStart = run.String() + " "

// logsIn are logs in a directory. A call that fails fails the test.
type logsIn struct {
	testing.TB
	*Logs
	dir string
}

func open(t testing.TB) logsIn { return openIn(t, t.TempDir(), defaultLimits) }

func openIn(t testing.TB, dir string, limits limits) logsIn {
	t.Helper()
	logs, err := newLogs(dir, limits, Config{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := logs.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	})
	return logsIn{t, logs, dir}
}

// restart opens what a crash leaves for the next process: the first Logs is not closed.
func (l logsIn) restart() logsIn {
	l.Helper()
	return openIn(l.TB, l.dir, l.limits)
}

// say appends texts as the lines of the first attempt of run, beginning with the given offset.
func (l logsIn) say(offset int64, texts ...string) {
	l.Helper()
	if err := l.Append(l.Context(), []carillon.Chunk{chunkOf(run, offset, texts...)}); err != nil {
		l.Fatal(err)
	}
}

func chunkOf(run carillon.RunID, offset int64, texts ...string) carillon.Chunk {
	c := carillon.Chunk{Namespace: "default", Run: run, Attempt: 1, Offset: offset}
	for _, text := range texts {
		c.Lines = append(c.Lines, carillon.Line{At: due, Stream: "stdout", Text: text})
	}
	return c
}

// heard returns the texts of the log of run.
func (l logsIn) heard() (texts []string) {
	l.Helper()
	lines, err := l.Read(l.Context(), carillon.LogQuery{Namespace: "default", Run: run, Limit: 100})
	if err != nil {
		l.Fatal(err)
	}
	for _, line := range lines {
		texts = append(texts, line.Text)
	}
	return texts
}

func (l logsIn) expect(want ...string) {
	l.Helper()
	if got := l.heard(); !slices.Equal(got, want) {
		l.Fatalf("got %q, want %q", got, want)
	}
}

// files returns the files with the suffix, of all namespaces and classes.
func (l logsIn) files(suffix string) []string {
	l.Helper()
	names, err := filepath.Glob(filepath.Join(l.dir, "*", "*", "*"+suffix))
	if err != nil {
		l.Fatal(err)
	}
	return names
}

// file returns the only segment.
func (l logsIn) file() string {
	l.Helper()
	names := l.files(".log")
	if len(names) != 1 {
		l.Fatalf("the segments are %q", names)
	}
	return names[0]
}

func (l logsIn) content(name string) string {
	l.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		l.Fatal(err)
	}
	return string(b)
}

func (l logsIn) write(name, content string) {
	l.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		l.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
		l.Fatal(err)
	}
}

func TestFilesAreMadeForPeople(t *testing.T) {
	logs := open(t)
	logs.say(0, "hello world", `C:\temp`, "two\nlines", "\x1b[31mred", "naïve\ttab", "\xff")
	kept := chunkOf(run, 7, "kept")
	kept.Keep = 47 * time.Hour
	if err := logs.Append(t.Context(), []carillon.Chunk{kept}); err != nil {
		t.Fatal(err)
	}
	for class, want := range map[string]string{
		"default": `RUN 1 0 1800000000000 stdout hello world
RUN 1 1 1800000000000 stdout C:\\temp
RUN 1 2 1800000000000 stdout two\nlines
RUN 1 3 1800000000000 stdout \x1b[31mred
RUN 1 4 1800000000000 stdout naïve	tab
RUN 1 5 1800000000000 stdout \xff
`,
		"keep-2d": "RUN 1 7 1800000000000 stdout kept\n",
	} {
		names, err := filepath.Glob(filepath.Join(logs.dir, "default", class, "20??-??-??T??-??-??.???.log"))
		if err != nil || len(names) != 1 {
			t.Fatal(class, names, err)
		}
		if got := strings.ReplaceAll(logs.content(names[0]), run.String(), "RUN"); got != want {
			t.Errorf("%s:\n%s", names[0], got)
		}
	}
}

func segmentIn(dir string) string {
	return filepath.Join(dir, "default", "default", stemOf(carillon.Now())+".log")
}

// A crash can cut a line anywhere. The worker sends the line again, and only that line is read.
func TestATornLineIsNotRead(t *testing.T) {
	text := `half \ of` + "\x01\n" + `it`
	whole := string(appendRecord(nil, runText(run), position{1, 1}, &carillon.Line{
		At: due, Stream: "stdout", Text: text,
	}))
	for cut := range len(whole) {
		dir := t.TempDir()
		logsIn{TB: t}.write(segmentIn(dir), lineStart+"1 0 1800000000000 stdout first\n"+whole[:cut])
		logs := openIn(t, dir, defaultLimits)
		logs.expect("first")
		logs.say(1, text, "last")
		logs.expect("first", text, "last")
		logs.file() // it continues the same segment
		logs.restart().expect("first", text, "last")
	}
}

func TestWhatIsNoLineIsSkipped(t *testing.T) {
	dir := t.TempDir()
	lines := []string{
		"1 0 1800000000000 stdout first", "", "# a note by a person", "1 1 x stdout no time", "1 1",
		"9999999999 1 1800000000000 stdout huge",
		"1 1 1800000000000 stdout bad \\escape", "1 1 1800000000000 stdout \x00\x00\x00",
		"1 1 1800000000000 stdout ",
	}
	logsIn{TB: t}.write(
		segmentIn(dir),
		"no run 1 1 1800000000000 stdout x\n"+lineStart+strings.Join(lines, "\n"+lineStart)+"\n",
	)
	logs := openIn(t, dir, defaultLimits)
	logs.expect("first", "")
}

func TestAFullDiskIsTold(t *testing.T) {
	logs := open(t)
	logs.say(0, "first")
	logs.Logs.write = func(f *os.File, b []byte) (int, error) {
		n, _ := f.Write(b[:len(b)-3])
		return n, syscall.ENOSPC
	}
	err := logs.Append(t.Context(), []carillon.Chunk{chunkOf(run, 1, "second")})
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), run.String()) {
		t.Fatal(err)
	}
	logs.Logs.write = (*os.File).Write
	logs.say(1, "second")
	logs.expect("first", "second")
}

func TestNothingIsTouchedOutside(t *testing.T) {
	outside := t.TempDir()
	for _, namespace := range []string{
		"", ".", "..", "../x", "a/b", "/abs", ".hidden", "-x", "a\x00b", "ä", `a\b`, "a b",
		strings.Repeat("a", 65),
	} {
		logs := open(t)
		c := chunkOf(run, 0, "x")
		c.Namespace = namespace
		_, readErr := logs.Read(t.Context(), carillon.LogQuery{Namespace: namespace, Run: run})
		for _, err := range []error{logs.Append(t.Context(), []carillon.Chunk{c}), readErr} {
			if !errors.Is(err, carillon.ErrInvalid) {
				t.Errorf("namespace %q: %v", namespace, err)
			}
		}
	}
	for _, id := range []carillon.RunID{{}, {Job: -1, Due: 1}, {Job: 1, Due: -1}, {Job: 1, Due: 1 << 50}} {
		if err := open(t).Append(t.Context(), []carillon.Chunk{
			chunkOf(id, 0, "x"),
		}); !errors.Is(err, carillon.ErrInvalid) {
			t.Errorf("run %v: %v", id, err)
		}
	}
	logs := open(t)
	if err := os.Symlink(outside, filepath.Join(logs.dir, "default")); err != nil {
		t.Fatal(err)
	}
	if err := logs.Append(t.Context(), []carillon.Chunk{chunkOf(run, 0, "x")}); err == nil {
		t.Error("a link out of the directory was followed")
	}
	if left, _ := os.ReadDir(outside); len(left) > 0 {
		t.Errorf("%v was written outside", left)
	}
}

// The test spoils the earlier lines in place: a caller that follows the log does not read them again.
func TestFollowingReadsWhatIsNew(t *testing.T) {
	for name, limits := range map[string]limits{
		"open": defaultLimits, "sealed": {size: 1 << 19, extents: 1000, held: 1 << 18, files: 2},
	} {
		t.Run(name, func(t *testing.T) {
			logs := openIn(t, t.TempDir(), limits)
			for i := int64(0); i < 20_000; i += 1000 {
				texts := make([]string, 1000)
				for j := range texts {
					texts[j] = fmt.Sprintf("line %d", i+int64(j))
				}
				logs.say(i, texts...)
			}
			from := func(offset int64) []carillon.Line {
				q := carillon.LogQuery{
					Namespace: "default", Run: run, AfterAttempt: 1, AfterOffset: offset, Limit: 10,
				}
				lines, err := logs.Read(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				return lines
			}
			if lines := from(9_999); len(lines) != 10 || lines[0].Text != "line 10000" {
				t.Fatalf("%+v", lines)
			}
			f, err := os.OpenFile(logs.files(".log")[0], os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if _, err := f.WriteAt([]byte(strings.Repeat("x", 400_000)), 0); err != nil {
				t.Fatal(err)
			}
			logs.say(20_000, "new")
			if lines := from(19_999); len(lines) != 1 || lines[0].Text != "new" {
				t.Fatalf("%+v", lines)
			}
			if lines := from(20_000); len(lines) != 0 {
				t.Fatalf("%+v", lines)
			}
		})
	}
}

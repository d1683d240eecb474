package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// trim calls Trim with a time that is later than now.
func (l logsIn) trim(later, keep time.Duration) {
	l.Helper()
	if err := l.Trim(l.Context(), carillon.Now().Add(later), keep); err != nil {
		l.Fatal(err)
	}
}

func (l logsIn) keep(id carillon.RunID, keep time.Duration, texts ...string) {
	l.Helper()
	c := chunkOf(id, 0, texts...)
	c.Keep = keep
	if err := l.Append(l.Context(), []carillon.Chunk{c}); err != nil {
		l.Fatal(err)
	}
}

func (l logsIn) has(id carillon.RunID) bool {
	l.Helper()
	lines, err := l.Read(l.Context(), carillon.LogQuery{Namespace: "default", Run: id})
	if err != nil {
		l.Fatal(err)
	}
	return len(lines) > 0
}

func TestTrimGoesByTheLongestKeepOfASegment(t *testing.T) {
	long, short, byRule := carillon.RunID{
		Job: 1, Due: due,
	}, carillon.RunID{Job: 2, Due: due}, carillon.RunID{Job: 3, Due: due}
	for name, limits := range map[string]limits{
		"open": defaultLimits, "sealed": {size: 1, extents: 1, held: 1, files: 1},
	} {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %v", name, restart), func(t *testing.T) {
				logs := openIn(t, t.TempDir(), limits)
				logs.keep(short, 9*time.Minute, "short")
				logs.keep(byRule, 0, "by rule")
				logs.keep(long, 48*time.Hour, "long")
				for _, step := range []struct {
					later time.Duration
					want  [3]bool
				}{
					{8 * time.Minute, [3]bool{true, true, true}},
					{11 * time.Minute, [3]bool{false, true, true}},
					{25 * time.Hour, [3]bool{false, false, true}},
					{49 * time.Hour, [3]bool{}},
				} {
					if restart {
						logs = logs.restart()
					}
					logs.trim(step.later, 24*time.Hour)
					if got := [3]bool{logs.has(short), logs.has(byRule), logs.has(long)}; got != step.want {
						t.Errorf("after %s there are %v", step.later, got)
					}
				}
				if left := append(logs.files(".log"), logs.files(".idx")...); len(left) > 0 ||
					logs.held != 0 || len(logs.Logs.files) > 0 {
					t.Errorf("left are %q, %d extents", left, logs.held)
				}
				logs.say(0, "new")
				logs.expect("new")
			})
		}
	}
}

// A line goes with its segment, so a run that prints for days must not keep the lines of all other runs.
func TestTrimSealsWhatIsOpenForLong(t *testing.T) {
	logs := open(t)
	logs.say(0, "first")
	logs.trim(20*time.Hour/8, 24*time.Hour)
	if n := len(logs.files(".idx")); n != 0 {
		t.Errorf("%d are sealed too early", n)
	}
	logs.trim(3*time.Hour+time.Minute, 24*time.Hour)
	if n := len(logs.files(".idx")); n != 1 {
		t.Errorf("%d are sealed", n)
	}
	logs.say(1, "second")
	logs.expect("first", "second")
	if n := len(logs.files(".log")); n != 2 {
		t.Errorf("%d segments", n)
	}
}

func TestTrimLeavesTheRestAlone(t *testing.T) {
	logs := open(t)
	logs.say(0, "old")
	class := filepath.Join(logs.dir, "default", "default")
	foreign := []string{
		filepath.Join(class, "note.txt"), filepath.Join(class, "note.log"), filepath.Join(class, "x.idx"),
		filepath.Join(class, "2027-01-15", run.String()+".log"),
		filepath.Join(logs.dir, "default", "mine", "2027-01-15T10-00-00.000.log"),
		filepath.Join(logs.dir, "README"),
	}
	for _, name := range foreign {
		logs.write(name, "x")
	}
	logs = logs.restart()
	logs.trim(48*time.Hour, 24*time.Hour)
	logs.expect()
	for _, name := range foreign {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
}

func TestAfterAPersonRemovedTheFilesItGoesOn(t *testing.T) {
	logs := open(t)
	logs.say(0, "removed")
	if err := os.RemoveAll(filepath.Join(logs.dir, "default")); err != nil {
		t.Fatal(err)
	}
	logs.expect()
	logs.trim(0, time.Hour)
	logs.say(1, "new")
	logs.expect("new")
	logs.restart().expect("new")
}

func TestAfterAPersonCutAFileItGoesOn(t *testing.T) {
	logs := open(t)
	logs.say(0, "cut", "off")
	if err := os.Truncate(logs.file(), 10); err != nil {
		t.Fatal(err)
	}
	logs.expect()
	logs.trim(0, time.Hour)
	logs.say(2, "new")
	logs.expect("new")
	logs.restart().expect("new")
}

// A reader can look up a segment while Trim removes it. What the reader notes then must not keep the segment
// in memory.
func TestASegmentThatIsGoneIsNotRemembered(t *testing.T) {
	l := open(t)
	l.say(0, "hello")
	gone := l.packs[place{"default", defaultClass}].segments[0]
	l.trim(48*time.Hour, time.Hour)
	l.skips.note("default", run, position{}, []*segment{gone})
	if skip := l.skips.of("default", run, position{}); skip[gone] {
		t.Error("it is remembered")
	}
}

func TestTrimEndsWithItsContext(t *testing.T) {
	logs := open(t)
	logs.say(0, "old")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := logs.Trim(ctx, carillon.Now().Add(48*time.Hour), time.Hour); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	logs.expect("old")
}

// Segments vanish while other goroutines write and read, and no call fails.
func TestTrimWhileOthersAppend(t *testing.T) {
	logs := openIn(t, t.TempDir(), limits{size: 1 << 20, extents: 10, held: 30, files: 2})
	ctx, cancel := context.WithCancel(t.Context())
	var trimming, appending sync.WaitGroup
	trimming.Go(func() {
		for ctx.Err() == nil {
			if err := logs.Trim(ctx, due.Add(1000*24*time.Hour), 0); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	})
	for w := range 3 {
		appending.Go(func() {
			for i := range 300 {
				id := carillon.RunID{Job: carillon.JobID(1 + w), Due: due}
				if err := logs.Append(t.Context(), []carillon.Chunk{chunkOf(id, int64(i), "x")}); err != nil {
					t.Error(err)
				}
				if _, err := logs.Read(t.Context(), carillon.LogQuery{
					Namespace: "default", Run: id,
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	appending.Wait()
	cancel()
	trimming.Wait()
}

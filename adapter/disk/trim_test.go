package disk

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

func (l logsIn) exists(path ...string) bool {
	_, err := os.Stat(filepath.Join(append([]string{l.dir}, path...)...))
	return err == nil
}

// age makes the log of run so much older.
func (l logsIn) age(d time.Duration) {
	l.Helper()
	then := due.Std().Add(-d)
	if err := os.Chtimes(l.file(), then, then); err != nil {
		l.Fatal(err)
	}
}

func TestTrimRemovesEmptyDays(t *testing.T) {
	logs, later := open(t), due.Add(48*time.Hour)
	logs.say(0, "old")
	logs.age(0)
	if err := logs.Trim(t.Context(), later, 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	if logs.exists("default", "default", "2027-01-15") || !logs.exists("default", "default") {
		t.Error("the day is still there, or its class is not")
	}
	logs.expect()
	logs.say(1, "new")
	logs.expect("new")
}

func TestTrimLeavesTheRestAlone(t *testing.T) {
	logs, later := open(t), due.Add(48*time.Hour)
	logs.say(0, "young")
	logs.age(-47 * time.Hour)
	note := filepath.Join(logs.dir, "default", "default", "2027-01-15", "note.txt")
	foreign := filepath.Join(logs.dir, "default", "mine", "2027-01-15", filepath.Base(runFile))
	for _, name := range []string{note, foreign, filepath.Join(logs.dir, "default", "default", "today", "x.log"), filepath.Join(logs.dir, "README")} {
		logs.write(name, "x")
		if err := os.Chtimes(name, due.Std(), due.Std()); err != nil {
			t.Fatal(err)
		}
	}
	if err := logs.Trim(t.Context(), later, 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	logs.expect("young")
	logs.age(0)
	if err := logs.Trim(t.Context(), later, 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	logs.expect()
	for _, name := range []string{note, foreign} {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
}

func TestTrimEndsWithItsContext(t *testing.T) {
	logs := open(t)
	logs.say(0, "old")
	logs.age(0)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := logs.Trim(ctx, due.Add(48*time.Hour), time.Hour); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	logs.expect("old")
}

// Days vanish under the hands of those who write, and nobody notices.
func TestTrimWhileOthersAppend(t *testing.T) {
	logs := open(t)
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
				if _, err := logs.Read(t.Context(), carillon.LogQuery{Namespace: "default", Run: id}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	appending.Wait()
	cancel()
	trimming.Wait()
}

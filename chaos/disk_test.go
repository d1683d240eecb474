package chaos

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	lite "zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/porttest/skip"
)

// smallDisk is a directory with room for so many bytes.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size+",mode=700"); err != nil {
		skip.Loudly(t, skip.KindRights, "mount a small tmpfs, as root: %v", err)
	}
	t.Cleanup(func() {
		// Detached: a process that another test just forked can still have the files open.
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// fill leaves no room on a disk, and returns a function that gives the room back.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	path := filepath.Join(dir, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, size := range []int{1 << 16, 1 << 12, 1} {
		for err == nil {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatalf("fill the disk: %v", err)
		}
		err = nil
	}
	return func() {
		if err := os.Remove(path); err != nil {
			t.Error(err)
		}
	}
}

func TestAFullDiskRefusesNewJobsAndLosesNothing(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, "16m")
	data := filepath.Join(disk, "data")
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	s, err := Start(ctx, buildBinary(t), data)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Kill() }()
	witness := filepath.Join(t.TempDir(), "witness") // on another disk
	defs := repeat(witnessed(witness, 3*time.Second), 10)
	later := witnessed(witness, 0)
	later.Schedule.After = carillon.Duration(5 * time.Second)
	recurring := witnessed(witness, 0)
	recurring.Schedule.Every, recurring.Schedule.MaxRuns = carillon.Duration(time.Second), 10
	recurring.Misfire.Policy = carillon.MisfireAll
	accepted, err := s.Client.SubmitMany(ctx, append(defs, later, recurring))
	if err != nil {
		t.Fatal(err)
	}
	poll(t, ctx, "the first starts", func() bool { return count(t, witness, check.KindStart) >= 10 })

	free := fill(t, disk)
	poll(t, ctx, "a submit to be refused", func() bool {
		job, err := s.Client.Submit(ctx, witnessed(witness, 0))
		if err == nil { // there was room in a page that the file had
			accepted = append(accepted, job)
			return false
		}
		var problem *client.Problem
		if !errors.As(err, &problem) || problem.Status != 503 || !strings.HasSuffix(problem.Type, ":full") {
			t.Fatalf("a full disk: %v, want 503 that says so", err)
		}
		t.Logf("a submit is refused: %v", err)
		return true
	})
	t.Logf("readiness: %s", unready(s.URL))
	poll(t, ctx, "the running commands to end", func() bool { return count(t, witness, check.KindEnd) >= 10 })
	last(ctx, time.Second) // their ends find no room
	if _, err := s.Client.Submit(ctx, witnessed(witness, 0)); err == nil {
		t.Error("a submit was accepted without room")
	}
	free()

	for _, job := range accepted {
		for _, run := range endedRuns(t, ctx, s.Client, job) {
			if run.State != carillon.StateSucceeded && run.State != carillon.StateSkipped {
				t.Errorf("has not succeeded: %s", row(run))
			}
		}
	}
	poll(t, ctx, "the server to be ready", func() bool { return unready(s.URL) == "" })
	for _, broken := range check.Lines(read(t, witness)) {
		t.Error(broken)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	intact(t, filepath.Join(data, "carillon.db"))
}

// endedRuns waits until a job has no unfinished run and returns all its runs.
func endedRuns(
	t *testing.T, ctx context.Context, api *client.Client, job carillon.Job,
) (runs []carillon.Run) {
	t.Helper()
	poll(t, ctx, "the runs of "+job.ID.String()+" to end", func() bool {
		runs = nil
		done := true
		for run, err := range api.Runs(ctx, carillon.RunQuery{Job: job.ID}) {
			if err != nil {
				return false
			}
			runs = append(runs, run)
			done = done && run.State.Ended()
		}
		return done && len(runs) > 0
	})
	return runs
}

// count is how many lines of a kind the bodies have written.
func count(t *testing.T, witness string, kind check.Kind) (n int) {
	t.Helper()
	for _, l := range read(t, witness) {
		if l.Kind == kind {
			n++
		}
	}
	return n
}

// intact checks an SQLite file.
func intact(t *testing.T, path string) {
	t.Helper()
	db, err := lite.OpenConn(path, lite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	err = sqlitex.ExecuteTransient(db, "PRAGMA integrity_check", &sqlitex.ExecOptions{
		ResultFunc: func(row *lite.Stmt) error {
			if said := row.ColumnText(0); said != "ok" {
				t.Errorf("the file is damaged: %s", said)
			}
			return nil
		},
	})
	if err != nil {
		t.Error(err)
	}
}

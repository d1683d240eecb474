package chaos

import (
	"context"
	"flag"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
	"github.com/carillon-run/carillon/client"
)

var kills = flag.Int("kills", 50, "how often the process is killed")

// load submits jobs of all kinds until ctx ends, and keeps those that were accepted.
type load struct {
	witness  string
	machine  *machine
	mu       sync.Mutex
	accepted []carillon.Job
	rnd      *rand.Rand
	killed   carillon.Time // at the last kill
	worst    time.Duration // from a restart until all interrupted runs had started again
}

func (l *load) next() carillon.Definition {
	l.mu.Lock()
	defer l.mu.Unlock()
	def := witnessed(l.witness, time.Duration(l.rnd.IntN(250))*time.Millisecond)
	switch l.rnd.IntN(4) {
	case 0:
		def.Schedule.After = carillon.Duration(time.Duration(l.rnd.IntN(2000)) * time.Millisecond)
	case 1:
		def.Schedule.Every, def.Schedule.MaxRuns = carillon.Duration(time.Second), 3
		def.Overlap = []carillon.Overlap{
			carillon.OverlapSkip, carillon.OverlapQueue, carillon.OverlapQueueAll,
		}[l.rnd.IntN(3)]
	}
	return def
}

// life is how long the process lives this time.
func (l *load) life() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Duration(50+l.rnd.IntN(450)) * time.Millisecond
}

func (l *load) run(ctx context.Context, c *client.Client) {
	for ctx.Err() == nil {
		job, err := c.Submit(ctx, l.next())
		if err != nil {
			return // killed, or about to be: the server has promised nothing
		}
		l.mu.Lock()
		l.accepted = append(l.accepted, job)
		l.mu.Unlock()
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func TestKillNineAtAnyTimeLosesNothingAndRunsNothingTwiceAtOnce(t *testing.T) {
	t.Parallel()
	binary, data := buildBinary(t), t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), hang+time.Duration(*kills)*time.Second)
	defer cancel()
	l := &load{witness: filepath.Join(t.TempDir(), "witness"), rnd: random(t), machine: watchMachine()}
	for i := range *kills {
		if i%5 == 4 { // kill it also while it starts
			if err := StartAndKill(binary, data, l.life()/5); err != nil {
				t.Fatal(err)
			}
			l.killed = carillon.Now()
			continue
		}
		s, err := Start(ctx, binary, data)
		if err != nil {
			t.Fatalf("start %d: %v", i, err)
		}
		if i%10 == 8 {
			l.awaitRestarts(t, ctx, s.Client, s.Began)
		}
		loading, stop := context.WithCancel(ctx)
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { l.run(loading, s.Client) })
		}
		select {
		case <-time.After(l.life()):
		case <-ctx.Done():
		}
		s.Kill()
		l.killed = carillon.Now()
		stop()
		wg.Wait()
	}
	s, err := Start(ctx, binary, data)
	if err != nil {
		t.Fatal(err)
	}
	l.awaitRestarts(t, ctx, s.Client, s.Began)
	ended := awaitEnds(t, ctx, s.Client, l.accepted)
	if err := s.Stop(); err != nil {
		t.Errorf("stop: %v", err)
	}
	lines := read(t, l.witness)
	t.Logf("%d kills, %d jobs accepted, %d runs ended; witnesses: %s; what was interrupted was started again within %s",
		*kills, len(l.accepted), len(ended), check.Summary(lines), l.worst.Round(time.Millisecond))
	for _, broken := range check.Lines(lines) {
		t.Error(broken)
	}
	checkEnds(t, lines, ended)
	for _, broken := range explained(l.accepted, ended) {
		t.Error(broken)
	}
}

// awaitEnds waits until every run of every accepted job has ended, and returns the runs.
func awaitEnds(
	t *testing.T, ctx context.Context, c *client.Client, jobs []carillon.Job,
) map[carillon.RunID]carillon.Run {
	t.Helper()
	ended := map[carillon.RunID]carillon.Run{}
	for _, job := range jobs {
		for !jobEnded(t, ctx, c, job, ended) {
			select {
			// There is no event here for the progress of another process.
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				t.Fatalf("%s has not ended: %v", job.ID, ctx.Err())
			}
		}
	}
	return ended
}

// jobEnded says that all runs of a job have ended, and checks that as many succeeded as it should have.
func jobEnded(
	t *testing.T, ctx context.Context, c *client.Client, job carillon.Job,
	ended map[carillon.RunID]carillon.Run,
) bool {
	t.Helper()
	ran := 0
	seen := map[carillon.RunID]bool{}
	for run, err := range c.RunsOf(ctx, carillon.RunQuery{Job: job.ID, Limit: 100}) {
		if err != nil {
			t.Fatalf("runs of %s: %v", job.ID, err)
		}
		if seen[run.ID] {
			t.Errorf("%s has two records", run.ID)
		}
		seen[run.ID] = true
		if !run.State.Ended() {
			return false
		}
		ended[run.ID] = run
		if run.State == carillon.StateSucceeded {
			ran++
		}
	}
	if want := max(job.Schedule.MaxRuns, 1); ran != want {
		t.Errorf("lost: %s was accepted and ran %d times, want %d", job.ID, ran, want)
	}
	return true
}

// checkEnds compares records with witnesses: a witness saw every succeeded run end, and all other runs were
// skipped.
func checkEnds(t *testing.T, lines []check.Line, ended map[carillon.RunID]carillon.Run) {
	t.Helper()
	seen := map[carillon.RunID]bool{}
	for _, l := range lines {
		if l.Kind == check.KindEnd {
			seen[l.Run] = true
		}
	}
	for id, run := range ended {
		if run.State == carillon.StateSucceeded && !seen[id] {
			t.Errorf("%s is recorded as succeeded, but no witness saw it end", id)
		}
		if run.State != carillon.StateSucceeded && run.State != carillon.StateSkipped {
			t.Errorf("%s ended as %s: %s", id, run.State, run.Reason)
		}
	}
}

// awaitRestarts checks that the attempts that the last kill interrupted start again within ten seconds. The
// other lives of the process are too short to tell: a run can be claimed and the process killed before its
// command has written a line.
func (l *load) awaitRestarts(t *testing.T, ctx context.Context, c *client.Client, began time.Time) {
	t.Helper()
	for {
		lines := read(t, l.witness)
		waiting := check.Interrupted(lines, l.killed)
		for _, line := range lines {
			if open, is := waiting[line.Run]; is && line.Attempt > open.Attempt {
				delete(waiting, line.Run)
			}
		}
		if len(waiting) == 0 {
			l.worst = max(l.worst, time.Since(began))
			return
		}
		if time.Since(began) > 10*time.Second+l.machine.allowance(began, time.Now()) || ctx.Err() != nil {
			for id, line := range waiting {
				run, err := c.Run(ctx, id)
				t.Errorf("killed at %s, process began at %s: attempt %d of %s (started %s) has not started again: %s %d by %s, claimed %s, %v",
					l.killed, carillon.TimeOf(
						began,
					), line.Attempt, id, line.At, run.State, run.Attempt, run.Worker, run.Claimed, err)
			}
			return
		}
		time.Sleep(20 * time.Millisecond) // there is no event here for lines of other processes
	}
}

package worker_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/executor"
)

// logs is a mem log store that can fail.
type logs struct {
	*mem.Logs
	mu        sync.Mutex
	failing   bool
	takes     time.Duration // how long a call takes
	meanwhile func()        // called by a call that fails
	longest   int           // lines that one call brought
}

func (l *logs) turn(failing bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failing = failing
}

func (l *logs) Append(ctx context.Context, chunks []carillon.Chunk) error {
	l.mu.Lock()
	for _, c := range chunks {
		l.longest = max(l.longest, len(c.Lines))
	}
	failing, takes, meanwhile := l.failing, l.takes, l.meanwhile
	l.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	if !failing {
		return l.Logs.Append(ctx, chunks)
	}
	if meanwhile != nil {
		meanwhile()
	}
	return errInjected
}

// printed is the kept output of a run.
func (h *house) printed(run carillon.Run) []carillon.Line {
	h.t.Helper()
	lines, err := h.logs.Read(context.Background(), carillon.LogQuery{
		Namespace: run.Namespace, Run: run.ID, AfterAttempt: 0, AfterOffset: -1, Limit: 1_000_000,
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return lines
}

// expectPrinted checks that the lines are the numbers from 0 to n-1. Where numbers are missing, a line in
// their place must say how many.
func (h *house) expectPrinted(lines []carillon.Line, n int) (gaps int) {
	h.t.Helper()
	next := 0
	for i, line := range lines {
		missing := 0
		if line.Stream == "carillon" {
			if _, err := fmt.Sscanf(line.Text, "%d lines are missing here", &missing); err != nil {
				h.t.Fatalf("line %d: %q", i, line.Text)
			}
			next += missing
			gaps++
			continue
		}
		if line.Text != strconv.Itoa(next) {
			h.t.Fatalf("line %d is %q, want %d (after %d gaps)", i, line.Text, next, gaps)
		}
		next++
	}
	if next != n {
		h.t.Errorf("%d of %d lines are kept or said to be missing, in %d lines", next, n, len(lines))
	}
	return gaps
}

// expectWhole checks that a job's run succeeded at once and that its output has all numbers from 0 to n-1.
func (h *house) expectWhole(job carillon.JobID, n int) {
	h.t.Helper()
	run := h.run(job)
	h.expect(run, carillon.StateSucceeded, 1, 0)
	if gaps := h.expectPrinted(h.printed(run), n); gaps > 0 {
		h.t.Errorf("%d gaps", gaps)
	}
}

func TestAllThatIsPrintedArrivesInOrder(t *testing.T) {
	const n = 200_000
	in(t, func(h *house) {
		h.handle = func(_ context.Context, task executor.Task) error {
			for i := range n {
				task.Print("stdout", strconv.Itoa(i))
			}
			return nil
		}
	}, func(h *house) {
		job := h.submit(1, nil)[0].ID
		time.Sleep(time.Minute)
		h.expectWhole(job, n)
	})
}

func TestARunThatPrintsFasterThanTheLogStoreTakesLinesWaitsForIt(t *testing.T) {
	const n = 100_000
	in(t, func(h *house) {
		h.logs.takes = 500 * time.Millisecond
		h.handle = printEvery(n, 100, time.Millisecond)
	}, func(h *house) {
		job := h.submit(1, nil)[0].ID
		time.Sleep(5 * time.Minute)
		h.expectWhole(job, n)
	})
}

// A single report fails, for example because a connection broke, while the run waits for room.
func TestARunThatWaitsForRoomLosesNothingIfOneReportFails(t *testing.T) {
	const few, n = 500, 15_000
	in(t, func(h *house) {
		h.logs.takes = 500 * time.Millisecond
		h.logs.meanwhile = func() { h.logs.turn(false) }
		h.handle = func(_ context.Context, task executor.Task) error {
			h.logs.turn(true)
			for i := range n {
				task.Print("stdout", strconv.Itoa(i))
				if i == few {
					time.Sleep(300 * time.Millisecond) // the worker reports them, by itself
				}
			}
			return nil
		}
	}, func(h *house) {
		job := h.submit(1, nil)[0].ID
		time.Sleep(time.Minute)
		h.expectWhole(job, n)
	})
}

// printEvery prints numbers, some at a time.
func printEvery(n, burst int, pause time.Duration) executor.Handler {
	return func(ctx context.Context, task executor.Task) error {
		for i := range n {
			task.Print("stdout", strconv.Itoa(i))
			if i%burst == burst-1 {
				time.Sleep(pause)
			}
		}
		return ctx.Err()
	}
}

func TestOutputThatTheLogStoreDoesNotTakeIsCountedInItsPlace(t *testing.T) {
	const n = 50_000
	in(t, func(h *house) { h.handle = printEvery(n, 1000, time.Second) }, func(h *house) {
		job := h.submit(1, nil)[0].ID
		time.Sleep(5 * time.Second)
		h.logs.turn(true)
		time.Sleep(20 * time.Second)
		h.logs.turn(false)
		time.Sleep(time.Minute)
		h.expect(h.run(job), carillon.StateSucceeded, 1, 0) // it was not stopped
		lines := h.printed(h.run(job))
		if gaps := h.expectPrinted(lines, n); gaps != 1 {
			t.Errorf("%d gaps, want 1", gaps)
		}
		if len(lines) < n-11_000 {
			t.Errorf(
				"%d of %d lines are kept: an outage may cost what there is no room for, which is 10000 lines",
				len(lines), n,
			)
		}
	})
}

func TestAShortOutageOfTheLogStoreCostsNothing(t *testing.T) {
	const n = 20_000
	in(t, func(h *house) { h.handle = printEvery(n, 500, time.Second) }, func(h *house) {
		job := h.submit(1, nil)[0].ID
		time.Sleep(3 * time.Second)
		h.logs.turn(true)
		time.Sleep(10 * time.Second)
		h.logs.turn(false)
		time.Sleep(time.Minute)
		h.expectWhole(job, n)
	})
}

func TestAGapAtTheEndOfTheOutputIsCountedToo(t *testing.T) {
	const n = 30_000
	in(t, nil, func(h *house) {
		h.handle = func(_ context.Context, task executor.Task) error {
			h.logs.turn(true)
			for i := range n {
				task.Print("stdout", strconv.Itoa(i))
			}
			h.logs.turn(false)
			return nil
		}
		job := h.submit(1, nil)[0].ID
		time.Sleep(time.Minute)
		h.expectPrinted(h.printed(h.run(job)), n)
	})
}

// The log store takes none of what a run prints. What Carillon says about it, such as where the output is cut
// or why it failed, has room all the same.
func TestRemarksHaveRoomBehindOutputThatTheLogStoreDoesNotTake(t *testing.T) {
	in(t, nil, func(h *house) {
		h.handle = func(_ context.Context, task executor.Task) error {
			h.logs.turn(true)
			for i := range 30_000 {
				task.Print("stdout", strconv.Itoa(i))
			}
			time.AfterFunc(time.Millisecond, func() { h.logs.turn(false) })
			panic("poison")
		}
		job := h.submit(1, func(d *carillon.Definition) { d.Retry.MaxAttempts = 1 })[0].ID
		time.Sleep(time.Minute)
		lines := h.printed(h.run(job))
		gap := slices.IndexFunc(lines, func(l carillon.Line) bool {
			return strings.HasPrefix(l.Text, "20000 lines are missing here")
		})
		if gap < 0 || gap+1 == len(lines) || lines[gap+1].Text != "panic: poison" {
			t.Errorf("after %d lines, line %d is the gap, and the panic does not follow it", len(lines), gap)
		}
	})
}

// A log store that is slow to fail has the held lines while it tries; the run prints more meanwhile.
func TestWhatIsHeldOfAnOutputStaysBounded(t *testing.T) {
	in(t, nil, func(h *house) {
		var mu sync.Mutex
		printed := 0
		h.handle = func(_ context.Context, task executor.Task) error {
			print := func(n int) {
				mu.Lock()
				defer mu.Unlock()
				for range n {
					task.Print("stdout", strconv.Itoa(printed))
					printed++
				}
			}
			print(10_000)
			h.logs.mu.Lock()
			h.logs.meanwhile = func() { print(900) }
			h.logs.mu.Unlock()
			time.Sleep(time.Minute)
			h.logs.turn(false)
			time.Sleep(time.Second)
			print(1)
			return nil
		}
		h.logs.turn(true)
		job := h.submit(1, nil)[0].ID
		time.Sleep(5 * time.Minute)
		h.expect(h.run(job), carillon.StateSucceeded, 1, 0)
		h.expectPrinted(h.printed(h.run(job)), printed)
		if h.logs.longest > 11_000 {
			t.Errorf("%d lines were held, want about 10000 at most", h.logs.longest)
		}
	})
}

func TestOutputThatIsOnItsWayWhenTheRunEndsIsNotLost(t *testing.T) {
	for name, c := range map[string]struct{ before, hang time.Duration }{
		"a report that hangs fails after the end": {time.Second, 10 * time.Second},
		"the report of the end fails":             {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			in(t, func(h *house) { h.handle = printEvery(1, 1, c.before) }, func(h *house) {
				h.logs.meanwhile = func() {
					h.logs.turn(false)
					time.Sleep(c.hang)
				}
				h.logs.turn(true)
				job := h.submit(1, nil)[0].ID
				time.Sleep(time.Minute)
				h.expect(h.run(job), carillon.StateSucceeded, 1, 0)
				h.expectPrinted(h.printed(h.run(job)), 1)
			})
		})
	}
}

func TestARunThatPrintsIsStoppedAtOnceAlsoIfTheLogStoreHangs(t *testing.T) {
	stopped := make(chan carillon.Time, 1)
	in(t, func(h *house) {
		h.logs.takes = time.Hour
		h.handle = func(ctx context.Context, task executor.Task) error {
			for range 1000 { // with the last one the lines are reported
				task.Print("stdout", "a line")
			}
			<-ctx.Done()
			stopped <- carillon.Now()
			return ctx.Err()
		}
	}, func(h *house) {
		job := h.submit(1, nil)[0].ID
		time.Sleep(5 * time.Second)
		asked := carillon.Now()
		if _, err := h.ledger.CancelJob(
			context.Background(), carillon.DefaultNamespace, job, false,
		); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		select {
		case at := <-stopped:
			if at.Sub(asked) > 3*time.Second {
				t.Errorf("it was stopped at %s, the cancel was at %s", at, asked)
			}
		default:
			t.Error("it was not stopped")
		}
	})
}

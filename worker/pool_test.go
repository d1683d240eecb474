package worker_test

import (
	"bytes"
	"context"
	"runtime"
	"runtime/pprof"
	"sync/atomic"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

func TestAttemptsThatTakeLongHoldUpNoOthers(t *testing.T) {
	const slots = 1000 // more than stay idle
	in(t, func(h *house) { h.concurrency, h.handle = slots, slow(time.Minute) }, func(h *house) {
		for wave := range 3 { // the first starts new goroutines, the others reuse idle ones and start more
			began := carillon.Now()
			h.submit(slots, nil)
			time.Sleep(10 * time.Second)
			list := h.attempts()
			if len(list) != slots*(wave+1) {
				t.Fatalf("wave %d: %d attempts have begun, want %d", wave, len(list), slots*(wave+1))
			}
			for _, a := range list[slots*wave:] {
				if late := a.start.Sub(began); late > 100*time.Millisecond {
					t.Fatalf("wave %d: an attempt began %s late", wave, late)
				}
			}
			time.Sleep(2 * time.Minute)
		}
		h.mu.Lock()
		most := h.most
		h.mu.Unlock()
		if most != slots {
			t.Errorf("%d at once, want %d", most, slots)
		}
		h.expectSlots()
	})
}

func TestAnAttemptLeavesNoProfilerLabelsToTheNext(t *testing.T) {
	var inherited atomic.Int64
	in(t, func(h *house) {
		h.concurrency = 1
		h.handle = func(ctx context.Context, _ executor.Task) error {
			var all bytes.Buffer
			if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
				t.Error(err)
			}
			// A block for each stack with its labels. Goroutines that have performed an attempt and are about
			// to drop its labels do not count: only this one is in the handler.
			for block := range bytes.SplitSeq(all.Bytes(), []byte("\n\n")) {
				if bytes.Contains(block, []byte("label-of-an-attempt")) &&
					bytes.Contains(block, []byte("NoProfilerLabels")) {
					inherited.Add(1)
				}
			}
			pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels("label-of-an-attempt", "x")))
			return nil
		}
	}, func(h *house) {
		h.submit(20, nil)
		time.Sleep(time.Minute)
		if got := len(h.attempts()); got != 20 || inherited.Load() > 0 {
			t.Errorf("%d of %d attempts have the labels of another one", inherited.Load(), got)
		}
	})
}

func TestAnExecutorThatSharesNoGoroutineMayLeaveItsThreadLocked(t *testing.T) {
	var inherited atomic.Int64
	in(t, func(h *house) {
		h.concurrency, h.alone = 1, true
		h.handle = func(context.Context, executor.Task) error {
			var stack [256]byte // its first line says that the goroutine is locked to its thread
			n := runtime.Stack(stack[:], false)
			if bytes.Contains(stack[:n], []byte("locked to thread")) {
				inherited.Add(1)
			}
			runtime.LockOSThread()
			return nil
		}
	}, func(h *house) {
		h.submit(20, nil)
		time.Sleep(time.Minute)
		if got := len(h.attempts()); got != 20 || inherited.Load() > 0 {
			t.Errorf("%d of %d attempts begin on a locked thread", inherited.Load(), got)
		}
	})
}

func TestAnExecutorThatPanicsEndsOnlyItsAttempt(t *testing.T) {
	in(t, func(h *house) {
		h.concurrency, h.alone = 1, true
		h.before = func(task executor.Task) {
			if task.Run.Attempt == 1 {
				panic("oh no")
			}
		}
	}, func(h *house) {
		job := h.submit(1, nil)[0].ID
		time.Sleep(time.Second / 2) // the next attempt comes after a second
		run := h.run(job)
		if h.expect(run, carillon.StateWaiting, 1, 0); run.Failures != 1 || run.Reason != "panic: oh no" {
			t.Errorf("%d failures, %q", run.Failures, run.Reason)
		}
		time.Sleep(10 * time.Minute)
		h.expect(h.run(job), carillon.StateSucceeded, 2, 0)
		h.expectSlots()
	})
}

func TestAttemptsThatEndTheirGoroutineHoldUpNoOther(t *testing.T) {
	in(t, func(h *house) {
		h.concurrency = 1000
		h.handle = func(_ context.Context, task executor.Task) error {
			if task.Run.ID.Job%2 == 0 {
				runtime.Goexit()
			}
			return nil
		}
	}, func(h *house) {
		jobs := h.submit(1000, func(d *carillon.Definition) { d.Retry.MaxAttempts = 1 })
		time.Sleep(time.Second)
		for _, job := range jobs {
			want := carillon.StateSucceeded
			if job.ID%2 == 0 {
				want = carillon.StateFailed
			}
			h.expect(h.run(job.ID), want, 1, 0)
		}
	})
}

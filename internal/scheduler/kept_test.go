package scheduler_test

import (
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

// keeping is a house with eight slots, two of which are kept. Runs take a second, those of the share "large"
// an hour.
func keeping(h *house) {
	h.keep = 2
	h.handle = func(task executor.Task) {
		if task.Run.Share == "large" {
			time.Sleep(time.Hour)
		}
		time.Sleep(time.Second)
	}
}

func TestAFloodDoesNotTakeTheSlotsThatAreKept(t *testing.T) {
	in(t, keeping, func(h *house) {
		large := h.submit(20, fairBy("large", after(0)))
		time.Sleep(time.Second)
		h.expectRunning(6)
		large = append(large, h.submit(3, fairBy("large", after(0)))...)
		time.Sleep(time.Second)
		h.expectRunning(6)
		small := h.submit(1, fairBy("small", every(10*time.Second, carillon.OverlapSkip, 20)))
		for i := range 20 {
			time.Sleep(7 * time.Second)
			small = append(small, h.submit(1, fairBy("small", after(0)))...)
			small = append(small, h.submit(1, lane("mail", 5+i%5, after(0)))...)
			h.submit(1, fairBy("large", after(0)))
		}
		time.Sleep(2 * time.Minute)
		h.expectLate(small, 1100*time.Millisecond) // the one before it takes a second
		h.expectAll(small[1:], 1)
		h.expectAll(small[:1], 20)
		time.Sleep(9 * time.Hour)
		h.expectAll(large, 1)
	})
}

// A flood of a higher priority cannot have the kept slots, so they are not closed to others.
func TestAFloodOfAHighPriorityDoesNotCloseTheKeptSlots(t *testing.T) {
	in(t, keeping, func(h *house) {
		large := h.submit(20, func(d *carillon.Definition) { fairBy("large", after(0))(d); d.Priority = 9 })
		time.Sleep(time.Second)
		h.expectRunning(6)
		low := h.submit(1, fairBy("small", after(0)))
		time.Sleep(2 * time.Second)
		h.expectAll(low, 1)
		time.Sleep(6 * time.Hour)
		h.expectAll(large, 1)
	})
}

// A share with a few jobs at once has a kept slot for one after the other.
func TestAFewJobsOfAShareTakeAKeptSlotOneAfterTheOther(t *testing.T) {
	in(t, keeping, func(h *house) {
		large := h.submit(20, fairBy("large", after(0)))
		time.Sleep(time.Second)
		few := h.submit(3, fairBy("small", after(time.Second)))
		few = append(few, h.submit(1, fairBy("small", after(time.Second)))...)
		time.Sleep(2500 * time.Millisecond)
		h.expectRunning(7) // one of them
		time.Sleep(3 * time.Second)
		h.expectAll(few, 1)
		h.expectLate(few, 3100*time.Millisecond)
		time.Sleep(6 * time.Hour)
		h.expectAll(large, 1)
	})
}

package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

func fairBy(key string, edit func(*carillon.Definition)) func(*carillon.Definition) {
	return func(d *carillon.Definition) {
		edit(d)
		d.FairBy = key
	}
}

// The backlog is larger than memory. The runs of the small share become due while it is worked off.
func TestTheBacklogOfOneShareDoesNotHoldUpAnother(t *testing.T) {
	in(t, func(h *house) { tiny(h); h.handle = slow(50 * time.Millisecond) }, func(h *house) {
		backlog := h.submit(600, fairBy("large", after(0)))
		small := h.submit(2, fairBy("small", every(time.Second, carillon.OverlapSkip, 5)))
		later := h.submit(1, fairBy("small", after(3*time.Second)))
		time.Sleep(10 * time.Second)
		h.expectAll(small, 5)
		h.expectAll(later, 1)
		h.expectLate(append(small, later...), 160*time.Millisecond)
		time.Sleep(time.Hour)
		h.expectAll(backlog, 1)
	})
}

// Behind a backlog that was there before the start there is a run of another share.
func TestABacklogOfOneShareThatWasThereBeforeTheStartHoldsUpNoOther(t *testing.T) {
	var large, small []carillon.Job
	in(t, func(h *house) {
		tiny(h)
		h.handle = slow(50 * time.Millisecond)
		large = h.put(600, fairBy("large", after(0)))
		small = h.put(1, fairBy("small", after(0)))
	}, func(h *house) {
		time.Sleep(time.Second)
		h.expectAll(small, 1)
		time.Sleep(time.Hour)
		h.expectAll(large, 1)
	})
}

// More shares overflow than are paged one by one.
func TestTheBacklogsOfVeryManySharesAreWorkedOff(t *testing.T) {
	const shares, each = 300, 5
	var jobs []carillon.Job
	in(t, func(h *house) {
		tiny(h)
		h.lane, h.handle = 1, slow(time.Millisecond)
		for i := range shares {
			jobs = append(jobs, h.put(each, fairBy(fmt.Sprint("share", i), after(0)))...)
		}
	}, func(h *house) {
		more := h.submit(each, fairBy("share7", after(0)))
		time.Sleep(time.Hour)
		h.expectAll(jobs, 1)
		h.expectAll(more, 1)
	})
}

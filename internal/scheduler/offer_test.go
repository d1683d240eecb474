package scheduler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

// pulls says of every run that a pull waits for it, or of none.
type pulls bool

func (p pulls) Waits(*carillon.Run) bool { return bool(p) }

// The only slot is taken by the first run of the job, so no worker claims the runs that come after it. They
// are decided on time all the same: at once if no pull waits, and after a second if a pull that seemed to
// wait takes none of them.
func TestARunThatNoWorkerClaimsIsDecidedOnTime(t *testing.T) {
	for _, c := range []struct {
		overlap carillon.Overlap
		waits   pulls
		late    time.Duration
	}{
		{carillon.OverlapSkip, false, 0},
		{carillon.OverlapSkip, true, time.Second},
		{carillon.OverlapQueue, false, 0},
		{carillon.OverlapQueue, true, time.Second},
	} {
		t.Run(fmt.Sprint(c.overlap, " ", c.waits), func(t *testing.T) {
			in(t, func(h *house) {
				h.concurrency, h.pulls = 1, c.waits
				h.handle = func(executor.Task) { time.Sleep(95 * time.Second) }
			}, func(h *house) {
				job := h.submit(1, every(10*time.Second, c.overlap, 3))[0]
				time.Sleep(100 * time.Second)
				skipped := 0
				for _, run := range h.runs(job.ID) {
					if run.State != carillon.StateSkipped {
						continue
					}
					skipped++
					if late := run.Ended.Sub(run.ID.Due); late > c.late {
						t.Errorf("%s is skipped %s after its time, at most %s is allowed", run.ID, late, c.late)
					}
				}
				if skipped < 7 {
					t.Errorf("%d runs are skipped, want at least 7", skipped)
				}
				time.Sleep(5 * time.Minute)
			})
		})
	}
}

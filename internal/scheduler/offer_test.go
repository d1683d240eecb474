package scheduler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

// pulls says of every run that a pull waits for it, or of none.
type pulls bool

func (pulls) EndPulls([]string) {}

func (p pulls) Waits(runs []carillon.Run) []bool {
	return slices.Repeat([]bool{bool(p)}, len(runs))
}

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

// The next runs of all jobs come due while their first runs go on, and at the same time another run takes the
// only free slot. No more of these runs are offered than the pull has room for: only one can be, if it comes
// before the run that takes the slot, and it is skipped after a second. All the others are skipped at once.
func TestNoMoreRunsAreOfferedThanPullsHaveRoomFor(t *testing.T) {
	const jobs = 20
	in(t, func(h *house) {
		h.concurrency = jobs + 1
		h.handle = func(executor.Task) { time.Sleep(35 * time.Second) }
	}, func(h *house) {
		list := h.submit(jobs, every(10*time.Second, carillon.OverlapSkip, 3))
		h.submit(1, func(d *carillon.Definition) {
			every(10*time.Second, carillon.OverlapSkip, 1)(d)
			d.Priority, d.Schedule.StartsAt = 9, h.clock.Now().Add(20*time.Second)
		})
		time.Sleep(5 * time.Minute)
		skipped := 0
		var late []string
		for _, job := range list {
			for _, run := range h.runs(job.ID) {
				if run.State != carillon.StateSkipped {
					continue
				}
				skipped++
				after := run.Ended.Sub(run.ID.Due)
				if after > 100*time.Millisecond {
					late = append(late, fmt.Sprintf("%s by %s", run.ID, after))
				}
				if after > time.Second {
					t.Errorf("%s is skipped %s after its time", run.ID, after)
				}
			}
		}
		if len(late) > 1 {
			t.Errorf("%d runs are skipped late, at most the one that was offered can be: %s", len(late), late)
		}
		if skipped < jobs {
			t.Errorf("%d runs are skipped, want at least %d", skipped, jobs)
		}
	})
}

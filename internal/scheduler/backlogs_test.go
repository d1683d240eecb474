//go:build !race

package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// These backlogs have so many runs that the race detector, which would make each test six times as slow, only
// watches the other tests of the package.

// slowly is a store that answers slowly, and passes over only a few runs of full lanes at once.
type slowly struct{ counted }

func (s *slowly) Wakes(ctx context.Context, q carillon.WakeQuery) ([]carillon.Run, error) {
	const reach = 100
	time.Sleep(10 * time.Millisecond)
	if len(q.Full) == 0 {
		return s.counted.Wakes(ctx, q)
	}
	all := q
	all.Full, all.Limit = nil, min(q.Limit, reach)
	runs, err := s.Store.Wakes(ctx, all)
	var page []carillon.Run
	for i := range runs {
		if q.Wants(&runs[i]) || i == reach-1 {
			page = append(page, runs[i])
		}
	}
	s.runs.Add(int64(len(page)))
	return page, err
}

func TestABacklogIsReadOnceThoughItsLaneIsFull(t *testing.T) {
	const backlog = 20_000
	var store *slowly
	var mail, urgent []carillon.Job
	in(t, func(h *house) {
		h.lane, h.concurrency, h.handle = 5000, 100, slow(10*time.Millisecond)
		store = &slowly{counted{Store: h.truth}}
		h.store = store
		mail = h.put(backlog, lane("mail", 5, after(0)))
		// Found only long after the other lane has been read to its end.
		urgent = h.put(3, lane("urgent", 9, after(0)))
	}, func(h *house) {
		time.Sleep(time.Minute)
		h.expectAll(mail, 1)
		h.expectAll(urgent, 1)
		if n := store.runs.Load(); n > backlog*3/2 {
			t.Errorf("%d runs were read of a backlog of %d", n, backlog)
		}
	})
}

func TestABacklogThatWasThereBeforeTheStartHoldsUpNoOtherLane(t *testing.T) {
	var due, soon, mail []carillon.Job
	in(t, func(h *house) {
		tiny(h)
		mail = h.put(7000, lane("mail", 5, after(0)))
		due = h.put(2, lane("urgent", 9, after(time.Millisecond)))
		soon = h.put(2, lane("urgent", 9, after(6*time.Second)))
		time.Sleep(2 * time.Second)
	}, func(h *house) {
		time.Sleep(10 * time.Second)
		h.expectAll(due, 1)
		h.expectAll(soon, 1)
		h.expectLate(due, 4*time.Second) // two seconds of it before any node ran
		h.expectLate(soon, 200*time.Millisecond)
		time.Sleep(5 * time.Minute)
		h.expectAll(mail, 1)
	})
}

func TestTheFutureIsReadWhileABacklogOfManyLanesIs(t *testing.T) {
	var later []carillon.Job
	in(t, func(h *house) {
		h.concurrency = 64
		for i := range 30 {
			h.put(1500, lane(fmt.Sprintf("queue-%d", i), 5, after(0)))
		}
		for _, delay := range []time.Duration{5, 8, 11, 14, 17, 20} {
			later = append(later, h.put(5, lane("later", 9, after(delay*time.Second)))...)
		}
		h.store = &gated{Store: h.truth, slow: 2 * time.Second}
	}, func(h *house) {
		time.Sleep(2 * time.Minute)
		h.expectAll(later, 1)
		h.expectLate(later, time.Second)
	})
}

func TestBehindABacklogADeadWorkersRunsAreTakenOverAndLostAnswersNoticed(t *testing.T) {
	in(t, func(h *house) {
		h.lane, h.queues = 1000, []string{"default"}
		h.put(100_000, lane("unserved", 5, after(0)))
		time.Sleep(time.Second)
	}, func(h *house) {
		time.Sleep(20 * time.Second)
		h.nodes[0].store.slowly(500 * time.Millisecond)
		h.join("worker_x")
		h.join("worker_y")
		h.hold("worker_y", nil)
		begin := h.clock.Now()
		lost := h.claimAt("worker_y", h.unheard(nil), begin)
		die := h.hold("worker_x", []carillon.Run{h.claimAt("worker_x", h.unheard(nil), begin)})
		time.Sleep(20 * time.Second)
		died := h.clock.Now()
		die()
		time.Sleep(20 * time.Second)
		if got := h.runs(lost.ID.Job)[0]; got.State != carillon.StateSucceeded || got.Losses != 1 ||
			got.Claimed.Sub(begin) > 16*time.Second {
			h.t.Errorf(
				"the run that its worker does not know of is %s, %d losses, after %s", got.State, got.Losses,
				got.Claimed.Sub(begin),
			)
		}
		if got := h.runs(lost.ID.Job + 1)[0]; got.State != carillon.StateSucceeded || got.Crashes != 1 ||
			got.Claimed.Sub(died) > 10*time.Second {
			h.t.Errorf(
				"the run of the dead worker is %s, %d crashes, after %s", got.State, got.Crashes,
				got.Claimed.Sub(died),
			)
		}
	})
}

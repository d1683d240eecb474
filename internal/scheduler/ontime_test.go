package scheduler_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/porttest"
)

// gated is a store whose reads of wakes a test can hold up: before the store is asked, or on the way back.
type gated struct {
	carillon.Store
	mu   sync.Mutex
	gate chan struct{}
	slow time.Duration // how long an answer takes on its way back
}

func (s *gated) Wakes(ctx context.Context, q carillon.WakeQuery) ([]carillon.Run, error) {
	s.mu.Lock()
	gate, slow := s.gate, s.slow
	s.mu.Unlock()
	if gate != nil {
		<-gate
	}
	runs, err := s.Store.Wakes(ctx, q)
	time.Sleep(slow)
	return runs, err
}

// shut holds up all reads until open is called.
func (s *gated) shut() (open func()) {
	gate := make(chan struct{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gate = gate
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.gate = nil
		close(gate)
	}
}

// slowly makes answers take this long from now on.
func (s *gated) slowly(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slow = d
}

func TestEveryRunIsOnTimeWhicheverNodeCommitsIt(t *testing.T) {
	random := rand.New(rand.NewPCG(uint64(porttest.Seed(t)), 1))
	in(t, func(h *house) { h.concurrency = 64 }, func(h *house) {
		h.live()
		time.Sleep(time.Minute)
		open := h.nodes[1].store.shut() // a hiccup that is over long before the first run is submitted
		time.Sleep(25*time.Second + time.Duration(random.IntN(30_000))*time.Millisecond)
		open()
		time.Sleep(2 * time.Minute)
		var jobs []carillon.Job
		for i := range 600 {
			delay := time.Second + time.Duration(random.IntN(89_000))*time.Millisecond
			jobs = append(jobs, h.submitBy(h.nodes[i%2], 1, after(delay))...)
			time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
		}
		time.Sleep(2 * time.Minute)
		h.expectAll(jobs, 1)
		h.expectLate(jobs, time.Second)
	})
}

// forgetful is a timeline that keeps nothing, like that of a frozen node.
type forgetful struct{ carillon.Timeline }

func (forgetful) Add(context.Context, []carillon.Run) ([]int, error) { return nil, nil }

func TestARunIsOnTimeThoughTheNodeThatCommittedItIsFrozenByThen(t *testing.T) {
	in(t, func(h *house) {
		h.concurrency = 64
		h.timeline = func(l carillon.Timeline) carillon.Timeline {
			if len(h.nodes) == 0 {
				return forgetful{l}
			}
			return l
		}
	}, func(h *house) {
		owner := h.live()
		time.Sleep(time.Minute)
		var jobs []carillon.Job
		for i := range 400 {
			for _, job := range h.submit(1, after(20*time.Second+time.Duration(i)*175*time.Millisecond)) {
				if slices.Contains(owner.scheduler.Shards(), job.ID.Shard()) {
					jobs = append(jobs, job)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(3 * time.Minute)
		if len(jobs) < 100 {
			h.t.Fatalf("%d jobs are of the other node's shards", len(jobs))
		}
		h.expectAll(jobs, 1)
		h.expectLate(jobs, time.Second)
	})
}

func TestARunIsOnTimeThoughReadsOfTheStoreTakeLong(t *testing.T) {
	// A horizon that is wrong by more than a second would be noticed, as after a clock was set back.
	for _, slow := range []time.Duration{700 * time.Millisecond, 4 * time.Second} {
		t.Run(slow.String(), func(t *testing.T) {
			in(t, nil, func(h *house) {
				h.live()
				for _, n := range h.nodes {
					n.store.slowly(slow)
				}
				time.Sleep(time.Minute)
				var jobs []carillon.Job
				for range 300 {
					jobs = append(jobs, h.submit(1, after(45*time.Second))...)
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(3 * time.Minute)
				h.expectAll(jobs, 1)
				h.expectLate(jobs, time.Second)
			})
		})
	}
}

func TestARunThatIsCommittedWhileTheLoaderReadsIsOnTime(t *testing.T) {
	in(t, nil, func(h *house) {
		h.live()
		time.Sleep(time.Minute)
		for _, n := range h.nodes {
			n.store.slowly(1500 * time.Millisecond) // the store has answered, and the answer is on its way
		}
		var jobs []carillon.Job
		for i := range 600 {
			jobs = append(
				jobs,
				h.submitBy(h.nodes[i%2], 1, after(8*time.Second+time.Duration(i)*10*time.Millisecond))...,
			)
			time.Sleep(37 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		h.expectAll(jobs, 1)
		h.expectLate(jobs, time.Second)
	})
}

func TestARunIsOnTimeThoughTheClockWasSetBackBeforeItsSubmit(t *testing.T) {
	in(t, func(h *house) { h.concurrency = 64 }, func(h *house) {
		h.live()
		time.Sleep(time.Minute)
		h.clock.SetAhead(6 * time.Second) // by less than a session's time
		time.Sleep(6 * time.Second)       // all nodes have read the future by that clock
		h.clock.SetAhead(0)
		var jobs []carillon.Job
		for i := range 300 {
			jobs = append(
				jobs,
				h.submitBy(h.nodes[i%2], 1, after(12*time.Second+time.Duration(i)*15*time.Millisecond))...,
			)
		}
		time.Sleep(time.Minute)
		h.expectAll(jobs, 1)
		h.expectLate(jobs, time.Second)
	})
}

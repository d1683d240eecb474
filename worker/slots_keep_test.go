package worker

import (
	"strings"
	"testing"
)

// Only one pull asks for kept slots. If each slot that becomes free were asked for by a pull of its own, all
// loops could wait for lone runs, and none would ask for others.
func TestOnePullAsksForTheSlotsThatAreKept(t *testing.T) {
	s := newSlots(8, 5)
	s.free = 0 // all run
	for i, want := range []asking{{1, true}, {}, {}, {}, {}, {1, false}, {1, false}, {1, false}} {
		s.ended(0, 0)
		a := s.next()
		if a != want {
			t.Errorf("when %d slots are free a pull asks for %v, want %v", i+1, a, want)
		}
		s.free, s.asked = s.free-a.n, s.asked+a.n
		if a.lone {
			s.askedLone += a.n
		}
	}
	s.answered(asking{1, true}, 0, 0)
	if a := s.next(); a != (asking{5, true}) {
		t.Errorf("the next pull for kept slots asks for %v", a)
	}
}

func TestTheLastFreeSlotsAreKept(t *testing.T) {
	for free, want := range []asking{{0, true}, {1, true}, {2, true}, {1, false}, {1, false}, {2, false}} {
		s := newSlots(8, 2)
		s.free = free
		if a := s.next(); a != want {
			t.Errorf("with %d free slots a pull asks for %v, want %v", free, a, want)
		}
	}
}

// A program that gives a worker a number that makes no sense still has slots for all runs.
func TestAWorkerKeepsAtLeastOneSlotForAllRuns(t *testing.T) {
	for keep, want := range map[int]int{-3: 0, 0: 0, 3: 3, 4: 3, 9: 3} {
		if w := New(Config{Concurrency: 4, Keep: keep}); w.slots.keep != want {
			t.Errorf("with Keep %d it keeps %d slots, want %d", keep, w.slots.keep, want)
		}
	}
}

func TestSlotsThatAreKeptAreFewerThanThereAre(t *testing.T) {
	for _, c := range []struct{ keep, concurrency, most int }{
		{-1, 64, 63}, {64, 64, 63}, {1, 1, 0}, {1, 0, 0}, {1, -1, 0},
	} {
		err := CheckKeep(c.keep, c.concurrency)
		if err == nil || !strings.Contains(err.Error(), "keep: ") {
			t.Errorf("%+v: %v", c, err)
		}
		if err := CheckKeep(c.most, c.concurrency); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

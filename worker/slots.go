package worker

import (
	"context"
	"sync"

	"github.com/carillon-run/carillon/internal/await"
)

const (
	// maxUnrecorded bounds the attempts that have ended and are not recorded: a kill -9 repeats their runs. A
	// slot is free as soon as its attempt ends, so without a bound a fast worker would outrun the store
	// without end.
	maxUnrecorded = 10_000
	// maxUnrecordedBytes bounds the memory of those attempts, if their payloads or results are large.
	maxUnrecordedBytes = 24 << 20
	// fewRuns are too few to ask for while the worker waits for the store: the claim of a few runs costs the
	// store nearly as much as the claim of many, and would delay the ends that the worker waits for.
	fewRuns = 1000
)

// slots says how many more attempts can begin. An attempt is asked for, then it runs, then it is unrecorded.
type slots struct {
	mu         sync.Mutex
	total      int
	keep       int // so many of the free slots are for lone runs: see carillon.Demand
	free       int // neither asked for nor running
	asked      int // by pulls that are under way
	askedLone  int // those of them that are kept: of one pull, so that the other loops are for other runs
	unrecorded int // ended, without a receipt; these need no slot
	more       await.Signal

	runningBytes, unrecordedBytes int
}

func newSlots(n, keep int) slots {
	return slots{total: n, keep: keep, free: n, more: await.NewSignal()}
}

// asking is the slots that one pull asks for.
type asking struct {
	n    int
	lone bool // they are kept
}

// take waits until runs can be asked for, and takes up to half of the free slots; it takes none when ctx has
// ended. The other half is for the other pull loops: while one batch of claims is being written, they can ask
// for the next. The last free slots are those that are kept.
func (s *slots) take(ctx context.Context) asking {
	for {
		s.mu.Lock()
		a := s.next()
		s.free -= a.n
		s.asked += a.n
		if a.lone {
			s.askedLone += a.n
		}
		left := s.free > 0
		s.mu.Unlock()
		if a.n > 0 {
			if left {
				s.more.Set()
			}
			return a
		}
		select {
		case <-s.more:
		case <-ctx.Done():
			return asking{}
		}
	}
}

// next is what the next pull asks for. The caller holds mu.
func (s *slots) next() asking {
	room := s.room()
	if room < min(s.free, fewRuns) {
		return asking{}
	}
	kept := s.keep - s.askedLone // that no pull asks for yet
	switch {
	case s.free > kept:
		return asking{min((s.free-kept+1)/2, room, maxUnrecorded/4), false}
	case s.askedLone > 0:
		return asking{}
	}
	return asking{min(s.free, room), true}
}

// keepNone lets all slots be for all runs, and says whether some were kept.
func (s *slots) keepNone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.keep > 0
	s.keep = 0
	return kept
}

// room is how many runs can be asked for. Attempts that run count too, because they can all end at once, but
// only up to half of each bound: otherwise a worker could not use more slots than the bound. The caller holds
// mu.
func (s *slots) room() int {
	if s.unrecordedBytes+min(s.runningBytes, maxUnrecordedBytes/2) > maxUnrecordedBytes {
		return 0
	}
	running := s.total - s.free - s.asked
	return maxUnrecorded - s.unrecorded - s.asked - min(running, maxUnrecorded/2)
}

// answered says that a pull got some of the runs that it asked for.
func (s *slots) answered(a asking, got, bytes int) {
	s.mu.Lock()
	s.asked -= a.n
	if a.lone {
		s.askedLone -= a.n
	}
	s.free += a.n - got
	s.runningBytes += bytes
	s.mu.Unlock()
	s.more.Set()
}

// ended frees the slot of an attempt; its result may have added bytes to it.
func (s *slots) ended(bytes, added int) {
	s.mu.Lock()
	s.free++
	s.unrecorded++
	s.runningBytes -= bytes
	s.unrecordedBytes += bytes + added
	s.mu.Unlock()
	s.more.Set()
}

// recorded says that attempts that had ended have their receipts.
func (s *slots) recorded(n, bytes int) {
	s.mu.Lock()
	s.unrecorded -= n
	s.unrecordedBytes -= bytes
	s.mu.Unlock()
	s.more.Set()
}

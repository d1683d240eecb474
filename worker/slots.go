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
	free       int // neither asked for nor running
	asked      int // by pulls that are under way
	unrecorded int // ended, without a receipt; these need no slot
	more       await.Signal

	runningBytes, unrecordedBytes int
}

func newSlots(n int) slots { return slots{total: n, free: n, more: await.NewSignal()} }

// take waits until runs can be asked for, and takes up to half of the free slots; it returns 0 when ctx has
// ended. The other half is for the other pull loops: while one batch of claims is being written, they can ask
// for the next.
func (s *slots) take(ctx context.Context) int {
	for {
		s.mu.Lock()
		n := 0
		if room := s.room(); room >= min(s.free, fewRuns) {
			n = min((s.free+1)/2, room, maxUnrecorded/4)
		}
		s.free -= n
		s.asked += n
		left := s.free > 0
		s.mu.Unlock()
		if n > 0 {
			if left {
				s.more.Set()
			}
			return n
		}
		select {
		case <-s.more:
		case <-ctx.Done():
			return 0
		}
	}
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

// answered says that a pull that asked for n runs got some of them.
func (s *slots) answered(n, got, bytes int) {
	s.mu.Lock()
	s.asked -= n
	s.free += n - got
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

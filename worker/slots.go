package worker

import (
	"context"
	"sync"

	"github.com/carillon-run/carillon/internal/await"
)

// slots are the attempts that can still begin.
type slots struct {
	mu    sync.Mutex
	free  int
	freed await.Signal // there may be slots to take
}

// take waits until there are free slots and takes half of them, at least one; it returns 0 when ctx has
// ended. The other half is for the other pull loops: while one batch of claims is being written, they can ask
// for the next.
func (s *slots) take(ctx context.Context) int {
	for {
		s.mu.Lock()
		n := (s.free + 1) / 2
		s.free -= n
		left := s.free > 0
		s.mu.Unlock()
		if n > 0 {
			if left {
				s.freed.Set()
			}
			return n
		}
		select {
		case <-s.freed:
		case <-ctx.Done():
			return 0
		}
	}
}

func (s *slots) release(n int) {
	if n == 0 {
		return
	}
	s.mu.Lock()
	s.free += n
	s.mu.Unlock()
	s.freed.Set()
}

package worker

import (
	"context"
	"sync"
)

// slots are the attempts that may still begin.
type slots struct {
	mu    sync.Mutex
	free  int
	asked int           // for so many of the free ones somebody waits at the queue
	freed chan struct{} // capacity 1: there may be something to ask for, or to take
}

// ask waits until there are free slots that nobody asks for yet, and asks for up to n of them; 0 when ctx has ended. Who
// waits at the queue holds no slot: a job that is submitted meanwhile can have it. But no more is pulled than could be
// run, because what a worker has in hand no other worker can take, and no priority can overtake.
func (s *slots) ask(ctx context.Context, n int) int {
	for {
		s.mu.Lock()
		got := min(n, s.free-s.asked)
		if got > 0 {
			s.asked += got
			s.mu.Unlock()
			s.wake() // there may be more for another who waits
			return got
		}
		s.mu.Unlock()
		select {
		case <-s.freed:
		case <-ctx.Done():
			return 0
		}
	}
}

// answered ends the asking for n slots and takes those that are used: as many as are still free.
func (s *slots) answered(n, used int) (taken int) {
	s.mu.Lock()
	s.asked -= n
	taken = min(used, s.free)
	s.free -= taken
	s.mu.Unlock()
	s.wake()
	return taken
}

// take takes up to n free slots.
func (s *slots) take(n int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, s.free)
	s.free -= n
	return n
}

// takeSome waits until there are free slots and takes up to n; 0 when ctx has ended.
func (s *slots) takeSome(ctx context.Context, n int) int {
	for {
		if got := s.take(n); got > 0 {
			s.wake()
			return got
		}
		select {
		case <-s.freed:
		case <-ctx.Done():
			return 0
		}
	}
}

func (s *slots) release(n int) {
	s.mu.Lock()
	s.free += n
	s.mu.Unlock()
	s.wake()
}

func (s *slots) wake() {
	select {
	case s.freed <- struct{}{}:
	default:
	}
}

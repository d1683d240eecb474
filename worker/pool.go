package worker

import (
	"context"
	"runtime/pprof"
	"sync"
)

// pool is the pool of goroutines that perform attempts. A goroutine that is done takes the next attempt, and
// waits for one if there is none: a new goroutine would have to grow its stack again for every attempt, which
// costs more than a small handler.
//
// While attempts are queued, one goroutine is always starting, and it starts the next before it performs its
// own attempt. So a long attempt never delays those behind it, and many short ones share few goroutines.
type pool struct {
	mu     sync.Mutex
	todo   []*attempt
	next   int // index into todo
	called bool
	idle   int
	more   sync.Cond // wakes an idle goroutine
	closed bool
	labels context.Context // has the profiler labels that attempts begin with
}

// maxIdle is how many goroutines wait for the next attempts; a stack takes some kilobytes.
const maxIdle = 256

func (h *pool) init() { h.more.L = &h.mu }

// submit has the pool perform attempts, each at once.
func (h *pool) submit(attempts []*attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next > len(h.todo)/2 { // keeps the done part of todo no larger than the rest
		n := copy(h.todo, h.todo[h.next:])
		clear(h.todo[n:])
		h.todo, h.next = h.todo[:n], 0
	}
	h.todo = append(h.todo, attempts...)
	h.spawn()
}

// spawn starts or wakes a goroutine if attempts are queued and none is starting. The caller holds mu.
func (h *pool) spawn() {
	if h.called || h.next == len(h.todo) {
		return
	}
	h.called = true
	if h.idle > 0 {
		h.idle--
		h.more.Signal()
	} else {
		go h.work()
	}
}

// work performs attempts until there are too many idle goroutines. An attempt can end its goroutine, and work
// with it: another goroutine performs the attempts that are queued. Attempts whose executor is no Sharer get
// a goroutine of their own.
func (h *pool) work() {
	h.mu.Lock()
	for {
		h.called = false
		for h.next < len(h.todo) {
			a := h.take()
			h.spawn()
			h.mu.Unlock()
			if a.alone() {
				go a.execute()
			} else {
				a.execute()
				pprof.SetGoroutineLabels(h.labels)
			}
			h.mu.Lock()
		}
		if h.idle == maxIdle || h.closed {
			h.mu.Unlock()
			return
		}
		h.idle++
		h.more.Wait()
	}
}

func (h *pool) take() *attempt {
	a := h.todo[h.next]
	h.todo[h.next] = nil
	if h.next++; h.next == len(h.todo) {
		h.todo, h.next = h.todo[:0], 0
	}
	return a
}

// close ends the idle goroutines; attempts that have begun are performed to their end.
func (h *pool) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed, h.idle = true, 0
	h.more.Broadcast()
}

package worker

import "sync"

// hands are the goroutines that attempts are performed in. One that is done takes the next attempt, and waits for one if
// there is none: a new goroutine would have to grow its stack again for every attempt, which costs more than a small handler.
//
// As long as an attempt waits, a hand is on its way that calls the next one before it performs anything. So attempts that take long
// never hold up those behind them, and a pile of short ones is done by few.
type hands struct {
	mu     sync.Mutex
	todo   []*attempt
	next   int // of todo
	called bool
	idle   int
	more   sync.Cond // one that is idle is called
	closed bool
}

// maxIdle is how many wait for the next attempts; a stack is some kilobytes.
const maxIdle = 256

func (h *hands) init() { h.more.L = &h.mu }

// give has attempts performed, each at once.
func (h *hands) give(attempts []*attempt) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next > len(h.todo)/2 { // what is done takes no more room than what is not
		n := copy(h.todo, h.todo[h.next:])
		clear(h.todo[n:])
		h.todo, h.next = h.todo[:n], 0
	}
	h.todo = append(h.todo, attempts...)
	h.call()
}

// call sees to it that a hand is on its way if there is something to do. The caller holds mu.
func (h *hands) call() {
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

// work performs attempts until there are too many idle hands. A handler may end the goroutine, and this hand with it.
func (h *hands) work() {
	h.mu.Lock()
	for {
		h.called = false
		for h.next < len(h.todo) {
			a := h.take()
			h.call()
			h.mu.Unlock()
			a.execute()
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

func (h *hands) take() *attempt {
	a := h.todo[h.next]
	h.todo[h.next] = nil
	if h.next++; h.next == len(h.todo) {
		h.todo, h.next = h.todo[:0], 0
	}
	return a
}

// close lets idle hands go; what is still performed is performed to its end.
func (h *hands) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed, h.idle = true, 0
	h.more.Broadcast()
}

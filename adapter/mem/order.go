package mem

import "github.com/carillon-run/carillon"

// takeFound removes up to most runs of the lanes in found: see carillon.Queue for the order.
func (q *Queue) takeFound(most int) (runs []carillon.Run) {
	found, total := q.found, 0
	for _, l := range found {
		total += l.n
	}
	if total = min(total, most); total > 0 {
		runs = make([]carillon.Run, 0, total)
		q.order()
		aged := q.aged
		for len(runs) < total {
			runs = append(runs, q.next())
		}
		clear(aged) // or a closed lane would stay in memory
		q.aged = aged[:0]
		q.shrink()
	}
	clear(found)
	q.found = found[:0]
	return runs
}

// order makes a heap of the lanes in found by urgency, and one of the same lanes by age, unless there is only
// one lane. There can be thousands of them, one for each type of handler.
func (q *Queue) order() {
	for _, l := range q.found {
		l.wake = q.runs.at(l.head).run.Wake
	}
	if len(q.found) > 1 {
		q.aged = append(q.aged, q.found...)
		heapify(q.found, (*lane).urgent)
		heapify(q.aged, (*lane).older)
	}
}

// next removes the run that is next, of lanes that are not all empty. Nine places of ten go to the highest
// priority. If another lane has waited longer, it is passed over; the tenth time it gets the place.
func (q *Queue) next() carillon.Run {
	l := q.found[0]
	if len(q.aged) > 0 {
		l = q.fresh(&q.found, (*lane).urgent)
		if oldest := q.fresh(&q.aged, (*lane).older); oldest.wake < l.wake && oldest.Priority < l.Priority {
			if oldest.passed++; oldest.passed == fairTurn {
				oldest.passed = 0
				l = oldest
			}
		}
	}
	q.turn++
	l.served = q.turn
	run := q.unlink(l, l.head)
	if l.n > 0 {
		l.wake = q.runs.at(l.head).run.Wake
	}
	return run
}

// fairTurn says that one place in so many goes to the run that has waited longest.
const fairTurn = 10

// fresh is the first lane of a heap that has runs. The first lane can have been served since it came there,
// also by way of the other heap; then it belongs further down, or out.
func (q *Queue) fresh(heap *[]*lane, before func(a, b *lane) bool) *lane {
	for {
		lanes := *heap
		if first := lanes[0]; first.n == 0 {
			last := len(lanes) - 1
			lanes[0] = lanes[last]
			*heap = lanes[:last]
			sink(*heap, 0, before)
			continue
		}
		first := lanes[0]
		sink(lanes, 0, before)
		if lanes[0] == first {
			return first
		}
	}
}

// urgent orders lanes by priority, then by age. Among equals the one that was served longest ago comes first.
func (l *lane) urgent(o *lane) bool {
	if l.Priority != o.Priority {
		return l.Priority > o.Priority
	}
	return l.older(o)
}

func (l *lane) older(o *lane) bool {
	return l.wake < o.wake || l.wake == o.wake && l.served < o.served
}

func heapify(lanes []*lane, before func(a, b *lane) bool) {
	for i := len(lanes)/2 - 1; i >= 0; i-- {
		sink(lanes, i, before)
	}
}

// sink moves the lane at i down the heap to where it belongs.
func sink(lanes []*lane, i int, before func(a, b *lane) bool) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(lanes); c++ {
			if before(lanes[c], lanes[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		lanes[i], lanes[least] = lanes[least], lanes[i]
		i = least
	}
}

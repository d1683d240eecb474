package mem

import "github.com/carillon-run/carillon"

// takeFound removes up to most runs of the lanes in found: see carillon.Queue for the order.
func (q *Queue) takeFound(most int) (runs []carillon.Run) {
	total := 0
	for _, l := range q.found {
		total += l.n
		l.wake = q.runs.at(l.head).run.Wake
	}
	if total = min(total, most); total > 0 {
		runs = make([]carillon.Run, 0, total)
		found := q.found
		q.aged = append(q.aged, found...)
		aged := q.aged
		heapify(found, urgent)
		heapify(aged, older)
		for len(runs) < total {
			runs = append(runs, q.next())
		}
		clear(aged) // or a closed lane would stay in memory
		q.found, q.aged = found, aged[:0]
		q.shrink()
	}
	clear(q.found)
	q.found = q.found[:0]
	return runs
}

// next removes the run that is next. Nine places of ten go to the highest priority. If another lane has
// waited longer, it is passed over; the tenth time it gets the place.
func (q *Queue) next() carillon.Run {
	l := q.found[0]
	if oldest := q.aged[0]; oldest.Priority < l.Priority {
		if oldest.passed++; oldest.passed == fairTurn {
			oldest.passed = 0
			l = oldest
		}
	}
	q.turn++
	l.served = q.turn
	run := q.unlink(l, l.head)
	if l.n > 0 {
		l.wake = q.runs.at(l.head).run.Wake
	}
	q.found, q.aged = moved(q.found, l, urgent), moved(q.aged, l, older)
	return run
}

// fairTurn says that one place in so many goes to the run that has waited longest.
const fairTurn = 10

// ranking is the order of one of the two heaps of lanes that next chooses from. Each lane knows its place in
// both. There can be thousands of lanes, one for each type of handler.
type ranking int

const (
	urgent ranking = iota // by priority, then by age
	older                 // by age; among equals the one that was served longest ago comes first
)

func (r ranking) before(a, b *lane) bool {
	if r == urgent && a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	return a.wake < b.wake || a.wake == b.wake && a.served < b.served
}

func heapify(lanes []*lane, r ranking) {
	for i, l := range lanes {
		l.at[r] = i
	}
	for i := len(lanes)/2 - 1; i >= 0; i-- {
		sink(lanes, i, r)
	}
}

// moved puts a lane that was served where it belongs now: further down, perhaps up, or out if it is empty.
func moved(lanes []*lane, l *lane, r ranking) []*lane {
	i := l.at[r]
	if l.n == 0 {
		last := len(lanes) - 1
		swap(lanes, i, last, r)
		if lanes = lanes[:last]; i == last {
			return lanes
		}
	}
	for i > 0 && r.before(lanes[i], lanes[(i-1)/2]) {
		swap(lanes, i, (i-1)/2, r)
		i = (i - 1) / 2
	}
	sink(lanes, i, r)
	return lanes
}

// sink moves the lane at i down the heap to where it belongs.
func sink(lanes []*lane, i int, r ranking) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(lanes); c++ {
			if r.before(lanes[c], lanes[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		swap(lanes, i, least, r)
		i = least
	}
}

func swap(lanes []*lane, i, k int, r ranking) {
	lanes[i], lanes[k] = lanes[k], lanes[i]
	lanes[i].at[r], lanes[k].at[r] = i, k
}

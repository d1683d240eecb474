package mem

import "github.com/carillon-run/carillon"

// takeFound removes up to want.Max runs of the groups in found: see carillon.Queue for the order.
func (q *Queue) takeFound(want *carillon.Demand) (runs []carillon.Run) {
	if want.Lone {
		return q.takeLone(want)
	}
	total := 0
	for _, g := range q.found {
		total += g.n
	}
	if total = min(total, want.Max); total > 0 {
		runs = make([]carillon.Run, 0, total)
		if g := q.found[0]; len(q.found) == 1 && len(g.fair) == 1 {
			l := g.fair[0]
			q.tree.charge(l, total)
			for len(runs) < total {
				runs = append(runs, q.unlink(l, l.head))
			}
		} else {
			q.arrange()
			for len(runs) < total {
				runs = append(runs, q.next())
			}
			q.scatter()
		}
		q.shrink()
	}
	q.found = emptied(q.found)
	return runs
}

// arrange puts the found groups in the orders that next chooses by.
func (q *Queue) arrange() {
	for _, g := range q.found {
		b := g.band
		if len(b.found) == 0 {
			if len(b.line.found) == 0 {
				q.lines = append(q.lines, b.line)
			}
			b.line.found = append(b.line.found, b)
		}
		b.found, b.line.aged = append(b.found, g), append(b.line.aged, g)
	}
	for _, line := range q.lines {
		for _, b := range line.found {
			byTop.arrange(b.found)
		}
		byUrgency.arrange(line.found)
		byOldest.arrange(line.aged)
	}
	byTurn.arrange(q.lines)
}

// scatter forgets the orders of arrange.
func (q *Queue) scatter() {
	for _, line := range q.lines {
		for _, b := range line.found {
			b.found = emptied(b.found)
		}
		line.found, line.aged = emptied(line.found), emptied(line.aged)
	}
	for _, g := range q.found {
		g.at, g.agedAt = none, none
	}
	q.lines = emptied(q.lines)
}

// next removes the run that is next. In a queue nine places of ten go to the highest priority. If the run
// that has waited longest is of a lower one, its group is passed over; the tenth time it gets the place.
func (q *Queue) next() carillon.Run {
	line := q.lines[0]
	b := line.found[0]
	g := b.found[0]
	l := g.fair[0]
	if oldest := line.aged[0]; oldest.Priority < b.priority {
		if oldest.passed++; oldest.passed == fairTurn {
			oldest.passed = 0
			b, g, l = oldest.band, oldest, oldest.old[0]
		}
	}
	q.tree.charge(l, 1)
	run := q.unlink(l, l.head)
	if g.n == 0 {
		b.found, line.aged = byTop.remove(b.found, g), byOldest.remove(line.aged, g)
	} else {
		byTop.fix(b.found, g)
		byOldest.fix(line.aged, g)
	}
	if len(b.found) == 0 {
		line.found = byUrgency.remove(line.found, b)
	} else {
		byUrgency.fix(line.found, b)
	}
	if len(line.found) == 0 {
		q.lines = byTurn.remove(q.lines, line)
	} else {
		byTurn.fix(q.lines, line)
	}
	return run
}

// fairTurn says that one place in so many of a queue goes to the run that has waited longest.
const fairTurn = 10

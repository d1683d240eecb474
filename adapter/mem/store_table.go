package mem

import (
	"cmp"
	"iter"
	"math"

	"github.com/carillon-run/carillon"
)

// table holds ended runs in the order in which they ended. The history is a table, and so are the dead
// letters.
type table struct {
	rows   map[int64]*record
	places sorted[int64]
	ofJob  map[carillon.JobID]*sorted[dueAt]
}

// record is an ended run and its place in that order.
type record struct {
	carillon.Run
	place int64
}

type dueAt struct {
	due   carillon.Time
	place int64
}

func compareDueAt(a, b dueAt) int {
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.place, b.place))
}

func newTable() table {
	return table{
		rows:   map[int64]*record{},
		places: sorted[int64]{compare: cmp.Compare[int64]},
		ofJob:  map[carillon.JobID]*sorted[dueAt]{},
	}
}

func (t *table) add(run carillon.Run) {
	place := t.places.last() + 1
	t.rows[place] = &record{run, place}
	t.places.add(place)
	if t.ofJob[run.ID.Job] == nil {
		t.ofJob[run.ID.Job] = &sorted[dueAt]{compare: compareDueAt}
	}
	t.ofJob[run.ID.Job].add(dueAt{run.ID.Due, place})
}

func (t *table) remove(place int64) {
	r := t.rows[place]
	delete(t.rows, place)
	t.places.remove(place)
	of := t.ofJob[r.ID.Job]
	if of.remove(dueAt{r.ID.Due, place}); len(of.blocks) == 0 {
		delete(t.ofJob, r.ID.Job)
	}
}

// latest returns the last record of a run, or nil if there is none.
func (t *table) latest(id carillon.RunID) *record {
	for r := range t.jobBefore(id.Job, dueAt{id.Due, math.MaxInt64}) {
		if r.ID == id {
			return r
		}
		break
	}
	return nil
}

// jobBefore yields the records of a job by (due, place), descending.
func (t *table) jobBefore(id carillon.JobID, pos dueAt) iter.Seq[*record] {
	return func(yield func(*record) bool) {
		of := t.ofJob[id]
		if of == nil {
			return
		}
		for at := range of.before(pos) {
			if !yield(t.rows[at.place]) {
				return
			}
		}
	}
}

// before yields the records by place, descending.
func (t *table) before(place int64) iter.Seq[*record] {
	return func(yield func(*record) bool) {
		for place := range t.places.before(place) {
			if !yield(t.rows[place]) {
				return
			}
		}
	}
}

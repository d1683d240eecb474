package sqlcommon

import "github.com/carillon-run/carillon"

// GuardKey is the name of a guard.
type GuardKey struct{ Namespace, Key string }

// Revisions are the stored revisions of all rows that some changes compare. Rows that do not exist are left
// out.
type Revisions struct {
	Jobs   map[carillon.JobID]int32
	Runs   map[carillon.RunID]int32
	Guards map[GuardKey]int32
	Dead   map[carillon.RunID]bool
	// Name is how the store writes a text, if it cannot write every text; nil: as it is.
	Name func(string) string
}

// NewRevisions returns the revisions of an empty store.
func NewRevisions() *Revisions {
	return &Revisions{
		Jobs: map[carillon.JobID]int32{}, Runs: map[carillon.RunID]int32{}, Guards: map[GuardKey]int32{},
		Dead: map[carillon.RunID]bool{},
	}
}

func (v *Revisions) guard(namespace, key string) GuardKey {
	if v.Name != nil {
		namespace, key = v.Name(namespace), v.Name(key)
	}
	return GuardKey{namespace, key}
}

// Stand says that all rows of joined changes are as they were when the changes were decided.
func (v *Revisions) Stand(joined []carillon.Change) bool {
	for i := range joined {
		if !v.stands(&joined[i]) {
			return false
		}
	}
	return true
}

func (v *Revisions) stands(c *carillon.Change) bool {
	if c.Job != nil && v.Jobs[c.Job.ID] != c.Job.Rev {
		return false
	}
	for i := range c.Runs {
		if v.Runs[c.Runs[i].ID] != c.Runs[i].Rev {
			return false
		}
	}
	for i := range c.Guards {
		g := &c.Guards[i]
		if v.Guards[v.guard(g.Namespace, g.Key)] != g.Rev || g.Rev == 0 && g.Value == nil {
			return false
		}
	}
	for i := range c.Compared {
		g := &c.Compared[i]
		if v.Guards[v.guard(g.Namespace, g.Key)] != g.Rev {
			return false
		}
	}
	for _, id := range c.Retried {
		if !v.Dead[id] {
			return false
		}
	}
	return true
}

// Apply makes the revisions what they are after a change.
func (v *Revisions) Apply(c *carillon.Change) {
	if c.Job != nil {
		v.Jobs[c.Job.ID] = c.Job.Rev + 1
	}
	for i := range c.Runs {
		run := &c.Runs[i]
		if run.State.Ended() {
			delete(v.Runs, run.ID)
			v.Dead[run.ID] = v.Dead[run.ID] || run.State == carillon.StateFailed
		} else {
			v.Runs[run.ID] = run.Rev + 1
		}
	}
	for i := range c.Guards {
		g := &c.Guards[i]
		if g.Value == nil {
			delete(v.Guards, v.guard(g.Namespace, g.Key))
		} else {
			v.Guards[v.guard(g.Namespace, g.Key)] = g.NextRev()
		}
	}
	for _, id := range c.Retried {
		delete(v.Dead, id)
	}
}

// Touched are the rows that a group of changes names. Changes none of which names a row of another can be
// written kind by kind, with one statement for each kind.
type Touched struct {
	rows   map[rowKey]struct{}
	guards map[GuardKey]bool // true: the changes only compare it
}

// rowKey names a run; with due 0 the job; with due below 0 the dead letter of the run.
type rowKey = carillon.RunID

// NewTouched returns an empty set that has room for a number of changes.
func NewTouched(size int) Touched {
	return Touched{rows: make(map[rowKey]struct{}, size), guards: map[GuardKey]bool{}}
}

// Clear begins a new group.
func (t *Touched) Clear() {
	clear(t.rows)
	clear(t.guards)
}

// Add notes the rows of a change. It says whether the change fits into the group: no change before it named
// one of these rows.
func (t *Touched) Add(c *carillon.Change) bool {
	before, named := len(t.rows), 0
	see := func(key rowKey) { t.rows[key] = struct{}{}; named++ }
	if c.Job != nil {
		see(rowKey{Job: c.Job.ID})
	}
	for i := range c.Runs {
		see(c.Runs[i].ID)
		if c.Runs[i].State == carillon.StateFailed {
			see(rowKey{Job: c.Runs[i].ID.Job, Due: -c.Runs[i].ID.Due})
		}
	}
	for _, id := range c.Retried {
		see(rowKey{Job: id.Job, Due: -id.Due})
	}
	fits := len(t.rows) == before+named
	for i := range c.Guards {
		fits = t.addGuard(GuardKey{c.Guards[i].Namespace, c.Guards[i].Key}, false) && fits
	}
	for i := range c.Compared {
		g := &c.Compared[i]
		fits = t.addGuard(GuardKey{g.Namespace, g.Key}, g.Rev != 0) && fits
	}
	return fits
}

// addGuard notes a guard that a change names, and says whether the changes before it leave it alone. Changes
// that only compare a guard which exists do not disturb each other.
func (t *Touched) addGuard(key GuardKey, compared bool) bool {
	shared, named := t.guards[key]
	t.guards[key] = compared && (shared || !named)
	return !named || shared && compared
}

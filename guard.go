package carillon

import (
	"bytes"
	"strings"
	"time"
)

// Guard is a small keyed record that rules runs: a change compares or writes it together with the runs that
// it decides about. The key begins with the kind of the guard, as in "overlap/job_…".
type Guard struct {
	Namespace string
	Key       string
	Rev       int32
	Value     []byte // nil: the change removes the guard, which must exist
	// First is the Rev that a guard gets which a change makes (Rev 0); 0 stands for 1. A store does not
	// return it.
	First int32
	// Expires is when the guard is no longer in force; zero: never. The store returns and compares an expired
	// guard like any other until Forget removes it; rules treat it as free: see Expired.
	Expires Time
}

// GuardGrace is how long Forget keeps a guard after it has expired. A guard that is made again begins at
// revision 1. So a decision on the old guard could win against the new one if it reached the store after the
// removal; an hour later no such decision is left.
const GuardGrace = time.Hour

// Expired says that the guard is no longer in force: a rule treats it as free, and writes it with its Rev if
// it takes it. A guard that is remembered is read again once it has expired.
func (g *Guard) Expired(now Time) bool { return g.Expires != 0 && g.Expires <= now }

// Free says that the guard has expired, and that a change can still take it. Later Forget can remove the
// guard before the change is written. If another writer made it again meanwhile, with the same Rev, both
// would win.
func (g *Guard) Free(now Time) bool {
	return g.Expired(now) && now < g.Expires.Add(GuardGrace/2)
}

// GuardRev names a guard that a change only compares.
type GuardRev struct {
	Namespace string
	Key       string
	Rev       int32 // 0: the guard must not exist
}

// SystemNamespace is the namespace of guards that belong to no tenant: the numbers and the secrets of nodes,
// and which operations are open. No caller can have it: see IsNamespace. Nodes of all versions find these
// guards under this name, so it never changes.
const SystemNamespace = "system"

// GuardKind is what a guard is for.
type GuardKind string

const (
	GuardOverlap GuardKind = "overlap" // of a job: which run has the turn, and which runs wait for it
	// GuardIdempotency is of a request: what its idempotency key was used for. It rules no runs.
	GuardIdempotency GuardKind = "idempotency"
	// GuardLimit is of a limit: how much of it is taken, and whether runs wait for it. It changes by folds.
	GuardLimit GuardKind = "limit"
	// GuardUnique is of a unique key: the job that holds it. It rules no runs: it is compared by submits.
	GuardUnique GuardKind = "unique"
	// GuardPause is of a job with pause_after: since when its failures count, and why Carillon paused it. It
	// rules no runs: a pause by failures and a resume write it.
	GuardPause GuardKind = "pause"
	// GuardOperation is the record of an operation, and GuardOpenOperation says that one is open, or
	// GuardOpenRelease that a release is: see OperationRecord. They rule no runs, but runs that leave a gate
	// fold the record.
	GuardOperation     GuardKind = "operation"
	GuardOpenOperation GuardKind = "operating"
	GuardOpenRelease   GuardKind = "releasing"
	// GuardWorkflow is of a run of a workflow: see Progress. It changes by folds.
	GuardWorkflow GuardKind = "workflow"
	// GuardLate says that there has been a job with a late hook: nodes that start look for its runs. It rules
	// no runs.
	GuardLate GuardKind = "late"
	// GuardSignal is of a signal that was sent to a run of a workflow: its payload.
	GuardSignal GuardKind = "signal"
)

// RulesRuns says that later decisions about the runs of the same change need the guard.
func (g *Guard) RulesRuns() bool { return g.Kind() == GuardOverlap }

// Kind is the first part of the key.
func (g *Guard) Kind() GuardKind {
	kind, _, _ := strings.Cut(g.Key, "/")
	return GuardKind(kind)
}

// NextRev is the revision of the guard once it is written.
func (g *Guard) NextRev() int32 {
	if g.Rev == 0 {
		return max(g.First, 1)
	}
	return g.Rev + 1
}

// Compare is the guard as a change compares it without writing it.
func (g *Guard) Compare() GuardRev { return GuardRev{g.Namespace, g.Key, g.Rev} }

// Guards are the guards that rule a run or a job, at most one of each kind.
type Guards []Guard

// Of returns the guard of a kind; nil if there is none.
func (g Guards) Of(kind GuardKind) *Guard {
	for i := range g {
		if g[i].Kind() == kind {
			return &g[i]
		}
	}
	return nil
}

func (g Guards) turns() turns { return turnsOf(g.Of(GuardOverlap)) }

// With returns the guards with one added, or put in the place of the one of its kind.
func (g Guards) With(guard Guard) Guards {
	all := make(Guards, 0, len(g)+1)
	for i := range g {
		if g[i].Kind() != guard.Kind() {
			all = append(all, g[i])
		}
	}
	return append(all, guard)
}

// setTurns writes the turns into their guard. A guard that stays as it is is only compared: a write would
// raise its Rev, and the end of the run that has the turn, which is decided on the old Rev, would lose.
func (c *Change) setTurns(t turns, was Guard) {
	next := t.guard(was)
	if was.Rev != 0 && bytes.Equal(next.Value, was.Value) {
		c.Compared = append(c.Compared, was.Compare())
		return
	}
	c.Guards = Guards(c.Guards).With(next)
}

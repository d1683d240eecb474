package carillon

// Fold is one step of a guard that many changes step at the same time: it takes a slot of a limit, gives it
// back, or marks a part of something larger. The ledger reads the guard once, applies the folds of all
// changes that wait, in order, and writes the guard once. So a guard that every run needs costs one row a
// commit, not one a run. A change does not name a guard in Guards or Compared that it folds.
type Fold struct {
	Namespace string
	Key       string
	// Step returns the guard as it is afterwards; false: the guard does not allow it, and the change has
	// lost. Only Value and Expires of the result count; without a Value the guard is removed. A guard that
	// does not exist has no Value. An expired guard is given as it is: see Guard.Expired. Step is pure,
	// because the ledger repeats it when another writer was quicker, and it must not modify the Value that
	// it is given.
	Step func(guard Guard, now Time) (Guard, bool)
	// Insert returns further changes that only insert jobs and runs, because of what Step made of the guard.
	// The store writes them together with the change, or not at all. Insert is pure too. nil: there are none.
	Insert func(was, is *Guard, now Time) []Change
}

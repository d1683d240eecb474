package ledger

import (
	"slices"

	"github.com/carillon-run/carillon"
)

// folding is one change with folds.
type folding struct {
	change *carillon.Change
	call   *foldCall
	index  int // of the change in the call
}

type guardKey struct{ namespace, key string }

func keyOf(f *carillon.Fold) guardKey { return guardKey{f.Namespace, f.Key} }

// foldGroup is changes that are merged, in the order in which they came.
type foldGroup struct {
	items []*folding
	// expected are the guards that the group folds, as the try that lost expected them; nil: no try lost.
	expected []carillon.GuardRev
	tries    int // that lost
}

// groupFolds puts changes that fold the same guard into one group. A change with several folds joins the
// groups of its guards.
func groupFolds(batch []*foldCall) (groups []*foldGroup) {
	n := countChanges(batch)
	items := make([]folding, 0, n)
	leader := make([]int, 0, n) // of each item: itself, or an earlier item of its group
	lead := func(i int) int {
		for leader[i] != i {
			leader[i] = leader[leader[i]]
			i = leader[i]
		}
		return i
	}
	first := make(map[guardKey]int, n) // the item that folds it first
	for _, call := range batch {
		for i := range call.changes {
			n := len(items)
			items = append(items, folding{&call.changes[i], call, i})
			leader = append(leader, n)
			for k := range call.changes[i].Folds {
				key := keyOf(&call.changes[i].Folds[k])
				if other, known := first[key]; known {
					a, b := lead(other), lead(n)
					leader[max(a, b)] = min(a, b)
				} else {
					first[key] = n
				}
			}
		}
	}
	return collect(items, lead)
}

// collect makes the groups: lead is the first item of an item's group. The groups share one list of items,
// which are counted first: most groups are small, and there are many of them.
func collect(items []folding, lead func(int) int) []*foldGroup {
	sizes, n := make([]int, len(items)), 0 // by leader
	for i := range items {
		if sizes[lead(i)]++; lead(i) == i {
			n++
		}
	}
	all, room := make([]foldGroup, 0, n), make([]*folding, len(items))
	groups, of := make([]*foldGroup, 0, n), make([]*foldGroup, len(items))
	for i := range items {
		first := lead(i)
		if first == i { // the leader comes first
			all = append(all, foldGroup{items: room[:0:sizes[i]]})
			room = room[sizes[i]:]
			of[i] = &all[len(all)-1]
			groups = append(groups, of[i])
		}
		of[first].items = append(of[first].items, &items[i])
	}
	return groups
}

func countChanges(batch []*foldCall) (n int) {
	for _, call := range batch {
		n += len(call.changes)
	}
	return n
}

// apart makes a group of each guard, for changes that lost because another writer changed one of the guards.
// If changes that fold several guards kept all of them together, every writer of one of these guards would
// make all of them lose, again and again on a slow store. The changes with several guards come last.
func apart(items []*folding, tries int) (groups []*foldGroup) {
	of, several := map[guardKey]*foldGroup{}, &foldGroup{tries: tries}
	for _, item := range items {
		if len(item.change.Folds) == 0 { // it has hooks, and was merged with no other
			groups = append(groups, &foldGroup{items: []*folding{item}, tries: tries})
			continue
		}
		key := keyOf(&item.change.Folds[0])
		if slices.ContainsFunc(item.change.Folds, func(f carillon.Fold) bool { return keyOf(&f) != key }) {
			several.items = append(several.items, item)
			continue
		}
		if of[key] == nil {
			of[key] = &foldGroup{tries: tries}
			groups = append(groups, of[key])
		}
		of[key].items = append(of[key].items, item)
	}
	if len(several.items) > 0 {
		groups = append(groups, several)
	}
	return groups
}

package sqlcommon

import (
	"cmp"
	"slices"

	"github.com/carillon-run/carillon"
)

// LatestBeats returns the indexes of the beats that count: for each member the one with the highest number,
// or the last of those without a number. They are in the order of ids, so that two calls lock sessions in the
// same order.
func LatestBeats(beats []carillon.Beat) []int {
	order := make([]int, len(beats))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(
			cmp.Compare(beats[a].ID, beats[b].ID), cmp.Compare(beats[b].Number, beats[a].Number), b-a,
		)
	})
	return slices.CompactFunc(order, func(a, b int) bool { return beats[a].ID == beats[b].ID })
}

// Standings answers all beats. of has, by member id, the answers to the beats that count. Every other beat is
// old, unless its session is over.
func Standings(beats []carillon.Beat, latest []int, of map[string]carillon.Standing) []carillon.Standing {
	all := make([]carillon.Standing, len(beats))
	for i := range beats {
		all[i] = min(of[beats[i].ID], carillon.StandingOld)
	}
	for _, i := range latest {
		all[i] = of[beats[i].ID]
	}
	return all
}

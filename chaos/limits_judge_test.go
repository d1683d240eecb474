package chaos

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// weightsOf reads what an attempt takes of which keys.
func weightsOf(takes string) map[string]int {
	of := map[string]int{}
	for text := range strings.FieldsSeq(takes) {
		key, weight, _ := strings.Cut(text, "*")
		of[key] = 1
		if n, err := strconv.Atoi(weight); err == nil {
			of[key] = n
		}
	}
	return of
}

// byKey sorts attempts by the keys that they take of.
func byKey(attempts []taken) map[string][]weighed {
	of, read := map[string][]weighed{}, map[string]map[string]int{}
	for i := range attempts {
		weights := read[attempts[i].takes]
		if weights == nil {
			weights = weightsOf(attempts[i].takes)
			read[attempts[i].takes] = weights
		}
		for key, weight := range weights {
			of[key] = append(of[key], weighed{&attempts[i], weight})
		}
	}
	return of
}

// weighed is an attempt, and what it takes of one key.
type weighed struct {
	*taken
	weight int
}

// mostTaken is how many slots the attempts of a key took at the same time. An attempt takes its slots before
// its body begins, and gives them back after its body ended, so bodies never take more than claims did. The
// body of a killed process has ended when the process is gone, and no node can know that earlier: it hears of
// it from a beat that does not come.
func mostTaken(of []weighed) (most int) {
	type edge struct {
		at  time.Duration
		add int
	}
	edges := make([]edge, 0, 2*len(of))
	for _, a := range of {
		edges = append(edges, edge{a.start, a.weight}, edge{a.end, -a.weight})
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.add, b.add))
	})
	used := 0
	for _, e := range edges {
		used += e.add
		most = max(most, used)
	}
	return most
}

// clockError is by how much clocks of processes on one machine can differ, with the rounding.
const clockError = 20 * time.Millisecond

// overtakes returns the runs of a key with one slot that began too early: before a run that was due earlier,
// and whose submit had been answered before the later one was due. That is promised only for a run whose
// first attempt began: if a claim was lost with a node or a worker before the body began, the next run can
// have been passed on already.
func overtakes(of []weighed, accepted func(number int32) carillon.Time) (broken []string) {
	first := map[int32]*taken{}
	for _, a := range of {
		if b := first[a.number]; b == nil || a.start < b.start {
			first[a.number] = a.taken
		}
	}
	list := make([]*taken, 0, len(first))
	for _, a := range first {
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b *taken) int { return cmp.Compare(a.start, b.start) })
	// From the last to the first: which of those that began later had to begin before all that are due after
	// this time?
	before, by := carillon.Time(math.MaxInt64), (*taken)(nil)
	for _, a := range slices.Backward(list) {
		if by != nil && before < a.due {
			broken = append(broken, fmt.Sprintf("job %d, due %s, began before job %d, due %s and accepted %s",
				a.number, a.due, by.number, by.due, accepted(by.number)))
		}
		at := accepted(a.number)
		if known := max(a.due, at.Add(clockError)); a.attempt == 1 && at != 0 && known < before {
			before, by = known, a
		}
	}
	return broken
}

// aboveRate returns how many more starts there were in some time than the rate and its burst allow. A start
// counts at a time between the claim that the node says and the begin of the body, so it counts for a period
// that has both.
func aboveRate(of []weighed, limit carillon.Limit) (above int, in time.Duration) {
	slices.SortFunc(of, func(a, b weighed) int { return cmp.Compare(a.claimed, b.claimed) })
	// All short periods, some longer ones, and all of it.
	for _, look := range []struct{ step, starts int }{{1, 200}, {200, 4000}, {len(of), len(of)}} {
		for i := 0; i < len(of); i += look.step {
			inside := slices.Clone(of[i:min(i+look.starts, len(of))])
			slices.SortFunc(inside, func(a, b weighed) int { return cmp.Compare(a.at, b.at) })
			starts := 0
			for _, a := range inside {
				starts += a.weight
				length := a.at.Sub(of[i].claimed) + clockError
				allowed := limit.Burst + int(length*time.Duration(limit.Rate.Starts)/limit.Rate.Per) + 1
				if starts-allowed > above {
					above, in = starts-allowed, length
				}
			}
		}
	}
	return above, in
}

func TestTheJudgeOfLimits(t *testing.T) {
	at := func(number int32, due carillon.Time, start, end int) taken {
		return taken{
			number: number, attempt: 1, due: due, claimed: due, at: due, start: time.Duration(start),
			end: time.Duration(end), takes: "one two*2",
		}
	}
	accepted := func(int32) carillon.Time { return 1 }
	inOrder := []taken{at(1, 1000, 10, 20), at(2, 1001, 20, 30), at(3, 1002, 31, 40)}
	of := byKey(inOrder)
	if n, m := mostTaken(of["one"]), mostTaken(of["two"]); n != 1 || m != 2 {
		t.Errorf("%d and %d slots, want 1 and 2", n, m)
	}
	if broken := overtakes(of["one"], accepted); len(broken) > 0 {
		t.Errorf("in order, and %v", broken)
	}
	wrong := byKey([]taken{at(1, 1000, 20, 31), at(2, 1001, 10, 21), at(3, 1002, 31, 40)})
	if n := mostTaken(wrong["two"]); n != 4 {
		t.Errorf("%d slots, want 4", n)
	}
	if broken := overtakes(wrong["one"], accepted); len(broken) != 1 {
		t.Errorf("one overtook, and %v", broken)
	}
	late := func(number int32) carillon.Time { return 1001 }
	if broken := overtakes(wrong["one"], late); len(broken) != 0 {
		t.Errorf("the first was accepted too late, and %v", broken)
	}
	rate := carillon.Limit{Rate: carillon.Rate{Starts: 10, Per: time.Second}, Burst: 2}
	if above, _ := aboveRate(of["one"], rate); above != 0 {
		t.Errorf("3 starts of 2 and 1: %d too many", above)
	}
	if above, _ := aboveRate(of["two"], rate); above != 3 { // six starts; a rounded one is allowed
		t.Errorf("6 starts of 2 and 1: %d too many, want 3", above)
	}
}

package mem

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/carillon-run/carillon"
)

// chosen is the lane that the next place goes to, found by comparing all lanes that are wanted.
func (q *Queue) chosen(want *carillon.Demand) (first *lane) {
	better := func(a, b *lane) bool {
		x, y := a.group.band, b.group.band
		switch {
		case x.line != y.line && x.line.time != y.line.time:
			return x.line.time < y.line.time
		case x.line != y.line:
			return q.oldest(want, x.line).older(q.oldest(want, y.line))
		case x.priority != y.priority:
			return x.priority > y.priority
		case x.time != y.time:
			return x.time < y.time
		case x != y:
			return q.top(want, x).older(q.top(want, y))
		case a.share.time != b.share.time:
			return a.share.time < b.share.time
		}
		return a.older(b)
	}
	for _, l := range q.lanes {
		if l.n > 0 && want.Takes(l.Lane) && (first == nil || better(l, first)) {
			first = l
		}
	}
	if oldest := q.oldest(want, first.group.band.line); oldest.Priority < first.Priority &&
		oldest.group.passed == fairTurn-1 {
		return oldest
	}
	return first
}

// top is the lane of a band that is next.
func (q *Queue) top(want *carillon.Demand, of *band) (top *lane) {
	for _, l := range q.lanes {
		if l.n > 0 && want.Takes(l.Lane) && l.group.band == of && (top == nil ||
			l.share.time < top.share.time || l.share.time == top.share.time && l.older(top)) {
			top = l
		}
	}
	return top
}

// oldest is the wanted lane of a queue whose first run has waited longest.
func (q *Queue) oldest(want *carillon.Demand, of *line) (oldest *lane) {
	for _, l := range q.lanes {
		if l.n > 0 && want.Takes(l.Lane) && l.group.band.line == of && (oldest == nil || l.older(oldest)) {
			oldest = l
		}
	}
	return oldest
}

// A model: each single pull takes the run that a look at all lanes finds, and a pull of many takes what so
// many single pulls take. Afterwards an empty queue remembers one lane.
func TestEachPlaceGoesToTheLaneThatALookAtAllLanesFinds(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			one, many := NewQueue(QueueConfig{}), NewQueue(QueueConfig{})
			for job := 1; job < 1000; {
				for range random.IntN(40) {
					run := randomRun(random, job)
					for _, q := range []*Queue{one, many} {
						if _, err := q.Push(t.Context(), []carillon.Run{run}); err != nil {
							t.Fatal(err)
						}
					}
					job++
				}
				if random.IntN(3) == 0 {
					weights := map[string]int{"q": random.IntN(4), "r": 1 + random.IntN(100)}
					one.SetWeights(weights)
					many.SetWeights(weights)
				}
				if random.IntN(3) == 0 {
					weights := map[string]int{"a": random.IntN(4), "b": 1 + random.IntN(100)}
					one.SetNamespaceWeights(weights)
					many.SetNamespaceWeights(weights)
				}
				pullBoth(t, one, many, randomDemand(random))
				checkWeights(t, one)
				checkWeights(t, many)
			}
			for one.Len() > 0 {
				pullBoth(t, one, many, carillon.Demand{Max: 50, NoWait: true})
			}
			for _, q := range []*Queue{one, many} {
				remembered := 0
				for _, line := range q.tree.lines {
					for _, level := range line.levels {
						for _, b := range level.bands {
							remembered += len(b.shares)
						}
					}
				}
				if remembered > 1 || len(q.tree.lines) > 1 {
					t.Errorf("an empty queue remembers %d queues and %d shares", len(q.tree.lines), remembered)
				}
			}
		})
	}
}

// checkWeights checks that the queues with runs, and no others, count with their present weights, and in them
// the namespaces.
func checkWeights(t *testing.T, q *Queue) {
	t.Helper()
	sum := int64(0)
	for name, line := range q.tree.lines {
		if want := int64(max(q.tree.weights[name], 1)); line.weight != want {
			t.Fatalf("queue %s has weight %d, want %d", name, line.weight, want)
		}
		if len(line.groups) > 0 {
			sum += line.weight
		}
	}
	if q.tree.contest.weight != sum {
		t.Fatalf("the queues with runs have weight %d, counted are %d", sum, q.tree.contest.weight)
	}
	for _, line := range q.tree.lines {
		for i := range line.levels {
			at, sum := &line.levels[i], int64(0)
			for name, b := range at.bands {
				if want := int64(max(q.tree.namespaces[name], 1)); b.weight != want {
					t.Fatalf("namespace %s has weight %d, want %d", name, b.weight, want)
				}
				if len(b.groups) > 0 {
					sum += b.weight
				}
			}
			if at.contest.weight != sum {
				t.Fatalf("the namespaces with runs have weight %d, counted are %d", sum, at.contest.weight)
			}
		}
	}
}

func pullBoth(t *testing.T, one, many *Queue, want carillon.Demand) {
	t.Helper()
	got, err := many.Pull(t.Context(), want)
	if err != nil {
		t.Fatal(err)
	}
	want.Max = 1
	for i := range got {
		model := one.runs.at(one.chosen(&want).head).run.ID
		single, err := one.Pull(t.Context(), want)
		if err != nil {
			t.Fatal(err)
		}
		if single[0].ID != model {
			t.Fatalf("place %d went to %v, a look at all lanes finds %v", i, single[0].ID, model)
		}
		if got[i].ID != model {
			t.Fatalf("place %d of a pull of %d went to %v, want %v", i, len(got), got[i].ID, model)
		}
	}
}

func randomRun(random *rand.Rand, job int) carillon.Run {
	wake := carillon.Time(1_800_000_000_000 + job)
	pick := func(of ...string) string { return of[random.IntN(len(of))] }
	return carillon.Run{
		ID: carillon.RunID{Job: carillon.JobID(job), Due: wake}, Wake: wake, State: carillon.StateWaiting,
		Namespace: pick("a", "a", "a", "b"), Queue: pick("q", "q", "r"),
		Needs: pick("x", "x", "y", "z", "1", "2", "3", "4", "5"),
		Share: pick("", "s", "s*2", "t*3", "u*100", "v"), Priority: int8(pick("559")[random.IntN(3)] - '0'),
	}
}

func randomDemand(random *rand.Rand) carillon.Demand {
	d := carillon.Demand{Max: 1 + random.IntN(50), NoWait: true}
	switch random.IntN(4) {
	case 0:
		d.Wants = []carillon.Want{{Types: []string{"x"}}}
	case 1:
		d.Wants = []carillon.Want{{Types: []string{"y", "z"}, Queues: []string{"q"}}}
	case 2:
		d.Wants = []carillon.Want{{Namespaces: []string{"a"}}}
	}
	return d
}

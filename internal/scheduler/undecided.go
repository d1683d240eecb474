package scheduler

import (
	"slices"
	"sync"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
)

// maxUndecided is how many runs of one lane can wait for a decision.
const maxUndecided = 10_000

// undecided holds the due runs that wait for the decide loop. Like timeline and queue it is bounded per lane.
type undecided struct {
	ready await.Signal

	mu    sync.Mutex
	runs  []carillon.Run
	count map[carillon.Lane]int
}

func newUndecided() *undecided {
	return &undecided{ready: await.NewSignal(), count: map[carillon.Lane]int{}}
}

// add returns the indexes of the runs whose lane has no room.
func (u *undecided) add(runs []carillon.Run) (refused []int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range runs {
		if key := runs[i].Lane(); u.count[key] < maxUndecided {
			u.count[key]++
			u.runs = append(u.runs, runs[i])
		} else {
			refused = append(refused, i)
		}
	}
	u.ready.Set()
	return refused
}

// putBack takes runs back that could not be decided about, even if their lanes have got other runs since:
// take just gave them out. They count, so that later runs of these lanes find no room.
func (u *undecided) putBack(runs []carillon.Run) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i := range runs {
		u.count[runs[i].Lane()]++
	}
	u.runs = append(u.runs, runs...)
	u.ready.Set()
}

// take gives out all runs, each once: while commits fail, the same runs are added again and again.
func (u *undecided) take() []carillon.Run {
	u.mu.Lock()
	runs := u.runs
	u.runs = nil
	clear(u.count)
	u.mu.Unlock()
	seen := make(map[carillon.RunID]bool, len(runs))
	return slices.DeleteFunc(runs, func(r carillon.Run) bool {
		twice := seen[r.ID]
		seen[r.ID] = true
		return twice
	})
}

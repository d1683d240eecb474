package sqlcommon

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/idgen"
)

// FoundJob is a row that a search for jobs has reached.
type FoundJob struct {
	Job    carillon.Job  // only its ID, unless the row is wanted
	Due    carillon.Time // of a one-off: when its first run was due
	Wanted bool
}

// Judge gives a job the state that follows from its runs, and drops it if the query does not want that.
// ended is the ended run with the latest due time among those that had begun; Judge needs it, and all
// unfinished runs, only if the query names Latest.
func (f *FoundJob) Judge(q *carillon.JobQuery, unfinished []carillon.Run, ended *carillon.Run) {
	f.Job.State = f.Job.StateOf(unfinished)
	f.Wanted = f.Wanted && (len(q.States) == 0 || slices.Contains(q.States, f.Job.State)) &&
		(len(q.Latest) == 0 || slices.Contains(q.Latest, carillon.LatestOf(unfinished, ended)))
}

// FindJobs fills a page except for Last, and returns the rows in which the jobs on it were found. read reads
// the rows before q.Before, newest first: limit of them, fewer only at the end.
func FindJobs(
	q carillon.JobQuery, maxScan int, read func(q *carillon.JobQuery, limit int) ([]FoundJob, error),
) (page carillon.JobPage, found []FoundJob, err error) {
	limit := cmp.Or(q.Limit, carillon.DefaultLimit)
	scanned := 0
	for size := limit + 1; ; size = grow(size) {
		size = min(size, maxScan-scanned)
		some, err := read(&q, size)
		if err != nil {
			return page, nil, err
		}
		for i := range some {
			if some[i].Wanted && len(page.Jobs) == limit {
				page.Next = page.Jobs[limit-1].ID
				return page, found, nil
			}
			if some[i].Wanted {
				page.Jobs, found = append(page.Jobs, some[i].Job), append(found, some[i])
			}
			q.Before = some[i].Job.ID
		}
		if scanned += len(some); len(some) < size {
			return page, found, nil
		}
		if scanned == maxScan {
			page.Next = q.Before
			return page, found, nil
		}
	}
}

// IDRange returns the range of ids in which jobs of the queried time can be. Ids rise with time, but after a
// clock was set back they run ahead of it. The range allows for one day of that.
func IDRange(q *carillon.JobQuery) (first, before carillon.JobID) {
	const day = carillon.Time(24 * time.Hour / time.Millisecond)
	before = cmp.Or(q.Before, math.MaxInt64)
	if q.CreatedFrom != 0 {
		first = idgen.First(q.CreatedFrom - day)
	}
	if q.CreatedTo != 0 {
		before = min(before, idgen.First(q.CreatedTo+day))
	}
	return first, before
}

// StoredStates returns the states of jobs that rows of wanted jobs can have, as bits; 0: any. A finished job
// is stored as active.
func StoredStates(states []carillon.JobState) (bits int64) {
	for _, state := range states {
		if state == carillon.JobFinished {
			state = carillon.JobActive
		}
		bits |= 1 << state
	}
	return bits
}

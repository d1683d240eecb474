package ledger

import (
	"context"
	"sync"

	"github.com/carillon-run/carillon"
)

// readers is how many jobs RetryDeadLetters reads, or retries one by one, at the same time.
const readers = 8

// RetryDeadLetters is RetryDeadLetter for many letters, with few reads and one commit. It returns an error
// for each letter, or nil. Letters of which it knows too little to decide, and those that lose, it retries
// one by one; so it does with the second and later letters of a job, which would lose against the first.
func (l *Ledger) RetryDeadLetters(
	ctx context.Context, namespace string, ids []carillon.RunID,
) []error {
	results := make([]error, len(ids))
	var together []int
	alone := map[carillon.JobID][]int{}
	seen := map[carillon.JobID]bool{}
	for i, id := range ids {
		if seen[id.Job] {
			alone[id.Job] = append(alone[id.Job], i)
		} else {
			seen[id.Job], together = true, append(together, i)
		}
	}
	left, err := l.retryTogether(ctx, namespace, ids, together)
	for _, i := range left {
		if err != nil {
			results[i] = err
			continue
		}
		alone[ids[i].Job] = append(alone[ids[i].Job], i)
	}
	var jobs [][]int
	for _, letters := range alone {
		jobs = append(jobs, letters)
	}
	each(len(jobs), func(job int) {
		for _, i := range jobs[job] { // one after the other: each would make the others lose
			_, results[i] = l.RetryDeadLetter(ctx, namespace, ids[i], nil)
		}
	})
	return results
}

// retryTogether retries letters of different jobs with one commit, and returns those that are left. After an
// error it is not known which of those were retried.
func (l *Ledger) retryTogether(
	ctx context.Context, namespace string, ids []carillon.RunID, of []int,
) (left []int, err error) {
	snapshots, letters, err := l.lettersOf(ctx, namespace, ids, of)
	if err != nil {
		return of, err
	}
	now := l.cfg.Clock.Now()
	var changes []carillon.Change
	var made []int // the letter of each change
	for at, i := range of {
		letter, found := letters[ids[i]]
		_, part := snapshots[at].Job.Part() // what follows it is decided about alone
		known := found && letter.State == carillon.StateFailed && letter.Namespace == namespace &&
			snapshots[at].Job.ID != 0 && !part
		if known {
			// It may be no dead letter any more; then the change loses.
			if change, _, err := snapshots[at].Redrive(letter, nil, now); err == nil {
				changes, made = append(changes, change), append(made, i)
				continue
			}
		}
		left = append(left, i)
	}
	lost, err := l.Commit(ctx, changes)
	if err != nil {
		return append(left, made...), err
	}
	for _, i := range lost {
		left = append(left, made[i])
	}
	return left, nil
}

// lettersOf reads the jobs of letters, in the order that Snapshot explains, and then the runs themselves. The
// snapshot of a job that does not exist is empty.
func (l *Ledger) lettersOf(
	ctx context.Context, namespace string, ids []carillon.RunID, of []int,
) (snapshots []carillon.JobSnapshot, letters map[carillon.RunID]carillon.Run, err error) {
	versions := make([]carillon.JobVersion, len(of))
	keys, wanted := make([]string, len(of)), make([]carillon.RunID, len(of))
	place := map[carillon.JobID]int{}
	for at, i := range of {
		versions[at].Job, keys[at], wanted[at] = ids[i].Job, ids[i].Job.OverlapKey(), ids[i]
		place[ids[i].Job] = at
	}
	snapshots = make([]carillon.JobSnapshot, len(of))
	jobs, err := l.cfg.Store.Jobs(ctx, versions)
	if err != nil {
		return nil, nil, err
	}
	errs := make([]error, len(jobs))
	each(len(jobs), func(i int) {
		w := &snapshots[place[jobs[i].ID]]
		if jobs[i].Namespace != namespace {
			return
		}
		w.Job = jobs[i]
		w.Runs, errs[i] = l.unfinished(ctx, namespace, jobs[i].ID)
	})
	for _, err := range errs {
		if err != nil {
			return nil, nil, err
		}
	}
	guards, err := l.cfg.Store.Guards(ctx, carillon.GuardQuery{Namespace: namespace, Keys: keys})
	if err != nil {
		return nil, nil, err
	}
	ofKey := map[string]carillon.Guard{}
	for _, g := range guards {
		ofKey[g.Key] = g
	}
	for at := range snapshots {
		if g, found := ofKey[keys[at]]; found {
			snapshots[at].Guards = []carillon.Guard{g}
		}
	}
	runs, err := l.cfg.Store.Runs(ctx, wanted, true)
	letters = map[carillon.RunID]carillon.Run{}
	for i := range runs {
		letters[runs[i].ID] = runs[i]
	}
	return snapshots, letters, err
}

// each calls a function with the numbers up to n, some at the same time.
func each(n int, do func(i int)) {
	var all sync.WaitGroup
	room := make(chan struct{}, readers)
	for i := range n {
		room <- struct{}{}
		all.Go(func() {
			defer func() { <-room }()
			do(i)
		})
	}
	all.Wait()
}

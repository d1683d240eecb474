package porttest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/carillon-run/carillon"
)

// compare reads everything in both stores. Without all, it leaves out the definitions that the last step did
// not touch.
func (w *world) compare(all bool) {
	w.t.Helper()
	w.compareRows(all)
	w.compareWakes()
	w.compareLines()
	for range 3 {
		w.compareJobPages()
		w.compareRunPages()
	}
	w.compareRunPagesOf(carillon.RunQuery{})
	w.compareRunPagesOf(carillon.RunQuery{Dead: true})
}

func both[T any](w *world, what string, read func(carillon.Store) (T, error)) T {
	w.t.Helper()
	want, err := read(w.model)
	w.must(err)
	got, err := read(w.store)
	w.must(err)
	w.equal(what, got, want)
	return want
}

func (w *world) compareRows(all bool) {
	w.t.Helper()
	ctx := context.Background()
	versions := make([]carillon.JobVersion, 0, 4*len(w.jobs))
	for _, id := range w.jobs {
		if !all && !w.touched[id] {
			continue
		}
		for version := range int32(4) {
			versions = append(versions, carillon.JobVersion{Job: id, Version: version})
		}
	}
	both(w, "jobs", func(s carillon.Store) ([]carillon.Job, error) {
		jobs, err := s.Jobs(ctx, versions)
		return sortJobs(jobs), err
	})
	ids := slices.Collect(maps.Keys(w.runs))
	for _, whole := range []bool{true, false} {
		both(w, "runs", func(s carillon.Store) ([]carillon.Run, error) {
			runs, err := s.Runs(ctx, ids, whole)
			return sortRuns(runs), err
		})
	}
	for _, id := range ids {
		if !all && !w.touched[id.Job] {
			continue
		}
		both(w, "attempts", func(s carillon.Store) ([]carillon.Attempt, error) {
			return s.Attempts(ctx, id, 0, 100)
		})
	}
	for _, namespace := range append([]string{""}, namespaces...) {
		for _, prefix := range []string{"", "overlap/", "limit/", "limit/b"} {
			both(w, "guards "+prefix, func(s carillon.Store) ([]carillon.Guard, error) {
				guards, err := s.Guards(ctx, carillon.GuardQuery{Namespace: namespace, Prefix: prefix})
				return sortGuards(guards), err
			})
		}
		if namespace == "" {
			continue // keys are those of a namespace
		}
		both(w, "guards by key", func(s carillon.Store) ([]carillon.Guard, error) {
			guards, err := s.Guards(ctx, carillon.GuardQuery{
				Namespace: namespace, Keys: []string{"limit/a", "limit/b", "none"},
			})
			return sortGuards(guards), err
		})
	}
}

func (w *world) compareWakes() {
	w.t.Helper()
	q := carillon.WakeQuery{
		Until: pick(w.rand, w.now, w.now+600_000, carillon.Never), Limit: pick(w.rand, 1, 3, 7),
	}
	if w.rand.IntN(3) == 0 {
		q.Lane = &carillon.Lane{
			Namespace: pick(w.rand, namespaces...), Queue: pick(w.rand, queues...),
			Needs: pick(w.rand, needs...), Priority: int8(pick(w.rand, priorities...)),
			Share: pick(w.rand, shares...),
		}
		q.AnyShare = w.rand.IntN(3) == 0
	}
	if w.rand.IntN(3) == 0 {
		for range 32 {
			q.Shards = append(q.Shards, w.rand.IntN(carillon.Shards))
		}
	}
	q.Held = q.Lane == nil && w.rand.IntN(3) == 0
	for {
		page := both(w, "wakes", func(s carillon.Store) ([]carillon.Run, error) {
			return s.Wakes(context.Background(), q)
		})
		if len(page) == 0 {
			return
		}
		q.After = page[len(page)-1].WakePos()
	}
}

func (w *world) compareLines() {
	w.t.Helper()
	ctx := context.Background()
	q := carillon.LineQuery{
		Lines: w.lines(), Until: pick(w.rand, w.now, w.now+600_000, carillon.Never),
		Limit: pick(w.rand, 1, 2, 100),
	}
	if w.rand.IntN(3) == 0 {
		q.After.Due = epoch + carillon.Time(w.rand.Int64N(int64(w.now-epoch)+1))
	}
	both(w, "lines", func(s carillon.Store) ([]carillon.Run, error) {
		runs, err := s.Line(ctx, q)
		slices.SortStableFunc(runs, func(a, b carillon.Run) int {
			return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Hold, b.Hold))
		})
		return runs, err
	})
	limit := pick(w.rand, 1, 2, 0)
	for after := (carillon.HoldName{}); ; {
		names := both(w, "names of lines", func(s carillon.Store) ([]carillon.HoldName, error) {
			return s.Holds(ctx, after, limit)
		})
		if len(names) == 0 {
			break
		}
		after = names[len(names)-1]
	}
	namespace := pick(w.rand, namespaces...)
	both(w, "counts", func(s carillon.Store) ([]carillon.QueueCount, error) {
		counts, err := s.Counts(ctx, namespace, w.now)
		return sortCounts(counts), err
	})
	w.compareDeadGroups()
}

func sortCounts(counts []carillon.QueueCount) []carillon.QueueCount {
	slices.SortFunc(counts, func(a, b carillon.QueueCount) int {
		return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b))
	})
	return counts
}

func (w *world) compareJobPages() {
	w.t.Helper()
	maybe := func() bool { return w.rand.IntN(4) == 0 }
	q := carillon.JobQuery{Limit: pick(w.rand, 1, 3, 100), WithLast: maybe()}
	if maybe() {
		q.Namespace = pick(w.rand, namespaces...)
	}
	if maybe() {
		q.States = []carillon.JobState{
			pick(w.rand, carillon.JobActive, carillon.JobPaused, carillon.JobFinished, carillon.JobCanceled),
			carillon.JobPaused,
		}
	}
	if maybe() {
		q.Latest = []carillon.LatestState{
			pick(
				w.rand, carillon.LatestPending, carillon.LatestRunning, carillon.LatestFailed,
				carillon.LatestSucceeded,
			),
		}
	}
	if maybe() {
		q.Owner = pick(w.rand, owners...)
	}
	if maybe() {
		q.Type, q.Name = pick(w.rand, types...), pick(w.rand, append(types, "")...)
	}
	if maybe() {
		q.Labels = []carillon.Label{
			{Key: pick(w.rand, append(labels, "all")...), Value: pick(w.rand, append(labels, "")...)},
		}
		if maybe() {
			q.Labels = append(q.Labels, carillon.Label{
				Key: pick(w.rand, labels...), Value: pick(w.rand, append(labels, "")...),
			})
		}
	}
	if maybe() {
		q.CreatedFrom = epoch + carillon.Time(w.rand.Int64N(int64(w.now-epoch)+1))
		q.CreatedTo = q.CreatedFrom + 600_000
	}
	for {
		page := both(w, "job page", func(s carillon.Store) (carillon.JobPage, error) {
			return s.FindJobs(context.Background(), q)
		})
		if page.Next == 0 {
			return
		}
		q.Before = page.Next
	}
}

func (w *world) compareRunPages() {
	w.t.Helper()
	maybe := func() bool { return w.rand.IntN(3) == 0 }
	q := carillon.RunQuery{Limit: pick(w.rand, 1, 2, 5, 100), Dead: w.rand.IntN(5) == 0}
	if maybe() {
		q.Namespace = pick(w.rand, namespaces...)
	}
	if len(w.jobs) > 0 && maybe() {
		q.Job = pick(w.rand, w.jobs...)
	}
	if maybe() {
		for range 1 + w.rand.IntN(3) {
			q.States = append(q.States, carillon.State(1+w.rand.IntN(7)))
		}
	}
	if maybe() {
		q.Statuses = []carillon.Status{
			pick(
				w.rand, carillon.StatusQueued, carillon.StatusPaused, carillon.StatusHeld,
				carillon.StatusStopping,
			),
		}
		q.Now = w.now
	}
	if maybe() {
		q.Present, q.Now = true, w.now
	}
	if maybe() {
		q.Worker = pick(w.rand, workers...)
	}
	if maybe() {
		q.From = epoch + carillon.Time(w.rand.Int64N(int64(w.now-epoch)+1))
	}
	if maybe() {
		q.To = epoch + carillon.Time(w.rand.Int64N(int64(w.now-epoch)+600_000))
	}
	if q.Dead {
		w.narrowDead(&q)
	}
	w.compareRunPagesOf(q)
}

// narrowDead adds filters that are only for dead letters.
func (w *world) narrowDead(q *carillon.RunQuery) {
	maybe := func() bool { return w.rand.IntN(4) == 0 }
	if maybe() {
		q.Type = pick(w.rand, append(types, "*a*", "none")...)
	}
	if maybe() {
		q.Owner, q.Queue = pick(w.rand, owners...), pick(w.rand, queues...)
	}
	if maybe() {
		q.Labels = []carillon.Label{{Key: "all"}}
	}
	if maybe() {
		q.Error = pick(w.rand, "STATUS", "so", "none")
	}
	if maybe() {
		q.Fingerprint, _ = carillon.FingerprintOf(pick(w.rand, reasons...))
	}
	if maybe() {
		q.EndedFrom = epoch + carillon.Time(w.rand.Int64N(int64(w.now-epoch)+1))
	}
	if maybe() {
		q.EndedTo = epoch + carillon.Time(w.rand.Int64N(int64(w.now-epoch)+1))
	}
}

// compareDeadGroups compares what is promised exactly.
func (w *world) compareDeadGroups() {
	w.t.Helper()
	q := carillon.DeadGroupQuery{
		Namespace: pick(w.rand, namespaces...), Type: pick(w.rand, append(types, "", "", "none")...),
	}
	both(w, "groups of dead letters", func(s carillon.Store) ([]carillon.DeadGroup, error) {
		groups, err := s.DeadGroups(context.Background(), q)
		for i := range groups {
			groups[i].First, groups[i].Last, groups[i].Sample = 0, 0, ""
		}
		slices.SortFunc(groups, func(a, b carillon.DeadGroup) int {
			return cmp.Compare(a.Fingerprint, b.Fingerprint)
		})
		return slices.Clip(groups), err
	})
}

func (w *world) compareRunPagesOf(q carillon.RunQuery) {
	w.t.Helper()
	for {
		page := both(w, "run page", func(s carillon.Store) (carillon.RunPage, error) {
			return s.FindRuns(context.Background(), q)
		})
		if page.Next == "" {
			return
		}
		q.After = page.Next
	}
}

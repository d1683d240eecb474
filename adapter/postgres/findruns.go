package postgres

import (
	"cmp"
	"context"
	"slices"

	"github.com/carillon-run/carillon"
)

// FindRuns implements carillon.Store. It merges streams of rows that are each in the order of the query.
func (s *Store) FindRuns(ctx context.Context, q carillon.RunQuery) (carillon.RunPage, error) {
	start, err := q.Start()
	if err != nil {
		return carillon.RunPage{}, err
	}
	f := finder{query: &q, limit: cmp.Or(q.Limit, carillon.DefaultLimit), maxScan: s.maxScan}
	err = s.view(ctx, func(ctx context.Context, v *view) error {
		for _, streams := range v.parts(&q, start, f.limit) {
			if done, err := f.merge(ctx, streams); done || err != nil {
				if err == nil {
					err = v.fillAbout(ctx, f.page.Runs)
				}
				return err
			}
		}
		return v.fillAbout(ctx, f.page.Runs)
	})
	if err != nil {
		return carillon.RunPage{}, err
	}
	return f.page, nil
}

// parts returns the parts of the answer from a position on. Each part is some streams to merge. A stream that
// cannot contain wanted runs is left out.
func (v *view) parts(q *carillon.RunQuery, start carillon.RunPos, limit int) (parts [][]*runStream) {
	states := q.Within()
	hot := len(states) == 0 || slices.ContainsFunc(states, func(s carillon.State) bool { return !s.Ended() })
	past := len(states) == 0 || slices.ContainsFunc(states, carillon.State.Ended)
	stream := func(read source) *runStream { return &runStream{read: read, after: start, piece: limit + 1} }
	switch start.Part {
	case carillon.RunPartDead:
		if q.Job != 0 {
			return [][]*runStream{{stream(v.jobDead(q))}}
		}
		return [][]*runStream{{stream(v.records(&allDead, true))}}
	case carillon.RunPartJob:
		var ofJob []*runStream
		if hot {
			ofJob = append(ofJob, stream(v.jobUnfinished(q)))
		}
		if past {
			ofJob = append(ofJob, stream(v.jobHistory(q)))
		}
		return [][]*runStream{ofJob}
	case carillon.RunPartUnfinished:
		if hot {
			parts = append(parts, []*runStream{stream(v.unfinished(q, start))})
		}
		start = carillon.RunPos{Part: carillon.RunPartEnded, Place: carillon.Unended}
	}
	switch {
	case !past:
	case len(states) == 0 || slices.Contains(states, carillon.StateSucceeded):
		parts = append(parts, []*runStream{stream(v.records(&allEnded, false))})
	default: // only the few runs that did not succeed
		var bad []*runStream
		for _, state := range []carillon.State{
			carillon.StateFailed, carillon.StateCanceled, carillon.StateSkipped,
		} {
			if slices.Contains(states, state) {
				bad = append(bad, stream(v.bad(state)))
			}
		}
		parts = append(parts, bad)
	}
	return parts
}

// finder fills a page.
type finder struct {
	query   *carillon.RunQuery
	limit   int
	maxScan int
	page    carillon.RunPage
	last    carillon.RunPos // of the page
	scanned int
}

// merge takes runs from the streams in order until the streams end, the page is full, or the search has
// scanned maxScan rows. done: the page is complete.
func (f *finder) merge(ctx context.Context, streams []*runStream) (done bool, err error) {
	for {
		first, err := firstOf(ctx, streams)
		if first == nil || err != nil {
			return false, err
		}
		found := first.take()
		if f.query.Wants(&found.run) {
			if len(f.page.Runs) == f.limit {
				f.page.Next = f.last.String()
				return true, nil
			}
			f.page.Runs, f.last = append(f.page.Runs, found.run), found.pos
		}
		if f.scanned++; f.scanned == f.maxScan {
			f.page.Next = found.pos.String()
			return true, nil
		}
	}
}

func firstOf(ctx context.Context, streams []*runStream) (first *runStream, err error) {
	for _, s := range streams {
		if err := s.fill(ctx); err != nil {
			return nil, err
		}
		if len(s.found) > 0 && (first == nil || comesBefore(s.found[0].pos, first.found[0].pos)) {
			first = s
		}
	}
	return first, nil
}

// comesBefore is the order of the parts that are merged from several streams: descending.
func comesBefore(a, b carillon.RunPos) bool {
	if a.Due != b.Due {
		return a.Due > b.Due
	}
	return a.Place > b.Place
}

// aboutJobs is by primary key.
var aboutJobs = statement{
	"about_jobs",
	`SELECT j.id, j.name, j.type, j.owner FROM unnest($1::bigint[]) x(id) JOIN carillon.job j ON j.id = x.id`,
}

// fillAbout reads About of unfinished runs from their jobs: the rows of the runs do not repeat it.
func (v *view) fillAbout(ctx context.Context, runs []carillon.Run) error {
	about := map[carillon.JobID]*carillon.About{}
	var ids []carillon.JobID
	for i := range runs {
		if job := runs[i].ID.Job; runs[i].About == nil && about[job] == nil {
			about[job], ids = &carillon.About{}, append(ids, job)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	err := v.read(ctx, call{&aboutJobs, [][]byte{int8Array(ids)}, func(r *row) error {
		*about[carillon.JobID(r.int())] = carillon.About{Name: r.name(), Type: r.name(), Owner: r.name()}
		return nil
	}})
	for i := range runs {
		if runs[i].About == nil {
			own := *about[runs[i].ID.Job]
			runs[i].About = &own
		}
	}
	return err
}

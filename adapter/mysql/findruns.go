package mysql

import (
	"cmp"
	"context"
	"slices"

	"github.com/carillon-run/carillon"
)

// FindRuns implements carillon.Store. It merges streams of rows; each stream is in the order of the query.
func (s *Store) FindRuns(ctx context.Context, q carillon.RunQuery) (page carillon.RunPage, err error) {
	start, err := q.Start()
	if err != nil {
		return page, err
	}
	var f finder
	err = s.view(ctx, func(l *conn) error {
		f = finder{limit: cmp.Or(q.Limit, carillon.DefaultLimit), maxScan: s.maxScan}
		if err := f.fill(l, &q, start); err != nil {
			return err
		}
		return l.fillAbout(f.page.Runs)
	})
	return f.page, tried("find runs", err)
}

func (f *finder) fill(l *conn, q *carillon.RunQuery, start carillon.RunPos) error {
	for _, part := range partsFrom(q, start) {
		streams := make([]*runStream, len(part.sources))
		for i, from := range part.sources {
			streams[i] = &runStream{conn: l, query: q, source: from, pos: part.start, size: f.limit + 1}
			if err := streams[i].next(); err != nil {
				return err
			}
		}
		if done, err := f.merge(streams); done || err != nil {
			return err
		}
	}
	return nil
}

// part is a section of the answer: the streams to merge, and the position after which they begin.
type part struct {
	start   carillon.RunPos
	sources []source
}

// partsFrom returns the parts of the answer from a position on. It leaves out sources that cannot hold a
// wanted run.
func partsFrom(q *carillon.RunQuery, start carillon.RunPos) (parts []part) {
	states := q.Within()
	hot, past := len(states) == 0, []source{allEnded}
	if len(states) > 0 {
		past = nil
	}
	for _, state := range states {
		if !state.Ended() {
			hot = true
		} else if from := endedIn(state); !slices.Contains(past, from) {
			past = append(past, from)
		}
	}
	switch start.Part {
	case carillon.RunPartDead:
		if q.Job != 0 {
			return []part{{start, []source{jobDead}}}
		}
		return []part{{start, []source{allDead}}}
	case carillon.RunPartJob:
		ofJob := part{start: start}
		if hot {
			ofJob.sources = append(ofJob.sources, jobUnended)
		}
		if len(past) > 0 {
			ofJob.sources = append(ofJob.sources, jobEnded)
		}
		return []part{ofJob}
	case carillon.RunPartUnfinished:
		if hot {
			parts = append(parts, part{start, []source{allUnfinished}})
		}
		start = carillon.RunPos{Part: carillon.RunPartEnded, Place: carillon.Unended}
	}
	if len(past) > 0 {
		parts = append(parts, part{start, past})
	}
	return parts
}

// finder fills a page.
type finder struct {
	limit   int
	maxScan int
	page    carillon.RunPage
	last    carillon.RunPos // position of the last run on the page
	scanned int
}

// merge takes rows from the streams in order until the streams end, the page is full, or the search has read
// enough rows. done: the page is complete.
func (f *finder) merge(streams []*runStream) (done bool, err error) {
	for {
		first := firstOf(streams)
		if first == nil {
			return false, nil
		}
		if first.wanted {
			if len(f.page.Runs) == f.limit {
				f.page.Next = f.last.String()
				return true, nil
			}
			f.page.Runs, f.last = append(f.page.Runs, first.run), first.pos
		}
		if f.scanned++; f.scanned == f.maxScan {
			f.page.Next = first.pos.String()
			return true, nil
		}
		if err := first.next(); err != nil {
			return false, err
		}
	}
}

func firstOf(streams []*runStream) (first *runStream) {
	for _, s := range streams {
		if s.live && (first == nil || comesBefore(s.pos, first.pos)) {
			first = s
		}
	}
	return first
}

// comesBefore is the order of the parts that merge several streams: descending.
func comesBefore(a, b carillon.RunPos) bool {
	if a.Due != b.Due {
		return a.Due > b.Due
	}
	return a.Place > b.Place
}

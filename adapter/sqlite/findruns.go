package sqlite

import (
	"cmp"
	"context"
	"math"

	"github.com/carillon-run/carillon"
)

// FindRuns implements carillon.Store. It merges streams of rows; each stream is in the order of the query.
func (s *Store) FindRuns(ctx context.Context, q carillon.RunQuery) (page carillon.RunPage, err error) {
	start, err := q.Start()
	if err != nil {
		return page, err
	}
	f := finder{query: &q, limit: cmp.Or(q.Limit, carillon.DefaultLimit), maxScan: s.maxScan}
	err = s.read(ctx, func(r *reader) error {
		for _, part := range partsFrom(&q, start) {
			streams := make([]*runStream, len(part.sources))
			for i, from := range part.sources {
				if streams[i], err = r.stream(&q, from, part.start); err != nil {
					return err
				}
			}
			if done, err := f.merge(streams); done || err != nil {
				return err
			}
		}
		return nil
	})
	return f.page, err
}

// part is a section of the answer: the streams to merge, and the position after which they begin.
type part struct {
	start   carillon.RunPos
	sources []source
}

// partsFrom returns the parts of the answer from a position on. It leaves out sources that cannot hold a
// wanted run.
func partsFrom(q *carillon.RunQuery, start carillon.RunPos) (parts []part) {
	states := stateBits(q.Within())
	hot := states == 0 || states&unfinishedStates != 0
	past := states == 0 || states&^unfinishedStates != 0
	switch start.Part {
	case carillon.RunPartDead:
		if q.Job != 0 {
			return []part{{start, []source{jobDead}}}
		}
		return []part{{start, []source{allDead}}}
	case carillon.RunPartJob:
		ofJob := part{start: start}
		if hot {
			ofJob.sources = append(ofJob.sources, jobFirst, jobExtra)
		}
		if past {
			ofJob.sources = append(ofJob.sources, jobHistory)
		}
		return []part{ofJob}
	case carillon.RunPartUnfinished:
		if hot {
			parts = append(parts, part{start, []source{allUnfinished}})
		}
		start = carillon.RunPos{Part: carillon.RunPartEnded, Place: carillon.Unended}
	}
	if past {
		parts = append(parts, part{start, endedSources(states)})
	}
	return parts
}

const unfinishedStates = 1<<carillon.StateWaiting | 1<<carillon.StateClaimed | 1<<carillon.StateRunning

func stateBits(states []carillon.State) (bits int64) {
	for _, state := range states {
		bits |= 1 << state
	}
	return bits
}

// endedSources reads the few runs that did not succeed by their own index if the query wants only those.
func endedSources(states int64) []source {
	if states == 0 || states&(1<<carillon.StateSucceeded) != 0 {
		return []source{allEnded}
	}
	var bad []source
	for state, from := range map[carillon.State]source{
		carillon.StateFailed: allFailed, carillon.StateCanceled: allCanceled,
		carillon.StateSkipped: allSkipped,
	} {
		if states&(1<<state) != 0 {
			bad = append(bad, from)
		}
	}
	return bad
}

// finder fills a page.
type finder struct {
	query   *carillon.RunQuery
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
		run, wanted, err := f.wanted(first)
		if err != nil {
			return false, err
		}
		if wanted {
			if len(f.page.Runs) == f.limit {
				f.page.Next = f.last.String()
				return true, nil
			}
			f.page.Runs, f.last = append(f.page.Runs, run), first.pos
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

// wanted reads the row unless its plain columns already rule it out.
func (f *finder) wanted(s *runStream) (run carillon.Run, wanted bool, err error) {
	if !s.wanted {
		return run, false, nil
	}
	run, err = s.run()
	return run, f.query.Wants(&run), err
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

// within narrows a position in ascending order to the queried due times.
func within(q *carillon.RunQuery, start carillon.RunPos) (due carillon.Time, job carillon.JobID) {
	if start.Due < q.From {
		return q.From, math.MinInt64
	}
	return start.Due, start.Job
}

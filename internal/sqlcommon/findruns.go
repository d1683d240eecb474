package sqlcommon

import (
	"cmp"
	"math"
	"slices"

	"github.com/carillon-run/carillon"
)

// MaxScan is after how many rows a search returns the page that it has; the caller continues with the next
// page.
const MaxScan = 20_000

// RunTable is where a row of a run is.
type RunTable int

const (
	TableRun     RunTable = iota // unfinished runs
	TableHistory                 // ended runs
	TableDead                    // dead letters
)

// RunSource names the rows that one stream yields, in the order of the stream's RunPart.
type RunSource struct {
	Table RunTable
	Job   carillon.JobID // of this job only; 0: of all jobs
	State carillon.State // in this state only, never StateSucceeded; 0: in any state
	// Fingerprint or Type says that only dead letters of the query's namespace that have it are read.
	Fingerprint carillon.Fingerprint
	Type        string
}

// RunStream yields rows in the order of FindRuns. Before the first Next it stands before the first row.
type RunStream interface {
	// Next moves on to the next row; false: there is none.
	Next() (bool, error)
	// Pos is the position of the row.
	Pos() carillon.RunPos
	// Run reads the row. read is false if the row's columns have ruled it out already.
	Run() (run carillon.Run, read bool, err error)
}

// FindRuns fills a page from the streams that can hold wanted runs, in the order of the query. open opens the
// stream that begins after a position. FindRuns leaves About as the streams set it.
func FindRuns(
	q *carillon.RunQuery, start carillon.RunPos, maxScan int,
	open func(source RunSource, start carillon.RunPos) (RunStream, error),
) (carillon.RunPage, error) {
	f := runFinder{query: q, limit: cmp.Or(q.Limit, carillon.DefaultLimit), maxScan: maxScan}
	for _, part := range runParts(q, start) {
		var streams []RunStream
		for _, source := range part.sources {
			stream, err := open(source, part.start)
			if err != nil {
				return f.page, err
			}
			live, err := stream.Next()
			if err != nil {
				return f.page, err
			}
			if live {
				streams = append(streams, stream)
			}
		}
		if done, err := f.merge(streams); done || err != nil {
			return f.page, err
		}
	}
	return f.page, nil
}

// runPart is a section of the answer: the streams to merge, and the position after which they begin.
type runPart struct {
	start   carillon.RunPos
	sources []RunSource
}

// runParts returns the parts of the answer from a position on. It leaves out sources that cannot hold a
// wanted run.
func runParts(q *carillon.RunQuery, start carillon.RunPos) (parts []runPart) {
	states := q.Within()
	hot := len(states) == 0 || slices.ContainsFunc(states, func(s carillon.State) bool { return !s.Ended() })
	past := len(states) == 0 || slices.ContainsFunc(states, carillon.State.Ended)
	switch start.Part {
	case carillon.RunPartDead:
		return []runPart{{start, []RunSource{deadSource(q)}}}
	case carillon.RunPartJob:
		ofJob := runPart{start: start}
		if hot {
			ofJob.sources = append(ofJob.sources, RunSource{Table: TableRun, Job: q.Job})
		}
		if past {
			ofJob.sources = append(ofJob.sources, RunSource{Table: TableHistory, Job: q.Job})
		}
		return []runPart{ofJob}
	case carillon.RunPartUnfinished:
		if hot {
			parts = append(parts, runPart{start, []RunSource{{Table: TableRun}}})
		}
		start = carillon.RunPos{Part: carillon.RunPartEnded, Place: carillon.Unended}
	}
	if past {
		parts = append(parts, runPart{start, endedSources(states)})
	}
	return parts
}

// deadSource reads dead letters by the index that leaves out most of them.
func deadSource(q *carillon.RunQuery) RunSource {
	switch {
	case q.Job != 0 || q.Namespace == "":
		return RunSource{Table: TableDead, Job: q.Job}
	case q.Fingerprint != 0:
		return RunSource{Table: TableDead, Fingerprint: q.Fingerprint}
	}
	return RunSource{Table: TableDead, Type: q.WantedType()}
}

// endedSources reads the few runs that did not succeed by their own index if the query wants only those.
func endedSources(states []carillon.State) (sources []RunSource) {
	if len(states) == 0 || slices.Contains(states, carillon.StateSucceeded) {
		return []RunSource{{Table: TableHistory}}
	}
	for _, state := range []carillon.State{
		carillon.StateFailed, carillon.StateCanceled, carillon.StateSkipped,
	} {
		if slices.Contains(states, state) {
			sources = append(sources, RunSource{Table: TableHistory, State: state})
		}
	}
	return sources
}

// runFinder fills a page.
type runFinder struct {
	query   *carillon.RunQuery
	limit   int
	maxScan int
	page    carillon.RunPage
	last    carillon.RunPos // position of the last run on the page
	scanned int
}

// merge takes rows from the streams in order until the streams end, the page is full, or the search has read
// enough rows. done: the page is complete.
func (f *runFinder) merge(streams []RunStream) (done bool, err error) {
	for len(streams) > 0 {
		i := firstOf(streams)
		first := streams[i]
		run, read, err := first.Run()
		if err != nil {
			return false, err
		}
		if read && f.query.Wants(&run) {
			if len(f.page.Runs) == f.limit {
				f.page.Next = f.last.String()
				return true, nil
			}
			f.page.Runs, f.last = append(f.page.Runs, run), first.Pos()
		}
		if f.scanned++; f.scanned == f.maxScan {
			f.page.Next = first.Pos().String()
			return true, nil
		}
		live, err := first.Next()
		if err != nil {
			return false, err
		}
		if !live {
			streams = slices.Delete(streams, i, i+1)
		}
	}
	return false, nil
}

func firstOf(streams []RunStream) (first int) {
	for i := 1; i < len(streams); i++ {
		if comesBefore(streams[i].Pos(), streams[first].Pos()) {
			first = i
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

// PosIn returns the position of a row in a part. place is Unended for an unfinished run.
func PosIn(part carillon.RunPart, id carillon.RunID, place int64) carillon.RunPos {
	switch part {
	case carillon.RunPartJob:
		return carillon.RunPos{Part: part, Due: id.Due, Place: place}
	case carillon.RunPartUnfinished:
		return carillon.RunPos{Part: part, Due: id.Due, Job: id.Job}
	}
	return carillon.RunPos{Part: part, Place: place}
}

// DueAfter narrows a position in RunPartUnfinished to the queried due times.
func DueAfter(q *carillon.RunQuery, start carillon.RunPos) carillon.RunID {
	if start.Due < q.From {
		return carillon.RunID{Due: q.From, Job: math.MinInt64}
	}
	return carillon.RunID{Due: start.Due, Job: start.Job}
}

// FoundRun is a row that a stream has read.
type FoundRun struct {
	Run    carillon.Run
	Pos    carillon.RunPos
	Wanted bool // as far as the row's columns tell
}

// PagedRuns is a stream that reads a page of rows at a time, for engines where each read is a round trip.
type PagedRuns struct {
	read  func(after carillon.RunPos, limit int) ([]FoundRun, error)
	size  int        // of the next page
	rows  []FoundRun // rows that were read ahead, the first is the current one
	after carillon.RunPos
	ended bool // there is no further page
}

// NewPagedRuns returns a stream of the rows after a position. read reads up to limit rows after a position,
// fewer only at the end.
func NewPagedRuns(
	q *carillon.RunQuery, start carillon.RunPos,
	read func(after carillon.RunPos, limit int) ([]FoundRun, error),
) *PagedRuns {
	return &PagedRuns{read: read, size: cmp.Or(q.Limit, carillon.DefaultLimit) + 1, after: start}
}

// maxPage bounds how many rows a stream or a search reads at once. Pages grow up to it: most searches find
// what they want among the first rows.
const maxPage = 4000

// Next implements RunStream.
func (p *PagedRuns) Next() (bool, error) {
	if len(p.rows) > 0 {
		p.after, p.rows = p.rows[0].Pos, p.rows[1:]
	}
	if len(p.rows) == 0 && !p.ended {
		rows, err := p.read(p.after, p.size)
		if err != nil {
			return false, err
		}
		p.rows, p.ended = rows, len(rows) < p.size
		p.size = grow(p.size)
	}
	return len(p.rows) > 0, nil
}

func grow(size int) int { return min(4*size, max(size, maxPage)) }

// Pos implements RunStream.
func (p *PagedRuns) Pos() carillon.RunPos { return p.rows[0].Pos }

// Run implements RunStream.
func (p *PagedRuns) Run() (carillon.Run, bool, error) { return p.rows[0].Run, p.rows[0].Wanted, nil }

// AboutJobs is what lists of runs show about their jobs.
type AboutJobs map[carillon.JobID]carillon.About

// FillAbout sets About of runs that have none: the rows of unfinished runs do not repeat what their job has.
// read reads it from the rows of jobs.
func FillAbout(runs []carillon.Run, read func(ids []carillon.JobID, about AboutJobs) error) error {
	about := AboutJobs{}
	var ids []carillon.JobID
	for i := range runs {
		job := runs[i].ID.Job
		if _, known := about[job]; runs[i].About == nil && !known {
			about[job], ids = carillon.About{}, append(ids, job)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	if err := read(ids, about); err != nil {
		return err
	}
	for i := range runs {
		if runs[i].About == nil {
			of := about[runs[i].ID.Job]
			runs[i].About = &of
		}
	}
	return nil
}

package api

import (
	"context"
	"math"
	"sort"
	"strconv"
	"strings"

	"github.com/carillon-run/carillon"
)

// seek finds the place in a log where a reader begins. Lines of an attempt have rising offsets, so bisection
// with small reads finds a place in every log store, however long the log is.
type seek struct {
	logs  carillon.LogStore
	run   *carillon.Run
	query logQuery
}

// logQuery says which lines of a log a reader wants.
type logQuery struct {
	attempt int32         // 0: of all attempts
	tail    int           // only this many lines from the end; 0: all
	since   carillon.Time // only lines printed at this time or later
	after   *linePlace    // only lines after this one
}

// linePlace is the place of a line in a log.
type linePlace struct {
	attempt int32
	offset  int64
}

func (p linePlace) less(o linePlace) bool {
	return p.attempt < o.attempt || p.attempt == o.attempt && p.offset < o.offset
}

// linePlace reads ATTEMPT:OFFSET.
func (q *query) linePlace(name string) *linePlace {
	if !q.values.Has(name) {
		return nil
	}
	given := q.text(name)
	attempt, offset, _ := strings.Cut(given, ":")
	a, err1 := strconv.ParseInt(attempt, 10, 32)
	o, err2 := strconv.ParseInt(offset, 10, 64)
	if err1 != nil || err2 != nil || a < 1 || o < noticeOffset {
		q.fail(name, given, "the attempt and the offset of a line, such as 1:41")
		return nil
	}
	return &linePlace{int32(a), o}
}

// noticeOffset is the offset of the line with which Carillon begins a later attempt.
const noticeOffset = -1

// disorder is how many lines can stand before a line of an earlier time: two streams are read at once.
const disorder = 100

// start returns the place after which the reader begins.
func (s *seek) start(ctx context.Context) (linePlace, error) {
	begin := linePlace{s.query.attempt, noticeOffset} // a single attempt needs no notice
	later := func(p linePlace, err error) error {
		if err == nil && begin.less(p) {
			begin = p
		}
		return err
	}
	if s.query.after != nil {
		return begin, later(*s.query.after, nil)
	}
	if s.query.since != 0 {
		if err := later(s.since(ctx)); err != nil {
			return begin, err
		}
	}
	if s.query.tail > 0 {
		if err := later(s.tail(ctx)); err != nil {
			return begin, err
		}
	}
	return begin, nil
}

// next is the first line after a place.
func (s *seek) next(ctx context.Context, p linePlace) (line carillon.Line, ok bool, err error) {
	lines, err := s.logs.Read(ctx, carillon.LogQuery{
		Namespace: s.run.Namespace, Run: s.run.ID, AfterAttempt: p.attempt, AfterOffset: p.offset, Limit: 1,
	})
	if err != nil || len(lines) == 0 {
		return line, false, err
	}
	return lines[0], true, nil
}

// attempts returns the first and the last attempt to search.
func (s *seek) attempts() (first, last int32) {
	if s.query.attempt != 0 {
		return s.query.attempt, s.query.attempt
	}
	return 1, s.run.Attempt
}

// mostAttempts is how many attempts a tail is taken from: each attempt costs some reads.
const mostAttempts = 100

// tail returns the place before the last lines. It counts offsets, so it finds a few lines less where lines
// are missing. It also finds less where the last mostAttempts attempts did not print that many. Notices
// between attempts are sent in addition.
func (s *seek) tail(ctx context.Context) (linePlace, error) {
	need := int64(s.query.tail)
	first, last := s.attempts()
	first = max(first, last-mostAttempts+1)
	for attempt := last; attempt >= first; attempt-- {
		end, err := s.end(ctx, attempt)
		if err != nil {
			return linePlace{}, err
		}
		if end-need >= noticeOffset {
			return linePlace{attempt, end - need}, nil
		}
		need -= end + 1
	}
	return linePlace{first, noticeOffset - 1}, nil
}

// end is the offset of the last line of an attempt; noticeOffset if it printed none.
func (s *seek) end(ctx context.Context, attempt int32) (int64, error) {
	var failed error
	beyond := func(offset int64) (next int64, any bool) {
		line, ok, err := s.next(ctx, linePlace{attempt, offset})
		if err != nil {
			failed = err
		}
		return line.Offset, ok && err == nil && line.Attempt == attempt
	}
	const most = math.MaxInt64 - 1 // counted from noticeOffset it still fits in an int64
	high := int64(noticeOffset)
	for next, more := beyond(high); more && high < most; next, more = beyond(high) {
		if high = most; next < most/2 {
			high = 2*next + 1
		}
	}
	n := sort.Search(int(high-noticeOffset), func(i int) bool {
		_, more := beyond(noticeOffset + int64(i))
		return !more
	})
	return noticeOffset + int64(n), failed
}

// since returns a place before which all lines are older than requested, except for some disorder.
func (s *seek) since(ctx context.Context) (linePlace, error) {
	first, last := s.attempts()
	var failed error
	isLate := func(p linePlace) bool {
		line, ok, err := s.next(ctx, p)
		if err != nil {
			failed = err
		}
		return err != nil || !ok || line.At >= s.query.since
	}
	count := max(int(last-first)+1, 0)
	late := sort.Search(count, func(i int) bool {
		return isLate(linePlace{first + int32(i), noticeOffset - 1})
	})
	if late == 0 || failed != nil {
		return linePlace{}, failed
	}
	attempt := first + int32(late) - 1 // the last one that began before
	end, err := s.end(ctx, attempt)
	if err != nil {
		return linePlace{}, err
	}
	offset := sort.Search(int(end)+1, func(i int) bool { return isLate(linePlace{attempt, int64(i) - 1}) })
	return linePlace{attempt, int64(offset) - 1 - disorder}, failed
}

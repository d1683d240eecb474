package postgres

import (
	"context"
	"math"
	"slices"
	"strconv"

	"github.com/carillon-run/carillon"
)

// merge reads the stretches of several shards as one, in order, and reads little more of them than the caller
// asks for: it reads each stretch in small pieces, and reads again only from those that ran out.
type merge struct {
	by    *rowStatement // becomes wakesInLanes once few runs are of the lane asked for
	read  func(ctx context.Context, calls ...call) error
	lanes *carillon.WakeQuery // nil: all
	reach int                 // how many runs are read to find those of the lanes
	until carillon.Time
	pos   func(*carillon.Run) carillon.WakePos // the order of the runs

	stretches []*stretch
	pending   []*carillon.Run // read and not yet returned, in order
}

// stretch is the part of a shard that was not read yet.
type stretch struct {
	shard int
	moved bool
	after carillon.WakePos
	turns int  // how often it was read
	quota int  // how many runs the last read asked for
	got   int  // how many runs it returned
	cut   bool // there may be more of the lane, further on
	last  carillon.Run
}

func (m *merge) add(shard int, moved bool, after carillon.WakePos) {
	m.stretches = append(m.stretches, &stretch{shard: shard, moved: moved, after: after})
}

// next returns the next limit runs; fewer at the end.
func (m *merge) next(ctx context.Context, limit int) ([]carillon.Run, error) {
	for {
		behind := m.holdUp(limit)
		if cut := m.cutFirst(); cut != nil {
			if behind = m.before(cut.after); len(behind) == 0 {
				return m.upTo(cut, limit), nil
			}
		}
		if len(behind) == 0 {
			break
		}
		if err := m.fill(ctx, behind, m.share(limit)); err != nil {
			return nil, err
		}
	}
	n := min(limit, len(m.pending))
	some := make([]carillon.Run, n)
	for i, run := range m.pending[:n] {
		some[i] = *run
	}
	m.pending = m.pending[n:]
	return some, nil
}

// cutFirst returns the stretch that was cut at the earliest position: one read passed over enough waiting
// runs there. nil if none was cut. A search for one lane goes on to the end.
func (m *merge) cutFirst() (first *stretch) {
	if m.lanes == nil || m.lanes.Lane != nil {
		return nil
	}
	for _, s := range m.stretches {
		if s.cut && !m.lanes.Wants(&s.last) && (first == nil || s.after.Less(first.after)) {
			first = s
		}
	}
	return first
}

// before returns the stretches that may contain a run before a position.
func (m *merge) before(pos carillon.WakePos) (behind []*stretch) {
	for _, s := range m.stretches {
		if s.after.Less(pos) {
			behind = append(behind, s)
		}
	}
	return behind
}

// upTo returns the runs before the position where a stretch was cut, and the run at which it was cut, so that
// the caller can go on from there.
func (m *merge) upTo(cut *stretch, limit int) []carillon.Run {
	some := make([]carillon.Run, 0, limit)
	for _, run := range m.pending {
		if len(some) == limit || !m.pos(run).Less(cut.after) {
			break
		}
		some = append(some, *run)
	}
	if len(some) < limit {
		some = append(some, cut.last)
	}
	return some
}

// share is how many runs of a stretch to read first: its part, and a little more, since shards are not quite
// alike. Few runs have left their due time; the others make up the page.
func (m *merge) share(limit int) int {
	many := 1
	for _, s := range m.stretches {
		if !s.moved {
			many++
		}
	}
	part := limit / many
	return part + int(math.Sqrt(float64(part))) + 4
}

// holdUp returns the stretches that may contain a run before the last of limit pending runs.
func (m *merge) holdUp(limit int) []*stretch {
	if len(m.pending) < limit {
		return m.stretches
	}
	return m.before(m.pos(m.pending[limit-1]))
}

const (
	// maxQuota bounds a piece, however often its stretch ran out.
	maxQuota = 4096
	// maxReach is how many runs of other lanes a statement passes over: to pass over millions would take too
	// long.
	maxReach = 20_000
)

// fill reads a piece of some stretches: first their share, then a quarter of that, then more each time,
// because most stretches that ran out lack little.
func (m *merge) fill(ctx context.Context, of []*stretch, share int) error {
	ask := newRows(m.by)
	byShard := map[[2]int]*stretch{}
	for _, s := range of {
		s.got, s.quota, s.cut = 0, s.next(share), false
		byShard[[2]int{s.shard, int(bit(s.moved))}] = s
		m.ask(&ask, s)
	}
	query := ask.call()
	got, wanted := 0, 0
	query.row = func(r *row) error {
		moved, cut, run := r.bool(), r.bool(), r.unfinished()
		s := byShard[[2]int{run.ID.Job.Shard(), int(bit(moved))}]
		s.got, s.cut, s.after = s.got+1, s.cut || cut, m.pos(&run)
		if cut {
			s.last = run
		}
		got++
		if m.lanes == nil || m.lanes.Wants(&run) {
			m.pending = append(m.pending, &run)
			wanted++
		}
		return nil
	}
	if err := m.read(ctx, query); err != nil {
		return err
	}
	// Few are of the lanes: from now on the server leaves out the others.
	if m.by == wakesInShards && m.lanes != nil && 2*wanted < got {
		m.by = wakesInLanes
	}
	slices.SortFunc(m.pending, func(a, b *carillon.Run) int {
		if m.pos(a).Less(m.pos(b)) {
			return -1
		}
		return 1
	})
	m.stretches = slices.DeleteFunc(m.stretches, func(s *stretch) bool {
		return s.quota > 0 && s.got < s.quota && !s.cut
	})
	return nil
}

func (s *stretch) next(share int) int {
	if s.turns++; s.turns == 1 {
		return min(share, maxQuota)
	}
	return min(max(share/4, 16)<<min(s.turns-2, 12), maxQuota)
}

func (m *merge) ask(ask *rows, s *stretch) {
	ask.begin()
	ask.int(int64(s.shard))
	ask.bool(s.moved)
	ask.int(int64(s.after.Wake))
	ask.int(int64(s.after.ID.Due))
	ask.int(int64(s.after.ID.Job))
	ask.int(int64(m.until))
	if m.lanes != nil {
		ask.lane(m.lanes.Lane, m.lanes.AnyShare)
	} else {
		ask.lane(nil, false)
	}
	m.askFull(ask)
	ask.int(int64(m.reach))
	ask.int(int64(s.quota))
}

// askFull names the full lanes: a single one by its columns, which is faster to compare; several in a list,
// each between two line breaks, because nothing of a lane has a line break in it, and only needs have a '='.
func (m *merge) askFull(ask *rows) {
	var full []carillon.Lane
	if m.lanes != nil {
		full = m.lanes.Full
	}
	switch len(full) {
	case 0:
		ask.lane(nil, false)
		ask.null()
	case 1:
		ask.lane(&full[0], false)
		ask.null()
	default:
		list := []byte{'\n'}
		for _, lane := range full {
			for _, name := range []string{lane.Namespace, lane.Queue, lane.Needs, lane.Share} {
				list = append(append(list, name...), '=')
			}
			list = append(strconv.AppendInt(list, int64(lane.Priority), 10), '\n')
		}
		ask.lane(nil, false)
		ask.text(string(list))
	}
}

// lane writes the columns of a lane; nil: none.
func (r *rows) lane(lane *carillon.Lane, anyShare bool) {
	if lane == nil {
		for range 5 {
			r.null()
		}
		return
	}
	r.text(lane.Namespace)
	r.text(lane.Queue)
	r.text(lane.Needs)
	if anyShare {
		r.null()
	} else {
		r.text(lane.Share)
	}
	r.int(int64(lane.Priority))
}

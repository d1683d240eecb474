package postgres

import (
	"context"
	"math"
	"slices"
	"strconv"

	"github.com/carillon-run/carillon"
)

// merge reads the stretches of several shards as one, in order, and not much more of them than is asked for: each in small
// pieces, and only those again that ran out.
type merge struct {
	by    *rowStatement // wakesInLanes once few of what came were of the lane that is asked for
	read  func(ctx context.Context, calls ...call) error
	lanes *carillon.WakeQuery // nil: all
	reach int                 // how many runs are looked at for those of the lanes
	until carillon.Time
	pos   func(*carillon.Run) carillon.WakePos // what they are in the order of

	stretches []*stretch
	pending   []*carillon.Run // read and not yet handed out, in order
}

// stretch is the part of a shard that was not read yet.
type stretch struct {
	shard int
	moved bool
	after carillon.WakePos
	turns int  // how often it was asked for
	quota int  // how much of it was asked for last
	got   int  // how much of that there was
	cut   bool // there may be more of the lane, further on
	last  carillon.Run
}

func (m *merge) add(shard int, moved bool, after carillon.WakePos) {
	m.stretches = append(m.stretches, &stretch{shard: shard, moved: moved, after: after})
}

// next returns the limit runs that follow; fewer at the end.
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

// cutFirst is the stretch that was cut the earliest: enough waiting runs were passed over for one read. nil if none was.
// A lane that is asked for is looked for to the end.
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

// before are the stretches in which something may lie that comes before a position.
func (m *merge) before(pos carillon.WakePos) (behind []*stretch) {
	for _, s := range m.stretches {
		if s.after.Less(pos) {
			behind = append(behind, s)
		}
	}
	return behind
}

// upTo is what was found before a stretch was cut, and the run that it was cut at, so that who asked can go on from there.
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

// share is how much of a stretch to read at first: its part, and a little more, since shards are not quite alike. Those who
// left their due time are few; the others make up the page.
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

// holdUp returns the stretches in which something may lie that comes before the last of limit pending runs.
func (m *merge) holdUp(limit int) []*stretch {
	if len(m.pending) < limit {
		return m.stretches
	}
	return m.before(m.pos(m.pending[limit-1]))
}

const (
	// maxQuota bounds a piece, however often its stretch ran out.
	maxQuota = 4096
	// maxReach is how many runs of other lanes are passed over at a time: behind millions of them a statement would take
	// too long.
	maxReach = 20_000
)

// fill reads a piece of some stretches: their share, then a quarter of that, and more each time: most that ran out lack little.
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
	if m.by == wakesInShards && m.lanes != nil && 2*wanted < got { // few are of the lanes: the server leaves out the others
		m.by = wakesInLanes
	}
	slices.SortFunc(m.pending, func(a, b *carillon.Run) int {
		if m.pos(a).Less(m.pos(b)) {
			return -1
		}
		return 1
	})
	m.stretches = slices.DeleteFunc(m.stretches, func(s *stretch) bool { return s.quota > 0 && s.got < s.quota && !s.cut })
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
	if m.lanes != nil && m.lanes.Lane != nil {
		ask.text(m.lanes.Lane.Queue)
		ask.int(int64(m.lanes.Lane.Priority))
	} else {
		ask.null()
		ask.null()
	}
	m.askFull(ask)
	ask.int(int64(m.reach))
	ask.int(int64(s.quota))
}

// askFull names the lanes that are full: one by its columns, which is quicker to compare, several in a list, each between two
// line breaks, which no queue has in its name.
func (m *merge) askFull(ask *rows) {
	var full []carillon.Lane
	if m.lanes != nil {
		full = m.lanes.Full
	}
	switch len(full) {
	case 0:
		ask.null()
		ask.null()
		ask.null()
	case 1:
		ask.text(full[0].Queue)
		ask.int(int64(full[0].Priority))
		ask.null()
	default:
		list := []byte{'\n'}
		for _, lane := range full {
			list = append(append(list, lane.Queue...), '=')
			list = append(strconv.AppendInt(list, int64(lane.Priority), 10), '\n')
		}
		ask.null()
		ask.null()
		ask.text(string(list))
	}
}

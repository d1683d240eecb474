package scheduler

import (
	"context"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/carillon-run/carillon"
)

// Memory is bounded per lane, never over all lanes: the backlog of one lane must not hide another lane's run.
// Runs that a lane has no room for are not held in memory at all. The scheduler only remembers the position
// from which the store has more of that lane, and reads on from there when there is room again.

// spilled is where a lane goes on: from there on the store knows all of it.
type spilled struct {
	from carillon.WakePos
	// first is the run that had no room, if known. While it has no room, the lane need not be read.
	first *carillon.Run
	// foreign: runs of other nodes' shards were kept out too. Only this node knows of them so far.
	foreign bool
}

// withRoom leaves out runs of spilled lanes that come after the position where the lane will be read on: if
// they were taken now, they would overtake all runs that wait in the store.
func (s *Scheduler) withRoom(runs []carillon.Run) []carillon.Run {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.overflow) == 0 {
		return runs
	}
	kept := make([]carillon.Run, 0, len(runs))
	for i := range runs {
		lane, is := s.overflow[runs[i].Lane()]
		if !is || runs[i].WakePos().Less(lane.from) {
			kept = append(kept, runs[i])
			continue
		}
		if !lane.foreign && !s.members.owns(runs[i].ID.Job.Shard()) {
			lane.foreign = true
			s.overflow[runs[i].Lane()] = lane
		}
	}
	return kept
}

// noteSpill notes for each lane the earliest run that it had no room for.
func (s *Scheduler) noteSpill(runs []carillon.Run, refused []int) {
	if len(refused) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range refused {
		lane, pos := runs[i].Lane(), runs[i].WakePos()
		was, is := s.overflow[lane]
		foreign := was.foreign || !s.members.owns(runs[i].ID.Job.Shard())
		if !is || pos.Less(was.from) {
			first := runs[i]
			s.overflow[lane] = spilled{pos, &first, foreign}
			s.spills.Set()
		} else if foreign != was.foreign {
			was.foreign = foreign
			s.overflow[lane] = was
		}
	}
}

// spilledLanes are the lanes that refill will read on from before a position: their runs behind it need not
// be read twice.
func (s *Scheduler) spilledLanes(pos carillon.WakePos) (lanes []carillon.Lane) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for lane, at := range s.overflow {
		if !pos.Less(at.from) {
			lanes = append(lanes, lane)
		}
	}
	return lanes
}

// markSpill notes where a lane goes on, unless an earlier position is noted already. The caller holds mu.
func (s *Scheduler) markSpill(lane carillon.Lane, at spilled) {
	was, is := s.overflow[lane]
	at.foreign = at.foreign || was.foreign
	if !is || at.from.Less(was.from) {
		s.overflow[lane] = at
	} else {
		was.foreign = at.foreign
		s.overflow[lane] = was
	}
}

// A lane that has spilled is read on page by page until it is full again. Runs of the last page that do not
// fit are read again later, so the page size follows how many fitted last time.
const (
	smallRefill = 100
	largeRefill = 10_000
)

// refilling is how many runs of a spilled lane fitted.
type refilling struct {
	last int // last time; 0: not known
	now  int // this time, so far
}

// size is the size of the next page.
func (r refilling) size() int {
	size := r.last // most likely as many have left since then
	switch {
	case r.now > 0 && r.last > 0:
		size = r.now / 4 // more have left
	case r.now > 0:
		size = 2 * r.now
	}
	return min(max(size, smallRefill), largeRefill)
}

// refill offers runs to lanes that have spilled, until end at most. It says whether a lane still waits for
// room.
func (s *Scheduler) refill(ctx context.Context, end time.Time) (waiting bool, err error) {
	s.mu.Lock()
	lanes := slices.Collect(maps.Keys(s.overflow))
	s.mu.Unlock()
	for _, lane := range lanes {
		for more := true; more && ctx.Err() == nil && len(s.reload) == 0 && time.Now().Before(end); {
			if more, err = s.refillLane(ctx, lane); err != nil {
				return true, err
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.overflow) > 0, nil
}

// refillLane reads on where the lane has spilled. It says whether there was room for a whole page and there
// is more.
func (s *Scheduler) refillLane(ctx context.Context, lane carillon.Lane) (more bool, err error) {
	s.mu.Lock()
	at, is := s.overflow[lane]
	reading := s.refilling[lane]
	s.mu.Unlock()
	if !is || at.first != nil && !s.hasRoom(ctx, at.first) {
		return false, nil
	}
	size := reading.size()
	// The mark is removed before the page is read: Route brings runs that are committed from now on, and runs
	// that were committed before are in the page or after it. A run that comes both ways counts once.
	s.mu.Lock()
	delete(s.overflow, lane)
	s.mu.Unlock()
	shards := s.members.shards()
	if at.foreign {
		shards = nil
	}
	q := carillon.WakeQuery{
		Shards: shards, Lane: &lane, After: before(at.from), Until: s.reach(s.cfg.Clock.Now()), Limit: size,
	}
	page, err := s.cfg.Store.Wakes(ctx, q)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.markSpill(lane, at)
		delete(s.refilling, lane)
		return false, err
	}
	s.schedule(ctx, waiting(page))
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(page) < size {
		delete(s.refilling, lane)
		return false, nil
	}
	rest, full := s.overflow[lane]
	if full {
		fitted := sort.Search(len(page), func(i int) bool { return !page[i].WakePos().Less(rest.from) })
		s.refilling[lane] = refilling{last: reading.now + fitted}
	} else {
		s.refilling[lane] = refilling{last: reading.last, now: reading.now + size}
	}
	s.markSpill(lane, spilled{from: page[len(page)-1].WakePos(), foreign: at.foreign})
	return !full, nil
}

// hasRoom tries to add a run where it belongs by now, and says whether the lane had room for it.
func (s *Scheduler) hasRoom(ctx context.Context, run *carillon.Run) bool {
	if run.Wake <= s.cfg.Clock.Now() { // also if it needs a decision: the dispatcher decides when it claims
		refused, err := s.cfg.Queue.Push(ctx, []carillon.Run{*run})
		return err == nil && len(refused) == 0
	}
	refused, err := s.cfg.Timeline.Add(ctx, []carillon.Run{*run})
	s.woken.Set()
	return err == nil && len(refused) == 0
}

// before is the position right before p, so that a query after it begins with p.
func before(p carillon.WakePos) carillon.WakePos {
	p.ID.Job--
	return p
}

func waiting(runs []carillon.Run) []carillon.Run {
	kept, _ := split(runs, func(r *carillon.Run) bool {
		return r.State == carillon.StateWaiting && !r.Has(carillon.FlagOnHold)
	})
	return kept
}

// split separates the runs that match from the rest. Most often all or none match: then nothing is copied.
func split(runs []carillon.Run, is func(*carillon.Run) bool) (yes, no []carillon.Run) {
	n := 0
	for i := range runs {
		if is(&runs[i]) {
			n++
		}
	}
	switch n {
	case len(runs):
		return runs, nil
	case 0:
		return nil, runs
	}
	yes, no = make([]carillon.Run, 0, n), make([]carillon.Run, 0, len(runs)-n)
	for i := range runs {
		if is(&runs[i]) {
			yes = append(yes, runs[i])
		} else {
			no = append(no, runs[i])
		}
	}
	return yes, no
}

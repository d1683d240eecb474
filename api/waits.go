package api

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/waits"
	"github.com/carillon-run/carillon/internal/wire"
)

// waitsFor works out why a run waits. The answer leaves out what cannot be read: the run itself was read.
func (s *server) waitsFor(ctx context.Context, run *carillon.Run) *wire.Wait {
	if run.State != carillon.StateWaiting {
		return nil
	}
	now, around := s.Clock.Now(), waits.Surroundings{}
	if run.Parked() {
		around.Held = cmp.Or(
			s.heldBy(ctx, []*carillon.Run{run}, now)[run.ID], carillon.HoldWords(run.Hold), run.Hold,
		)
		around.Ahead = s.aheadInLine(ctx, run, now)
		return waits.For(run, around, now)
	}
	if run.Has(carillon.FlagGuarded) {
		guards, err := s.Store.Guards(ctx, carillon.GuardQuery{
			Namespace: run.Namespace, Keys: []string{run.ID.Job.OverlapKey()},
		})
		if err != nil {
			s.Logger.WarnContext(ctx, "read the overlap guard of a run that waits", "error", err)
		}
		around.Guards = guards
	}
	wait := waits.For(run, waits.Surroundings{Guards: around.Guards, Blind: true}, now)
	if wait == nil || wait.Kind != wire.WaitUnknown || s.Members == nil {
		return wait
	}
	var err error
	if around.Members, err = s.members(ctx, true); err != nil {
		s.Logger.WarnContext(ctx, "list the workers for a run that waits", "error", err)
		return wait
	}
	if around.Ahead, err = s.ahead(ctx, run, now); err != nil {
		s.Logger.WarnContext(ctx, "count the runs before one that waits", "error", err)
	}
	return waits.For(run, around, now)
}

const (
	highest = 9  // priority
	maxLook = 20 // pages that are read at most to count the runs before another one
)

// ahead counts the due runs of the same namespace, queue and needs that workers take before the given one, up
// to wire.MaxAhead: those of higher priorities, and older ones of its own priority and share. The places that
// go to other shares in turn, and to the run that has waited longest, are not counted.
func (s *server) ahead(ctx context.Context, run *carillon.Run, now carillon.Time) (n int, err error) {
	pages := 0
	for priority := int8(highest); priority >= run.Priority; priority-- {
		until := now
		if priority == run.Priority {
			until = min(now, run.Wake)
		}
		lane := run.Lane()
		lane.Priority = priority
		q := carillon.WakeQuery{
			Lane: &lane, AnyShare: true, Until: until, Limit: wire.MaxAhead,
		}
		for {
			if pages++; pages > maxLook {
				return wire.MaxAhead, nil // so many runs are held or due that this one is far behind
			}
			page, err := s.Store.Wakes(ctx, q)
			if err != nil {
				return n, err
			}
			for i := range page {
				other := &page[i]
				if other.State == carillon.StateWaiting && other.ID != run.ID && other.Before(run) &&
					(other.Share == run.Share || other.Priority > run.Priority) {
					if n++; n == wire.MaxAhead {
						return n, nil
					}
				}
			}
			if !q.More(page) {
				break
			}
			q.After = page[len(page)-1].WakePos()
		}
	}
	return n, nil
}

// aheadInLine counts the runs before one that is parked, up to wire.MaxAhead.
func (s *server) aheadInLine(ctx context.Context, run *carillon.Run, now carillon.Time) (ahead int) {
	name := carillon.HoldName{Namespace: run.Namespace, Hold: run.Hold}
	line, err := s.Store.Line(ctx, carillon.LineQuery{
		Lines: []carillon.HoldName{name}, Until: now, Limit: wire.MaxAhead,
	})
	if err != nil {
		s.Logger.WarnContext(ctx, "count the runs before one that waits in a line", "error", err)
	}
	for i := range line {
		if line[i].ID.Due < run.ID.Due || line[i].ID.Due == run.ID.Due && line[i].ID.Job < run.ID.Job {
			ahead++
		}
	}
	return ahead
}

// heldBy says of parked runs what they wait for. The answer leaves out what cannot be read.
func (s *server) heldBy(
	ctx context.Context, runs []*carillon.Run, now carillon.Time,
) map[carillon.RunID]string {
	var parked []carillon.Run
	for _, run := range runs {
		if run != nil && run.Parked() {
			parked = append(parked, *run)
		}
	}
	if len(parked) == 0 {
		return nil
	}
	candidates, err := s.Ledger.Candidates(ctx, parked, "")
	if err != nil {
		s.Logger.WarnContext(ctx, "read what runs wait for", "error", err)
	}
	words := make(map[carillon.RunID]string, len(candidates))
	for i := range candidates {
		words[candidates[i].Run.ID] = candidates[i].HeldBy(now)
	}
	return words
}

// giveReasons gives each run that is due, and that no live worker takes, a reason that says so, and each run
// that is parked. It is not stored: what ends the wait would have to change it in a million rows. Like warn,
// it costs nothing while there are workers for the runs.
func (s *server) giveReasons(ctx context.Context, runs ...*carillon.Run) {
	now := s.Clock.Now()
	if held := s.heldBy(ctx, runs, now); held != nil {
		for _, run := range runs {
			if run != nil && held[run.ID] != "" {
				run.Reason = waits.Reason(run, held[run.ID])
			}
		}
	}
	if s.Alive == nil {
		return
	}
	alive := s.Alive()
	texts := map[carillon.Lane]string{}
	for _, run := range runs {
		if run == nil || !waits.Due(run, now) {
			continue
		}
		lane := run.Lane()
		lane.Priority, lane.Share = 0, ""
		text, known := texts[lane]
		if !known {
			var err error
			if text, err = s.unserved(ctx, lane, alive); err != nil {
				s.Logger.WarnContext(ctx, "list the workers for runs that wait", "error", err)
				return
			}
			texts[lane] = text
		}
		if text != "" {
			run.Reason = waits.Reason(run, text)
		}
	}
}

// unserved says why no live worker takes the runs of a lane; "" if one does. It reads the members only if the
// list that the node has in memory has no such worker.
func (s *server) unserved(
	ctx context.Context, lane carillon.Lane, alive []carillon.Member,
) (text string, err error) {
	if _, none := waits.Unserved(lane, alive); !none {
		return "", nil
	}
	members, err := s.fresh(ctx)
	if err != nil {
		return "", err
	}
	text, _ = waits.Unserved(lane, members)
	return text, nil
}

// freshFor is how long a list of members is good enough for warnings and reasons.
const freshFor = 500 * time.Millisecond

// recent is the list of members that was read last.
type recent struct {
	mu      sync.Mutex
	at      time.Time
	members []carillon.Member
}

// warn adds a warning for each lane of the jobs that no live worker takes. It goes by the list that the
// node has in memory, so a job that has a worker costs nothing. Only if that list has no worker for it,
// warn reads the members: a worker may just have come.
func (s *server) warn(w http.ResponseWriter, r *http.Request, jobs ...carillon.Job) {
	s.warnOf(w, r, len(jobs), func(i int) carillon.Lane { return jobs[i].Lane() })
}

func (s *server) warnOf(w http.ResponseWriter, r *http.Request, n int, laneOf func(i int) carillon.Lane) {
	if s.Alive == nil {
		return
	}
	alive := s.Alive()
	var seen map[carillon.Lane]bool
	for i := range n {
		lane := laneOf(i)
		lane.Priority, lane.Share = 0, "" // or the same warning would come for each of them
		if seen[lane] {
			continue
		}
		text, err := s.unserved(r.Context(), lane, alive)
		if err != nil {
			s.Logger.WarnContext(r.Context(), "list the workers for a warning", "error", err)
			return
		}
		if text != "" {
			if seen == nil {
				seen = map[carillon.Lane]bool{}
			}
			seen[lane] = true
			w.Header().Add(wire.WarningHeader, text)
		}
	}
}

// fresh returns a list of members that is young enough. It reads without the lock: otherwise a store that
// hangs would hold up other requests beyond their own time limits.
func (s *server) fresh(ctx context.Context) ([]carillon.Member, error) {
	if members, ok := s.recent.get(); ok {
		return members, nil
	}
	members, err := s.members(ctx, false)
	if err == nil {
		s.recent.set(members)
	}
	return members, err
}

func (r *recent) get() (members []carillon.Member, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.members, time.Since(r.at) < freshFor
}

func (r *recent) set(members []carillon.Member) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.at, r.members = time.Now(), members
}

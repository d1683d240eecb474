package scheduler

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/await"
)

const (
	releasePage = 1000
	// releaseEvery is how often runs leave a gate by its rate.
	releaseEvery = 50 * time.Millisecond
	// maxBehind bounds how many runs leave at once after the store has not answered for a while.
	maxBehind = time.Second
	// countTime bounds how long runs wait because they are counted before the first one leaves.
	countTime = 5 * time.Second
)

// release lets the runs leave that wait for a gate, in the order of their due times and by its rate, and
// forgets the gate after the last one. The gate may be gone already: a node that had not heard of that has
// stopped a run there. Everything that a release must know is in the store, so any node can go on with it.
func (s *Scheduler) release(ctx context.Context, name carillon.HoldName) error {
	id, _ := carillon.GateOfHold(name.Hold)
	pace, after := newPace(), carillon.RunID{}
	var ready carillon.OperationID // whose runs are counted
	for ctx.Err() == nil {
		now, g := s.cfg.Clock.Now(), s.gates.known.GateOf(name.Namespace, id)
		var rate carillon.Rate
		if g != nil {
			rate = g.Rate
		}
		owner := carillon.Gate{ID: id, Namespace: name.Namespace}
		if g != nil && g.State(now) == carillon.GateClosed || !s.members.owns(owner.Shard()) {
			return nil // it was closed again, or another node goes on
		}
		if g != nil && (g.Operation == 0 || g.Operation != ready) {
			begun, err := s.operate(ctx, name, g)
			if err != nil {
				return err
			}
			pace.last = time.Now() // no run could leave meanwhile
			if ready = g.Operation; begun {
				continue
			}
		}
		if wait := s.unheard(g, now); wait > 0 {
			await.For(ctx, min(wait, followEvery))
			pace = newPace()
			continue
		}
		room, wait := pace.room(rate, time.Now())
		if room == 0 {
			await.For(ctx, wait)
			continue
		}
		first := after.IsZero()
		left, last, err := s.releaseNext(ctx, name, g, carillon.LineQuery{After: after, Limit: room})
		if err != nil {
			return err
		}
		pace.took(left)
		switch after = last; {
		case left > 0:
		case !last.IsZero(): // all of them have changed meanwhile, or the operation is over
			ready = 0
			await.For(ctx, releaseEvery)
		case !first: // from the beginning: others may have come
		case g == nil:
			return nil
		case now.Sub(g.OpenedAt(now)) >= gateSettled:
			return s.forgetGate(ctx, g)
		default:
			await.For(ctx, releaseEvery)
		}
	}
	return nil
}

// unheard is how long to wait until every node knows that the gate is open.
func (s *Scheduler) unheard(g *carillon.Gate, now carillon.Time) time.Duration {
	if g == nil || s.cfg.Node == "" {
		return 0
	}
	return gateHeard - now.Sub(g.OpenedAt(now))
}

// operate sees to the operation of a release: a gate that runs wait for gets one if it has none, and the runs
// are counted before the first one leaves. It returns true if it has begun one, which the gate then names.
func (s *Scheduler) operate(
	ctx context.Context, name carillon.HoldName, g *carillon.Gate,
) (begun bool, err error) {
	if g.Operation != 0 {
		record, err := s.cfg.Ledger.Operation(ctx, g.Namespace, g.Operation)
		switch {
		case err != nil && !errors.Is(err, carillon.ErrNotFound):
			return false, err
		case err == nil && record.State == carillon.OperationCounting:
			return false, s.countHeld(ctx, name, g)
		case err == nil && !record.State.Over():
			return false, nil
		}
	}
	runs, err := s.cfg.Store.Line(ctx, carillon.LineQuery{
		Lines: []carillon.HoldName{name}, Until: carillon.Never, Limit: 1,
	})
	if err != nil || len(runs) == 0 {
		return false, err
	}
	return true, s.gates.known.BeginRelease(ctx, g)
}

// countHeld tells the operation of a gate how many runs wait for it. If counting takes too long, they leave
// without a total.
func (s *Scheduler) countHeld(ctx context.Context, name carillon.HoldName, g *carillon.Gate) error {
	counting, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	counts, err := s.cfg.Store.Counts(counting, name.Namespace, s.cfg.Clock.Now())
	if err != nil && (counting.Err() == nil || ctx.Err() != nil) { // the next node counts
		return err
	}
	held := 0
	for i := range counts {
		if counts[i].Hold == name.Hold {
			held += counts[i].Runs
		}
	}
	_, err = s.cfg.Ledger.Commit(ctx, []carillon.Change{{Folds: []carillon.Fold{g.Counted(held)}}})
	return err
}

// releaseNext lets the first runs of a line behind another one leave. It returns how many left, and the last
// one that was there; zero: none was.
func (s *Scheduler) releaseNext(
	ctx context.Context, name carillon.HoldName, g *carillon.Gate, q carillon.LineQuery,
) (left int, last carillon.RunID, err error) {
	q.Lines, q.Until = []carillon.HoldName{name}, carillon.Never
	runs, err := s.cfg.Store.Line(ctx, q)
	if err != nil || len(runs) == 0 {
		return 0, carillon.RunID{}, err
	}
	candidates, err := s.cfg.Ledger.Candidates(ctx, runs, "")
	if err != nil {
		return 0, carillon.RunID{}, err
	}
	changes, now := make([]carillon.Change, len(candidates)), s.cfg.Clock.Now()
	for i := range candidates {
		changes[i] = candidates[i].Release(now)
		if g != nil && g.Operation != 0 {
			changes[i].Folds = []carillon.Fold{g.Left()}
		}
	}
	lost, err := s.cfg.Ledger.Commit(ctx, changes) // a run that lost has changed, and is read again
	return len(changes) - len(lost), runs[len(runs)-1].ID, err
}

// forgetGate removes a gate that no run waits for. Its release is done.
func (s *Scheduler) forgetGate(ctx context.Context, g *carillon.Gate) error {
	if err := s.gates.known.ForgetGate(ctx, g); err != nil {
		return err
	}
	if g.Operation != 0 {
		s.cfg.Logger.Info("operation ended", "operation", g.Operation.String(), "kind",
			string(carillon.OperationRelease), "state", string(carillon.OperationDone), "gate", g.ID)
	}
	return nil
}

// pace says how many runs may leave by a rate.
type pace struct {
	last time.Time
	owed float64 // runs that may leave now
}

func newPace() pace { return pace{last: time.Now(), owed: 1} }

// room is how many runs may leave now, and if there are none, after how long some may.
func (p *pace) room(rate carillon.Rate, now time.Time) (n int, wait time.Duration) {
	if rate.Starts == 0 {
		return releasePage, 0
	}
	perSecond := float64(rate.Starts) / rate.Per.Seconds()
	p.owed = min(p.owed+now.Sub(p.last).Seconds()*perSecond, max(1, maxBehind.Seconds()*perSecond))
	p.last = now
	if p.owed < 1 {
		wait := time.Duration((1 - p.owed) / perSecond * float64(time.Second))
		return 0, min(max(wait, releaseEvery), followEvery) // the rate can change, or the gate
	}
	return min(int(p.owed), releasePage), 0
}

func (p *pace) took(n int) { p.owed = max(p.owed-float64(n), 0) }

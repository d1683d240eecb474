package carillon

import (
	"encoding/json"
	"math"
	"time"
)

// A release lets the runs leave that a gate held. It is an operation that the scheduler performs, in the
// order of due times, and not the loop of operations. Three rules keep the gate and the record of the
// operation in step:
//
//   - One change writes both when the release begins, and when it ends.
//   - Each run that leaves by an operation folds its record: see Gate.Left. So Done is exact at every time,
//     also after a crash, and if two nodes perform the same release for a while.
//   - Once the operation is over, no run can leave by it.

// GateRelease is what an operation of the kind release acts on.
type GateRelease struct {
	Gate string `json:"gate"`
	Rate Rate   `json:"rate,omitzero"` // how many runs leave in a time; default as fast as it goes
}

// systemName is who opens a gate that expires.
const systemName = "system"

// Open opens a gate. A gate that opens already gets another rate.
func (g *Gate) Open(by string, rate Rate, now Time) {
	if g.Rate = rate; g.Opened == 0 {
		g.Opened, g.OpenedBy = now, by
	}
}

// CloseAgain closes a gate that opens, for what still waits and for what comes. Runs that have left go on,
// also if the gate had runs stopped when it was closed before. An expiry that has passed would open the gate
// at once, so it is dropped.
func (g *Gate) CloseAgain(by string, now Time) {
	g.Mode, g.Running, g.Stopped = GateHold, GateKeep, false
	g.By, g.At = by, now
	g.Opened, g.OpenedBy, g.Rate, g.Operation = 0, "", Rate{}, 0
	if g.Expires <= now {
		g.Expires = 0
	}
}

// BeginRelease makes the release of a gate that opens an operation. The change must also write the gate.
func (g *Gate) BeginRelease(id OperationID, now Time) Change {
	if g.Opened == 0 { // it has expired
		g.Opened, g.OpenedBy = g.OpenedAt(now), systemName
	}
	g.Operation = id
	r := OperationRecord{Operation: Operation{
		Namespace: g.Namespace, ID: id, Kind: OperationRelease, By: g.OpenedBy, Created: now,
		State: OperationCounting,
	}}
	r.setRate(g)
	return r.Save(now)
}

func (r *OperationRecord) setRate(g *Gate) {
	r.Release, r.Rate = &GateRelease{Gate: g.ID, Rate: g.Rate}, 0
	if g.Rate.Starts > 0 {
		r.Rate = int(math.Ceil(float64(g.Rate.Starts) * float64(time.Second) / float64(g.Rate.Per)))
	}
}

// Left counts a run that leaves the gate. It refuses the run if the operation is over: the gate was closed
// again.
func (g *Gate) Left() Fold {
	return g.foldRelease(func(r *OperationRecord) bool {
		r.Done++
		return !r.over
	})
}

// Counted says how many runs wait for the gate. It counts only before the first run leaves. A total of 0 says
// that they were not counted.
func (g *Gate) Counted(held int) Fold {
	return g.foldRelease(func(r *OperationRecord) bool {
		if r.State == OperationCounting || r.Total+r.Done == 0 { // another node may have given up counting
			r.State, r.Total = OperationRunning, held
		}
		return true
	})
}

// Rated gives the operation the rate of the gate.
func (g *Gate) Rated() Fold {
	return g.foldRelease(func(r *OperationRecord) bool {
		if !r.over {
			r.setRate(g)
		}
		return true
	})
}

// foldRelease steps the record of the gate's operation. A record that is gone, or that this version cannot
// read, stays as it is.
func (g *Gate) foldRelease(step func(*OperationRecord) bool) Fold {
	next := func(was Guard, now Time) (Guard, bool) {
		r, err := OperationOf(&was)
		if was.Value == nil || err != nil {
			return was, true
		}
		if ok := step(&r); !ok || r.over {
			return was, ok
		}
		was.Value = r.value(now)
		return was, true
	}
	return Fold{Namespace: g.Namespace, Key: g.Operation.Key(), Step: next}
}

// EndRelease is the change that ends a release, which is not over. The record then says what it will say, but
// for runs that leave before the change is written.
func (r *OperationRecord) EndRelease(state OperationState, reason string, now Time) Change {
	end := func(r *OperationRecord, now Time) []byte {
		r.State, r.Reason = state, reason
		return r.value(now)
	}
	end(r, now)
	step := func(was Guard, now Time) (Guard, bool) {
		r, err := OperationOf(&was)
		if was.Value == nil || err != nil || r.over {
			return was, false
		}
		was.Value, was.Expires = end(&r, now), now.Add(ReleaseTime)
		return was, true
	}
	return Change{
		Guards: []Guard{{Namespace: SystemNamespace, Key: r.openKey(), Rev: 1}}, // it is written once
		Folds:  []Fold{{Namespace: r.Namespace, Key: r.ID.Key(), Step: step}},
	}
}

// Orphaned says how a release ends whose gate, as the store has it, does not name it; nil: the gate is gone.
// Only nodes of a version that knows gates, and no releases as operations, leave one behind.
func (r *OperationRecord) Orphaned(g *Gate, now Time) (state OperationState, reason string, is bool) {
	switch {
	case r.State.Over() || r.Release == nil:
		return "", "", false
	case g == nil:
		return OperationDone, "a node of an older version released runs, which are not counted", true
	case g.Operation == r.ID || g.Operation == 0 && g.State(now) == GateOpening:
		return "", "", false
	}
	return OperationCanceled, "a node of an older version has changed gate " + g.ID, true
}

// value is the record as its guard keeps it.
func (r *OperationRecord) value(now Time) []byte {
	r.Updated = now
	if r.State.Over() && r.Ended == 0 {
		r.Ended = now
	}
	value, _ := json.Marshal(r) // of text and numbers
	return value
}

// OpenReleaseQuery asks for the guards of all open releases; see OpenOperationOf.
func OpenReleaseQuery() GuardQuery {
	return GuardQuery{Namespace: SystemNamespace, Prefix: string(GuardOpenRelease) + "/"}
}

package carillon_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

// opening is a gate that a user opened at 100, with its operation, and the guard of the operation's record.
func opening(t *testing.T) (carillon.Gate, carillon.Guard) {
	t.Helper()
	g := carillon.Gate{ID: "queue/mail", Namespace: "ns", Mode: carillon.GateHold, By: "ann", At: 10}
	g.Open("bob", carillon.Rate{Starts: 90, Per: time.Minute}, 100)
	c := g.BeginRelease(1<<50, 101)
	if len(c.Guards) != 2 || c.Guards[0].Key != g.Operation.Key() || c.Guards[1].Namespace == "ns" ||
		string(c.Guards[1].Value) != "ns" || c.Guards[1].Kind() != carillon.GuardOpenRelease {
		t.Fatalf("begin: %+v", c.Guards)
	}
	c.Guards[0].Rev++
	return g, c.Guards[0]
}

func record(t *testing.T, guard carillon.Guard) carillon.OperationRecord {
	t.Helper()
	r, err := carillon.OperationOf(&guard)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// fold applies a fold that must say yes.
func fold(t *testing.T, f carillon.Fold, guard carillon.Guard, now carillon.Time) carillon.Guard {
	t.Helper()
	next, ok := f.Step(guard, now)
	if !ok || f.Namespace != "ns" || f.Key != guard.Key {
		t.Fatalf("%s/%s: %t", f.Namespace, f.Key, ok)
	}
	return next
}

func TestTheReleaseOfAGateIsAnOperation(t *testing.T) {
	g, guard := opening(t)
	if g.Opened != 100 || g.OpenedBy != "bob" || g.Operation != 1<<50 {
		t.Errorf("%+v", g)
	}
	r := record(t, guard)
	want := carillon.Operation{
		ID: 1 << 50, Namespace: "ns", Kind: carillon.OperationRelease, By: "bob", State: "counting",
		Rate: 2, Created: 101, Updated: 101, // the rate is rounded up
		Release: &carillon.GateRelease{Gate: "queue/mail", Rate: g.Rate},
	}
	if !reflect.DeepEqual(r.Operation, want) {
		t.Errorf("begun as\n%+v\nwant\n%+v", r.Operation, want)
	}
	guard = fold(t, g.Counted(3), guard, 110)
	guard = fold(t, g.Counted(7), guard, 111) // by another node: the first count stays
	guard = fold(t, g.Left(), fold(t, g.Left(), guard, 120), 121)
	g.Open("eve", carillon.Rate{Starts: 5, Per: time.Second}, 130)
	guard = fold(t, g.Rated(), guard, 130)
	if g.OpenedBy != "bob" || g.Opened != 100 {
		t.Errorf("opened again: %+v", g)
	}
	want.State, want.Total, want.Done, want.Updated, want.Rate = carillon.OperationRunning, 3, 2, 130, 5
	want.Release = &carillon.GateRelease{Gate: "queue/mail", Rate: g.Rate}
	if r = record(t, guard); !reflect.DeepEqual(r.Operation, want) {
		t.Errorf("it is\n%+v\nwant\n%+v", r.Operation, want)
	}

	end := r.EndRelease(carillon.OperationDone, "", 140)
	late := fold(t, g.Left(), guard, 139) // it leaves before the end is written
	over := fold(t, end.Folds[0], late, 141)
	if r := record(t, over); r.State != carillon.OperationDone || r.Done != 3 || r.Ended != 141 ||
		over.Expires != carillon.Time(141).Add(carillon.ReleaseTime) {
		t.Errorf("ended: %+v, expires %s", r, over.Expires)
	}
	if open := end.Guards; len(open) != 1 || open[0].Value != nil || open[0].Rev != 1 {
		t.Errorf("it stays open: %+v", open)
	}
	if r.State != carillon.OperationDone || r.Ended != 140 {
		t.Errorf("the answer says %+v", r.Operation)
	}
	if _, ok := end.Folds[0].Step(over, 150); ok {
		t.Error("it ends twice")
	}
}

func TestNoRunLeavesAGateOnceItsReleaseIsOver(t *testing.T) {
	g, guard := opening(t)
	r := record(t, guard)
	over := fold(t, r.EndRelease(carillon.OperationCanceled, "why", 140).Folds[0], guard, 140)
	if _, ok := g.Left().Step(over, 150); ok {
		t.Error("a run leaves")
	}
	for _, f := range []carillon.Fold{g.Counted(5), g.Rated()} { // they must not hold up a write of the gate
		if same := fold(t, f, over, 150); !reflect.DeepEqual(same, over) {
			t.Errorf("changed to %s", same.Value)
		}
	}
	none := carillon.Guard{Namespace: "ns", Key: guard.Key}
	broken := carillon.Guard{Namespace: "ns", Key: guard.Key, Rev: 3, Value: []byte("x")}
	for _, lost := range []carillon.Guard{none, broken} { // a run is worth more than a count
		if same := fold(t, g.Left(), lost, 150); !reflect.DeepEqual(same, lost) {
			t.Errorf("changed to %s", same.Value)
		}
	}
}

func TestACanceledReleaseClosesItsGateAgain(t *testing.T) {
	was := carillon.Gate{
		ID: "g", Namespace: "ns", Mode: carillon.GateDrop, Reason: "broken", By: "ann", At: 10,
		Match: carillon.GateMatch{Type: "a"}, Running: carillon.GateStop, Stopped: true,
	}
	was.Open("bob", carillon.Rate{Starts: 1, Per: time.Second}, 100)
	was.BeginRelease(1<<50, 100)
	want := carillon.Gate{
		ID: "g", Namespace: "ns", Mode: carillon.GateHold, Reason: "broken", By: "eve", At: 200,
		Match: carillon.GateMatch{Type: "a"}, Running: carillon.GateKeep,
	}
	for expires, kept := range map[carillon.Time]carillon.Time{0: 0, 150: 0, 200: 0, 201: 201} {
		g := was
		g.Expires, want.Expires = expires, kept
		if g.CloseAgain("eve", 200); !reflect.DeepEqual(g, want) || g.State(200) != carillon.GateClosed {
			t.Errorf("expires %s: %+v", expires, g)
		}
	}
}

func TestTheSystemBeginsTheReleaseOfAGateThatExpires(t *testing.T) {
	g := carillon.Gate{ID: "g", Namespace: "ns", By: "ann", At: 10, Expires: 100}
	r := record(t, g.BeginRelease(1<<50, 120).Guards[0])
	if g.Opened != 100 || g.OpenedBy != "system" || g.OpenedAt(120) != 100 || r.By != "system" ||
		r.Created != 120 || r.Rate != 0 {
		t.Errorf("%+v, %+v", g, r)
	}
}

func TestAReleaseThatAnOlderNodeLeftBehindEnds(t *testing.T) {
	_, guard := opening(t)
	open := record(t, guard)
	for name, c := range map[string]struct {
		gate *carillon.Gate
		want carillon.OperationState
	}{
		"the gate is gone":                    {nil, carillon.OperationDone},
		"the gate names it":                   {&carillon.Gate{Operation: open.ID, Opened: 1}, ""},
		"the gate opens, and has lost it":     {&carillon.Gate{Opened: 1}, ""},
		"the gate has expired, and lost it":   {&carillon.Gate{Expires: 1}, ""},
		"the gate is closed":                  {&carillon.Gate{}, carillon.OperationCanceled},
		"the gate has another release by now": {&carillon.Gate{Operation: 7, Opened: 1}, carillon.OperationCanceled},
	} {
		state, reason, is := open.Orphaned(c.gate, 200)
		if state != c.want || is != (c.want != "") || (reason != "") != is {
			t.Errorf("%s: %q %q %t", name, state, reason, is)
		}
	}
	over := open
	over.State = carillon.OperationDone
	if _, _, is := over.Orphaned(nil, 200); is {
		t.Error("it ends twice")
	}
}

func TestACallerCannotBeginARelease(t *testing.T) {
	op := carillon.Operation{Kind: carillon.OperationRelease, Filter: carillon.JobFilter{All: true}}
	want := "kind: a release begins when a gate opens: want pause, resume, cancel, run or redrive"
	if err := op.Admit(); err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}

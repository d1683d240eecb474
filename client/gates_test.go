package client_test

import (
	"errors"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

func TestTheReleaseOfAGateOfARealServer(t *testing.T) {
	s, ctx := newServer(t), t.Context()
	gate := must(s.CloseGate(ctx, client.GateRequest{Match: carillon.GateMatch{All: true}, Reason: "why"}))(t)
	for _, name := range []string{"a", "b"} {
		def := echo(name)
		def.Schedule.After = 0
		run := s.first(must(s.Submit(ctx, def))(t).ID)
		run.Hold, run.Wake = "gate/"+gate.ID, carillon.Never
		lost, err := s.door.Commit(ctx, []carillon.Change{{Runs: []carillon.Run{run}}})
		if err != nil || len(lost) > 0 {
			t.Fatal(lost, err)
		}
	}
	how := client.OpenRequest{Rate: "10/s", DryRun: true}
	would := must(s.OpenGate(ctx, gate.ID, how))(t)
	if would.WouldRelease == nil || *would.WouldRelease != 2 || would.State != carillon.GateClosed {
		t.Errorf("would open as %+v", would)
	}
	how.DryRun = false
	opened := must(s.OpenGate(ctx, gate.ID, how))(t)
	op := must(s.Operation(ctx, opened.Operation))(t)
	want := carillon.GateRelease{Gate: gate.ID, Rate: carillon.Rate{Starts: 10, Per: time.Second}}
	if op.Kind != carillon.OperationRelease || *op.Release != want {
		t.Errorf("the release is %+v", op)
	}
	if op := must(s.CancelOperation(ctx, op.ID))(t); op.State != carillon.OperationCanceled {
		t.Errorf("canceled: %+v", op)
	}
	closed := must(s.Gate(ctx, gate.ID))(t)
	if closed.State != carillon.GateClosed || closed.Reason != "why" || closed.Operation != 0 {
		t.Errorf("closed again: %+v", closed)
	}
	if _, err := s.ResumeQueue(ctx, "mail", how); !errors.Is(err, carillon.ErrConflict) {
		t.Errorf("a queue that is not paused: %v", err)
	}
}

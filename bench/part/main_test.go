package main

import (
	"strings"
	"sync/atomic"
	"testing"
)

func TestEveryStepHasAFigure(t *testing.T) {
	p := &part{data: t.TempDir(), started: &atomic.Int64{}}
	if err := p.open(slots); err != nil {
		t.Fatal(err)
	}
	for _, figure := range []string{
		"submit_x1", "submit_x16", "submit_bulk", "steady", "drain", "held", "drain_backlog_10k",
		"drain_backlog_1m", "instant_lateness_p99", "pickup_p50",
	} {
		// 37 fills no batch; steps that run jobs fail unless exactly 37 ran.
		if got, err := p.step(figure, 37); err != nil || got == 0 {
			t.Errorf("%s: %v %v", figure, got, err)
		}
	}
	if _, err := p.step("no_such", 1); err == nil || !strings.Contains(err.Error(), "no such step") {
		t.Error(err)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
}

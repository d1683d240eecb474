package mem_test

import (
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/porttest"
)

func TestTimeline(t *testing.T) {
	porttest.Timeline(t, func(_ *testing.T, maxPerLane int) carillon.Timeline {
		return mem.NewTimeline(mem.TimelineConfig{MaxPerLane: maxPerLane})
	})
}

func BenchmarkTimeline(b *testing.B) {
	porttest.BenchmarkTimeline(b, func(*testing.B) carillon.Timeline {
		return mem.NewTimeline(mem.TimelineConfig{})
	})
}

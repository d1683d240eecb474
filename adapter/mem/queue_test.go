package mem_test

import (
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/porttest"
)

func TestQueue(t *testing.T) {
	porttest.Queue(t, func(_ *testing.T, maxPerLane int) carillon.Queue {
		return mem.NewQueue(mem.QueueConfig{MaxPerLane: maxPerLane})
	})
}

func BenchmarkQueue(b *testing.B) {
	porttest.BenchmarkQueue(b, func(*testing.B) carillon.Queue { return mem.NewQueue(mem.QueueConfig{}) })
}

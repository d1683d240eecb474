package mem_test

import (
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/porttest"
)

func TestStore(t *testing.T) {
	porttest.Store(t, func(*testing.T) carillon.Store { return mem.NewStore() })
}

func TestLimits(t *testing.T) {
	porttest.Limits(t, func(*testing.T) carillon.Store { return mem.NewStore() })
}

func TestGates(t *testing.T) {
	porttest.Gates(t, func(*testing.T) carillon.Store { return mem.NewStore() })
}

// TestStoreModel checks the check: the model must agree with itself.
func TestStoreModel(t *testing.T) {
	porttest.Model(t, func(*testing.T) carillon.Store { return mem.NewStore() })
}

func BenchmarkStore(b *testing.B) {
	porttest.BenchmarkStore(b, func(*testing.B) carillon.Store { return mem.NewStore() })
}

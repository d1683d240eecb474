package mem_test

import (
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/porttest"
)

func TestHouse(t *testing.T) {
	porttest.EndToEnd(t, func(*testing.T) carillon.Store { return mem.NewStore() })
}

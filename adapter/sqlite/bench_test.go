package sqlite_test

import (
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/porttest"
)

func BenchmarkStore(b *testing.B) {
	porttest.BenchmarkStore(b, func(b *testing.B) carillon.Store { return open(b) })
}

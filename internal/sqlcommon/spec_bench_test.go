package sqlcommon_test

import (
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

// BenchmarkDecode is what a store adds to the read of a definition that has only a limit beside usual values.
func BenchmarkDecode(b *testing.B) {
	spec := []byte(`{"limits":[{"key":"customer-123","concurrency":10,"weight":1}]}`)
	b.ReportAllocs()
	for b.Loop() {
		var d carillon.Definition
		if err := sqlcommon.Decode(spec, 1, &d); err != nil {
			b.Fatal(err)
		}
	}
}

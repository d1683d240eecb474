package sqlcommon_test

import (
	"slices"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/sqlcommon"
)

func FuzzUnPackHolds(f *testing.F) {
	f.Add(sqlcommon.PackHolds([]carillon.Held{
		{Run: carillon.RunID{Job: 7, Due: 1 << 40}, Fence: 1<<60 | 3},
		{Run: carillon.RunID{Job: -1}, Fence: -1},
	}))
	f.Fuzz(func(t *testing.T, b []byte) {
		holds, err := sqlcommon.UnpackHolds(b)
		if err != nil {
			return
		}
		if again, err := sqlcommon.UnpackHolds(sqlcommon.PackHolds(holds)); err != nil ||
			!slices.Equal(again, holds) {
			t.Errorf("%v became %v: %v", holds, again, err)
		}
	})
}

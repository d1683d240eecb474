package carillon_test

import (
	"testing"

	"github.com/carillon-run/carillon"
)

func TestAGuardIsInForceUntilItExpires(t *testing.T) {
	const now = carillon.Time(1000)
	for expires, want := range map[carillon.Time]bool{0: false, now - 1: true, now: true, now + 1: false} {
		g := carillon.Guard{Expires: expires}
		if got := g.Expired(now); got != want {
			t.Errorf("expires %d at %d: got %v", expires, now, got)
		}
	}
}

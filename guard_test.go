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

func TestNoCallerHasANamespaceOfTheSystem(t *testing.T) {
	for namespace, want := range map[string]bool{
		"default": true, "a/b": true, "systems": true, "System": true,
		"": false, carillon.SystemNamespace: false, "/catalog": false, "a b": false,
	} {
		if got := carillon.IsNamespace(namespace); got != want {
			t.Errorf("IsNamespace(%q) is %v", namespace, got)
		}
	}
}

package suggest_test

import (
	"strings"
	"testing"

	"github.com/carillon-run/carillon/internal/suggest"
)

func TestTheNearestNameIsTheOneThatWasMeant(t *testing.T) {
	known := []string{"name", "type", "owner", "max-runs", "at"}
	for given, want := range map[string]string{
		"nmae": "name", "Name": "name", "tpye": "type", "maxruns": "max-runs", "ownr": "owner", "x": "",
		"at2": "at", "colour": "",
		strings.Repeat("name", 20): "",
	} {
		if got := suggest.Nearest(given, known); got != want {
			t.Errorf("%s: %q, want %q", given, got, want)
		}
	}
}

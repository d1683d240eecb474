package skip_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/carillon-run/carillon/porttest/skip"
)

// verdict is a test that keeps the words with which it ends.
type verdict struct {
	testing.TB
	words string
}

func (v *verdict) Helper()                           {}
func (v *verdict) Skipf(format string, args ...any)  { v.words = fmt.Sprintf(format, args...) }
func (v *verdict) Fatalf(format string, args ...any) { v.words = fmt.Sprintf(format, args...) }
func (v *verdict) Fatal(args ...any)                 { v.words = fmt.Sprint(args...) }

func TestATestThatCannotRunFailsWhereThatIsDemandedAndIsSkippedElsewhere(t *testing.T) {
	const skipped, missing = "!!! SKIPPED: 7 things are not here", "!!! MISSING"
	const invalid = `CARILLON_TEST_REQUIRE: "1" is not valid: want all, servers or none`
	for _, c := range []struct {
		ci, require    string
		server, rights string // the verdict for each kind
	}{
		{"", "", skipped, skipped},
		{"false", "", skipped, skipped},
		{"true", "", missing, skipped},
		{"1", "", missing, skipped},
		{"true", "none", skipped, skipped},
		{"", "servers", missing, skipped},
		{"", "all", missing, missing},
		{"", "1", invalid, invalid},
	} {
		t.Setenv("CI", c.ci)
		t.Setenv(skip.Variable, c.require)
		for kind, want := range map[skip.Kind]string{
			skip.KindServer: c.server, skip.KindRights: c.rights,
		} {
			v := &verdict{}
			if skip.Loudly(v, kind, "%d things are not here", 7); !strings.HasPrefix(v.words, want) {
				t.Errorf("CI=%q, %s=%q: %q, want %q", c.ci, skip.Variable, c.require, v.words, want)
			}
		}
	}
}

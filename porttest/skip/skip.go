// Package skip is how a test says that it cannot run here. A build machine can demand with
// CARILLON_TEST_REQUIRE that no such test is skipped: a suite that is skipped looks like one that passes.
package skip

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

// Variable is the environment variable that says which skips are failures: "servers", those for a server that
// is not installed; "all", every one; "none", none. Default: "servers" if CI is true, as on most build
// machines, else "none".
const Variable = "CARILLON_TEST_REQUIRE"

// Kind is why a test cannot run.
type Kind int

const (
	KindServer Kind = iota + 1 // a server program is not installed
	KindRights                 // the tests run without a right, such as root's
)

// Loudly ends a test that cannot run here: it skips the test so that people see it, or fails the test if that
// is demanded.
func Loudly(t testing.TB, kind Kind, format string, args ...any) {
	t.Helper()
	why := fmt.Sprintf(format, args...)
	switch demanded, err := demand(kind); {
	case err != nil:
		t.Fatal(err)
	case demanded:
		t.Fatalf("!!! MISSING, and it is demanded (%s or CI is set): %s", Variable, why)
	default:
		t.Skipf("!!! SKIPPED: %s", why)
	}
}

// demand says whether a test that cannot run for this reason must fail.
func demand(kind Kind) (bool, error) {
	switch value := os.Getenv(Variable); value {
	case "all":
		return true, nil
	case "servers":
		return kind == KindServer, nil
	case "none":
		return false, nil
	case "":
		ci, err := strconv.ParseBool(os.Getenv("CI"))
		return err == nil && ci && kind == KindServer, nil
	default:
		return false, fmt.Errorf("%s: %q is not valid: want all, servers or none", Variable, value)
	}
}

//go:build seeded

package simulate

import (
	"testing"
	"testing/cryptotest"
	_ "unsafe" // for go:linkname
)

// seeded says that a seed fixes everything in a world, also the order of goroutines: simulate/player has
// built this test with a changed runtime.
const seeded = true

//go:linkname setSeed runtime.setSeed
func setSeed(seed uint64)

// seedWorld lets the runtime, and the ids of sessions, follow a seed from now on.
func seedWorld(t *testing.T, seed uint64) {
	cryptotest.SetGlobalRandom(t, seed)
	setSeed(seed)
}

package porttest

import (
	"flag"
	"math/rand/v2"
	"testing"
)

var seedFlag = flag.Int64("seed", 0, "of random tests; 0: a new one each time")

// Seed returns the seed of a random test. It is logged, so a failure says how to reproduce it:
// go test -run … -seed=….
func Seed(t testing.TB) int64 {
	t.Helper()
	seed := *seedFlag
	for seed == 0 {
		seed = rand.Int64()
	}
	t.Logf("-seed=%d", seed)
	return seed
}

// random returns the source of random numbers for the seed of the test.
func random(t testing.TB) *rand.Rand {
	t.Helper()
	return rand.New(rand.NewPCG(uint64(Seed(t)), 0))
}

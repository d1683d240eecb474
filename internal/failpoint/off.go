//go:build !failpoints

package failpoint

// At does nothing, and the compiler removes the call.
func At(string) {}

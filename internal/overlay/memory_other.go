//go:build !unix

package overlay

// LimitMemory does nothing on this system.
func LimitMemory() error { return nil }

//go:build !linux

package owned

// HideProcess does nothing here: commands, from which a process is hidden, run on Linux only.
func HideProcess() error { return nil }

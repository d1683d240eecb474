//go:build !linux

package main

// apart only starts: processors are divided on Linux.
func apart(start func() error) (together func() error, err error) {
	return func() error { return nil }, start()
}

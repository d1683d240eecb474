//go:build unix

package overlay

import "syscall"

// maxMemory is many times what a test needs.
const maxMemory = 6 << 30

// LimitMemory bounds the memory of each process that this one starts from now on. A program that was edited
// can get into a loop of no end, and would take all that the machine has.
func LimitMemory() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_DATA, &limit); err != nil {
		return err
	}
	limit.Cur = min(limit.Cur, maxMemory)
	return syscall.Setrlimit(syscall.RLIMIT_DATA, &limit)
}

//go:build unix

package main

import "syscall"

// maxMemory bounds the memory of each process that tests a bug: some bugs make a loop of no end, and would
// take all that the machine has.
const maxMemory = 6 << 30

func limitMemory() error {
	return syscall.Setrlimit(syscall.RLIMIT_DATA, &syscall.Rlimit{Cur: maxMemory, Max: maxMemory})
}

package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// apart starts something on a processor of its own, and leaves the others to this process until together is
// called. So callers take no time from the server that is measured, as if they were another machine. A
// database server beside it stays where it is. With one processor there is nothing to divide.
func apart(start func() error) (together func() error, err error) {
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return nil, fmt.Errorf("which processors there are: %w", err)
	}
	n := all.Count()
	if n < 2 {
		return func() error { return nil }, start()
	}
	var one unix.CPUSet
	rest := all
	for cpu := 0; one.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			one.Set(cpu)
			rest.Clear(cpu)
		}
	}
	runtime.LockOSThread() // a child has the processors of the thread that starts it
	defer runtime.UnlockOSThread()
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return nil, fmt.Errorf("move to one processor: %w", err)
	}
	was := runtime.GOMAXPROCS(0)
	together = func() error { return moveTo(&all, was) }
	if err := errors.Join(start(), moveTo(&rest, min(was, n-1))); err != nil {
		return nil, errors.Join(err, together())
	}
	return together, nil
}

// moveTo lets all threads of this process use only some processors, and as many of them run Go code at once.
// Threads that they start do the same.
func moveTo(processors *unix.CPUSet, atOnce int) error {
	runtime.GOMAXPROCS(atOnce)
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		if err == nil {
			err = unix.SchedSetaffinity(id, processors)
		}
		if err != nil && err != unix.ESRCH { // a thread that has ended meanwhile
			return fmt.Errorf("move thread %s: %w", thread.Name(), err)
		}
	}
	return nil
}

// Command planted shows that the tests catch bugs. It plants bugs of the lists beside it in the code, one at
// a time, runs the tests that the list names, and says which test failed. Without a bug these tests must
// pass. The code itself stays as it is: the go command reads the changed files in place of the real ones.
//
//	go run ./planted            # all of them
//	go run ./planted lease      # those whose name contains a text
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/carillon-run/carillon/internal/overlay"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, strings.Join(os.Args[1:], " ")); err != nil {
		fmt.Fprintln(os.Stderr, "planted:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, part string) error {
	bugs, err := readLists()
	if err != nil {
		return err
	}
	if err := overlay.LimitMemory(); err != nil {
		return err
	}
	var missed []string
	tried, sound := 0, map[string]bool{}
	for _, b := range bugs {
		if !strings.Contains(b.name, part) {
			continue
		}
		tried++
		if tests := strings.Join(b.tests, " "); !sound[tests] {
			if by, err := test(ctx, b.tests); by != "" || err != nil { // it would seem to catch every bug
				return errors.Join(fmt.Errorf("without a bug, %s of %s fails", by, tests), err)
			}
			sound[tests] = true
		}
		began := time.Now()
		by, err := plant(ctx, b)
		took := time.Since(began).Round(time.Second)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", b.name, err)
		case by == "":
			missed = append(missed, b.name)
			fmt.Printf("MISSED  %s (%s, %s)\n", b.name, strings.Join(b.tests, " "), took)
		default:
			fmt.Printf("caught  %s: by %s in %s\n", b.name, by, took)
		}
	}
	switch {
	case tried == 0:
		return fmt.Errorf("no bug has %q in its name", part)
	case len(missed) > 0:
		return fmt.Errorf("%d of %d bugs were missed", len(missed), tried)
	}
	fmt.Printf("all %d bugs were caught\n", tried)
	return nil
}

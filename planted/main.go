// Command planted shows that the tests catch bugs. It plants bugs of the lists beside it in the code, one at
// a time, runs the tests that the list names, and says which test failed. The code itself stays as it is: the
// go command reads the changed files in place of the real ones.
//
//	go run ./planted            # all of them
//	go run ./planted lease      # those whose name contains a text
package main

import (
	"context"
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
	tried := 0
	for _, b := range bugs {
		if !strings.Contains(b.name, part) {
			continue
		}
		tried++
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

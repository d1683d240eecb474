// Command carillon is all of Carillon in one binary: the server, and the command line that talks to it.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // for machines without a zone database; a machine's own zones come first

	"github.com/carillon-run/carillon/executor"
)

func main() {
	// A worker runs each command under this same binary, started again as the command's supervisor: in that
	// role Supervise never returns.
	executor.Supervise()
	if os.Getenv("GOGC") == "" {
		// A server's heap is small and short-lived: half as many collections are worth some megabytes.
		debug.SetGCPercent(200)
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal asks it to stop, a second one ends it at once
	code := newApp().run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

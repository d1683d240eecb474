// Command carillon is the whole of Carillon in one binary: the server, and the command line that talks to it.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // for machines without zones; those that a machine has come first

	"github.com/carillon-run/carillon/executor"
)

func main() {
	// Commands run under this same binary, started again as their supervisor: in that role it never returns.
	executor.Supervise()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200) // a server's heap is small and short-lived: half as many collections are worth some megabytes
	}

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal asks, a second one ends the process at once
	code := newApp().run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

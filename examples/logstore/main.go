// Command logstore shows how a program plugs an adapter of its own into a node: the output of runs goes to
// files of JSON lines, and everything else is as in a node without it.
//
//	go run ./examples/logstore DIR
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/node"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: logstore DIR")
	}
	if err := hello(context.Background(), os.Args[1]); err != nil {
		log.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(os.Args[1], "output", "*", "*"))
	fmt.Println(files, err)
}

// hello runs one job that prints a line, and returns when the line is in the log.
func hello(ctx context.Context, dir string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	n, err := node.Open(ctx, node.Config{
		Data:    filepath.Join(dir, "data"),
		Backend: node.Backend{Logs: NewLogs(filepath.Join(dir, "output"))},
		Handlers: map[string]executor.Handler{
			"hello": func(_ context.Context, task executor.Task) error {
				task.Print("stdout", "hello from "+task.Job.Name)
				stop() // the node ends when its running work has ended
				return nil
			},
		},
	})
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	if _, err := n.Submit(ctx, carillon.Definition{
		Name: "example", Type: "hello", Target: carillon.Target{Handler: &carillon.Handler{}},
	}); err != nil {
		return err
	}
	return <-done
}

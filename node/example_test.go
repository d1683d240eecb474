package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/node"
)

// An application that runs its own jobs: it registers a function for a job type, and submits a job of that
// type.
func Example() {
	data, err := os.MkdirTemp("", "carillon-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(data)

	sent := make(chan string, 1)
	send := func(ctx context.Context, task executor.Task) error {
		var mail struct{ To string }
		if err := json.Unmarshal(task.Job.Payload, &mail); err != nil {
			return executor.Fatal(err) // another attempt could not do better
		}
		sent <- fmt.Sprintf("attempt %d: mail to %s", task.Run.Attempt, mail.To)
		return nil
	}

	ctx, stop := context.WithCancel(context.Background())
	n, err := node.Open(ctx, node.Config{
		Data:     data, // an SQLite file, logs and a token; Listen is empty, so there is no HTTP API
		Handlers: map[string]executor.Handler{"email.send": send},
	})
	if err != nil {
		log.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()

	if _, err := n.Submit(ctx, carillon.Definition{
		Type:    "email.send",
		Target:  carillon.Target{Handler: &carillon.Handler{}},
		Payload: []byte(`{"to": "ann@example.com"}`),
	}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-sent)

	stop() // the node waits for its running work, then closes the store
	if err := <-done; err != nil {
		log.Fatal(err)
	}
	// Output: attempt 1: mail to ann@example.com
}

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/node"
	"github.com/carillon-run/carillon/worker"
)

// server is a node as its clients see it: an address and a token.
type server struct {
	url, token string
	client     *client.Client
	batcher    *client.Batcher
	stop       func() // ends the worker, if there is one
}

func dial(n *node.Node) (*server, error) {
	token, err := os.ReadFile(n.TokenFile())
	if err != nil {
		return nil, err
	}
	d := &server{url: n.URL(), token: strings.TrimSpace(string(token)), stop: func() {}}
	// Callers share one client, as in a service; it keeps its connections. Single jobs go through a Batcher,
	// the quickest way that a user has.
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy, transport.MaxIdleConnsPerHost = nil, 64
	d.client, err = client.New(client.Config{
		URL: d.url, Token: d.token, HTTP: &http.Client{Transport: transport},
	})
	if err != nil {
		return nil, err
	}
	d.batcher = client.NewBatcher(d.client, client.BatcherConfig{})
	return d, nil
}

func (d *server) submit(ctx context.Context, defs []carillon.Definition) (err error) {
	if len(defs) == 1 {
		_, err = d.batcher.Submit(ctx, defs[0])
	} else {
		_, err = d.client.SubmitMany(ctx, defs)
	}
	return err
}

// work does what a separate worker does, but in this process, so that only one process is measured.
func (d *server) work(handle executor.Handler) error {
	remote, err := client.NewDispatcher(client.DispatcherConfig{Servers: []string{d.url}, Token: d.token})
	if err != nil {
		return err
	}
	funcs := executor.NewFuncs()
	funcs.Register("bench", handle)
	w := worker.New(worker.Config{
		Dispatcher: remote, Name: "bench", Executors: map[string]executor.Executor{"handler": funcs},
		Concurrency: slots, Logger: logger(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := w.Run(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "worker:", err)
			os.Exit(1)
		}
	}()
	d.stop = func() { cancel(); <-done }
	return nil
}

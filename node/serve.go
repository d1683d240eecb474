package node

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/api"
	"golang.org/x/sync/errgroup"
)

// serve answers API requests until ctx ends. Requests in progress then get a moment to finish; followers of
// logs are cut off.
func (n *Node) serve(ctx context.Context) error {
	if n.listener == nil {
		return nil
	}
	requests, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	refuser := api.NewRefuser()
	server := &http.Server{
		Handler:           n.handler(refuser),
		BaseContext:       func(net.Listener) context.Context { return requests },
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 32 << 10,
	}
	stopped := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(stopped)
		time.AfterFunc(time.Second, end)
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
		defer cancel()
		if err := errors.Join(server.Shutdown(stop), refuser.Wait(stop)); err != nil {
			server.Close()
		}
	})
	var g errgroup.Group
	for _, from := range []net.Listener{n.listener, refuser} {
		g.Go(func() error {
			if err := server.Serve(from); !errors.Is(err, http.ErrServerClosed) {
				return errors.Join(err, server.Close())
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	<-stopped
	return nil
}

// handler returns the API, and beside it the route by which nodes ask each other for due runs.
func (n *Node) handler(refuser *api.Refuser) http.Handler {
	var events api.Events = n.bus
	if n.backend.Bus != nil {
		events = relay{n.bus, n.backend.Bus}
	}
	public := api.New(api.Config{
		Ledger: n.ledger, Store: n.backend.Store, Logs: n.backend.Logs, Events: events, Clock: &n.clock.Clock,
		Retention: n.cfg.Retention, Logger: n.cfg.Logger,
		Tokens: map[string]api.Credential{
			n.secrets.token: {Namespace: carillon.DefaultNamespace, Name: "token"},
		},
		Metrics: n.metrics.handler(), Ready: n.ready, Dispatcher: n.dispatcher, Secret: n.secrets.runs,
		Replica: n.copy, Intake: n.backend.Intake, Catalog: n.catalog,
		Members: n.backend.Coordinator.Members, Alive: n.scheduler.Members,
		Overloaded: n.metrics.refused.Inc, Refuser: refuser,
	})
	if n.carry == nil {
		return public
	}
	mux := http.NewServeMux()
	mux.Handle("POST "+carrierPath, carrierHandler(n.carry, n.secrets.node, n.scheduler.Redecide))
	mux.Handle("/", public)
	return mux
}

// ready says why the node cannot be relied on: due runs are not loaded yet, the clock is wrong, or the store
// does not take writes. The answer is public, so errors of the store go to the log and not here.
func (n *Node) ready() error {
	var reasons []error
	if !n.scheduler.Loaded() {
		reasons = append(reasons, errors.New("the server is still loading due runs"))
	}
	if err := n.clock.wrong(); err != nil {
		reasons = append(reasons, err)
	}
	if err := n.reachable(); err != nil {
		reasons = append(reasons, err)
	}
	return errors.Join(reasons...)
}

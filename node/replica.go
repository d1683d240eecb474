package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/mysql"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/api"
)

// replica opens the copy of the store that lists are read from, if there is one.
func (n *Node) replica(ctx context.Context) (*api.Replica, error) {
	url := n.cfg.StoreReplica
	if url == "" {
		return nil, nil
	}
	if !n.backend.Shared {
		return nil, errors.New(
			"store-replica: only stores that are a database have replicas: want --store postgres://… or " +
				"mysql://… beside it",
		)
	}
	var err error
	var store interface {
		carillon.Store
		Lag(ctx context.Context) (time.Duration, error)
		Close() error
	}
	switch scheme, _, _ := strings.Cut(url, ":"); scheme {
	case "postgres", "postgresql":
		store, err = postgres.Open(ctx, url, postgres.Config{KeepSchema: true, Logger: n.cfg.Logger})
	case "mysql", "mariadb":
		store, err = mysql.Open(ctx, url, mysql.Config{KeepSchema: true, Logger: n.cfg.Logger})
	default:
		return nil, fmt.Errorf("store-replica: %q is not valid: want postgres://… or mysql://…", Redact(url))
	}
	if err != nil {
		return nil, fmt.Errorf("open the replica %s: %w", Redact(url), err)
	}
	n.close = append(n.close, store.Close)
	n.metrics.gauge("carillon_replica_lag_seconds", "How old what the store's replica shows may be.",
		func() float64 {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			lag, err := store.Lag(ctx)
			if err != nil {
				return math.NaN()
			}
			return lag.Seconds()
		})
	return &api.Replica{Store: store, Lag: store.Lag}, nil
}

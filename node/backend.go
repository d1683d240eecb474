package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/disk"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/adapter/mysql"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/adapter/sqlite"
	"github.com/carillon-run/carillon/api"
	"github.com/carillon-run/carillon/internal/outage"
)

// backend is what a store's URL stands for: the store, and the other parts that its engine provides.
type backend struct {
	store       carillon.Store
	logs        carillon.LogStore
	coordinator carillon.Coordinator
	intake      carillon.Intake // nil: none
	bus         *postgres.Bus   // nil: nodes do not notify each other, they poll
	shared      bool            // other nodes may use it
	flushers    int
	// pending bounds, in bytes, the ends of the node's worker that are not recorded yet. With one writer,
	// ends are held back while a burst starts, so the bound is higher. With two writers, an end delays no
	// start.
	pending int
}

// open opens the store that the configuration names.
func (n *Node) open(ctx context.Context) (*backend, error) {
	b := &backend{flushers: 1, pending: 128 << 20}
	var err error
	switch scheme, rest, _ := strings.Cut(n.cfg.Store, ":"); scheme {
	case "sqlite":
		err = n.openFile(ctx, b, strings.TrimPrefix(rest, "//"))
	case "mem":
		b.store, b.logs, b.coordinator = mem.NewStore(), mem.NewLogs(), mem.NewCoordinator()
	case "postgres", "postgresql":
		err = n.openPostgres(ctx, b)
	case "mysql", "mariadb":
		err = n.openMySQL(ctx, b)
	default:
		return nil, fmt.Errorf(
			"store: %q is not valid: want postgres://…, mysql://…, sqlite:PATH, or mem: to keep nothing",
			Redact(n.cfg.Store),
		)
	}
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", Redact(n.cfg.Store), err)
	}
	n.watch(b)
	return b, nil
}

// watch makes the node notice when its store is away. A database keeps logs and sessions too. With a store in
// a file, logs are separate files, and sessions are in memory.
func (n *Node) watch(b *backend) {
	b.store = n.outage.Store(b.store)
	if !b.shared {
		b.logs = outage.New("the store of logs", n.cfg.Logger).Logs(b.logs)
		return
	}
	b.logs, b.coordinator, b.intake = n.outage.Logs(b.logs), n.outage.Coordinator(
		b.coordinator,
	), n.outage.Intake(b.intake)
}

func (n *Node) openFile(ctx context.Context, b *backend, path string) error {
	if err := private(path); err != nil {
		return err
	}
	lock, err := n.lock(ctx, path+".lock", "the store "+path) // another data directory may name the same file
	if err != nil {
		return err
	}
	store, err := sqlite.Open(path)
	if err := errors.Join(err, sign(lock, n.URL())); err != nil {
		return err
	}
	n.close = append(n.close, store.Close)
	logs, err := disk.NewLogs(filepath.Join(n.cfg.Data, logsDir), disk.Config{Logger: n.cfg.Logger})
	b.store, b.logs, b.coordinator = store, logs, mem.NewCoordinator()
	return err
}

func (n *Node) openPostgres(ctx context.Context, b *backend) error {
	store, err := postgres.Open(ctx, n.cfg.Store, postgres.Config{Logger: n.cfg.Logger})
	if err != nil {
		return err
	}
	n.close = append(n.close, store.Close)
	b.store, b.logs, b.coordinator = store, postgres.NewLogs(store), postgres.NewCoordinator(store)
	b.intake, b.bus = postgres.NewIntake(store), postgres.NewBus(store, postgres.BusConfig{
		URL: n.cfg.StoreListen, Logger: n.outage.Logger(),
	})
	b.shared, b.flushers, b.pending = true, 2, 24<<20
	return nil
}

func (n *Node) openMySQL(ctx context.Context, b *backend) error {
	store, err := mysql.Open(ctx, n.cfg.Store, mysql.Config{Logger: n.cfg.Logger})
	if err != nil {
		return err
	}
	n.close = append(n.close, store.Close)
	b.store, b.logs, b.coordinator = store, mysql.NewLogs(store), mysql.NewCoordinator(store)
	b.shared, b.flushers, b.pending = true, 2, 24<<20
	return nil
}

// replica opens the copy of the store that lists are read from, if there is one.
func (n *Node) replica(ctx context.Context) (*api.Replica, error) {
	url := n.cfg.StoreReplica
	if url == "" {
		return nil, nil
	}
	if !n.backend.shared {
		return nil, errors.New(
			"store-replica: only stores that are a database have replicas: want --store postgres://… or mysql://… beside it",
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

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/adapter/disk"
	"github.com/carillon-run/carillon/adapter/mem"
	"github.com/carillon-run/carillon/adapter/mysql"
	"github.com/carillon-run/carillon/adapter/postgres"
	"github.com/carillon-run/carillon/adapter/sqlite"
	"github.com/carillon-run/carillon/internal/owned"
)

// validateBackend refuses names of adapters that do not exist, and names beside an adapter that the caller
// brings.
func (c *Config) validateBackend() error {
	for _, port := range []struct {
		field, given string
		brought      bool
		schemes      []string
		want         string
	}{
		{
			"store", c.Store, c.Backend.Store != nil,
			[]string{"postgres", "postgresql", "mysql", "mariadb", "sqlite", "mem"},
			"postgres://…, mysql://…, sqlite:PATH, or mem: to keep nothing",
		},
		{
			"logs", c.Logs, c.Backend.Logs != nil,
			[]string{"store", "postgres", "postgresql", "mysql", "mariadb", "disk", "mem"},
			"store, postgres://…, mysql://…, disk:PATH, or mem: to keep none after a stop",
		},
		{
			"coordinator", c.Coordinator, c.Backend.Coordinator != nil,
			[]string{"store", "postgres", "postgresql", "mysql", "mariadb", "mem"},
			"store, postgres://…, mysql://… or mem:",
		},
		{"timeline", c.Timeline, c.Backend.Timeline != nil, []string{"mem"}, "mem:"},
		{"carrier", c.Carrier, c.Backend.Carrier != nil, []string{"http"}, "http"},
	} {
		if port.given == "" {
			continue
		}
		if port.brought {
			return fmt.Errorf(
				"%s: %q is not valid beside an adapter in Backend: want one of the two", port.field,
				Redact(port.given),
			)
		}
		scheme, _, _ := strings.Cut(port.given, ":")
		if !slices.Contains(port.schemes, scheme) {
			return fmt.Errorf("%s: %q is not valid: want %s", port.field, Redact(port.given), port.want)
		}
	}
	return nil
}

// openStore opens the store that the configuration names, and the other adapters that its engine has.
func (n *Node) openStore(ctx context.Context) (Backend, error) {
	switch scheme, rest, _ := strings.Cut(n.cfg.Store, ":"); scheme {
	case "sqlite":
		store, err := n.openFile(ctx, strings.TrimPrefix(rest, "//"))
		return Backend{Store: store}, err
	case "mem":
		return Backend{Store: mem.NewStore()}, nil
	case "postgres", "postgresql":
		store, err := n.openPostgres(ctx, n.cfg.Store)
		if err != nil {
			return Backend{}, err
		}
		bus := postgres.NewBus(store, postgres.BusConfig{URL: n.cfg.StoreListen, Logger: n.outage.Logger()})
		n.loops = append(n.loops, bus.Run)
		return Backend{
			Store: store, Logs: postgres.NewLogs(store), Coordinator: postgres.NewCoordinator(store),
			Intake: postgres.NewIntake(store), Bus: bus, Shared: true, Writers: 2,
		}, nil
	case "mysql", "mariadb":
		store, err := n.openMySQL(ctx, n.cfg.Store)
		if err != nil {
			return Backend{}, err
		}
		return Backend{
			Store: store, Logs: mysql.NewLogs(store), Coordinator: mysql.NewCoordinator(store),
			Shared: true, Writers: 2,
		}, nil
	default: // validateBackend knows a scheme that this switch does not
		return Backend{}, fmt.Errorf("store: no adapter opens %s", Redact(n.cfg.Store))
	}
}

func (n *Node) openFile(ctx context.Context, path string) (*sqlite.Store, error) {
	if err := private(path); err != nil {
		return nil, err
	}
	lock, err := n.lock(ctx, path+".lock", "the store "+path) // another data directory may name the same file
	if err != nil {
		return nil, err
	}
	store, err := sqlite.Open(path)
	if err := errors.Join(err, sign(lock, n.URL())); err != nil {
		return nil, err
	}
	n.close = append(n.close, store.Close)
	return store, nil
}

func (n *Node) openPostgres(ctx context.Context, url string) (*postgres.Store, error) {
	store, err := postgres.Open(ctx, url, postgres.Config{Logger: n.cfg.Logger})
	if err == nil {
		n.close = append(n.close, store.Close)
	}
	return store, err
}

func (n *Node) openMySQL(ctx context.Context, url string) (*mysql.Store, error) {
	store, err := mysql.Open(ctx, url, mysql.Config{Logger: n.cfg.Logger})
	if err == nil {
		n.close = append(n.close, store.Close)
	}
	return store, err
}

// openLogs opens a store of logs apart from the store. Where nodes share a store, each node must be able to
// read every log, so files and memory are refused there.
func (n *Node) openLogs(ctx context.Context, of *Backend) (logs carillon.LogStore, err error) {
	scheme, path, _ := strings.Cut(n.cfg.Logs, ":")
	store, _, _ := strings.Cut(n.cfg.Store, ":")
	switch {
	case scheme == "postgres" || scheme == "postgresql":
		var store *postgres.Store
		if store, err = n.openPostgres(ctx, n.cfg.Logs); err == nil {
			logs = postgres.NewLogs(store)
		}
	case scheme == "mysql" || scheme == "mariadb":
		var store *mysql.Store
		if store, err = n.openMySQL(ctx, n.cfg.Logs); err == nil {
			logs = mysql.NewLogs(store)
		}
	case of.Shared && scheme == "":
		return nil, errors.New(
			"logs: none are given for a store that nodes share: want Backend.Logs, postgres://… or mysql://…",
		)
	case of.Shared:
		return nil, fmt.Errorf(
			"logs: %q is not valid for a store that nodes share, because each node must read all logs: "+
				"want store, postgres://… or mysql://…", Redact(n.cfg.Logs),
		)
	case scheme == "store":
		return nil, fmt.Errorf(
			"logs: %q is not valid for a store that is no database: want disk:PATH, mem:, postgres://… or "+
				"mysql://…",
			n.cfg.Logs,
		)
	case scheme == "mem", scheme == "" && store == "mem":
		return mem.NewLogs(), nil
	case scheme == "disk", scheme == "":
		return n.openDisk(ctx, path)
	default: // validateBackend knows a scheme that this switch does not
		return nil, fmt.Errorf("logs: no adapter opens %s", Redact(n.cfg.Logs))
	}
	if err != nil {
		return nil, fmt.Errorf("open logs %s: %w", Redact(n.cfg.Logs), err)
	}
	return logs, nil
}

// openDisk opens logs in files. In the data directory they need no lock of their own.
func (n *Node) openDisk(ctx context.Context, path string) (carillon.LogStore, error) {
	if path == "" {
		path = filepath.Join(n.cfg.Data, logsDir)
	} else {
		path = filepath.Clean(path)
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, fmt.Errorf("logs: %w", err)
		}
		if err := owned.Me().Directory(path); err != nil {
			return nil, fmt.Errorf("logs: %w", err)
		}
		lock, err := n.lock(ctx, path+".lock", "the logs "+path)
		if err != nil {
			return nil, err
		}
		if err := sign(lock, n.URL()); err != nil {
			return nil, err
		}
	}
	return disk.NewLogs(path, disk.Config{Logger: n.cfg.Logger})
}

// openCoordinator opens a coordinator apart from the store.
func (n *Node) openCoordinator(ctx context.Context, of *Backend) (c carillon.Coordinator, err error) {
	scheme, _, _ := strings.Cut(n.cfg.Coordinator, ":")
	switch {
	case !of.Shared && (scheme == "" || scheme == "mem"):
		return mem.NewCoordinator(), nil
	case !of.Shared:
		return nil, fmt.Errorf(
			"coordinator: %q is not valid for a store that one node has for itself: want mem: or none",
			Redact(n.cfg.Coordinator),
		)
	case scheme == "postgres" || scheme == "postgresql":
		var store *postgres.Store
		if store, err = n.openPostgres(ctx, n.cfg.Coordinator); err == nil {
			c = postgres.NewCoordinator(store)
		}
	case scheme == "":
		return nil, errors.New(
			"coordinator: none is given for a store that nodes share: want Backend.Coordinator, " +
				"postgres://… or mysql://…",
		)
	case scheme == "mysql" || scheme == "mariadb":
		var store *mysql.Store
		if store, err = n.openMySQL(ctx, n.cfg.Coordinator); err == nil {
			c = mysql.NewCoordinator(store)
		}
	default:
		return nil, fmt.Errorf(
			"coordinator: %q is not valid for a store that nodes share, because all nodes must know all "+
				"sessions: want store, postgres://… or mysql://…", Redact(n.cfg.Coordinator),
		)
	}
	if err != nil {
		return nil, fmt.Errorf("open coordinator %s: %w", Redact(n.cfg.Coordinator), err)
	}
	return c, nil
}

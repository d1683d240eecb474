package node

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/internal/owned"
	"github.com/carillon-run/carillon/worker"
)

// Config says what a node is made of. The zero value is a complete system on ./carillon-data, without an API
// address.
type Config struct {
	// Data is the directory for the embedded store, the logs and the token. Default ./carillon-data.
	Data string
	// Store is where jobs are kept: "postgres://…" or "mysql://…", which any number of nodes share,
	// "sqlite:PATH" for this node alone, or "mem:" for a store that is gone when the process ends. Default:
	// the SQLite file carillon.db in Data.
	Store string
	// Logs is where the output of runs is kept: "store" in the database of Store, "postgres://…" or
	// "mysql://…" in another one, "disk:PATH" in files of a directory, "mem:" in memory. Default: the
	// database of Store; if Store is none, the directory logs in Data.
	Logs string
	// Coordinator is where the sessions of nodes and workers are kept: "store" in the database of Store,
	// "postgres://…" or "mysql://…" in another one, which all nodes must name then, "mem:" in memory.
	// Default: the database of Store; if Store is none, in memory.
	Coordinator string
	// Timeline is where the near future is kept: "mem:", in memory. Default the same.
	Timeline string
	// Carrier is how due runs get from node to node: "http". Default the same.
	Carrier string
	// Backend has adapters of the caller, which take the place of those above.
	Backend Backend

	// StoreListen is where the node listens for what other nodes say, if Store goes through a pooler that
	// does not allow listening: the URL of the PostgreSQL server itself. Default: Store.
	StoreListen string
	// StoreReplica is the URL of a copy of the store, of the same kind as Store. Lists, history and search
	// may be read from the copy.
	StoreReplica string
	// Listen is the address of the API. Empty: no API, for applications that submit in process.
	Listen string

	// Advertise is the URL under which other nodes and workers reach the API. Default: made from Listen, with
	// the name of this machine if Listen names no host.
	Advertise string

	// Version is the version of the program, which `carillon members` shows. Default: none.
	Version string

	// Concurrency is how many runs the inner worker performs at the same time. Default 64; negative: no inner
	// worker.
	Concurrency int
	// Keep is how many of them the inner worker keeps for lone runs: see worker.Config. Default none.
	Keep int
	// Queues are the queues that the inner worker serves, "name" or "name=weight". None: all.
	Queues []string
	// Labels are those of the inner worker: it gets the runs that need them.
	Labels map[string]string
	// Drain is how long a stop waits for running work before it hands that work back. Default 10s.
	Drain time.Duration
	// Handlers are the functions that handler targets call, by job type.
	Handlers map[string]executor.Handler
	// Commands says whether command targets run here. If so, main must call executor.Supervise first.
	Commands bool
	// AllowSetuid lets commands gain privileges by sudo, su and the like: see executor.CommandConfig.
	AllowSetuid bool
	// MaxProcesses is how many processes a command can have at once: see executor.CommandConfig. Default
	// 1000; negative: any number.
	MaxProcesses int
	// HTTPAllow are private networks that http targets may call.
	HTTPAllow []netip.Prefix
	// RetryBudget is the share of retries in the first requests of http targets to a host: see
	// executor.HTTPConfig. Default executor.DefaultRetryBudget; negative: no bound.
	RetryBudget float64

	// Retention is for ended runs, logs and dead letters of jobs that set none. Default
	// carillon.DefaultRetention.
	Retention carillon.Retention

	Logger *slog.Logger // default slog.Default()
}

func (c Config) withDefaults() Config {
	c.Data = cmp.Or(c.Data, "carillon-data")
	if c.Backend.Store == nil {
		c.Store = cmp.Or(c.Store, "sqlite:"+filepath.Join(c.Data, "carillon.db"))
	}
	c.Concurrency = cmp.Or(c.Concurrency, 64)
	c.Drain = cmp.Or(c.Drain, 10*time.Second)
	c.Retention = c.Retention.Or(carillon.DefaultRetention)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	return c
}

func (c Config) validate() error {
	if c.Concurrency > 100_000 {
		return fmt.Errorf("concurrency: %d is not valid: want a number up to 100000", c.Concurrency)
	}
	if err := worker.CheckKeep(c.Keep, c.Concurrency); err != nil {
		return err
	}
	if err := carillon.CheckLabels("labels", c.Labels, carillon.MaxWorkerLabels); err != nil {
		return err
	}
	if err := c.validateBackend(); err != nil {
		return err
	}
	if err := os.MkdirAll(c.Data, 0o700); err != nil {
		return err
	}
	if err := owned.Me().Directory(c.Data); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	return nil
}

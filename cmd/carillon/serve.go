package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/internal/owned"
	"github.com/carillon-run/carillon/node"
	"github.com/carillon-run/carillon/worker"
)

const serveLong = `Serve the API, schedule jobs, and run them. One server can be the whole system, or one node of a
cluster.

The server keeps jobs in an SQLite file in the data directory, or in the database that --store
names. Servers that use the same database form a cluster.

At its first start the server writes a new token to the file "token" in the data directory. All
requests except health checks need the token. All nodes of a cluster have the same token. By
default the server listens only on a loopback address.

` + settingsHelp

// settingsHelp is a part of the help of serve and of worker.
const settingsHelp = `Each flag is also an environment variable (--http-allow is CARILLON_HTTP_ALLOW) and a key of the
YAML file that --config names (http_allow: ...). A flag wins over the environment, the environment
over the file.`

// allowSetuid is the help text of a flag that both serve and worker have.
const allowSetuid = "let commands use sudo, su and other programs that change their user. Unless this " +
	"process runs as root, it cannot kill such programs: they outlive timeouts, cancels and leases, and a " +
	"run can start a second time beside them"

// maxProcesses is the help text of another such flag, and processLimit checks it.
const maxProcesses = "`number` of processes that a command can have at once, with all that it started; if " +
	"it has more, all are killed and the attempt fails; 0 means any number"

func processLimit(given int) (int, error) {
	if given < 0 {
		return 0, fmt.Errorf("max-processes: %d is not valid: want a number, or 0 for any number", given)
	}
	return cmp.Or(given, -1), nil
}

// labelFlag is the help text of another such flag, and labelsIn reads it.
const labelFlag = "`label` of this worker, as key=value: it gets the runs that need it; can be repeated, " +
	"or several separated by commas"

func labelsIn(given []string) (map[string]string, error) {
	var labels map[string]string
	for _, text := range given {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("label: %q is not valid: want key=value, such as gpu=true", text)
		}
		if _, twice := labels[key]; twice {
			return nil, fmt.Errorf("label: %q is not valid: want each key only once", text)
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
	}
	return labels, carillon.CheckLabels("label", labels, carillon.MaxWorkerLabels)
}

type serveFlags struct {
	cfg       node.Config
	config    string
	labels    []string
	httpAllow []string
	logLevel  string
	logFormat string

	retryBudget string
}

func serveCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use: "serve", Short: "Serve the API, schedule jobs, and run them", Long: serveLong, Args: none,
		Example: "  carillon serve\n" +
			"  carillon serve --listen 127.0.0.1:9000 --data /var/lib/carillon --concurrency 200\n" +
			"  CARILLON_DATA=/var/lib/carillon carillon serve --config /etc/carillon.yaml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			noteUnknown(cmd, os.Environ())
			set, err := settle(cmd.Flags(), f.config, os.LookupEnv)
			if err != nil {
				return usage("%s", err)
			}
			if err := f.resolve(cmd.ErrOrStderr()); err != nil {
				return usage("%s", set.explain(err))
			}
			if err := owned.HideProcess(); err != nil {
				f.cfg.Logger.Warn(
					"commands of this user can read the environment of this process", "error", err,
				)
			}
			f.cfg.Data, _ = cmd.Flags().GetString("data")
			return serve(cmd.Context(), f.cfg, cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "YAML `file` with these settings")
	flags.StringVar(&f.cfg.Listen, "listen", "127.0.0.1:8420", "`address` of the API, as host:port")
	flags.StringVar(
		&f.cfg.Store, "store", "",
		"`URL` of the store for jobs: postgres://…, mysql://…, sqlite:PATH, or mem: to try things out "+
			"(default carillon.db in the data directory)",
	)
	flags.StringVar(
		&f.cfg.Logs, "logs", "",
		"`URL` of the store for the output of runs: store (the database of --store), postgres://…, "+
			"mysql://…, disk:PATH or mem: (default store; without a database, logs/ in the data directory)",
	)
	flags.StringVar(
		&f.cfg.Coordinator, "coordinator", "",
		"`URL` of the store for sessions of nodes and workers: store (the database of --store), "+
			"postgres://…, mysql://… or mem: (default store; without a database, mem:)",
	)
	flags.StringVar(
		&f.cfg.Timeline, "timeline", "", "`URL` of the store for runs that are due soon: mem: (default mem:)",
	)
	flags.StringVar(
		&f.cfg.Carrier, "carrier", "", "`way` in which due runs get from node to node: http (default http)",
	)
	flags.StringVar(
		&f.cfg.StoreReplica, "store-replica", "",
		"`URL` of a copy of the store; the server reads lists and history from it",
	)
	flags.StringVar(
		&f.cfg.StoreListen, "store-listen", "",
		"`URL` of the PostgreSQL server itself, if --store goes through PgBouncer; with it this node "+
			"learns of events on other nodes sooner",
	)
	flags.StringVar(
		&f.cfg.Advertise, "advertise", "",
		"`URL` at which other nodes and workers reach this node (default made from --listen)",
	)
	flags.IntVar(
		&f.cfg.Concurrency, "concurrency", 64,
		"`number` of runs at the same time; 0 means none: only workers in other processes run jobs",
	)
	flags.IntVar(&f.cfg.Keep, "keep", 0, keepFlag)
	flags.StringSliceVar(
		&f.cfg.Queues, "queues", nil,
		"`queues` to serve, separated by commas; mail=3 gives one a weight (default all)",
	)
	flags.StringSliceVar(&f.labels, "label", nil, labelFlag)
	flags.DurationVar(
		&f.cfg.Drain, "drain", 10*time.Second,
		"time that running runs have to finish when the server stops; then they run again elsewhere or later",
	)
	flags.StringSliceVar(
		&f.httpAllow, "http-allow", nil,
		"private `networks` that http targets can call, such as 10.0.0.0/8,127.0.0.1/32",
	)
	flags.StringVar(&f.retryBudget, "retry-budget", "10%", retryBudgetFlag)
	flags.BoolVar(&f.cfg.AllowSetuid, "allow-setuid", false, allowSetuid)
	flags.IntVar(&f.cfg.MaxProcesses, "max-processes", executor.DefaultMaxProcesses, maxProcesses)
	f.cfg.Retention = carillon.DefaultRetention
	flags.Var(
		&f.cfg.Retention.Runs, "retention-runs", "time that ended runs and their one-time jobs are kept",
	)
	flags.Var(&f.cfg.Retention.Logs, "retention-logs", "time that the output of runs is kept")
	flags.Var(&f.cfg.Retention.DeadLetters, "retention-dead-letters", "time that dead letters are kept")
	flags.StringVar(
		&f.logLevel, "log-level", "info",
		"lowest `level` of log lines: debug, info, warn or error",
	)
	flags.StringVar(&f.logFormat, "log-format", "text", "`format` of log lines: text or json")
	return cmd
}

// resolve parses the flags that are text into the node's configuration.
func (f *serveFlags) resolve(stderr io.Writer) error {
	var err error
	if f.cfg.HTTPAllow, err = networks(f.httpAllow); err != nil {
		return err
	}
	if f.cfg.RetryBudget, err = retryBudget(f.retryBudget); err != nil {
		return err
	}
	if f.cfg.Logger, err = newLogger(stderr, f.logLevel, f.logFormat); err != nil {
		return err
	}
	if f.cfg.Labels, err = labelsIn(f.labels); err != nil {
		return err
	}
	if f.cfg.Drain < 0 {
		return fmt.Errorf("drain: %s is not valid: want a duration such as 10s, not negative", f.cfg.Drain)
	}
	if f.cfg.Concurrency < 0 || f.cfg.Concurrency > 100_000 {
		return fmt.Errorf("concurrency: %d is not valid: want a number from 0 to 100000", f.cfg.Concurrency)
	}
	if err := worker.CheckKeep(f.cfg.Keep, f.cfg.Concurrency); err != nil {
		return err
	}
	if f.cfg.Concurrency == 0 {
		f.cfg.Concurrency = -1
	}
	if f.cfg.MaxProcesses, err = processLimit(f.cfg.MaxProcesses); err != nil {
		return err
	}
	if _, _, err := net.SplitHostPort(f.cfg.Listen); err != nil {
		return fmt.Errorf("listen: %q is not valid: want host:port, e.g. 127.0.0.1:8420", f.cfg.Listen)
	}
	f.cfg.Commands = true
	return nil
}

func serve(ctx context.Context, cfg node.Config, out io.Writer) error {
	cfg.Version = thisBuild().Version
	n, err := node.Open(ctx, cfg)
	if err != nil {
		return err
	}
	greet(out, n, cfg)
	err = n.Run(ctx)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// greet prints what a newcomer needs next: the address, the token, and a first job to paste.
func greet(out io.Writer, n *node.Node, cfg node.Config) {
	host, _, _ := net.SplitHostPort(cfg.Listen)
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		fmt.Fprintf(
			out,
			"Listening on %s: everyone who has the token can run commands on this machine. Put TLS in "+
				"front of it.\n\n",
			cfg.Listen,
		)
	}
	fmt.Fprintf(out, `Carillon %s is ready.

  API    %s
  token  %s

A first job, in another terminal:

  curl -s %s/v1/jobs -H "Authorization: Bearer $(cat %s)" -H 'Content-Type: application/json' \
    -d '{"name":"hello","target":{"command":{"argv":["echo","hello"]}},"schedule":{"after":"2s"}}'

or: %s submit --data %s --name hello --after 2s --wait -- echo hello

`, thisBuild().Version, n.URL(), n.TokenFile(), n.URL(), n.TokenFile(), os.Args[0], cfg.Data)
}

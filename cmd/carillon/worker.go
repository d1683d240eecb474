package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/internal/owned"
	"github.com/carillon-run/carillon/worker"
	"github.com/carillon-run/carillon/worker/protocol"
)

const workerLong = `Perform runs for servers, on another machine or in another process on this machine.

A worker connects to the servers and listens on no port. It needs the token, but no access to the
database. It works with one server at a time and moves to another if that one does not answer. One
server is enough for --server: the worker learns of the other nodes of a cluster.

This worker performs command and http targets. For handlers, write your own worker: see
docs/worker-protocol.md.

After SIGTERM or Ctrl-C the worker takes no new runs. It lets running runs finish for up to
--drain, then stops them and hands them back; they run again elsewhere.

` + settingsHelp

type workerFlags struct {
	cfg       worker.Config
	config    string
	labels    []string
	servers   []string
	tokenFile string
	data      string
	httpAllow []string
	networks  []netip.Prefix
	logLevel  string
	logFormat string

	allowSetuid  bool
	maxProcesses int
	retryBudget  string
	retries      float64 // what it says
}

func (a *app) workerCommand() *cobra.Command {
	var f workerFlags
	cmd := &cobra.Command{
		Use: "worker", Short: "Perform runs for servers", Long: workerLong, Args: none,
		Example: "  carillon worker\n" +
			"  carillon worker --server https://a.example:8420,https://b.example:8420 --token-file /etc/token\n" +
			"  carillon worker --queues mail=3,reports --concurrency 200\n" +
			"  carillon worker --label gpu=true --label zone=eu-1",
		ValidArgsFunction: cobra.NoFileCompletions,
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
			return a.work(cmd.Context(), &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.config, "config", "", "YAML `file` with these settings")
	flags.StringSliceVar(
		&f.servers, "server", nil,
		"`URLs` of servers, separated by commas (default the local server's, else "+defaultServer+")",
	)
	_ = flags.SetAnnotation("server", setting, []string{"true"})
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` with the access token, instead of --token")
	flags.StringVar(&f.cfg.Name, "name", "", "`name` of this worker in lists (default host:pid)")
	flags.StringSliceVar(
		&f.cfg.Queues, "queues", nil,
		"`queues` to serve, separated by commas; mail=3 gives one a weight (default all)",
	)
	flags.StringSliceVar(&f.labels, "label", nil, labelFlag)
	flags.IntVar(&f.cfg.Concurrency, "concurrency", 64, "`number` of runs at the same time")
	flags.IntVar(&f.cfg.Keep, "keep", 0, keepFlag)
	flags.DurationVar(
		&f.cfg.Drain, "drain", 10*time.Second,
		"time that running runs have to finish when the worker stops; then they run again elsewhere",
	)
	flags.StringVar(
		&f.data, "data", "",
		"`directory` for temporary files of commands; only one worker at a time can use it. The worker "+
			"also finds a local server and its token there (default a temporary directory)",
	)
	flags.StringSliceVar(
		&f.httpAllow, "http-allow", nil,
		"private `networks` that http targets can call, such as 10.0.0.0/8,127.0.0.1/32",
	)
	flags.StringVar(&f.retryBudget, "retry-budget", "10%", retryBudgetFlag)
	flags.BoolVar(&f.allowSetuid, "allow-setuid", false, allowSetuid)
	flags.IntVar(&f.maxProcesses, "max-processes", executor.DefaultMaxProcesses, maxProcesses)
	flags.StringVar(
		&f.logLevel, "log-level", "info",
		"lowest `level` of log lines: debug, info, warn or error",
	)
	flags.StringVar(&f.logFormat, "log-format", "text", "`format` of log lines: text or json")
	return cmd
}

const keepFlag = "`number` of the slots that take only lone runs: those of a queue, namespace, share and " +
	"priority of which nothing runs and at most 4 runs wait, so that a flood cannot take all slots"

// share is a queue, optionally with a weight.
var share = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._/@-]{0,63}(=([1-9][0-9]?|100))?$`)

// resolve parses the flags that are text into the worker's configuration.
func (f *workerFlags) resolve(stderr io.Writer) (err error) {
	if f.networks, err = networks(f.httpAllow); err != nil {
		return err
	}
	if f.retries, err = retryBudget(f.retryBudget); err != nil {
		return err
	}
	if f.cfg.Logger, err = newLogger(stderr, f.logLevel, f.logFormat); err != nil {
		return err
	}
	for _, queue := range f.cfg.Queues {
		if !share.MatchString(queue) {
			return fmt.Errorf(
				"queues: %q is not valid: want a queue such as mail, or mail=3 with a weight from 1 to 100",
				queue,
			)
		}
	}
	if f.cfg.Labels, err = labelsIn(f.labels); err != nil {
		return err
	}
	if f.cfg.Drain < 0 {
		return fmt.Errorf("drain: %s is not valid: want a duration such as 10s, not negative", f.cfg.Drain)
	}
	if f.cfg.Concurrency < 1 || f.cfg.Concurrency > 40_000 {
		return fmt.Errorf("concurrency: %d is not valid: want a number from 1 to 40000", f.cfg.Concurrency)
	}
	if err := worker.CheckKeep(f.cfg.Keep, f.cfg.Concurrency); err != nil {
		return err
	}
	if f.maxProcesses, err = processLimit(f.maxProcesses); err != nil {
		return err
	}
	if f.cfg.Name == "" {
		host, _ := os.Hostname()
		f.cfg.Name = fmt.Sprintf("%s:%d", cmp.Or(host, "worker"), os.Getpid())
	}
	return nil
}

// work runs the worker until ctx ends or the servers refuse it.
func (a *app) work(ctx context.Context, f *workerFlags) error {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	servers, token, err := a.employers(f)
	if err != nil {
		return err
	}
	dispatcher, err := client.NewDispatcher(client.DispatcherConfig{
		Servers: servers, Token: token, HTTP: a.http,
	})
	if err != nil {
		return usage("server: %s", err)
	}
	executors, release, err := f.executors(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if err := release(); err != nil {
			f.cfg.Logger.Error("clean up", "error", err)
		}
	}()
	fmt.Fprintf(a.out, "Carillon %s, a worker for %s\n\n  name    %s\n  queues  %s\n  slots   %d\n",
		thisBuild().Version,
		strings.Join(servers, ", "), f.cfg.Name, cmp.Or(
			strings.Join(f.cfg.Queues, ", "), "all",
		), f.cfg.Concurrency)
	if len(f.cfg.Labels) > 0 {
		fmt.Fprintf(a.out, "  labels  %s\n", pairsText(f.cfg.Labels))
	}
	fmt.Fprintln(a.out)
	f.cfg.Dispatcher, f.cfg.Executors = &hiring{Dispatcher: dispatcher, fail: fail, out: a.out}, executors
	f.cfg.Version = thisBuild().Version
	err = worker.New(f.cfg).Run(ctx)
	var refused *refusal
	if errors.As(context.Cause(ctx), &refused) {
		return refused
	}
	return err
}

// employers are the servers to work for, and the token to send them.
func (a *app) employers(f *workerFlags) (servers []string, token string, err error) {
	a.data, a.tokenFile = cmp.Or(f.data, a.data), f.tokenFile
	if len(f.servers) == 0 {
		to, err := a.locate()
		if err != nil {
			return nil, "", err
		}
		token, err = a.credential(to)
		// Every server wants a token, so a process that takes a worker without one is not a server.
		if err == nil && token == "" {
			err = usage("no server is named, and no server runs on %s: start one with \"carillon serve\", "+
				"name its data directory with --data, or name a server with --server",
				a.data)
		}
		return []string{to.url}, token, err
	}
	to := place{from: "--server"}
	for _, server := range f.servers {
		servers = append(servers, withScheme(server))
		// The token goes to all of them, so the least trusted one decides.
		if to.url == "" || a.trusts(to) {
			to.url = withScheme(server)
		}
	}
	token, err = a.credential(to)
	return servers, token, err
}

// executors are for the targets that a program without handlers can run.
func (f *workerFlags) executors(ctx context.Context) (
	all map[string]executor.Executor, release func() error, err error,
) {
	dir, remove := f.data, func() error { return nil }
	if dir == "" {
		if dir, err = os.MkdirTemp("", "carillon-worker-"); err != nil {
			return nil, nil, err
		}
		remove = func() error { return os.RemoveAll(dir) }
	}
	all, unleash, err := f.executorsIn(ctx, dir)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("data: %w", err), remove())
	}
	return all, func() error { return errors.Join(unleash(), remove()) }, nil
}

// executorsIn avoids the file names that a server uses in its data directory: dir can be that directory.
func (f *workerFlags) executorsIn(ctx context.Context, dir string) (
	map[string]executor.Executor, func() error, error,
) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, err
	}
	if err := owned.Me().Directory(dir); err != nil {
		return nil, nil, err
	}
	return executor.All(ctx, executor.AllConfig{
		HTTPAllow: f.networks, RetryBudget: f.retries, Leash: filepath.Join(dir, "worker.lock"),
		TempDir:     filepath.Join(dir, "worker-tmp"),
		AllowSetuid: f.allowSetuid, MaxProcesses: f.maxProcesses, Logger: f.cfg.Logger,
	})
}

// hiring is the dispatcher of a worker that has just started: it prints that the worker is registered, and
// ends the start if a server refuses the worker for good.
type hiring struct {
	protocol.Dispatcher
	fail context.CancelCauseFunc
	out  io.Writer
	done bool
}

func (h *hiring) Register(ctx context.Context, r protocol.Registration) (string, error) {
	id, err := h.Dispatcher.Register(ctx, r)
	var problem *client.Problem
	switch {
	case h.done:
	case err == nil:
		h.done = true
		fmt.Fprintf(h.out, "Registered as %s.\n", id)
	case errors.As(err, &problem) && problem.Status/100 == 4:
		h.fail(&refusal{problem})
	}
	return id, err
}

// refusal is a separate error because the text for other commands is about the token that they found.
type refusal struct{ problem *client.Problem }

func (r *refusal) Error() string {
	if r.problem.Status == 401 {
		return "the server does not accept the token: give it with --token, --token-file or CARILLON_TOKEN"
	}
	return "the server refuses this worker: " + r.problem.Error()
}

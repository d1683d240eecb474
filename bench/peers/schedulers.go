package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/carillon-run/carillon/bench/peers/result"
)

// scheduler is a program to measure.
type scheduler struct {
	name   string
	engine string // postgres and redis are servers of this run; any other engine comes with the scheduler
	kind   string // go, node, python; empty: it is not available
	// argv is the program. For Go its first word is the folder to build; ready replaces it with the program
	// in b.bin.
	argv    []string
	missing string // why it is not available
	alone   string // why several processes cannot share its store
}

var schedulers = []scheduler{
	{
		name: "carillon-sqlite", engine: "sqlite", kind: "go", argv: []string{"carillon", "carillon-sqlite"},
		alone: "its store is for one node alone",
	},
	{
		name: "carillon-postgres", engine: "postgres", kind: "go",
		argv: []string{"carillon", "carillon-postgres"},
	},
	{name: "carillon-http", engine: "postgres", kind: "go", argv: []string{"carillon", "carillon-http"}},
	{name: "river", engine: "postgres", kind: "go", argv: []string{"river"}},
	{name: "graphile-worker", engine: "postgres", kind: "node", argv: []string{"graphile-worker"}},
	{name: "graphile-worker-4000", engine: "postgres", kind: "node", argv: []string{"graphile-worker-4000"}},
	{name: "pg-boss", engine: "postgres", kind: "node", argv: []string{"pg-boss"}},
	{name: "asynq", engine: "redis", kind: "go", argv: []string{"asynq"}},
	{name: "bullmq", engine: "redis", kind: "node", argv: []string{"bullmq"}},
	{name: "celery", engine: "redis", kind: "python"},
	{
		name: "temporal", engine: "temporal", kind: "go", argv: []string{"temporal"},
		alone: "its development server is one process with a store of its own",
	},
	{
		name: "faktory",
		missing: "not tried by this program: in November 2026 neither its module nor its server could be " +
			"installed from the registries at hand",
	},
}

// choose finds schedulers by their names, in the order of the table.
func choose(names string) (chosen []scheduler, err error) {
	if names == "" {
		return slices.Clone(schedulers), nil
	}
	list := strings.Split(names, ",")
	for _, p := range schedulers {
		if slices.Contains(list, p.name) {
			chosen = append(chosen, p)
		}
	}
	for _, name := range list {
		if !slices.ContainsFunc(schedulers, func(p scheduler) bool { return p.name == name }) {
			return nil, fmt.Errorf("peers: there is no %q", name)
		}
	}
	return chosen, nil
}

// build makes the schedulers ready, and leaves out those that cannot be built or started.
func (b *bench) build(ctx context.Context) {
	b.scene = "build"
	made := map[string]error{}
	var able []scheduler
	for _, p := range b.peers {
		err := b.serverFor(p)
		if err == nil {
			err = b.ready(ctx, &p, made)
		}
		if err == nil {
			err = b.greet(ctx, p)
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			b.absent(result.Absent{Peer: p.name, Why: reason(err)})
			continue
		}
		able = append(able, p)
	}
	b.peers = able
}

// ready builds or installs the program of a scheduler. A thing that several schedulers need is made once.
func (b *bench) ready(ctx context.Context, p *scheduler, made map[string]error) error {
	once := func(what string, do func() error) error {
		if _, done := made[what]; !done {
			b.say("making %s", what)
			made[what] = do()
		}
		return made[what]
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	switch p.kind {
	case "go":
		folder := p.argv[0]
		program := filepath.Join(b.bin, folder)
		p.argv = append([]string{program}, p.argv[1:]...)
		return once(folder, func() error {
			if _, err := os.Stat(folder); err != nil {
				return err
			}
			return command(ctx, here, "go", "build", "-o", program, "./"+folder)
		})
	case "node":
		p.argv = append([]string{"node", filepath.Join(here, "node", "main.js")}, p.argv...)
		return once("node modules", func() error { return npm(ctx, filepath.Join(here, "node")) })
	case "python":
		folder := filepath.Join(here, "python")
		p.argv = []string{filepath.Join(folder, ".venv", "bin", "python"), filepath.Join(folder, "main.py")}
		return once("python environment", func() error { return venv(ctx, folder) })
	}
	return errors.New(p.missing)
}

// npm installs the packages of the lock file, unless that has been done.
func npm(ctx context.Context, folder string) error {
	if newer(
		filepath.Join(folder, "node_modules", ".package-lock.json"),
		filepath.Join(folder, "package-lock.json"),
	) {
		return nil
	}
	return command(ctx, folder, "npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
}

// venv does the same for Python.
func venv(ctx context.Context, folder string) error {
	done := filepath.Join(folder, ".venv", "installed")
	if newer(done, filepath.Join(folder, "requirements.txt")) {
		return nil
	}
	err := command(ctx, folder, "python3", "-m", "venv", ".venv")
	if err == nil {
		err = command(
			ctx, folder, filepath.Join(folder, ".venv", "bin", "pip"), "install", "--quiet",
			"--disable-pip-version-check", "-r", "requirements.txt",
		)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(done, nil, 0o644)
}

// newer says that a file was written after another one.
func newer(file, than string) bool {
	f, err1 := os.Stat(file)
	t, err2 := os.Stat(than)
	return err1 == nil && err2 == nil && !f.ModTime().Before(t.ModTime())
}

// command runs a program to its end; the error ends with the last line of its output.
func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, lines[len(lines)-1])
	}
	return nil
}

// greet starts a scheduler once to read its hello.
func (b *bench) greet(ctx context.Context, p scheduler) error {
	at, err := b.fresh(ctx, p)
	if err != nil {
		return err
	}
	c, err := b.spawn(ctx, p, at)
	if err == nil {
		b.say("%s %s: %s", c.hello.Name, c.hello.Version, c.hello.Settings)
		if c.hello.Name != p.name {
			err = fmt.Errorf("it calls itself %q", c.hello.Name)
		}
		b.result.Peers = append(b.result.Peers, c.hello)
		c.end()
	}
	return errors.Join(err, b.discard(at))
}

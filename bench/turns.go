package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A shared machine is faster in one minute and slower in the next, by more than two versions differ. So
// `bench --before` lets them take turns of a fraction of a second, and pairs the turns that follow each
// other.

// step is what a version does in one turn.
type step struct {
	name string
	jobs int
	wait bool // the figure is a time, in milliseconds; otherwise a rate, in jobs a second
}

var steps = []step{
	{name: "submit_x1", jobs: 500},
	{name: "submit_x16", jobs: 4000},
	{name: "submit_bulk", jobs: 20_000},
	{name: "steady", jobs: 20_000},
	{name: "drain", jobs: 40_000},
	{name: "instant_p99", jobs: 20_000, wait: true},
	{name: "pickup_p50", jobs: 100, wait: true},
}

// turnsOfOneStart is how many turns of a step the versions take before they begin anew with empty databases:
// how a process happens to lie in memory should not decide, nor what other steps left to be cleaned up.
const turnsOfOneStart = 4

// The versions. The earlier one takes part twice: what differs between the two of them is noise.
const (
	before = iota
	now
	again
	versions
)

var versionNames = [versions]string{"before", "now", "before_again"}

// turn holds the figures of the same step, one from each version.
type turn [versions]float64

// comparison says with what this version takes turns.
type comparison struct {
	commit string
	source string // file with bench/part/main.go as that commit needs it; empty: as it is here
	only   string // figures, comma-separated; empty: all
	long   time.Duration
}

// compare measures this version and the one of an earlier commit in turns, and prints what differs.
func (b *bench) compare(ctx context.Context, dir string, with comparison) error {
	chosen := steps
	if with.only != "" {
		chosen = nil
		for name := range strings.SplitSeq(with.only, ",") {
			i := slices.IndexFunc(steps, func(s step) bool { return s.name == name })
			if i < 0 {
				return fmt.Errorf("only: there is no figure %q in turns", name)
			}
			chosen = append(chosen, steps[i])
		}
	}
	return b.on(ctx, dir, func(about string) error {
		programs, err := b.buildParts(ctx, with)
		if err != nil {
			return err
		}
		turns := make([][]turn, len(chosen))
		for start := time.Now(); time.Since(start) < with.long; {
			for i, s := range chosen {
				some, err := b.oneStart(ctx, programs, s)
				if err != nil {
					return fmt.Errorf("%s: %w", s.name, err)
				}
				turns[i] = append(turns[i], some...)
			}
			left := max(with.long-time.Since(start), 0).Round(time.Second)
			b.say("%d turns of each step, %s to go", len(turns[0]), left)
		}
		fmt.Printf("bench: on %s, in turns with %s\n", about, with.commit)
		return reportTurns(os.Stdout, chosen, turns)
	})
}

// buildParts builds bench/part of both versions.
func (b *bench) buildParts(ctx context.Context, with comparison) (programs [versions]string, err error) {
	source := partSource
	if with.source != "" {
		if source, err = os.ReadFile(with.source); err != nil {
			return programs, fmt.Errorf("part: %w", err)
		}
	}
	tree := filepath.Join(b.dir, "tree")
	if err := command(ctx, "", "git", "worktree", "add", "--detach", tree, with.commit); err != nil {
		return programs, err
	}
	defer func() {
		err = errors.Join(
			err, command(context.WithoutCancel(ctx), "", "git", "worktree", "remove", "--force", tree),
		)
	}()
	folder := filepath.Join(tree, "bench", "part")
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return programs, err
	}
	if err := os.WriteFile(filepath.Join(folder, "main.go"), source, 0o600); err != nil {
		return programs, err
	}
	programs[before], programs[now] = filepath.Join(b.dir, "part-before"), filepath.Join(b.dir, "part-now")
	programs[again] = programs[before]
	b.say("building both versions")
	if err := command(ctx, tree, "go", "build", "-o", programs[before], "./bench/part"); err != nil {
		return programs, fmt.Errorf("%w\ngive --part a bench/part/main.go that fits %s", err, with.commit)
	}
	return programs, command(ctx, "", "go", "build", "-o", programs[now], "./bench/part")
}

//go:embed part/main.go
var partSource []byte

func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// oneStart starts all versions with empty databases and lets them take turns at a step. The first turn does
// not count: it warms up.
func (b *bench) oneStart(
	ctx context.Context, programs [versions]string, s step,
) (turns []turn, err error) {
	var parts [versions]*part
	defer func() {
		for _, p := range parts {
			if p != nil {
				err = errors.Join(err, p.end(), b.discard(context.WithoutCancel(ctx), p.at))
			}
		}
	}()
	for _, v := range rand.Perm(versions) { // the first to start could have the better place on the disk
		b.scene = versionNames[v]
		at, err := b.fresh(ctx)
		if err != nil {
			return nil, err
		}
		if parts[v], err = startPart(ctx, programs[v], at); err != nil {
			return nil, err
		}
	}
	b.scene = "turns"
	for range turnsOfOneStart + 1 {
		var t turn
		for _, v := range rand.Perm(versions) {
			if t[v], err = parts[v].do(s.name, b.count(s.jobs)); err != nil {
				return nil, fmt.Errorf("%s: %w", versionNames[v], err)
			}
		}
		turns = append(turns, t)
	}
	return turns[1:], nil
}

// part is a running version.
type part struct {
	at    place
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func startPart(ctx context.Context, program string, at place) (*part, error) {
	p := &part{at: at, cmd: exec.CommandContext(ctx, program, at.data, at.store)}
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.lines = bufio.NewScanner(out)
	if !p.lines.Scan() {
		return nil, fmt.Errorf("start %s: %w", program, errors.Join(errChildEnded, p.cmd.Wait()))
	}
	return p, nil
}

// do lets the version take a turn and returns its figure.
func (p *part) do(step string, jobs int) (float64, error) {
	if _, err := fmt.Fprintln(p.in, step, jobs); err != nil {
		return 0, err
	}
	if !p.lines.Scan() {
		return 0, errChildEnded
	}
	return strconv.ParseFloat(p.lines.Text(), 64)
}

func (p *part) end() error {
	p.in.Close()
	return p.cmd.Wait()
}

package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A shared machine is faster in one minute and slower in the next, by more than two versions differ. So
// `bench --before` lets the two versions take short turns, and compares turns that follow each other.

// step is what a version does in one turn: it measures one figure.
type step struct {
	figure string
	jobs   int
	wait   bool // the figure is a time, in milliseconds; otherwise a rate, in jobs a second
	named  bool // measured only if --only names it
	long   bool // a turn can take a minute: one round of a start
	held   bool // beside a transaction that is held, see heldScenario
}

var steps = []step{
	{figure: "submit_x1", jobs: 500},
	{figure: "submit_x16", jobs: 4000},
	{figure: "submit_bulk", jobs: 20_000},
	{figure: "steady", jobs: 20_000},
	{figure: "drain", jobs: 40_000},
	{figure: "drain_backlog_10k", jobs: 10_000},
	{figure: "drain_backlog_1m", jobs: 1_000_000, named: true, long: true},
	{figure: "nodes_4", jobs: 40_000, named: true},
	{figure: "held", jobs: 40_000, named: true, held: true},
	{figure: "instant_lateness_p99", jobs: 20_000, wait: true},
	{figure: "pickup_p50", jobs: 100, wait: true},
}

// roundsOfOneStart is how many rounds of a step the programs play before they start anew with empty
// databases. A new start gives each process another layout in memory, and removes what earlier rounds left
// behind.
const roundsOfOneStart = 3

// The programs: that of the earlier version takes part twice. A difference between its two is noise.
const (
	before = iota
	now
	again
	programs
)

var programNames = [programs]string{"before", "now", "before_again"}

// round holds the figures of one turn of each program.
type round [programs]float64

// comparison is what --before and its flags ask for.
type comparison struct {
	commit string
	source string // file with bench/part/main.go as that commit needs it; empty: as it is here
	steps  []step
	long   time.Duration
}

// newComparison checks what is asked for.
func newComparison(
	ctx context.Context, commit, source, only string, long time.Duration,
) (c comparison, err error) {
	c = comparison{commit: commit, source: source, long: long}
	if long <= 0 {
		return c, fmt.Errorf("for: %s is not valid: want more than 0, such as 10m", long)
	}
	if c.steps, err = chooseSteps(only); err != nil {
		return c, err
	}
	if _, err := os.Stat("bench/part"); err != nil {
		return c, errors.New("before: there is no bench/part here: want the root of the repository")
	}
	if _, err := output(ctx, "git", "rev-parse", "--verify", "--quiet", commit+"^{commit}"); err != nil {
		return c, fmt.Errorf("before: git knows no commit %q", commit)
	}
	return c, nil
}

// chooseSteps finds steps by their figures, comma-separated; empty: all that need not be named.
func chooseSteps(only string) (chosen []step, err error) {
	if only == "" {
		return slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return s.named }), nil
	}
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(steps, func(s step) bool { return s.figure == name })
		if i < 0 {
			return nil, fmt.Errorf("only: %q is not valid: want some of %s", name, figures(steps))
		}
		chosen = append(chosen, steps[i])
	}
	return chosen, nil
}

func figures(of []step) string {
	names := make([]string, len(of))
	for i, s := range of {
		names[i] = s.figure
	}
	return strings.Join(names, ",")
}

// compare measures this version and an earlier one in turns, and prints how they differ. If it fails, or is
// interrupted, it prints what it knows by then.
func (b *bench) compare(ctx context.Context, about string, with comparison) error {
	paths, err := b.buildParts(ctx, with)
	if err != nil {
		return err
	}
	starts := make([][][]round, len(with.steps)) // by step
	for start := time.Now(); err == nil && time.Since(start) < with.long; {
		for i, s := range with.steps {
			var rounds []round
			if rounds, err = b.oneStart(ctx, paths, s); err != nil {
				err = fmt.Errorf("%s: %w", s.figure, err)
				break
			}
			starts[i] = append(starts[i], rounds)
			left := max(with.long-time.Since(start), 0).Round(time.Second)
			b.say("%s: %d starts, %s to go", s.figure, len(starts[i]), left)
		}
	}
	if ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	fmt.Printf("bench: on %s\n", about)
	fmt.Printf("bench: before is %s, now is %s\n", describe(ctx, with.commit), describe(ctx, ""))
	if b.scale != 1 {
		fmt.Printf("\nscale %v: a look, not a measurement\n", b.scale)
	}
	return errors.Join(err, reportRounds(os.Stdout, with.steps, starts))
}

// describe names a commit, or this tree.
func describe(ctx context.Context, commit string) string {
	args := []string{"describe", "--always", "--tags"}
	if commit == "" {
		args = append(args, "--dirty=, with changes that are not committed")
	} else {
		args = append(args, commit)
	}
	name, err := output(context.WithoutCancel(ctx), "git", args...)
	if err != nil {
		return commit
	}
	return strings.TrimSpace(name)
}

//go:embed part/main.go
var partSource []byte

// buildParts builds bench/part of both versions and returns the path of each program.
func (b *bench) buildParts(ctx context.Context, with comparison) (paths [programs]string, err error) {
	source := partSource
	if with.source != "" {
		if source, err = os.ReadFile(with.source); err != nil {
			return paths, fmt.Errorf("part: %w", err)
		}
	}
	b.say("building both versions")
	tree, tar := filepath.Join(b.dir, "tree"), filepath.Join(b.dir, "tree.tar")
	folder := filepath.Join(tree, "bench", "part")
	paths[before], paths[now] = filepath.Join(b.dir, "part-before"), filepath.Join(b.dir, "part-now")
	paths[again] = paths[before]
	if err := os.Mkdir(tree, 0o700); err != nil {
		return paths, err
	}
	if _, err := output(ctx, "git", "archive", "--format=tar", "-o", tar, with.commit); err != nil {
		return paths, err
	}
	if _, err := output(ctx, "tar", "-xf", tar, "-C", tree); err != nil {
		return paths, err
	}
	if err := os.RemoveAll(folder); err != nil {
		return paths, err
	}
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return paths, err
	}
	if err := os.WriteFile(filepath.Join(folder, "main.go"), source, 0o600); err != nil {
		return paths, err
	}
	if _, err := output(ctx, "go", "-C", tree, "build", "-o", paths[before], "./bench/part"); err != nil {
		return paths, fmt.Errorf(
			"%w\nif the product's functions were called otherwise in %s, give --part a file that fits it",
			err,
			with.commit,
		)
	}
	_, err = output(ctx, "go", "build", "-o", paths[now], "./bench/part")
	return paths, err
}

// output runs a command and returns what it printed.
func output(ctx context.Context, name string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// oneStart starts all programs with empty databases and lets them play rounds of a step. The first round does
// not count: it warms up. A long turn needs no warm-up.
func (b *bench) oneStart(
	ctx context.Context, paths [programs]string, s step,
) (rounds []round, err error) {
	var parts [programs]*part
	defer func() {
		for _, p := range parts {
			if p != nil {
				err = errors.Join(err, p.end(), b.discard(context.WithoutCancel(ctx), p.at))
			}
		}
	}()
	for _, i := range rand.Perm(programs) { // the first to start could have the better place on the disk
		b.scene = programNames[i]
		at, err := b.fresh(ctx)
		if err != nil {
			return nil, err
		}
		if parts[i], err = startPart(ctx, paths[i], at); err != nil {
			return nil, err
		}
	}
	if s.held {
		for _, p := range parts {
			release, failed := b.engine.hold(ctx, p.at)
			if failed != nil {
				return nil, failed
			}
			defer func() { err = errors.Join(err, release()) }()
		}
	}
	b.scene = "turns"
	warmUp, count := 1, roundsOfOneStart
	if s.long {
		warmUp, count = 0, 1
	}
	for range warmUp + count {
		var r round
		for _, i := range rand.Perm(programs) {
			if r[i], err = parts[i].turn(s.figure, b.count(s.jobs)); err != nil {
				return nil, fmt.Errorf("%s: %w", programNames[i], err)
			}
		}
		rounds = append(rounds, r)
	}
	return rounds[warmUp:], nil
}

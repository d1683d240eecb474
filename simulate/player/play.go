package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/carillon-run/carillon/internal/overlay"
)

//go:embed runtime.txt
var runtimeEdits string

// changedRuntime are the files of the Go runtime that a seed rules, by path.
func changedRuntime(ctx context.Context) (map[string]string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	edits, err := overlay.Read(runtimeEdits)
	if err != nil {
		return nil, err
	}
	for i := range edits {
		edits[i].File = filepath.Join(strings.TrimSpace(string(root)), "src", edits[i].File)
	}
	files, err := overlay.Apply(edits, os.ReadFile)
	if err != nil {
		return nil, fmt.Errorf("simulate/player/runtime.txt does not fit this version of Go: %w", err)
	}
	return files, nil
}

// build builds the tests of package simulate with that runtime.
func build(ctx context.Context, dir string) (program string, err error) {
	files, err := changedRuntime(ctx)
	if err != nil {
		return "", err
	}
	list, err := overlay.Write(dir, files)
	if err != nil {
		return "", err
	}
	program = filepath.Join(dir, "simulate.test")
	build := exec.CommandContext(
		ctx, "go", "test", "-c", "-vet=off", "-tags", "seeded", "-overlay", list, "-o", program, "./simulate",
	)
	// The order of a map with pointers as keys depends on their addresses.
	build.Env = append(os.Environ(), "GOEXPERIMENT=norandomizedheapbase64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return program, nil
}

// player plays worlds with a program that build has built.
type player struct{ program, test string }

// game is a world that was played.
type game struct {
	seed           uint64
	without        []int // steps that were left out
	steps          int   // that the world has, with those
	runs, attempts int
	frozen         int    // overlaps after a freeze
	record         string // everything that happened
	story          string // what was broken, and how it came about; empty: nothing
}

// broke is the first word about the promise that was broken, such as "lost".
func (g *game) broke() string {
	_, rest, _ := strings.Cut(g.story, "\n")
	word, _, _ := strings.Cut(strings.TrimSpace(rest), ":")
	return word
}

// play plays a world, without some of its steps.
func (p *player) play(ctx context.Context, seed uint64, without []int) (*game, error) {
	list := make([]string, len(without))
	for i, step := range without {
		list[i] = strconv.Itoa(step)
	}
	world := exec.CommandContext(
		ctx, p.program, "-test.run", "^"+p.test, "-test.timeout", "0", "-test.v", "-seed",
		strconv.FormatUint(seed, 10), "-without", strings.Join(list, ","),
	)
	world.Dir = os.TempDir()
	// One thread; no collector of garbage and no signal may come between two goroutines.
	world.Env = append(os.Environ(), "GOMAXPROCS=1", "GOGC=off", "GODEBUG=asyncpreemptoff=1")
	out, err := world.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	g := &game{seed: seed, without: without}
	_, rest, _ := strings.Cut(string(out), "world: ")
	line, rest, _ := strings.Cut(rest, "\n")
	record, _, whole := strings.Cut(rest, "end of the world\n")
	n, _ := fmt.Sscanf(
		line, "steps=%d runs=%d attempts=%d frozen=%d", &g.steps, &g.runs, &g.attempts, &g.frozen,
	)
	if !whole || n != 4 {
		// A panic, or a deadlock: also a way to break a promise.
		g.story = fmt.Sprintf("seed %d:\n  panic:\n%s", seed, out)
		return g, nil
	}
	g.record = record
	if exit != nil {
		_, story, _ := strings.Cut(string(out), "broken: ")
		story, _, _ = strings.Cut(story, "\n--- FAIL")
		g.story = story
	}
	return g, nil
}

// total adds up what happened in all worlds.
type total struct{ worlds, runs, attempts, frozen int }

func (t *total) add(g *game) {
	t.worlds++
	t.runs += g.runs
	t.attempts += g.attempts
	t.frozen += g.frozen
}

func (t total) String() string {
	return fmt.Sprintf(
		"worlds=%d runs=%d attempts=%d overlaps_after_a_freeze=%d", t.worlds, t.runs, t.attempts, t.frozen,
	)
}

// Command bench measures Carillon on this machine: how much it carries, how late it starts, what it costs while idle.
// It shows progress on standard error and ends with one line per figure on standard output:
//
//	bench: <name> <value> <unit>
//
// bench/README.md explains each figure.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/carillon-run/carillon/executor"
)

// scenario measures something and reports figures.
type scenario struct {
	name string
	run  func(context.Context, *bench) error
}

var scenarios = []scenario{
	{"plain", plainCycle},
	{"submit", submitScenario},
	{"steady", steadyScenario},
	{"drain", drainScenario},
	{"instant", instantScenario},
	{"pickup", pickupScenario},
	{"ahead", aheadScenario},
	{"flat", flatScenario},
}

type bench struct {
	dir    string // for data directories, each scenario its own
	scale  float64
	lines  []string
	scene  string
	opened int
}

func main() {
	executor.Supervise()
	only := flag.String("only", "", "scenarios to run, comma-separated (default all)")
	dir := flag.String("dir", "", "where to put data (default: a temporary directory)")
	scale := flag.Float64("scale", 1, "share of the jobs of each scenario, for a quick look")
	idle := flag.String("idle", "", "internal: measure an idle node on this data directory")
	profile := flag.String("cpuprofile", "", "write a CPU profile of the whole run to this file")
	flag.Parse()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			exit(err)
		}
		if err := pprof.StartCPUProfile(f); err != nil {
			exit(err)
		}
		defer pprof.StopCPUProfile()
	}
	if *idle != "" {
		exit(measureIdle(*idle))
	}
	b := &bench{dir: *dir, scale: *scale}
	clean := func() {}
	if b.dir == "" {
		temp, err := os.MkdirTemp("", "carillon-bench-")
		if err != nil {
			exit(err)
		}
		b.dir = temp
		clean = func() { os.RemoveAll(temp) }
		defer clean()
	}
	b.say("%s, %d cores, %s; data in %s", runtime.Version(), runtime.NumCPU(), runtime.GOARCH, b.dir)
	for _, s := range scenarios {
		if *only != "" && !strings.Contains(","+*only+",", ","+s.name+",") {
			continue
		}
		b.scene = s.name
		start := time.Now()
		b.say("begin")
		if err := s.run(context.Background(), b); err != nil {
			clean()
			exit(fmt.Errorf("%s: %w", s.name, err))
		}
		b.say("done in %s", time.Since(start).Round(time.Second))
	}
	for _, line := range b.lines {
		fmt.Println(line)
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// say shows progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s %-8s %s\n", time.Now().Format("15:04:05"), b.scene, fmt.Sprintf(format, args...))
}

// figure reports a result.
func (b *bench) figure(name string, value float64, unit string) {
	text := fmt.Sprintf("%.0f", value)
	if value < 100 {
		text = fmt.Sprintf("%.2f", value)
	}
	line := fmt.Sprintf("bench: %s %s %s", name, text, unit)
	b.lines = append(b.lines, line)
	b.say("%s", line)
}

func (b *bench) count(n int) int { return max(int(float64(n)*b.scale), 100) }

// Command bench measures Carillon on this machine: how much load it carries, how late it starts runs, what it
// costs while idle; on the embedded store or on a private database server. It shows progress on standard
// error and ends, on standard output, with one line per figure and a table of the bars:
//
//	bench: <name> <value> <unit>
//
// With -before it ends with a table of how an earlier version differs. bench/README.md explains each figure.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/carillon-run/carillon/executor"
)

// scenario measures something and reports figures.
type scenario struct {
	name   string
	run    func(context.Context, *bench) error
	shared bool // it needs a store that several processes can use
	asked  bool // it takes long, and runs only if -only names it
}

var scenarios = []scenario{
	{"plain", plainScenario, false, false},
	{"submit", submitScenario, false, false},
	{"folds", foldsScenario, false, false},
	{"steady", steadyScenario, false, false},
	{"drain", drainScenario, false, false},
	{"instant", instantScenario, false, false},
	{"pickup", pickupScenario, false, false},
	{"ahead", aheadScenario, false, false},
	{"flat", flatScenario, false, false},
	{"remote", remoteScenario, false, false},
	{"nodes", nodesScenario, true, false},
	{"held", heldScenario, true, false},
	{"overload", overloadScenario, false, true},
	{"order", orderScenario, false, true},
	{"keys", keysScenario, false, true},
	{"limits", limitsScenario, false, true},
	{"gates", gatesScenario, false, true},
	{"workflow", workflowScenario, false, true},
	{"dead", deadScenario, false, true},
}

type bench struct {
	kind    *kind
	engine  engine
	dir     string // for data directories; each scenario has its own
	profile string // empty: no profile
	scale   float64
	slots   int // of the worker under overload
	hold    time.Duration
	strict  bool // a figure that got worse is an error

	scene   string
	opened  int // places
	spawned int // processes
	houses  []*house
	figures []figure
}

func main() {
	executor.Supervise()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200) // as `carillon` does
	}
	var b bench
	store := flag.String(
		"store", "sqlite", "what to measure: sqlite, or postgres or mysql, which start a private server",
	)
	only := flag.String("only", "", "scenarios to run, or figures to measure with -before, comma-separated "+
		"(default all)")
	dir := flag.String("dir", "", "where to put data (default: a temporary directory)")
	flag.IntVar(&b.slots, "slots", slots, "slots of the worker in the scenario overload")
	flag.Float64Var(&b.scale, "scale", 1, "share of the jobs of each scenario, for a quick look")
	flag.DurationVar(
		&b.hold, "hold", 5*time.Minute, "how long the transaction of the scenario held has been open",
	)
	flag.StringVar(
		&b.profile, "cpuprofile", "",
		"write a CPU profile of the whole run to this file, and of other processes to files beside it",
	)
	record := flag.Bool("record", false, "write the figures of this run to "+recordFile)
	flag.BoolVar(&b.strict, "strict", false, "a figure that is worse than recorded is an error")
	commit := flag.String("before", "", "measure in turns with this earlier commit, and print what differs")
	long := flag.Duration("for", 10*time.Minute, "how long to take turns with the commit of -before")
	source := flag.String(
		"part", "", "bench/part/main.go as the commit of -before needs it (default: as it is here)",
	)
	role := flag.String("role", "", "internal: a part of a scenario, told by standard input what to do")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	err := b.profiled(func() error {
		if *role != "" {
			return play(*role, os.Stdin)
		}
		if err := b.chooseKind(*store); err != nil {
			return err
		}
		if err := together(*commit != ""); err != nil {
			return err
		}
		if *commit != "" {
			with, err := newComparison(ctx, *commit, *source, *only, *long)
			if err != nil {
				return err
			}
			return b.withEngine(ctx, *dir, func(about string) error { return b.compare(ctx, about, with) })
		}
		chosen, err := b.choose(*only)
		if err != nil {
			return err
		}
		if err := b.guarded(*record); err != nil {
			return err
		}
		return b.withEngine(ctx, *dir, func(about string) error {
			return b.measure(ctx, about, chosen, *record)
		})
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// chooseKind finds the kind of store by its name.
func (b *bench) chooseKind(store string) error {
	at := slices.IndexFunc(kinds, func(k kind) bool { return k.name == store })
	if at < 0 {
		return fmt.Errorf("store: %q is not valid: want sqlite, postgres or mysql", store)
	}
	b.kind = &kinds[at]
	return nil
}

// choose finds the scenarios by their names.
func (b *bench) choose(only string) (chosen []scenario, err error) {
	for name := range strings.SplitSeq(only, ",") {
		if only != "" && !slices.ContainsFunc(scenarios, func(s scenario) bool { return s.name == name }) {
			return nil, fmt.Errorf("only: there is no scenario %q", name)
		}
	}
	for _, s := range scenarios {
		switch {
		case only != "" && !slices.Contains(strings.Split(only, ","), s.name), only == "" && s.asked:
		case s.shared && !b.kind.shared:
			fmt.Fprintf(os.Stderr, "bench: %s is left out: %s is for one node alone\n", s.name, b.kind.name)
		default:
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}

// together checks that only flags were given that work together.
func together(compares bool) (err error) {
	alone := []string{"record", "strict", "hold", "cpuprofile"} // without -before
	if !compares {
		alone = []string{"for", "part"} // with it
	}
	flag.Visit(func(f *flag.Flag) {
		switch {
		case !slices.Contains(alone, f.Name):
		case compares:
			err = fmt.Errorf("%s: has no meaning together with -before", f.Name)
		default:
			err = fmt.Errorf("%s: has no meaning without -before", f.Name)
		}
	})
	return err
}

// withEngine starts the engine, calls do, and stops the engine.
func (b *bench) withEngine(ctx context.Context, dir string, do func(about string) error) (err error) {
	if b.dir, err = os.MkdirTemp(dir, "carillon-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	// Beside it: a server can run as another user, who must not need access to b.dir.
	server, err := os.MkdirTemp(dir, "carillon-bench-server-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(server)
	b.scene = b.kind.name
	if b.engine, err = b.kind.start(ctx, server); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.engine.stop()) }()
	about, err := b.engine.about(ctx)
	if err != nil {
		return fmt.Errorf("ask the server about itself: %w", err)
	}
	b.say("%s", about)
	b.say("%s, %d cores, %s; data in %s", runtime.Version(), runtime.NumCPU(), runtime.GOARCH, b.dir)
	return do(about)
}

// measure runs the scenarios and prints their figures. A scenario that fails does not stop the others.
func (b *bench) measure(ctx context.Context, about string, chosen []scenario, record bool) (err error) {
	for _, s := range chosen {
		b.scene = s.name
		start := time.Now()
		b.say("begin")
		if failed := s.run(ctx, b); failed != nil {
			b.say("!!! FAILED: %s", failed)
			err = errors.Join(err, fmt.Errorf("%s: %w", s.name, failed), b.abandon())
		}
		if ctx.Err() != nil {
			break
		}
		b.say("done in %s", time.Since(start).Round(time.Second))
	}
	b.report(os.Stdout, about)
	whole := err == nil
	err = errors.Join(err, b.guard(os.Stdout))
	if record && whole { // the figures of a run with a failure are not reliable
		err = errors.Join(err, b.record(os.Stdout))
	}
	return err
}

// profiled runs a function, under a profiler if -cpuprofile is given.
func (b *bench) profiled(f func() error) error {
	if b.profile == "" {
		return f()
	}
	file, err := os.Create(b.profile)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	err = f()
	pprof.StopCPUProfile()
	return errors.Join(err, file.Close())
}

// say shows progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(
		os.Stderr, "%s %-8s %s\n", time.Now().Format("15:04:05"), b.scene, fmt.Sprintf(format, args...),
	)
}

func (b *bench) count(n int) int { return max(int(float64(n)*b.scale), 100) }

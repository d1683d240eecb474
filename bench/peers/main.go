// Command peers measures Carillon and other schedulers side by side: the same scenarios on the same servers
// in the same run, one after the other in an order that changes from round to round. It shows progress on
// standard error, keeps the figures in results.json, rewrites the part of docs/benchmarks.md that shows them,
// and ends with a short table.
//
// README.md beside this file says what is measured and how to add a scheduler.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/carillon-run/carillon/bench/peers/result"
)

// root is the repository, relative to the folder in which this program runs.
const root = "../.."

// book is the file with the figures from which the report is made.
const book = "results.json"

type flags struct {
	peers, only, dir, results string
	rounds, roundsBig         int
	scale                     float64
	report                    bool
}

func main() {
	var f flags
	flag.StringVar(&f.peers, "peers", "", "schedulers to measure, comma-separated (default all)")
	flag.StringVar(&f.only, "only", "", "scenarios to run, comma-separated (default all)")
	flag.IntVar(&f.rounds, "rounds", 3, "how often each scenario is measured")
	flag.IntVar(&f.roundsBig, "rounds-big", 1, "the same for scenarios that are large or take long")
	flag.Float64Var(&f.scale, "scale", 1, "share of the jobs of each scenario, for a quick look")
	flag.StringVar(&f.dir, "dir", "", "where to put data, the servers' too (default: a temporary directory)")
	flag.StringVar(
		&f.results, "results", "",
		"where figures are kept (default "+book+
			", which the report is made of; a look, with another scale than 1, is kept only if this is set)",
	)
	flag.BoolVar(&f.report, "report", false, "measure nothing: write the report from what is kept")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := f.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func (f *flags) run(ctx context.Context) error {
	if f.results == "" && f.scale == 1 {
		f.results = book
	}
	if f.report {
		runs, err := load(f.results)
		if err != nil {
			return err
		}
		return publish(runs)
	}
	b := &bench{flags: f, bulk: map[string]float64{}}
	var err error
	if b.peers, err = choose(f.peers); err != nil {
		return err
	}
	if b.steps, err = chooseSteps(f.only); err != nil {
		return err
	}
	err = b.measure(ctx)
	b.table(os.Stdout)
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	// Figures in another file are a look: they are not published.
	if err != nil || f.scale != 1 || filepath.Clean(f.results) != book {
		return err
	}
	runs, err := load(f.results)
	if err != nil {
		return err
	}
	return publish(runs)
}

// bench is one run.
type bench struct {
	*flags
	peers []scheduler
	steps []step

	scene   string // what the progress lines are about
	bin     string // where programs are built
	servers servers
	places  int
	bulk    map[string]float64 // jobs a second that a scheduler accepted in bulk, once known
	result  result.Run
}

// measure performs all steps. A failure of one scheduler does not stop the others.
func (b *bench) measure(ctx context.Context) (err error) {
	b.scene = "begin"
	top, err := os.MkdirTemp(b.dir, "carillon-peers-")
	if err != nil {
		return err
	}
	if err := os.Chmod(top, 0o755); err != nil { // a server can run as another user
		return err
	}
	b.dir, b.bin = top, filepath.Join(top, "bin")
	defer os.RemoveAll(top)
	if err := os.Mkdir(b.bin, 0o755); err != nil {
		return err
	}
	b.result = result.Run{
		At: time.Now().Format(time.RFC3339), Commit: commit(), Machine: machine(),
		Servers: map[string]string{}, Rounds: b.rounds, RoundsBig: b.roundsBig, Scale: b.scale,
	}
	defer func() { err = errors.Join(err, b.servers.stop()) }()
	b.startServers(ctx)
	b.build(ctx)
	for _, s := range b.steps {
		for round := 1; round <= b.roundsOf(s) && ctx.Err() == nil; round++ {
			b.round(ctx, s, round)
		}
		if err := b.keep(); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
	}
	return nil
}

func (b *bench) roundsOf(s step) int {
	if s.big {
		return b.roundsBig
	}
	return b.rounds
}

// round measures each scheduler once: forwards, then backwards, then from the middle, so that none is always
// the first.
func (b *bench) round(ctx context.Context, s step, round int) {
	if s.alone != nil {
		b.scene = s.scenario
		if err := s.alone(ctx, b, round); err != nil && ctx.Err() == nil {
			b.absent(result.Absent{Peer: s.scenario, Scenario: s.scenario, Why: err.Error()})
		}
		return
	}
	for _, p := range order(b.peers, round) {
		if ctx.Err() != nil {
			return
		}
		b.scene = s.scenario + " " + p.name
		if why := s.unfit(p); why != "" {
			b.absent(result.Absent{Peer: p.name, Scenario: s.scenario, Why: why})
			continue
		}
		b.one(ctx, s, p, round)
	}
}

func order(peers []scheduler, round int) []scheduler {
	list := slices.Clone(peers)
	if round%2 == 0 {
		slices.Reverse(list)
	}
	if round > 2 && len(list) > 1 {
		shift := len(list) / 2
		list = append(list[shift:], list[:shift]...)
	}
	return list
}

// one measures one scheduler in a fresh place.
func (b *bench) one(ctx context.Context, s step, p scheduler, round int) {
	m := &measurement{bench: b, peer: p, step: s, round: round}
	at, err := b.fresh(ctx, p)
	if err == nil {
		m.at = at
		err = s.run(ctx, m)
		m.endAll()
		err = errors.Join(err, b.discard(at))
	}
	if err != nil && ctx.Err() == nil {
		b.absent(result.Absent{Peer: p.name, Scenario: s.scenario, Why: s.about() + reason(err)})
	}
}

// reason is an error as one line.
func reason(err error) string {
	text := strings.Join(strings.Fields(err.Error()), " ")
	return places.ReplaceAllString(text, "…")
}

// places are paths and addresses: they tell something about the machine, and nothing about the reason.
var places = regexp.MustCompile(`(https?://|/)[\w.+-]+(/[\w.+@:-]+)+/?`)

// absent reports, loudly and once, what could not be measured.
func (b *bench) absent(a result.Absent) {
	what := "is left out"
	if a.Scenario != "" {
		what = a.Scenario + " is left out"
	}
	b.say("!!! %s: %s: %s", a.Peer, what, a.Why)
	if !slices.Contains(b.result.Absent, a) {
		b.result.Absent = append(b.result.Absent, a)
	}
}

// say shows progress.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(
		os.Stderr, "%s %-26s %s\n", time.Now().Format("15:04:05"), b.scene, fmt.Sprintf(format, args...),
	)
}

func (b *bench) count(n int) int {
	if n == 0 {
		return 0
	}
	return max(int(float64(n)*b.scale), min(n, 100))
}

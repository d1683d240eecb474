package chaos

import (
	"context"
	"encoding/gob"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/chaos/check"
	"github.com/carillon-run/carillon/chaos/proxy"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/porttest/server"
)

var (
	minutes = flag.Float64("minutes", 1./3, "how long a trial lasts on each store")
	onStore = flag.String("store", "", "sqlite, postgres or mysql: the only store of a trial (default: all)")
	kept    = flag.String("history", "", "a history that a trial kept with -logs: judge it again")
	rate    = flag.Float64("rate", 150, "how many jobs a second a trial submits")
)

// trial is a cluster under load and faults, and what witnesses know about it. Its result is one line on
// standard output.
type trial struct {
	*cluster
	kind     string // of the store
	db       *server.Server
	seed     uint64
	commit   string // of Carillon
	length   time.Duration
	began    time.Time
	zero     time.Duration // began, on CLOCK_BOOTTIME
	register *Register
	socket   string
	points   string        // the file that wakes failpoints
	flight   chan struct{} // one for each command in flight
	storeHit sync.Mutex    // held while a fault of the store lasts
	follows  sync.WaitGroup
	revived  sync.WaitGroup // processes that killed themselves, and start again

	mu       sync.Mutex
	clients  map[string]*client.Client // by URL
	plans    []plan
	paused   map[carillon.JobID]bool // a pause was sent, and perhaps no resume since
	commands []check.Command
	delays   []time.Duration // how late the generator itself was
	targets  []*target
	faults   []*check.Fault
	looks    []check.Look
	added    []carillon.RunID // that callers asked for
	files    map[string]int   // how many files each process had open when the load began, by its name
	atWork   map[string]int   // how many goroutines each node had then, by its address
}

// mostInFlight bounds how many commands wait for an answer: the generator waits for none of the others.
const mostInFlight = 128

// A trial of one store judges times, and has the machine for itself. Those of the three stores run at the
// same time, in parallel with other tests. Then the machine is too full to judge times: see safety.
func TestTrial(t *testing.T) {
	if *onStore == "" {
		t.Parallel()
	}
	for _, kind := range []string{"sqlite", "postgres", "mysql"} {
		if *onStore != "" && *onStore != kind {
			continue
		}
		t.Run(kind, func(t *testing.T) {
			if *onStore == "" {
				t.Parallel()
			}
			length := time.Duration(*minutes * float64(time.Minute))
			s := seedOf(t)
			tr := newTrial(t, kind, length)
			tr.seed = s
			tr.start()
			tr.run()
			tr.judge()
		})
	}
}

func newTrial(t *testing.T, kind string, length time.Duration) *trial {
	tr := &trial{
		kind: kind, length: length, flight: make(chan struct{}, mostInFlight),
		clients: map[string]*client.Client{}, paused: map[carillon.JobID]bool{},
	}
	tr.commit = "unknown"
	describe := exec.Command("git", "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*")
	if out, err := describe.Output(); err == nil {
		tr.commit = strings.TrimSpace(string(out))
	}
	store := ""
	if kind != "sqlite" {
		i := slices.IndexFunc(engines, func(e *engine) bool {
			return e.name == kind || kind == "mysql" && e.name == "mariadb"
		})
		tr.db = engines[i].own(t)
		store = tr.db.URL
	}
	tr.cluster = newCluster(t, store, 2*length+10*time.Minute)
	if tr.db == nil {
		tr.store = "sqlite:" + filepath.Join(tr.dir, "carillon.db")
	}
	tr.socket, tr.points = filepath.Join(tr.dir, "register"), filepath.Join(tr.dir, "points")
	var err error
	if tr.register, err = OpenRegister(tr.socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.register.Close() })
	return tr
}

// start starts the processes: three nodes, or one on SQLite, three workers for handlers, and two workers for
// commands. On SQLite the node itself performs the commands.
func (tr *trial) start() {
	nodes, commands := []string{"node-1", "node-2", "node-3"}, []string{"commands-1", "commands-2"}
	var args []string
	if tr.db == nil {
		nodes, commands = nodes[:1], nil
		args = []string{"--concurrency", commandSlots, "--queues", "commands"}
	}
	for _, name := range nodes {
		tr.atPoints(name)
		links := []*proxy.Proxy{tr.nodeLink(name)}
		behind := append([]string{"--advertise", "http://" + links[0].Addr()}, args...)
		if tr.db != nil {
			links = append(links, tr.storeLink(name))
			behind = append(behind, "--store", through(tr.t, tr.store, links[1]))
		}
		s := tr.launch(name, behind...)
		tr.ready(name)
		tr.targets = append(tr.targets, &target{
			name: name, part: check.PartNode, group: "nodes", process: s.Process, links: links,
			again: func() (*Process, func(context.Context) error) {
				s := tr.launch(name, behind...)
				return s.Process, s.Ready
			},
		})
	}
	tr.members(carillon.MemberNode, len(nodes))
	for _, name := range []string{"handlers-1", "handlers-2", "handlers-3"} {
		tr.worker(name, "handlers", func() *Process {
			// One healthy worker has slots for all runs, beside those that it keeps.
			return tr.handlers(
				name, "default", "WITNESS_REGISTER="+tr.socket, "WITNESS_EVERY=50ms", "SLOTS=250", "KEEP=50",
				"THROUGH="+tr.workerLink(name).Addr(),
			)
		}, tr.workerLink(name))
	}
	for _, name := range commands {
		tr.atPoints(name)
		tr.worker(name, "commands", func() *Process { return tr.cluster.commands(name, "commands") })
	}
	tr.members(carillon.MemberWorker, 3+len(commands)) // the worker inside of a node is not listed
}

func (tr *trial) worker(name, group string, start func() *Process, links ...*proxy.Proxy) {
	ready := func(context.Context) error { return nil }
	tr.targets = append(tr.targets, &target{
		name: name, part: check.PartWorker, group: group, process: start(), links: links,
		again: func() (*Process, func(context.Context) error) { return start(), ready },
	})
}

// run loads the cluster while faults happen, then lets everything come to its end.
func (tr *trial) run() {
	tr.baseline()
	tr.began, tr.zero = time.Now(), executor.Boottime()
	var load sync.WaitGroup
	load.Go(func() { tr.generate(rand.New(rand.NewPCG(tr.seed, 1))) })
	over := make(chan struct{})
	var beside sync.WaitGroup
	beside.Go(func() { tr.revivePoints(over) })
	beside.Go(func() { tr.look(over) })
	tr.storms(rand.New(rand.NewPCG(tr.seed, 2)))
	load.Wait()
	tr.follows.Wait()
	tr.resumeAll()
	tr.settled()
	close(over)
	beside.Wait()
	tr.revived.Wait()
}

// now is the present on both clocks.
func now() check.Instant { return check.Instant{Mono: executor.Boottime(), Wall: carillon.Now()} }

// allowance is that of the machine, for times on CLOCK_BOOTTIME.
func (tr *trial) allowance(from, to time.Duration) time.Duration {
	return tr.machine.allowance(tr.began.Add(from-tr.zero), tr.began.Add(to-tr.zero))
}

// busy is that of the machine, for times on CLOCK_BOOTTIME.
func (tr *trial) busy(from, to time.Duration) bool {
	return tr.machine.busy(tr.began.Add(from-tr.zero), tr.began.Add(to-tr.zero))
}

// judge collects what the witnesses know, and prints the report.
func (tr *trial) judge() {
	h := tr.history()
	tr.keepHistory(h)
	count := map[string]int{}
	for _, f := range h.Faults {
		count[f.Name]++
	}
	tr.t.Log(tr.load(h))
	judge(tr.t, h, check.Trial{
		Store: tr.kind, Minutes: tr.length.Minutes(), Load: *rate, Seed: tr.seed,
		Commit: tr.commit, Faults: count,
	})
}

// safety are the promises that the short trials of all stores judge. They only tell the others, because the
// machine is full.
var safety = []check.Promise{
	check.PromiseLost, check.PromiseConcurrent, check.PromiseStale, check.PromiseEarly,
	check.PromiseOccurrence, check.PromiseStates,
}

func judge(t *testing.T, h *check.History, of check.Trial) {
	report := check.Judge(h)
	fmt.Println(report.Line(of))
	t.Logf("late: %+v; takeovers: %+v", report.Late, report.Takeover)
	for _, b := range report.Broken {
		if *onStore == "" && *kept == "" && !slices.Contains(safety, b.Promise) {
			t.Log(b)
			continue
		}
		t.Errorf("%s\n%s", b, b.Story)
	}
}

// With -logs a trial keeps its history, so that a changed checker can judge it again.
func TestAHistoryThatWasKeptIsJudgedAgain(t *testing.T) {
	if *kept == "" {
		t.Skip("nothing to judge: -history FILE names the kept history of a trial")
	}
	f, err := os.Open(*kept)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var h check.History
	if err := gob.NewDecoder(f).Decode(&h); err != nil {
		t.Fatal(err)
	}
	judge(t, &h, check.Trial{})
}

// keepHistory writes the history to the directory of -logs.
func (tr *trial) keepHistory(h *check.History) {
	if *logs == "" {
		return
	}
	f, err := os.Create(filepath.Join(tr.logDir, "history"))
	if err == nil {
		defer f.Close()
		err = gob.NewEncoder(f).Encode(h)
	}
	if err != nil {
		tr.t.Error(err)
	}
}

// load says what the callers got.
func (tr *trial) load(h *check.History) string {
	count := map[string]int{}
	for _, c := range h.Commands {
		count[fmt.Sprintf("%s %s", c.Verb, c.Answer)]++
	}
	slices.Sort(tr.delays)
	worst := time.Duration(0)
	if len(tr.delays) > 0 {
		worst = tr.delays[len(tr.delays)*99/100]
	}
	return fmt.Sprintf("commands: %v; the generator was up to %s late in 99 of 100 cases", count, worst)
}

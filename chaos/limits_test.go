package chaos

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/executor"
)

var (
	limitRuns = flag.Int(
		"limit-runs", 0, "how many runs with limits end while processes are killed (default: those of 10 s)",
	)
	limitKillEvery = flag.Duration(
		"limit-kill-every", time.Second, "how often a process is killed while runs with limits start",
	)
)

// limitsTrial is a cluster that performs runs with limits while its processes are killed.
type limitsTrial struct {
	*cluster
	keys []*limitedKey

	mu        sync.Mutex // of all below
	rnd       *rand.Rand
	jobs      []limitedJob
	takes     map[string]string // each text once
	attempts  []taken
	witnesses []*takingWitness
	ended     int // jobs
	kills     int
	found     int // differences
}

// limitedKey is a key that jobs name in their limits, always with the same bounds.
type limitedKey struct {
	carillon.Limit
	heavy bool   // some runs weigh two
	with  string // the prefix of another key that some of its runs take too
	open  int    // jobs that have not ended
}

// mostOpen bounds the runs of a key that wait, so that each key is always busy and none has all runs. A short
// trial must come to its end soon.
func mostOpen() int {
	if *limitRuns > 0 {
		return 200
	}
	return 30
}

type limitedJob struct {
	keys     [2]*limitedKey
	accepted carillon.Time // when the submit was answered; 0: it was not
	done     bool
}

func limitedKeys() (keys []*limitedKey) {
	add := func(n int, name string, limit carillon.Limit, heavy bool, with string) {
		for i := range n {
			limit.Key = fmt.Sprintf("%s-%d", name, i)
			keys = append(keys, &limitedKey{Limit: limit, heavy: heavy, with: with})
		}
	}
	add(16, "one", carillon.Limit{Concurrency: 1}, false, "")
	add(16, "three", carillon.Limit{Concurrency: 3}, true, "")
	add(40, "ten", carillon.Limit{Concurrency: 10}, true, "three-")
	add(1, "rate", carillon.Limit{Rate: carillon.Rate{Starts: 100, Per: time.Second}, Burst: 20}, false, "one-")
	return keys
}

// Three nodes, or one on SQLite, and four workers perform one-offs with limits. Every second one of these
// processes is killed and started again. It takes all the processors there are, so it is not parallel: tests
// beside it that judge times would judge this one.
func TestLimitsAreNeverExceededThoughNodesAndWorkersAreKilled(t *testing.T) {
	test := func(t *testing.T, store string) {
		tr := newLimitsTrial(t, store)
		began := time.Now()
		tr.run()
		tr.judge(time.Since(began))
	}
	if *onStore == "sqlite" {
		t.Run("sqlite", func(t *testing.T) { test(t, "") })
		return
	}
	if *onStore != "" {
		i := slices.IndexFunc(engines, func(e *engine) bool {
			return e.name == *onStore || *onStore == "mysql" && e.name == "mariadb"
		})
		t.Run(*onStore, func(t *testing.T) { test(t, engines[i].database(t)) })
		return
	}
	onOne(t, func(t *testing.T, e *engine) { test(t, e.database(t)) })
}

func newLimitsTrial(t *testing.T, store string) *limitsTrial {
	tr := &limitsTrial{
		cluster: newCluster(t, store, 5*time.Minute+time.Duration(*limitRuns)*10*time.Millisecond),
		keys:    limitedKeys(), rnd: random(t), takes: map[string]string{},
	}
	if store == "" {
		tr.store = "sqlite:" + filepath.Join(tr.dir, "carillon.db")
	}
	return tr
}

func (tr *limitsTrial) run() {
	nodes := []string{"node-1", "node-2", "node-3"}
	if tr.sqlite() {
		nodes = nodes[:1]
	}
	for _, name := range nodes {
		tr.launch(name, "--log-level", "warn")
	}
	tr.met(nodes...)
	var victims []*victim
	for _, name := range nodes {
		victims = append(victims, &victim{
			tr.nodes[name].Process, func() *Process { return tr.launch(name, "--log-level", "warn").Process },
		})
	}
	for i := range 4 {
		victims = append(victims, tr.taker(fmt.Sprint("worker-", i+1)))
	}
	over := make(chan struct{})
	var beside sync.WaitGroup
	beside.Go(func() { tr.submitAll(over) })
	beside.Go(func() { tr.watch(over) })
	beside.Go(func() { tr.auditAll(over) })
	rnd := rand.New(rand.NewPCG(tr.rnd.Uint64(), 1))
	for end := time.Now().Add(10 * time.Second); tr.goesOn(end); tr.kills++ {
		last(tr.ctx, *limitKillEvery)
		v := victims[rnd.IntN(len(victims))]
		if v.Crashed() {
			tr.t.Errorf("a process ended by itself: %v", v.err)
		}
		v.Kill()
		v.Process = v.again()
		tr.progress()
	}
	close(over)
	beside.Wait()
	for _, name := range nodes {
		tr.ready(name)
	}
	tr.settled()
	tr.look()
}

func (tr *limitsTrial) sqlite() bool { return strings.HasPrefix(tr.store, "sqlite:") }

func (tr *limitsTrial) goesOn(end time.Time) bool {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if *limitRuns > 0 {
		return tr.ended < *limitRuns && tr.ctx.Err() == nil && !tr.t.Failed()
	}
	return time.Now().Before(end)
}

// progress tells once a minute how far a long trial has come.
func (tr *limitsTrial) progress() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if *limitRuns > 0 && tr.kills%60 == 59 {
		tr.t.Logf("%d kills, %d runs have ended, %d attempts", tr.kills+1, tr.ended, len(tr.attempts))
	}
}

// taker starts a worker for jobs with limits. Each of its processes has its own witness file.
func (tr *limitsTrial) taker(name string) *victim {
	var of *takingWitness
	start := func() *Process {
		tr.mu.Lock()
		if of != nil {
			of.gone = executor.Boottime() // Kill has returned
		}
		of = &takingWitness{path: fmt.Sprintf("%s-%d", tr.witness, len(tr.witnesses))}
		tr.witnesses = append(tr.witnesses, of)
		tr.mu.Unlock()
		return tr.handlers(name, "default", "HANDLERS=", "TAKERS="+of.path, "SLOTS=200", "KEEP=50")
	}
	return &victim{start(), start}
}

// watch reads what the bodies write until it is over.
func (tr *limitsTrial) watch(over <-chan struct{}) {
	for {
		tr.look()
		select {
		case <-over:
			return
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (tr *limitsTrial) look() {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for i, w := range tr.witnesses {
		if w == nil {
			continue
		}
		whole := w.gone != 0 // it writes no more
		if err := w.read(tr.begun, tr.finished); err != nil {
			tr.t.Error(err)
		}
		if !whole {
			continue
		}
		for _, i := range w.open {
			tr.attempts[i].end = w.gone
		}
		if w.file != nil {
			w.file.Close()
		}
		tr.witnesses[i] = nil
	}
}

func (tr *limitsTrial) begun(a taken) int {
	if text, known := tr.takes[a.takes]; known {
		a.takes = text // not a part of each line
	} else {
		tr.takes[a.takes] = a.takes
	}
	tr.attempts = append(tr.attempts, a)
	return len(tr.attempts) - 1
}

func (tr *limitsTrial) finished(i int, kind byte, at time.Duration) {
	tr.attempts[i].end = at
	if job := &tr.jobs[tr.attempts[i].number]; kind == takeEnded && !job.done {
		tr.ended++
		job.close()
	}
}

// accepted is when the submit of a job was answered.
func (tr *limitsTrial) accepted(number int32) carillon.Time { return tr.jobs[number].accepted }

// judge compares what the bodies wrote with what limits promise.
func (tr *limitsTrial) judge(took time.Duration) {
	worst := map[string]int{}
	of := byKey(tr.attempts)
	for _, k := range tr.keys {
		class, _, _ := strings.Cut(k.Key, "-")
		list := of[k.Key]
		if most := mostTaken(list); k.Concurrency > 0 {
			worst[class] = max(worst[class], most)
			if most > k.Concurrency {
				tr.t.Errorf("%d slots of %s were taken at once, it has %d", most, k.Key, k.Concurrency)
			}
		}
		if k.Concurrency == 1 {
			for _, broken := range overtakes(list, tr.accepted) {
				tr.t.Errorf("%s: %s", k.Key, broken)
			}
		}
		if k.Rate.Starts > 0 {
			if above, in := aboveRate(list, k.Limit); above > 0 {
				tr.t.Errorf("%s: %d starts more in %s than its rate and its burst allow", k.Key, above, in)
			}
		}
	}
	for i := range tr.attempts {
		if a := &tr.attempts[i]; a.end == 0 {
			tr.t.Errorf("attempt %d of job %d began and did not end", a.attempt, a.number)
		}
	}
	lost := tr.lost()
	tr.idle()
	fmt.Printf("limits: store=%s runs=%d attempts=%d kills=%d took=%s starts=%.0f/s worst{one=%d/1 three=%d/3 "+
		"ten=%d/10} lost=%d differences=%d\n", tr.kind(), tr.ended, len(tr.attempts), tr.kills,
		took.Round(time.Second), float64(len(tr.attempts))/took.Seconds(), worst["one"], worst["three"],
		worst["ten"], lost, tr.found)
}

func (tr *limitsTrial) kind() string {
	return cmp.Or(strings.SplitN(tr.store, ":", 2)[0])
}

// lost counts accepted jobs whose run did not succeed.
func (tr *limitsTrial) lost() (lost int) {
	for n := range tr.jobs {
		if job := &tr.jobs[n]; job.accepted != 0 && !job.done {
			lost++
			tr.t.Errorf("job %d was accepted, and no witness saw it end", n)
		}
	}
	tr.insist(func(ctx context.Context, api *client.Client) error {
		states := []carillon.State{carillon.StateFailed, carillon.StateCanceled, carillon.StateSkipped}
		for run, err := range api.Runs(ctx, carillon.RunQuery{States: states, Limit: 5}) {
			if err != nil {
				return err
			}
			tr.t.Errorf("did not succeed: %s", row(run))
			lost++
		}
		return nil
	})
	return lost
}

// Command part is one of the versions that `bench --before` measures in turns. It is built once from this
// tree and once from an earlier commit. So it uses little of the product, which both of them have, and
// nothing of bench, which may differ. It opens a node and does the steps that standard input names, one at a
// time. A step is a name and a number of jobs; the answer is the figure of the step.
//
//	part DATA_DIRECTORY [STORE_URL]
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
	"github.com/carillon-run/carillon/node"
)

func main() {
	executor.Supervise()
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200) // as `carillon` does
	}
	p := &part{data: os.Args[1], started: &atomic.Int64{}}
	if len(os.Args) > 2 {
		p.store = os.Args[2]
	}
	if err := p.answer(); err != nil {
		fmt.Fprintln(os.Stderr, "part:", err)
		os.Exit(1)
	}
}

// part is a node with one no-op handler.
type part struct {
	data, store string

	node    *node.Node
	stop    func() error
	started *atomic.Int64 // runs, of all nodes of this process
	onStart atomic.Pointer[func()]
}

// answer says "ready" and then, for every line of input, the figure of that step.
func (p *part) answer() error {
	if err := p.open(slots); err != nil {
		return err
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var name string
		var n int
		if _, err := fmt.Sscan(lines.Text(), &name, &n); err != nil {
			return fmt.Errorf("step %q: %w", lines.Text(), err)
		}
		figure, err := p.step(name, n)
		if err != nil {
			return fmt.Errorf("step %q: %w", lines.Text(), err)
		}
		fmt.Println(figure)
	}
	return p.stop()
}

// step returns jobs a second, or milliseconds for the steps that wait.
func (p *part) step(name string, n int) (float64, error) {
	start := time.Now()
	rate := func(err error) (float64, error) { return float64(n) / time.Since(start).Seconds(), err }
	tomorrow := carillon.Schedule{At: carillon.Now().Add(24 * time.Hour)}
	switch name {
	case "submit_x1":
		return rate(p.submits(1, n, 1, tomorrow))
	case "submit_x16":
		return rate(p.submits(16, n, 1, tomorrow))
	case "submit_bulk":
		return rate(p.submits(4, n, 1000, tomorrow))
	case "steady":
		if err := p.submits(4, n, 250, carillon.Schedule{}); err != nil {
			return 0, err
		}
		return rate(p.ran(n))
	case "drain", "held":
		if err := p.backlog(n); err != nil {
			return 0, err
		}
		start = time.Now()
		return rate(p.drain(n))
	case "nodes_4":
		if err := p.backlog(n); err != nil {
			return 0, err
		}
		start = time.Now()
		return rate(p.together(n, 4))
	case "drain_backlog_10k", "drain_backlog_1m":
		// The time until the first run starts would weigh more on a small backlog, so it is left out.
		if err := p.backlog(n); err != nil {
			return 0, err
		}
		var first sync.Once
		p.atStart(func() { first.Do(func() { start = time.Now() }) })
		defer p.atStart(nil)
		return rate(p.drain(n))
	case "instant_lateness_p99":
		return p.instant(n)
	case "pickup_p50":
		return p.pickup(n)
	}
	return 0, errors.New("there is no such step")
}

const (
	slots    = 4000
	noWorker = -1
)

func (p *part) open(concurrency int) (err error) {
	ctx, cancel := context.WithCancel(context.Background())
	p.node, err = node.Open(ctx, node.Config{
		Data: p.data, Store: p.store, Concurrency: concurrency,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
		Handlers: map[string]executor.Handler{"bench": func(context.Context, executor.Task) error {
			if on := p.onStart.Load(); on != nil {
				(*on)()
			}
			p.started.Add(1)
			return nil
		}},
	})
	if err != nil {
		cancel()
		return err
	}
	done := make(chan error, 1)
	go func() {
		err := p.node.Run(ctx)
		if ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "part: the node ended by itself:", err)
			os.Exit(1)
		}
		done <- err
	}()
	p.stop = func() error { cancel(); return <-done }
	return nil
}

// submits lets a number of callers submit n jobs in all, a batch at a time.
func (p *part) submits(callers, n, batch int, schedule carillon.Schedule) error {
	var left atomic.Int64
	left.Store(int64(n))
	errs := make(chan error, callers)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for {
				some := min(batch, int(left.Add(-int64(batch)))+batch)
				if some <= 0 {
					return
				}
				if err := p.submit(some, schedule); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	all.Wait()
	close(errs)
	return <-errs
}

func (p *part) submit(n int, schedule carillon.Schedule) error {
	definitions := make([]carillon.Definition, n)
	for i := range definitions {
		definitions[i] = definition(schedule)
	}
	_, err := p.node.Submit(context.Background(), definitions...)
	return err
}

var payload = []byte(`{"customer":"c-1029384756","subject":"Your order has been shipped",` +
	`"items":[4711,4712,4713],"template":"order-shipped-v3","locale":"en-GB",` +
	`"note":"two hundred bytes is what people usually send"}`)

func definition(schedule carillon.Schedule) carillon.Definition {
	d := carillon.Definition{}
	d.Name, d.Type, d.Payload, d.Schedule = "bench", "bench", payload, schedule
	d.Target.Handler = &carillon.Handler{}
	return d
}

// ran waits until the n jobs of a step have run, each once, and their ends are on disk. It does not ask the
// store before that, so it costs the store nothing during the measurement.
func (p *part) ran(n int) error {
	for held := 1; held > 0 || p.started.Load() < int64(n); held, _ = p.node.Running() {
		time.Sleep(2 * time.Millisecond)
	}
	for {
		// All other jobs are for tomorrow.
		soon := carillon.WakeQuery{Until: carillon.Now().Add(time.Hour), Limit: 1}
		runs, err := p.node.Store().Wakes(context.Background(), soon)
		if err != nil {
			return err
		}
		if len(runs) == 0 {
			break
		}
		time.Sleep(2 * time.Millisecond)
	}
	if ran := p.started.Swap(0); ran != int64(n) {
		return fmt.Errorf("%d jobs were submitted, %d ran", n, ran)
	}
	return nil
}

// backlog leaves n due jobs in the store, with no node open.
func (p *part) backlog(n int) error {
	if err := p.stop(); err != nil {
		return err
	}
	if err := p.open(noWorker); err != nil {
		return err
	}
	if err := p.submits(4, n, 1000, carillon.Schedule{}); err != nil {
		return err
	}
	return p.stop()
}

// drain opens a node again and waits until the backlog has run.
func (p *part) drain(n int) error {
	if err := p.open(slots); err != nil {
		return err
	}
	return p.ran(n)
}

// together is drain with several nodes in this process, which share the slots of one.
func (p *part) together(n, nodes int) (err error) {
	for i := range nodes - 1 {
		other := &part{data: fmt.Sprintf("%s-%d", p.data, i), store: p.store, started: p.started}
		if err := other.open(slots / nodes); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, other.stop(), os.RemoveAll(other.data)) }()
	}
	if err := p.open(slots / nodes); err != nil {
		return err
	}
	return p.ran(n)
}

// instant is how late the runs of n jobs start that are due in the same millisecond: at most that many
// milliseconds for 99 of 100.
func (p *part) instant(n int) (float64, error) {
	late := make([]float64, n)
	var next atomic.Int64
	due := carillon.Now().Add(time.Duration(n)*time.Second/4000 + time.Second) // time to submit them all
	p.atStart(func() {
		if i := next.Add(1) - 1; i < int64(n) {
			late[i] = milliseconds(time.Since(due.Std()))
		}
	})
	defer p.atStart(nil)
	if err := p.submits(4, n, 1000, carillon.Schedule{At: due}); err != nil {
		return 0, err
	}
	if carillon.Now() >= due {
		return 0, errors.New("the instant had passed when all jobs were there")
	}
	time.Sleep(time.Until(due.Std()))
	if err := p.ran(n); err != nil {
		return 0, err
	}
	slices.Sort(late)
	return late[n*99/100], nil
}

// pickup is how many milliseconds pass between the submit of a job for now and its start; the median of n.
func (p *part) pickup(n int) (float64, error) {
	began := make(chan time.Time, 1)
	p.atStart(func() { began <- time.Now() })
	defer p.atStart(nil)
	var took []float64
	for range n {
		start := time.Now()
		if err := p.submit(1, carillon.Schedule{}); err != nil {
			return 0, err
		}
		took = append(took, milliseconds((<-began).Sub(start)))
		time.Sleep(5 * time.Millisecond)
	}
	slices.Sort(took)
	return took[n/2], p.ran(n)
}

// atStart sets what is called at the start of every run.
func (p *part) atStart(do func()) {
	if do == nil {
		p.onStart.Store(nil)
		return
	}
	p.onStart.Store(&do)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

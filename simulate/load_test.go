package simulate

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

// order is a job that was submitted, and what its submitter knows of it.
type order struct {
	def  carillon.Definition
	work work

	mu       sync.Mutex
	job      carillon.JobID // zero: the submit was not answered
	canceled carillon.Time  // when the cancel was answered; zero: it was not
	asked    bool           // a cancel was sent
}

// submit sends a job of a random kind to a random node.
func (w *world) submit(number int) *order {
	o := &order{}
	d := &o.def
	d.Name, d.Type, d.Target.Handler = fmt.Sprintf("job-%d", number), "test", &carillon.Handler{}
	d.Retry.MaxCrashes = 100
	d.Retry.Delay = carillon.Duration(pick(w.random, 100*time.Millisecond, 5*time.Second))
	o.work.Takes = pick(w.random, 0, 3*time.Second)
	if w.random.IntN(4) == 0 {
		o.work.Takes = pick(w.random, 3*time.Second, 12*time.Second)
	}
	if w.random.IntN(4) == 0 {
		o.work.Fails = 1 + w.random.Int32N(3) // 3 failures use up all attempts
	}
	d.Payload, _ = json.Marshal(o.work)
	switch w.random.IntN(3) {
	case 0:
		d.Schedule.After = carillon.Duration(pick(w.random, 0, 30*time.Second))
	case 1: // due at once
	default:
		d.Schedule.Every = carillon.Duration(pick(w.random, time.Second, 8*time.Second))
		d.Schedule.MaxRuns = 1 + w.random.IntN(8)
		overlaps := []carillon.Overlap{
			carillon.OverlapSkip, carillon.OverlapQueue, carillon.OverlapQueueAll, carillon.OverlapAllow,
		}
		d.Overlap = overlaps[w.random.IntN(len(overlaps))]
	}
	at := w.nodes[w.random.IntN(len(w.nodes))]
	w.orders = append(w.orders, o)
	w.all.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		def := o.def
		if at.pass(ctx) != nil {
			return
		}
		if err := def.Admit(at.clock.Now()); err != nil {
			w.t.Error(err)
			return
		}
		jobs, err := at.ledger.Submit(ctx, carillon.DefaultNamespace, []carillon.Definition{def})
		if err != nil || at.pass(ctx) != nil { // the answer must leave the process
			return
		}
		o.mu.Lock()
		o.job = jobs[0].ID
		o.mu.Unlock()
	})
	return o
}

// cancel cancels a job that was accepted.
func (w *world) cancel() {
	o := w.orders[w.random.IntN(len(w.orders))]
	at := w.nodes[w.random.IntN(len(w.nodes))]
	w.all.Go(func() {
		o.mu.Lock()
		job := o.job
		o.asked = job != 0
		o.mu.Unlock()
		if job == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if at.pass(ctx) != nil {
			return
		}
		_, err := at.ledger.CancelJob(ctx, carillon.DefaultNamespace, job, false)
		if err != nil || at.pass(ctx) != nil {
			return
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.canceled == 0 {
			o.canceled = carillon.Time(time.Now().UnixMilli())
		}
	})
}

func pick(random *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(random.Int64N(int64((to-from)/time.Millisecond)))*time.Millisecond
}

// probe is a job that was accepted when everything was healed.
type probe struct {
	job carillon.JobID
	due time.Time
}

// calm is how long a world has to recover after its last fault.
const calm = 30 * time.Second

// probe submits jobs for the next minute and a half, to the nodes in turn, when no other run is left: every
// one of them must start on time.
func (w *world) probe() {
	time.Sleep(calm)
	for i := range 10 {
		d := carillon.Definition{Name: "probe", Type: "test", Payload: json.RawMessage(`{}`)}
		d.Target.Handler = &carillon.Handler{}
		after := pick(w.random, 0, 90*time.Second)
		due := time.Now().Add(after)
		d.Schedule.At = carillon.Time(due.UnixMilli())
		n := w.nodes[i%len(w.nodes)]
		if err := d.Admit(n.clock.Now()); err != nil {
			w.t.Fatal(err)
		}
		jobs, err := n.ledger.Submit(
			context.Background(), carillon.DefaultNamespace, []carillon.Definition{d},
		)
		if err != nil {
			w.t.Fatal(err)
		}
		w.probes = append(w.probes, probe{jobs[0].ID, due})
	}
	time.Sleep(100 * time.Second)
}

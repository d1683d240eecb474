package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

// order is a job that was submitted, and what its submitter knows of it.
type order struct {
	tenant string
	def    carillon.Definition
	work   work

	mu       sync.Mutex
	job      carillon.JobID // zero: the submit was not answered
	canceled carillon.Time  // when the cancel was answered; zero: it was not
	asked    bool           // a cancel was sent
	pauses   bool           // a pause was sent
	paused   carillon.Time  // when the pause was answered; zero: it was not
	resumed  carillon.Time  // when a resume was sent; zero: none was
	manual   []carillon.RunID
	unheard  int           // runs that were asked for, and may be there or not
	edits    bool          // an edit was sent
	edited   carillon.Time // when the edit was answered; zero: it was not
}

// known is the id of the job, zero if the submit was not answered yet.
func (o *order) known() carillon.JobID {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.job
}

// submit sends a job of a random kind to a random node.
func (w *world) submit(number int) *order {
	o := &order{tenant: w.tenants[number%len(w.tenants)]}
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
			carillon.OverlapReplace,
		}
		d.Overlap = overlaps[w.random.IntN(len(overlaps))]
	}
	if number%4 == 1 {
		d.FairBy, d.FairWeight = fmt.Sprintf("share-%d", number%3), 1+int32(number%5)
	}
	if number%3 == 2 {
		d.Limits = w.someLimits(number)
	}
	if number%6 == 5 {
		d.Needs = map[string]string{"inside": "true"}
	}
	at := w.nodes[w.random.IntN(len(w.nodes))]
	w.send(o, at)
	if w.maxBatch > 0 && d.Schedule == (carillon.Schedule{}) { // more than a commit takes: a crowd
		for i := range 3 * w.maxBatch {
			twin := &order{tenant: o.tenant, def: o.def, work: o.work}
			twin.def.Name = fmt.Sprintf("%s-%d", d.Name, i)
			twin.def.Limits = nil // one after the other they would not end in the time of a world
			w.send(twin, at)
		}
	}
	return o
}

// send sends a job to a node.
func (w *world) send(o *order, at *node) {
	w.orders = append(w.orders, o)
	w.calls.Go(func() {
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
		jobs, err := at.ledger.Submit(ctx, o.tenant, []carillon.Definition{def})
		if err != nil || at.pass(ctx) != nil || ctx.Err() != nil { // the answer must reach the caller in time
			return
		}
		o.mu.Lock()
		o.job = jobs[0].ID
		o.mu.Unlock()
		w.tell("%s has accepted %s as %s", at.name, def.Name, jobs[0].ID)
	})
}

// command sends a command about a job that was accepted to a random node. do is called when the node gets it,
// and answered when the answer has left the node: err says what it was. The story calls the command what.
func (w *world) command(
	what string, do func(ctx context.Context, at *node, o *order) error, answered func(o *order, err error),
) {
	o, at := w.orders[w.random.IntN(len(w.orders))], w.someNode()
	w.calls.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if o.known() == 0 || at.pass(ctx) != nil {
			return
		}
		w.tell("%s gets: %s %s", at.name, what, o.def.Name)
		err := do(ctx, at, o)
		if at.pass(ctx) != nil || ctx.Err() != nil {
			err = errNoAnswer
		}
		w.tell("%s has answered: %s %s: %v", at.name, what, o.def.Name, err)
		o.mu.Lock()
		defer o.mu.Unlock()
		answered(o, err)
	})
}

// set sets a field of the order before its command is sent.
func (o *order) set(do func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	do()
}

func (w *world) cancel() {
	w.command("cancel", func(ctx context.Context, at *node, o *order) error {
		o.set(func() { o.asked = true })
		_, err := at.ledger.CancelJob(ctx, o.tenant, o.known(), false)
		return err
	}, func(o *order, err error) {
		if err == nil && o.canceled == 0 {
			o.canceled = realTime()
		}
	})
}

var errAgain = errors.New("it was sent before")

// pause pauses a job once. resume resumes it some time later.
func (w *world) pause() {
	w.command("pause", func(ctx context.Context, at *node, o *order) error {
		again := false
		o.set(func() { again, o.pauses = o.pauses, true })
		if again {
			return errAgain
		}
		_, err := at.ledger.PauseJob(ctx, o.tenant, o.known())
		return err
	}, func(o *order, err error) {
		if err == nil {
			o.paused = realTime()
		}
	})
}

func (w *world) resume() {
	var sent carillon.Time
	w.command("resume", func(ctx context.Context, at *node, o *order) error {
		sent = realTime()
		o.set(func() {
			if o.resumed == 0 && o.pauses {
				o.resumed = sent
			}
		})
		_, err := at.ledger.ResumeJob(ctx, o.tenant, o.known())
		return err
	}, func(o *order, err error) {
		// It can have come after a pause that was sent meanwhile, or without an answer after any pause. If it
		// was refused, it did nothing.
		if o.resumed == 0 && !errors.Is(err, carillon.ErrConflict) && (o.pauses || err != nil) {
			o.resumed = sent
		}
	})
}

// edit gives a job another payload, once.
func (w *world) edit() {
	w.command("edit", func(ctx context.Context, at *node, o *order) error {
		again := false
		o.set(func() { again, o.edits = o.edits, true })
		if again {
			return errAgain
		}
		payload := o.work
		payload.Edited = true
		_, err := at.ledger.EditJob(
			ctx, o.tenant, o.known(), func(d *carillon.Definition) (err error) {
				d.Payload, err = json.Marshal(payload)
				return err
			},
		)
		return err
	}, func(o *order, err error) {
		if err == nil {
			o.edited = realTime()
		}
	})
}

// runNow asks for a run that no schedule has.
func (w *world) runNow() {
	var run carillon.Run
	w.command("run now", func(ctx context.Context, at *node, o *order) (err error) {
		run, err = at.ledger.RunNow(ctx, o.tenant, o.known(), nil)
		return err
	}, func(o *order, err error) { o.heard(run, err) })
}

// heard keeps the answer to a command that asks for a run.
func (o *order) heard(run carillon.Run, err error) {
	switch {
	case err == nil:
		o.manual = append(o.manual, run.ID)
	case !errors.Is(err, carillon.ErrConflict):
		o.unheard++
	}
}

// realTime is the time of the bubble: no fault sets it.
func realTime() carillon.Time { return carillon.Time(time.Now().UnixMilli()) }

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

// probe submits jobs for the next seconds, to the nodes in turn, when no other run is left: every one of them
// must start on time, also if another tenant has flooded the nodes. In one world of four they are due within
// a minute and a half.
func (w *world) probe() {
	within := 10 * time.Second
	if w.random.IntN(4) == 0 {
		within = 90 * time.Second
	}
	tenant := w.tenants[len(w.tenants)-1]
	if len(w.tenants) > 1 && w.broken.IsZero() {
		w.flood()
	}
	for i := range 10 {
		d := carillon.Definition{Name: "probe", Type: "test", Payload: json.RawMessage(`{}`)}
		d.Target.Handler = &carillon.Handler{}
		after := pick(w.random, 0, within)
		due := time.Now().Add(after)
		d.Schedule.At = carillon.Time(due.UnixMilli())
		n := w.nodes[i%len(w.nodes)]
		if err := d.Admit(n.clock.Now()); err != nil {
			w.t.Fatal(err)
		}
		jobs, err := n.ledger.Submit(
			context.Background(), tenant, []carillon.Definition{d},
		)
		if err != nil {
			w.t.Fatal(err)
		}
		w.probes = append(w.probes, probe{jobs[0].ID, due})
	}
	time.Sleep(within + 10*time.Second)
}

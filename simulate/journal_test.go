package simulate

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/executor"
)

// work is the payload of a job: what its body does.
type work struct {
	Takes time.Duration // how long the body takes
	Fails int32         // that many attempts that end by themselves fail
	Saves bool          // it saves a checkpoint, if it can
	// Edited says that the payload comes from an edit.
	Edited bool
}

// attempt is what a witness saw of an attempt. Times are those of the bubble, which no process sets.
type attempt struct {
	process *process
	tenant  string // whose run it is
	run     carillon.RunID
	number  int32
	fence   int64
	guarded bool
	start   time.Time
	end     time.Time // zero: it goes on
	thawed  time.Time // when its process last thawed, at the end
	ended   bool      // by itself; otherwise it was stopped or killed
	edited  bool      // it has the payload of an edit
	limits  []carillon.Limit
}

// journal keeps what witnesses saw.
type journal struct {
	mu         sync.Mutex
	attempts   []*attempt
	trespasses []string // jobs about which a command of another tenant was accepted
}

// begin notes that an attempt begins; nil: its process was killed just before.
func (j *journal) begin(p *process, task *executor.Task, asked work) *attempt {
	a := &attempt{
		process: p, tenant: task.Job.Namespace,
		run: task.Run.ID, number: task.Run.Attempt, fence: task.Run.Fence(),
		guarded: task.Run.Has(carillon.FlagGuarded), start: time.Now(), edited: asked.Edited,
		limits: task.Job.Limits,
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if p.dead() {
		return nil
	}
	j.attempts = append(j.attempts, a)
	return a
}

func (j *journal) end(a *attempt, byItself bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if a.end.IsZero() { // otherwise its process was killed before
		a.end, a.ended, a.thawed = time.Now(), byItself, a.process.lastThaw()
	}
}

// killed ends the attempts of a process that did nothing any more after a time.
func (j *journal) killed(p *process, at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, a := range j.attempts {
		if a.process == p && a.end.IsZero() {
			a.end, a.thawed = at, p.lastThaw()
		}
	}
}

// byStart are all attempts in the order in which they began.
func (j *journal) byStart() []attempt {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make([]attempt, len(j.attempts))
	for i, a := range j.attempts {
		all[i] = *a
	}
	slices.SortStableFunc(all, func(a, b attempt) int {
		return cmp.Or(a.start.Compare(b.start), cmp.Compare(a.fence, b.fence))
	})
	return all
}

// body is what the handlers of a process do: it lives for as long as the payload says, unless it is told to
// stop. It stands still while its process is frozen.
type body struct {
	world   *world
	process *process
}

const bodyStep = 50 * time.Millisecond

var errAsked = errors.New("asked to fail")

func (b body) perform(ctx context.Context, task executor.Task) error {
	var asked work
	if err := json.Unmarshal(task.Job.Payload, &asked); err != nil {
		return err
	}
	if err := b.process.pass(context.Background()); err != nil {
		return err
	}
	a := b.world.journal.begin(b.process, &task, asked)
	if a == nil {
		return errKilled
	}
	if asked.Saves {
		_ = task.Save(ctx, []byte("half")) // a checkpoint that is refused or lost changes nothing
	}
	for left := asked.Takes; left > 0; left -= bodyStep {
		select {
		case <-time.After(min(left, bodyStep)):
		case <-ctx.Done():
		case <-b.process.killed:
		}
		if err := b.process.pass(context.Background()); err != nil {
			return err // the journal has ended the attempt
		}
		if ctx.Err() != nil {
			b.world.journal.end(a, false)
			return context.Cause(ctx)
		}
	}
	b.world.journal.end(a, true)
	if task.Run.Failures < asked.Fails {
		return errAsked
	}
	return nil
}

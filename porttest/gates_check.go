package porttest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/carillon-run/carillon"
)

// watched is a store that remembers how runs were written.
type watched struct {
	carillon.Store
	mu   sync.Mutex
	seen map[carillon.RunID]map[int32]sighting // by the Rev that was written
}

// sighting is a run as it was written.
type sighting struct {
	at    carillon.Time
	hold  string
	state carillon.State
	flags carillon.Flags
}

func (o *watched) Commit(ctx context.Context, changes []carillon.Change) ([]int, error) {
	lost, err := o.Store.Commit(ctx, changes)
	if err != nil {
		return lost, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	now := carillon.Now()
	for i, c := range changes {
		if _, is := slices.BinarySearch(lost, i); is {
			continue
		}
		for _, run := range c.Runs {
			if o.seen[run.ID] == nil {
				o.seen[run.ID] = map[int32]sighting{}
			}
			o.seen[run.ID][run.Rev] = sighting{now, run.Hold, run.State, run.Flags}
		}
	}
	return lost, nil
}

// sightings are those of a run, in order.
func (o *watched) sightings(id carillon.RunID) (all []sighting) {
	for rev := int32(0); len(all) < len(o.seen[id]); rev++ {
		if s, is := o.seen[id][rev]; is {
			all = append(all, s)
		}
	}
	return all
}

// drain waits until all runs have ended, and checks that nothing is left of gates.
func (w *gatesWorld) drain() {
	w.t.Helper()
	for end := time.Now().Add(15 * time.Minute); ; time.Sleep(2 * time.Second) {
		unfinished := w.find(carillon.RunQuery{States: unfinishedStates, Limit: 1000})
		gates := w.nodes[0].Catalog.AllGates()
		if len(unfinished) == 0 && len(gates) == 0 {
			break
		}
		if time.Now().After(end) {
			for _, run := range unfinished {
				w.t.Errorf("all gates are open, and it does not end: %+v", run)
			}
			for _, g := range gates {
				w.t.Errorf("it is open, and stays: %+v", *g)
			}
			w.t.FailNow()
		}
	}
	holds, err := w.truth.Holds(context.Background(), carillon.HoldName{}, 10)
	if w.must(err); len(holds) > 0 {
		w.t.Errorf("runs wait for %v", holds)
	}
}

func (w *gatesWorld) find(q carillon.RunQuery) []carillon.Run {
	w.t.Helper()
	page, err := w.truth.FindRuns(context.Background(), q)
	w.must(err)
	return page.Runs
}

func (w *gatesWorld) runsOf(id carillon.JobID) []carillon.Run {
	return w.find(carillon.RunQuery{Namespace: carillon.DefaultNamespace, Job: id, Limit: 1000})
}

// check compares what has happened with when gates were closed.
func (w *gatesWorld) check() {
	w.t.Helper()
	for _, s := range w.starts {
		for _, c := range w.closures {
			if c.inForce < s.at && s.at < c.opened && c.kind.means(&s.job.Definition) {
				w.t.Errorf("%s started at %s, but gate %s was closed from %s to %s: %+v", s.run.ID, s.at,
					c.id, c.inForce, c.opened, c.kind.match)
			}
		}
	}
	jobs, err := w.truth.FindJobs(context.Background(), carillon.JobQuery{Limit: 1000})
	w.must(err)
	found := map[carillon.JobID]bool{}
	for i := range jobs.Jobs {
		found[jobs.Jobs[i].ID] = true
		w.checkJob(&jobs.Jobs[i])
	}
	for _, id := range w.jobs {
		if !found[id] {
			w.t.Errorf("%s was answered, and is not there", id)
		}
	}
	for _, c := range w.closures {
		w.checkOrder(c)
	}
	w.t.Logf("%d gates; %d jobs, %d attempts; %d runs were dropped, %d of them had to be; %d left in order",
		len(w.closures), len(jobs.Jobs), len(w.starts), w.dropped, w.owed, w.ordered)
}

// checkJob checks that each run of a job ran once, unless a gate dropped it or a caller canceled it, and that
// its schedule came to its end.
func (w *gatesWorld) checkJob(job *carillon.Job) {
	w.t.Helper()
	ran, skipped, clock := 0, 0, 0
	runs := w.runsOf(job.ID)
	for i := range runs {
		w.checkRun(job, &runs[i])
		if !runs[i].ByClock() {
			continue
		}
		switch clock++; runs[i].State {
		case carillon.StateSucceeded:
			ran++
		case carillon.StateSkipped:
			skipped++
		}
	}
	for id := range w.asked {
		if id.Job == job.ID && !slices.ContainsFunc(runs, func(r carillon.Run) bool { return r.ID == id }) {
			w.t.Errorf("%s was asked for, and is not there", id)
		}
	}
	most := job.Schedule.MaxRuns // a run that was dropped while it waited for its turn counts for it
	switch {
	case w.canceled[job.ID]:
	case job.Schedule.Recurring() && (ran > most || ran+skipped < most):
		w.t.Errorf("%s ran %d times of %d, and was skipped %d times", job.ID, ran, most, skipped)
	case !job.Schedule.Recurring() && clock != 1:
		w.t.Errorf("%s has %d runs", job.ID, clock)
	}
}

func (w *gatesWorld) checkRun(job *carillon.Job, run *carillon.Run) {
	w.t.Helper()
	successes := 0
	for _, s := range w.starts {
		if s.run.ID == run.ID && s.succeeded {
			successes++
		}
	}
	gate := w.mustDrop(run)
	if gate != nil {
		w.owed++
	}
	switch {
	case run.State == carillon.StateSkipped && strings.HasPrefix(run.Reason, "gate "):
		w.dropped++
		w.checkDropped(run)
		if successes > 0 && run.Losses == 0 {
			w.t.Errorf("%s has succeeded, and is skipped: %s", run.ID, run.Reason)
		}
	case gate != nil:
		w.t.Errorf("%s is %s, and was due while gate %s dropped such runs: %s", run.ID, run.State, gate.id,
			run.Reason)
	case run.State == carillon.StateSkipped && w.bySchedule(job, run):
	case run.State == carillon.StateCanceled && w.canceled[job.ID]:
	case run.State != carillon.StateSucceeded:
		w.t.Errorf("%s is %s: %s", run.ID, run.State, run.Reason)
	case successes != 1 && (run.Losses == 0 || successes == 0):
		w.t.Errorf("%s has succeeded, %d times, with %d losses", run.ID, successes, run.Losses)
	}
}

// bySchedule says that the policies of a job can be why a run of it was skipped.
func (w *gatesWorld) bySchedule(job *carillon.Job, run *carillon.Run) bool {
	recurs, commanded := job.Schedule.Recurring() && run.ByClock(), len(w.disturbs[job.ID]) > 0
	switch {
	case strings.HasPrefix(run.Reason, "missed: "):
		return recurs
	case run.Reason == "the job was paused":
		return recurs && commanded
	}
	// A one-off has another run only if a caller asked for it.
	return strings.HasPrefix(run.Reason, "overlap: ") && job.Overlap != carillon.OverlapAllow &&
		(job.Schedule.Recurring() || commanded)
}

// checkDropped checks that a gate that was closed then, and that matches the run, dropped it.
func (w *gatesWorld) checkDropped(run *carillon.Run) {
	w.t.Helper()
	jobs, err := w.truth.Jobs(context.Background(), []carillon.JobVersion{run.Definition()})
	w.must(err)
	for _, c := range w.closures {
		if run.Reason == "gate "+c.id+": "+c.reason {
			if !c.drop || len(jobs) != 1 || !c.kind.means(&jobs[0].Definition) || run.Ended < c.begun ||
				run.Ended > c.over {
				w.t.Errorf("%s was dropped at %s by %+v", run.ID, run.Ended, *c)
			}
			return
		}
	}
	w.t.Errorf("%s is skipped by no gate: %q", run.ID, run.Reason)
}

// mustDrop is the gate that must have dropped a run; nil: none must, or it cannot be told. It can be told for
// a one-off that no command and no limit concerns, if one gate alone was closed at its due time and after.
func (w *gatesWorld) mustDrop(run *carillon.Run) (by *closure) {
	d, known := w.answered[run.ID.Job]
	if w.faulty || !known || !run.ByClock() || d.Schedule.Recurring() || len(d.Limits) > 0 ||
		len(w.disturbs[run.ID.Job]) > 0 {
		return nil
	}
	for _, c := range w.closures {
		if c.over < run.ID.Due || c.begun > run.ID.Due.Add(2*time.Second) || !c.kind.means(&d) {
			continue
		}
		if by != nil || !c.drop || run.ID.Due < c.inForce || run.ID.Due.Add(2*time.Second) > c.opened {
			return nil
		}
		by = c
	}
	return by
}

// checkOrder checks that the runs that waited for a gate when it was opened left it in the order of their due
// times. Those on which a command was given meanwhile leave when they like. A gate that was not in force
// everywhere is not judged: a node that has not heard of it lets runs go on that another node held.
func (w *gatesWorld) checkOrder(c *closure) {
	w.t.Helper()
	if c.inForce >= c.opened {
		return
	}
	type leaver struct {
		id carillon.RunID
		at carillon.Time
	}
	var left []leaver
	for id := range w.truth.seen {
		at, is := w.left(id, c)
		disturbed := slices.ContainsFunc(w.disturbs[id.Job], func(t carillon.Time) bool {
			return t >= c.opened && t <= at
		})
		if is && !disturbed {
			left = append(left, leaver{id, at})
		}
	}
	w.ordered += len(left)
	slices.SortFunc(left, func(a, b leaver) int { return cmp.Compare(a.id.Due, b.id.Due) })
	for i := 1; i < len(left); i++ {
		a, b := left[i-1], left[i]
		if a.id.Due < b.id.Due && a.at > b.at {
			w.t.Errorf("%s left gate %s at %s, and %s, which was due later, at %s", a.id, c.id, a.at, b.id,
				b.at)
			w.t.Logf("opened at %s; written %+v and %+v", c.opened, w.truth.sightings(a.id),
				w.truth.sightings(b.id))
		}
	}
}

// left is when a run left a gate that it waited for when the gate was opened.
func (w *gatesWorld) left(id carillon.RunID, c *closure) (at carillon.Time, is bool) {
	all := w.truth.sightings(id)
	for i := range all {
		if s := all[i]; s.hold == "gate/"+c.id && s.state == carillon.StateWaiting && s.at < c.opened &&
			i+1 < len(all) && all[i+1].at >= c.opened {
			next := all[i+1]
			return next.at, next.state == carillon.StateWaiting && next.hold != s.hold
		}
	}
	return 0, false
}

package carillon_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
)

// commit writes a change, checks it against the rows that it changes, and keeps the books.
func (l *life) commit(what string, c carillon.Change) bool {
	before := map[carillon.RunID]carillon.Run{}
	var latest carillon.Job
	if len(l.eras) > 0 {
		w := l.whole()
		latest = w.Job
		for _, run := range w.Runs {
			before[run.ID] = run
		}
	}
	lost, err := l.store.Commit(context.Background(), []carillon.Change{c})
	if err != nil {
		l.t.Fatal(err)
	}
	l.write(what, c, len(lost) == 0)
	if len(lost) > 0 {
		return false
	}
	if c.Job != nil {
		l.noteJob(latest, c)
	}
	for _, run := range c.Runs {
		was, known := before[run.ID]
		if run.ByClock() && run.State == carillon.StateWaiting && !run.Has(carillon.FlagPlanned) {
			l.born[run.ID] = len(l.eras) - 1 // an edit may take it along to the next schedule
		}
		if !known {
			l.noteBirth(run, latest)
		} else {
			l.noteStep(was, run)
		}
		if run.State == carillon.StateClaimed && was.State != carillon.StateClaimed {
			l.noteClaim(run, latest, before, c.Guards)
		}
		if run.State.Ended() {
			l.noteEnd(run)
		}
	}
	return true
}

func (l *life) write(what string, c carillon.Change, won bool) {
	line := fmt.Sprintf("%9d %s", l.now-epoch, what)
	if !won {
		line += ": LOST"
	}
	for _, run := range c.Runs {
		line += fmt.Sprintf(
			"; %s %s #%d %q flags %06b", l.name(run.ID), run.State, run.Attempt, run.Reason, run.Flags,
		)
	}
	for _, guard := range c.Guards {
		holder, beside, queue := turns(carillon.Guards{guard})
		line += "; turn " + l.name(carillon.RunID{Due: holder}) + " beside"
		for _, due := range beside {
			line += " " + l.name(carillon.RunID{Due: due})
		}
		line += " before"
		for _, due := range queue {
			line += " " + l.name(carillon.RunID{Due: due})
		}
	}
	l.diary = append(l.diary, line)
}

func (l *life) noteJob(was carillon.Job, c carillon.Change) {
	is := *c.Job
	plain := func(s carillon.Schedule) string { b, _ := json.Marshal(s); return string(b) }
	switch {
	case was.ID == 0:
		l.eras = append(l.eras, &era{schedule: is.Schedule, from: l.now})
	case was.State == carillon.JobCanceled: // canceled again
	case is.State == carillon.JobCanceled:
		l.last().until = l.now
	case plain(was.Schedule) != plain(is.Schedule):
		next := &era{schedule: is.Schedule, from: l.now}
		next.planned = math.MaxInt32 // if nothing is planned, there is nothing to count
		for _, run := range c.Runs {
			if run.ByClock() && run.State == carillon.StateWaiting && !run.Has(carillon.FlagPlanned) {
				next.planned = int(run.Seq) // the count continues as long as a run by the clock is unfinished
			}
		}
		if next.planned == math.MaxInt32 && is.Schedule.MaxRuns == 0 && is.Schedule.Next(l.now) != 0 &&
			is.Schedule.Recurring() {
			l.t.Errorf("the edit plans nothing, though %s is due next", is.Schedule.Next(l.now))
		}
		l.last().until = l.now
		l.eras = append(l.eras, next)
	}
}

func (l *life) last() *era { return l.eras[len(l.eras)-1] }

func (l *life) noteBirth(run carillon.Run, latest carillon.Job) {
	if l.begun[run.ID] {
		l.t.Errorf("%s has had a claim before, and is born again", l.name(run.ID))
	}
	if run.ByClock() && run.State == carillon.StateClaimed {
		l.born[run.ID] = len(l.eras) - 1
	}
	if latest.State == carillon.JobCanceled {
		l.t.Errorf("%s is born to a canceled job", l.name(run.ID))
	}
	if run.Has(carillon.FlagPlanned) && run.State == carillon.StateClaimed {
		l.last().planned++
	}
}

// legal are the steps that a run may take; an attempt is counted with the step to claimed, and only there.
var legal = map[carillon.State][]carillon.State{
	carillon.StateWaiting: {
		carillon.StateWaiting, carillon.StateClaimed, carillon.StateSkipped, carillon.StateCanceled,
	},
	carillon.StateClaimed: {
		carillon.StateClaimed, carillon.StateRunning, carillon.StateWaiting, carillon.StateSucceeded,
		carillon.StateFailed, carillon.StateCanceled,
	},
	carillon.StateRunning: {
		carillon.StateRunning, carillon.StateWaiting, carillon.StateSucceeded, carillon.StateFailed,
		carillon.StateCanceled,
	},
}

func (l *life) noteStep(was, is carillon.Run) {
	if !slices.Contains(legal[was.State], is.State) {
		l.t.Errorf("%s goes from %s to %s", l.name(is.ID), was.State, is.State)
	}
	claim := was.State == carillon.StateWaiting && is.State == carillon.StateClaimed
	if claim && is.Attempt != was.Attempt+1 || !claim && is.Attempt != was.Attempt {
		l.t.Errorf(
			"%s goes from %s to %s with attempts %d, %d", l.name(is.ID), was.State, is.State, was.Attempt,
			is.Attempt,
		)
	}
	if was.Attempt > 0 && is.State == carillon.StateSkipped {
		l.t.Errorf("%s has begun and is skipped: %s", l.name(is.ID), is.Reason)
	}
	if is.RetryOf != 0 && is.State == carillon.StateSkipped {
		l.t.Errorf("%s repeats another and is skipped: %s", l.name(is.ID), is.Reason)
	}
	if !was.Has(carillon.FlagPlanned) && is.Has(carillon.FlagPlanned) && !is.State.Ended() {
		l.eras[l.born[is.ID]].planned++
	}
	if was.State.Held() && is.State == carillon.StateWaiting {
		if job := l.definition(is.Version); is.Failures > was.Failures {
			l.notYet[is.ID] = l.now.Add(job.Retry.After(int(is.Failures), 0))
		}
	}
	if !is.State.Held() {
		delete(l.mine, is.ID)
	} else if h, ok := l.mine[is.ID]; ok && l.rand.IntN(2) == 0 { // its worker may not know yet
		h.run = is
		h.run.Rev++
		l.mine[is.ID] = h
	}
}

// noteClaim checks the rules that every claim must keep.
func (l *life) noteClaim(
	run carillon.Run, latest carillon.Job, before map[carillon.RunID]carillon.Run, guards []carillon.Guard,
) {
	if latest.State != carillon.JobActive && latest.ID != 0 {
		l.t.Errorf("%s is claimed while the job is %s", l.name(run.ID), latest.State)
	}
	if l.now < run.ID.Due || l.now < l.notYet[run.ID] {
		l.t.Errorf(
			"%s is claimed too early: due %s, retry not before %s", l.name(run.ID), run.ID.Due,
			l.notYet[run.ID],
		)
	}
	if run.Attempt == 1 && run.Version != latest.Version && latest.ID != 0 {
		l.t.Errorf("%s begins with version %d of %d", l.name(run.ID), run.Version, latest.Version)
	}
	if run.Fence() <= l.fences[run.ID] {
		l.t.Errorf("%s is claimed with fence %d after %d", l.name(run.ID), run.Fence(), l.fences[run.ID])
	}
	if latest.Overlap != carillon.OverlapAllow && run.Has(carillon.FlagGuarded) {
		if run.Fence() <= l.guarded {
			l.t.Errorf(
				"%s is claimed with fence %d, not above %d of a run before it", l.name(run.ID), run.Fence(),
				l.guarded,
			)
		}
		l.guarded = run.Fence()
	}
	if latest.Overlap != carillon.OverlapAllow {
		for id, other := range before {
			if id != run.ID && (other.State.Held() || run.Attempt == 1 && other.Attempt > 0) {
				l.t.Errorf(
					"%s is claimed while %s is %s, attempt %d", l.name(run.ID), l.name(id), other.State,
					other.Attempt,
				)
			}
		}
	}
	l.begun[run.ID], l.fences[run.ID] = true, run.Fence()
	run.Rev++
	h := held{run: run}
	if len(guards) > 0 {
		guard := guards[0]
		guard.Rev++
		h.guard = carillon.Guards{guard}
	}
	l.mine[run.ID] = h
}

func (l *life) noteEnd(run carillon.Run) {
	delete(l.mine, run.ID)
	delete(l.notYet, run.ID)
	run.Rev = 0
	l.history = append(l.history, run)
	if at, byClock := l.born[run.ID]; byClock {
		l.eras[at].records = append(l.eras[at].records, run)
		delete(l.born, run.ID)
	}
}

// check checks what holds between any two steps.
func (l *life) check() {
	l.t.Helper()
	w := l.whole()
	l.checkGuard(w)
	l.checkWakes(w)
	for i, e := range l.eras {
		if e.schedule.Recurring() {
			l.checkTimes(e, i == len(l.eras)-1, w)
		}
	}
}

// checkGuard: a run that has the turn or waits for it is unfinished; a run that has begun has the turn or
// waits for it; and once a guard is needed, no run is outside of it.
func (l *life) checkGuard(w carillon.JobSnapshot) {
	unfinished := map[carillon.Time]carillon.Run{}
	for _, run := range w.Runs {
		unfinished[run.ID.Due] = run
	}
	holder, beside, queue := turns(w.Guards)
	inLine := slices.Concat(beside, queue)
	if holder != 0 {
		inLine = slices.Concat([]carillon.Time{holder}, inLine)
	} else if len(beside) > 0 {
		l.t.Errorf("no run has the turn, and one is beside: %s", w.Guards[0].Value)
	}
	for i, due := range inLine {
		run, ok := unfinished[due]
		if !ok || !run.Has(carillon.FlagGuarded) || slices.Contains(inLine[:i], due) {
			l.t.Errorf(
				"in line is %s, which is %s, guarded %v: %s", l.name(carillon.RunID{Due: due}), run.State,
				run.Has(carillon.FlagGuarded), w.Guards[0].Value,
			)
		}
		if (run.Attempt > 0) == slices.Contains(queue, due) {
			l.t.Errorf(
				"%s has %d attempts: %s", l.name(carillon.RunID{Due: due}), run.Attempt, w.Guards[0].Value,
			)
		}
	}
	must := w.Job.Overlap != carillon.OverlapAllow && (w.Job.Schedule.Recurring() || len(w.Runs) > 1)
	for _, run := range w.Runs {
		if run.Has(carillon.FlagGuarded) && run.Attempt > 0 && !slices.Contains(inLine, run.ID.Due) {
			l.t.Errorf("%s has begun and is not in line: %s", l.name(run.ID), w.Guards[0].Value)
		}
		if must && !run.Has(carillon.FlagGuarded) && w.Job.State != carillon.JobCanceled {
			l.t.Errorf("overlap is %s and %s is not guarded", w.Job.Overlap, l.name(run.ID))
		}
	}
}

// checkWakes: every unfinished run has a wake at which a loop looks at it, except runs on hold.
func (l *life) checkWakes(w carillon.JobSnapshot) {
	for _, run := range w.Runs {
		hold := run.Has(carillon.FlagOnHold)
		if run.State == carillon.StateWaiting &&
			(hold != (w.Job.State == carillon.JobPaused) || run.Wake == carillon.Never && !hold) {
			l.t.Errorf(
				"the job is %s, %s is on hold: %v, wake %s", w.Job.State, l.name(run.ID), hold, run.Wake,
			)
		}
		if run.State.Held() && run.Wake > l.now {
			l.t.Errorf("%s is held, and wakes at %s only", l.name(run.ID), run.Wake)
		}
		longest := max(run.ID.Due, l.notYet[run.ID].Add(time.Minute), l.now.Add(time.Minute))
		if run.State == carillon.StateWaiting && !hold && run.Wake > longest {
			l.t.Errorf("%s wakes at %s only", l.name(run.ID), run.Wake)
		}
	}
}

// checkTimes walks over the due times of an era: each is in exactly one record, and the next one is planned.
func (l *life) checkTimes(e *era, present bool, w carillon.JobSnapshot) {
	slices.SortFunc(e.records, func(a, b carillon.Run) int { return cmp.Compare(a.Covers, b.Covers) })
	var open []carillon.Run
	for _, run := range w.Runs {
		if at, ok := l.born[run.ID]; ok && l.eras[at] == e {
			open = append(open, run)
		}
	}
	all := slices.Concat(e.records, open)
	slices.SortFunc(all, func(a, b carillon.Run) int { return cmp.Compare(a.Covers, b.Covers) })
	next := e.schedule.Next(e.from)
	for _, run := range all {
		if run.Covers != next {
			l.t.Errorf("%s stands for %s, but next in line is %s", l.name(run.ID), run.Covers, next)
			return
		}
		next = e.schedule.Next(max(run.Covers, run.Until))
	}
	heads := slices.DeleteFunc(open, func(r carillon.Run) bool { return r.Has(carillon.FlagPlanned) })
	begun := 0
	for _, run := range all {
		if run.Attempt > 0 {
			begun++
		}
	}
	counted := e.schedule.MaxRuns > 0 && e.planned >= e.schedule.MaxRuns
	switch {
	case e.schedule.MaxRuns > 0 && begun > e.schedule.MaxRuns:
		l.t.Errorf("%d runs by the clock, at most %d were asked for", begun, e.schedule.MaxRuns)
	case len(heads) > 1:
		l.t.Errorf("the schedule has forked: %s and %s", l.name(heads[0].ID), l.name(heads[1].ID))
	case len(heads) == 1 && (!present || e.until != 0):
		l.t.Errorf("the schedule has ended, and %s is still planned", l.name(heads[0].ID))
	case len(heads) == 1 && heads[0].Covers != all[len(all)-1].Covers:
		l.t.Errorf("%s is planned already, but not the last", l.name(heads[0].ID))
	case len(heads) == 0 && present && e.until == 0 && next != 0 && !counted:
		l.t.Errorf("the schedule stands still before %s", next)
	case e.until != 0 && next != 0 && next <= e.until && !counted:
		l.t.Errorf("the schedule ended at %s, and no record says what became of %s", e.until, next)
	}
}

// turns reads a guard's value, which only overlap.go writes.
func turns(g carillon.Guards) (holder carillon.Time, beside, queue []carillon.Time) {
	if len(g) == 0 {
		return 0, nil, nil
	}
	var v struct {
		Holder carillon.Time   `json:"holder"`
		Beside []carillon.Time `json:"beside"`
		Queue  []carillon.Time `json:"queue"`
	}
	if err := json.Unmarshal(g[0].Value, &v); err != nil {
		panic(err)
	}
	return v.Holder, v.Beside, v.Queue
}

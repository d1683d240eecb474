package check

import (
	"time"

	"github.com/carillon-run/carillon"
)

const (
	// onTime is how late a run can start although a slot is free.
	onTime = time.Second
	// takeoverTime is how long after the death of a worker its runs start again.
	takeoverTime = 10 * time.Second
	// recovery is how long after a fault its effects last: the takeover, and the time in which a node that
	// came back gets its shards.
	recovery = 12 * time.Second
	// sessionTime is how long a worker can be frozen before its runs are taken from it.
	sessionTime = 7 * time.Second
)

// lateness checks that each run that needs to wait for nothing starts on time. Only runs of jobs that have no
// turn to wait for, and that no caller held up, are judged.
//
// A fault excuses a late start in two cases. A fault of a node or of the store excuses every run that was due
// while the fault lasted or within the recovery time after it: the run can belong to that node. A fault of a
// worker excuses only a run whose first attempt was lost, because its first line is of a later attempt: the
// worker had claimed it. A fault of the link of a worker also excuses runs that this worker starts: it got
// them late. Other workers have free slots, so any other run must be on time. Even an excused run
// starts within the recovery time after the last such fault.
func (j *judge) lateness(v *view) {
	if v.job.Every != 0 && v.job.Overlap != carillon.OverlapAllow || len(v.said(VerbPause)) > 0 ||
		len(v.said(VerbRunNow)) > 0 {
		return
	}
	seen := map[carillon.RunID]bool{}
	for _, l := range v.lines {
		if l.Kind != KindStart || seen[l.Run] {
			continue
		}
		seen[l.Run] = true
		if r := v.record(l.Run); r != nil && r.byClock() {
			j.late(v, l)
		}
	}
}

func (j *judge) late(v *view, l Line) {
	late := l.At.Sub(l.Run.Due)
	due := l.Mono - late
	over, excused := j.others.near(due-recovery, l.Mono)
	if until, lost := j.workers.near(due-recovery, l.Mono); lost && l.Attempt > 1 {
		over, excused = max(over, until), true
	}
	if until, bad := j.badLink(l.Process, due-recovery, l.Mono); bad {
		over, excused = max(over, until), true
	}
	switch {
	case !excused:
		j.lates = append(j.lates, late)
		if !j.onTimeFor(onTime, due, l.Mono) {
			j.found(v, PromiseLate, l.Run,
				"started %s late in attempt %d, with no fault near", late, l.Attempt)
		}
	case late > onTime:
		j.report.Excused++
		if !j.onTimeFor(recovery, max(over, due), l.Mono) {
			j.found(v, PromiseLate, l.Run, "started %s late, %s after the last fault", late, l.Mono-over)
		}
	}
}

// takeovers measures how long it took from the fault of a worker until each run that it had began again.
//
// A takeover is excused if a fault of a node or of the store lasted meanwhile or ended less than the recovery
// time before: the node that watches the worker can be that one. It is also excused if the attempt after it
// was lost before its body began.
func (j *judge) takeovers(v *view) {
	if len(v.said(VerbPause)) > 0 {
		return
	}
	for i, l := range v.lines {
		if l.Kind != KindStart {
			continue
		}
		fault, hit := j.interrupts(l, v.lines[i+1:])
		again, any := restart(l, v.lines[i+1:])
		if !hit || !any {
			continue
		}
		took := again.Mono - fault.From
		if took < 0 { // the attempt had been lost before
			continue
		}
		_, near := j.others.near(fault.From-recovery, again.Mono)
		_, slow := j.badLink(again.Process, fault.From, again.Mono)
		if near || slow || again.Attempt != l.Attempt+1 {
			if took > takeoverTime {
				j.report.Excused++
			}
			continue
		}
		j.takes = append(j.takes, took)
		if !j.onTimeFor(takeoverTime, fault.From, again.Mono) {
			j.found(v, PromiseTakeover, l.Run,
				"started again %s after the %s of %s", took, fault.Name, fault.Victim)
		}
	}
}

// interrupts is the fault that ended an attempt: it hit the worker while the body ran.
func (j *judge) interrupts(l Line, later []Line) (Fault, bool) {
	over := forever
	for _, o := range later {
		if o.Fence == l.Fence && o.Run == l.Run && o.Kind.Over() {
			over = o.Mono
			break
		}
	}
	for _, f := range j.hits[l.Process] {
		if f.takes() && f.From > l.Mono && f.From < over {
			return f, true
		}
	}
	return Fault{}, false
}

// takes says that a fault of a worker takes its runs from it, at the latest when its session is over. A
// freeze or a cut that is shorter need not, nor does a link that is only slow or loses some answers.
func (f Fault) takes() bool {
	lasts := f.end() - f.From
	switch {
	case f.Link:
		return f.Name == "cut" && lasts >= takeoverTime
	case f.Freezes:
		return lasts >= sessionTime
	}
	return true
}

// badLink says whether the link of a worker was hit at any moment between two times, and until when.
func (j *judge) badLink(process int32, from, to time.Duration) (over time.Duration, any bool) {
	return lasted(j.hits[process], from, to, func(f Fault) bool { return f.Link })
}

// hit says whether a worker or its link was hit at any moment between two times, and until when.
func (j *judge) hit(process int32, from, to time.Duration) (over time.Duration, any bool) {
	return lasted(j.hits[process], from, to, func(Fault) bool { return true })
}

func lasted(
	list []Fault, from, to time.Duration, counts func(f Fault) bool,
) (over time.Duration, any bool) {
	for _, f := range list {
		if counts(f) && f.From <= to && f.end() >= from {
			over, any = max(over, f.end()), true
		}
	}
	return over, any
}

// restart is the next start of the run.
func restart(l Line, later []Line) (Line, bool) {
	for _, o := range later {
		if o.Kind == KindStart && o.Run == l.Run && o.Attempt > l.Attempt {
			return o, true
		}
	}
	return Line{}, false
}

package check

import (
	"fmt"
	"time"

	"github.com/carillon-run/carillon"
)

// thawTime is how long a handler that was frozen with its process can go on after it thawed: until its worker
// has noticed that the lease is over.
const thawTime = 250 * time.Millisecond

// sweep goes over the lines of one key in order of time. It finds bodies that are early, and bodies that work
// beside another body of the key.
type sweep struct {
	newest Line // the attempt that began last
	begun  bool
	open   map[int64]Line // attempts that have begun and not said that they are over, by fence
	// excuse says that a line of an attempt that was given up comes from a handler that was frozen; nil: none
	// was.
	excuse func(old Line, at time.Duration) bool
	frozen map[int64]bool // attempts for which excuse held
	found  func(p Promise, l Line, what string)
}

func newSweep(found func(p Promise, l Line, what string)) *sweep {
	return &sweep{open: map[int64]Line{}, frozen: map[int64]bool{}, found: found}
}

func (s *sweep) take(l Line) {
	if l.Kind == KindStart && l.At < l.Run.Due {
		s.found(PromiseEarly, l, fmt.Sprintf("started at %s", l.At))
	}
	switch {
	case s.begun && l.Fence < s.newest.Fence:
		s.overlap(l, l, fmt.Sprintf("%s of fence %d at %s, after fence %d began at %s", l.Kind, l.Fence,
			l.At, s.newest.Fence, s.newest.At))
	case !s.begun || l.Fence > s.newest.Fence:
		if l.Kind != KindStart {
			s.found(PromiseConcurrent, l, fmt.Sprintf("%s of attempt %d without START", l.Kind, l.Attempt))
		}
		s.newest, s.begun = l, true
	case l.Kind == KindStart:
		s.found(PromiseConcurrent, l, fmt.Sprintf("attempt %d started twice with one fence", l.Attempt))
	}
	switch {
	case l.Kind == KindStart:
		s.open[l.Fence] = l
	case l.Kind == KindBusy:
		s.busy(l)
	case l.Kind.Over():
		delete(s.open, l.Fence)
	}
}

// busy judges that the kernel refused the lock of a key: another body has it. That is no harm if the other
// body stands still.
func (s *sweep) busy(l Line) {
	for fence, other := range s.open {
		if fence != l.Fence && s.excuse != nil && s.excuse(other, l.Mono) {
			s.frozen[fence] = true
			return
		}
	}
	s.found(PromiseConcurrent, l, fmt.Sprintf("attempt %d began while another body had the lock", l.Attempt))
}

func (s *sweep) overlap(old, l Line, what string) {
	if s.excuse != nil && s.excuse(old, l.Mono) {
		s.frozen[old.Fence] = true
		return
	}
	s.found(PromiseConcurrent, l, what)
}

// Lines returns where lines break the promises by themselves, whatever the faults were: no start is early, no
// two attempts of a job run at once, and fences rise. The order of the lines is the order of the events.
func Lines(lines []Line) (broken []string) {
	sweeps := map[carillon.JobID]*sweep{}
	for _, l := range lines {
		s := sweeps[l.Run.Job]
		if s == nil {
			s = newSweep(func(p Promise, l Line, what string) {
				broken = append(broken, fmt.Sprintf("%s: %s: %s", p, l.Run, what))
			})
			sweeps[l.Run.Job] = s
		}
		s.take(l)
	}
	return broken
}

// overlaps finds early starts and bodies that work at once.
func (j *judge) overlaps(v *view) {
	sweeps := map[int64]*sweep{}
	for _, l := range v.lines {
		key := KeyOf(l.Run, v.job.Overlap)
		s := sweeps[key]
		if s == nil {
			s = newSweep(func(p Promise, l Line, what string) { j.found(v, p, l.Run, "%s", what) })
			if !v.job.Commands { // a command is killed while its worker is frozen
				s.excuse = j.thawing
			}
			sweeps[key] = s
		}
		s.take(l)
	}
	for _, s := range sweeps {
		j.report.FrozenOverlap += len(s.frozen)
	}
}

// thawing says that the process of a line stood still at a time, or until a moment before.
func (j *judge) thawing(l Line, at time.Duration) bool {
	for _, f := range j.hits[l.Process] {
		if f.Freezes && f.From <= at && at <= f.end()+min(thawTime+j.allowed(f.To, at), forever-f.end()) {
			return true
		}
	}
	return false
}

// holder is an attempt that has written to the register.
type holder struct {
	run     carillon.RunID
	attempt int32
	began   time.Duration
}

// after says that an attempt is later than another one: a later attempt of the run, or of a run that began
// later.
func (h holder) after(o holder) bool {
	if h.run == o.run {
		return h.attempt > o.attempt
	}
	return h.began > o.began
}

// stale goes over the writes to the register. The register refuses lower fences, so an accepted write of an
// attempt after one of a later attempt means that fences do not rise; so does a refused write of the attempt
// that began last.
func (j *judge) stale(v *view) {
	type attempt struct {
		run    carillon.RunID
		number int32
	}
	began := map[attempt]time.Duration{}
	for _, l := range v.lines {
		if l.Kind == KindStart {
			began[attempt{l.Run, l.Attempt}] = l.Mono
		}
	}
	accepted := map[int64][]holder{} // by key
	for _, w := range v.writes {
		of := holder{w.Run, w.Attempt, began[attempt{w.Run, w.Attempt}]}
		if !w.Accepted {
			j.report.Refused++
			if newest(v, of, w) {
				j.found(v, PromiseStale, w.Run,
					"attempt %d began last, and its fence %d was refused", w.Attempt, w.Fence)
			}
			continue
		}
		for _, other := range accepted[w.Key] {
			if other.after(of) {
				j.found(v, PromiseStale, w.Run,
					"a write of attempt %d was accepted after one of attempt %d of %s",
					w.Attempt, other.attempt, other.run)
			}
		}
		accepted[w.Key] = append(accepted[w.Key], of)
	}
}

// newest says that no later attempt of the key had begun when a write came.
func newest(v *view, of holder, w Write) bool {
	for _, l := range v.lines {
		if l.Mono > w.Mono {
			break
		}
		if l.Kind == KindStart && KeyOf(l.Run, v.job.Overlap) == w.Key &&
			(holder{l.Run, l.Attempt, l.Mono}).after(of) {
			return false
		}
	}
	return true
}

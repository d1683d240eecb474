package check

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
)

// at is a moment of a hand-written history: n seconds after its begin, on both clocks.
func at(seconds float64) Instant {
	d := time.Duration(seconds * float64(time.Second))
	return Instant{Mono: time.Minute + d, Wall: carillon.Time(1_800_000_000_000).Add(d)}
}

func run(job carillon.JobID, due float64) carillon.RunID {
	return carillon.RunID{Job: job, Due: at(due).Wall}
}

// body is what one attempt wrote: kinds and when, and a write to the register with each start.
type body struct {
	run      carillon.RunID
	attempt  int32
	claimed  float64
	process  int32
	version  int32
	overlap  carillon.Overlap
	says     string // such as "START 1 END 2"
	writes   []float64
	refusals []float64
}

func (b body) add(h *History) {
	fence := int64(at(b.claimed).Wall)<<20 | int64(b.attempt)
	words := strings.Fields(b.says)
	for pair := range slices.Chunk(words, 2) {
		var seconds float64
		_, _ = fmt.Sscan(pair[1], &seconds)
		h.Lines = append(h.Lines, Line{
			Kind: Kind(slices.Index(kinds, pair[0])), Run: b.run, Attempt: b.attempt, Fence: fence,
			Version: max(b.version, 1), Process: b.process, At: at(seconds).Wall, Mono: at(seconds).Mono,
		})
	}
	for accepted, times := range map[bool][]float64{true: b.writes, false: b.refusals} {
		for _, seconds := range times {
			h.Writes = append(h.Writes, Write{
				Key: KeyOf(b.run, b.overlap), Run: b.run, Attempt: b.attempt, Accepted: accepted,
				Fence: fence, Mono: at(seconds).Mono,
			})
		}
	}
}

func history(parts ...func(h *History)) *History {
	h := &History{}
	join(parts...)(h)
	return h
}

func bodies(list ...body) func(h *History) {
	return func(h *History) {
		for _, b := range list {
			b.add(h)
		}
	}
}

// job adds a job with its submit, which was answered at once.
func job(j Job, submitted float64) func(h *History) {
	return func(h *History) {
		j.First = at(submitted).Wall.Add(j.After)
		j.Key = fmt.Sprint("t", j.ID)
		if j.Overlap == "" {
			j.Overlap = carillon.OverlapSkip
		}
		h.Jobs = append(h.Jobs, j)
		h.Commands = append(h.Commands, Command{
			Verb: VerbSubmit, Answer: AnswerOK, Job: j.ID, Key: j.Key, Invoked: at(submitted),
			Answered: at(submitted),
		})
	}
}

func records(list ...Record) func(h *History) {
	return func(h *History) { h.Records = append(h.Records, list...) }
}

func said(verb Verb, answer Answer, seconds float64) func(h *History) {
	return func(h *History) {
		h.Commands = append(h.Commands, Command{
			Verb: verb, Answer: answer, Job: 1, Invoked: at(seconds), Answered: at(seconds),
		})
	}
}

func happened(f Fault, from, to float64) func(h *History) {
	return func(h *History) {
		f.From, f.To = at(from).Mono, at(to).Mono
		h.Faults = append(h.Faults, f)
	}
}

// ended is the record of a run by the clock.
func ended(id carillon.RunID, state carillon.State, attempt, losses, failures int32) Record {
	return Record{
		ID: id, State: state, Covers: id.Due, Attempt: attempt, Losses: losses, Failures: failures,
	}
}

func because(r Record, reason string) Record {
	r.Reason = reason
	return r
}

const (
	succeeded = carillon.StateSucceeded
	canceled  = carillon.StateCanceled
	failed    = carillon.StateFailed
	skipped   = carillon.StateSkipped
)

var (
	once     = Job{ID: 1}
	twice    = Job{ID: 1, After: time.Second, Every: time.Second, MaxRuns: 2}
	freezing = Fault{Name: "freeze", Part: PartWorker, Victim: "w", Process: 7, Freezes: true}
	killing  = Fault{Name: "kill", Part: PartWorker, Victim: "w", Process: 7}
	first    = run(1, 0)
	second   = ended(run(1, 2), succeeded, 1, 0, 0)
	good     = body{
		run: first, attempt: 1, process: 7, says: "START 0.1 END 0.2", writes: []float64{0.11, 0.19},
	}
	ran = records(ended(first, succeeded, 1, 0, 0))
)

// frozen is a handler that stood still while another attempt began, and wrote its last line at a time.
func frozen(last string) func(h *History) {
	return join(
		job(once, 0), happened(freezing, 0.2, 10), records(ended(first, succeeded, 2, 1, 0)),
		bodies(
			body{
				run: first, attempt: 1, process: 7, says: "START 0.1 ALIVE " + last, writes: []float64{0.11},
			},
			body{
				run: first, attempt: 2, claimed: 8, process: 8, says: "START 8 BUSY 8.001 END 9",
				writes: []float64{8.1, 8.9},
			},
		),
	)
}

// join makes one part of a history from several.
func join(parts ...func(h *History)) func(h *History) {
	return func(h *History) {
		for _, part := range parts {
			part(h)
		}
	}
}

package check

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/carillon-run/carillon"
)

// History is everything that is known about a trial. Judge sorts its lists.
type History struct {
	Jobs     []Job
	Lines    []Line
	Writes   []Write
	Commands []Command
	Records  []Record
	Faults   []Fault
	Logs     []Log  // of a sample of the runs whose bodies were commands
	Looks    []Look // at a sample of the jobs and runs

	// Left is what is still there although all runs have ended: processes of job bodies, directories of
	// attempts, open files, goroutines, sessions, rows.
	Left []string
	// Allowance is how much longer than on an idle machine something can have taken between two times.
	Allowance func(from, to time.Duration) time.Duration
	// Busy says that processes of the machine had to wait almost all the time between two times. Then a late
	// start says nothing about Carillon.
	Busy func(from, to time.Duration) bool
}

// Job is what a caller asked for.
type Job struct {
	ID       carillon.JobID
	Key      string        // the caller's own name for it; unique
	First    carillon.Time // its first due time
	After    time.Duration // from the submit to the first due time
	Every    time.Duration // 0: it runs once
	MaxRuns  int
	Overlap  carillon.Overlap
	Fails    int32         // how many of the first attempts fail
	Fatal    bool          // every run that repeats none fails for good
	Commands bool          // its body is a command, not a handler
	Delay    time.Duration // at least so long between a failure and the next attempt
}

// KeyOf is the number under which at most one body may work at a time: that of the job, or of the run if runs
// of the job may overlap.
func KeyOf(run carillon.RunID, overlap carillon.Overlap) int64 {
	if overlap != carillon.OverlapAllow {
		return int64(run.Job)
	}
	mixed := uint64(run.Job)*0x9E3779B97F4A7C15 ^ uint64(run.Due)*0xC2B2AE3D27D4EB4F
	return int64(mixed >> 2)
}

// Write is a write to the fenced register.
type Write struct {
	Key      int64
	Run      carillon.RunID
	Attempt  int32
	Accepted bool
	Fence    int64
	Mono     time.Duration
}

// Verb is what a caller asked for.
type Verb uint8

const (
	VerbSubmit Verb = iota + 1
	VerbCancel
	VerbPause
	VerbResume
	VerbEdit
	VerbRunNow
	VerbRedrive
)

var verbs = []string{"", "submit", "cancel", "pause", "resume", "edit", "run now", "redrive"}

func (v Verb) String() string { return verbs[v] }

// Answer is what a caller knows about its command.
type Answer uint8

const (
	AnswerOK      Answer = iota + 1
	AnswerRefused        // it did nothing
	AnswerUnknown        // none came: the command can have happened, or can happen later, or not at all
)

var answers = []string{"", "ok", "refused", "unknown"}

func (a Answer) String() string { return answers[a] }

// Command is one command of a caller.
type Command struct {
	Verb     Verb
	Answer   Answer
	Job      carillon.JobID // 0: a submit that left no job
	Run      carillon.RunID // the run that the answer names, if any
	Key      string         // of a submit
	Invoked  Instant
	Answered Instant
}

// Instant is a moment on both clocks.
type Instant struct {
	Mono time.Duration
	Wall carillon.Time
}

// Record is what Carillon says about an ended run.
type Record struct {
	ID                                 carillon.RunID
	State                              carillon.State
	Reason                             string
	Covers, Until, RetryOf             carillon.Time
	Attempt, Failures, Losses, Crashes int32
}

// RecordOf keeps the part of a run that the checks compare: a trial has a million of them.
func RecordOf(run *carillon.Run) Record {
	return Record{
		ID: run.ID, State: run.State, Reason: run.Reason, Covers: run.Covers, Until: run.Until,
		RetryOf: run.RetryOf, Attempt: run.Attempt, Failures: run.Failures, Losses: run.Losses,
		Crashes: run.Crashes,
	}
}

// byClock says that the run stands for a scheduled time.
func (r *Record) byClock() bool { return r.Covers != 0 && r.RetryOf == 0 }

// Part is what a fault hits.
type Part uint8

const (
	PartWorker Part = iota + 1
	PartNode
	PartStore
)

var parts = []string{"", "worker", "node", "store"}

func (p Part) String() string { return parts[p] }

// Fault is a fault from its begin until everything works again.
type Fault struct {
	Name    string // kill, freeze, …
	Part    Part
	Victim  string // the name of what it hit
	Process int32  // the process that it hit, if it is one
	Freezes bool   // the process stood still; it went on at To
	Link    bool   // it hit a link of the process, which went on
	From    time.Duration
	To      time.Duration // 0: it lasts
}

// Log is the output of one attempt, as Carillon kept it.
type Log struct {
	Run     carillon.RunID
	Attempt int32
	Lines   []string
}

// view is everything about one job, in order of time.
type view struct {
	job      *Job
	lines    []Line
	writes   []Write
	commands []Command
	records  []Record
	looks    []Look
}

// views sorts the history by job, so that each job can be judged alone: that bounds memory.
func (h *History) views(visit func(v *view)) {
	slices.SortFunc(h.Jobs, func(a, b Job) int { return cmp.Compare(a.ID, b.ID) })
	slices.SortStableFunc(h.Lines, func(a, b Line) int {
		return cmp.Or(cmp.Compare(a.Run.Job, b.Run.Job), cmp.Compare(a.Mono, b.Mono))
	})
	slices.SortStableFunc(h.Writes, func(a, b Write) int {
		return cmp.Or(cmp.Compare(a.Run.Job, b.Run.Job), cmp.Compare(a.Mono, b.Mono))
	})
	slices.SortStableFunc(h.Commands, func(a, b Command) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Invoked.Mono, b.Invoked.Mono))
	})
	slices.SortStableFunc(h.Records, func(a, b Record) int {
		return cmp.Or(cmp.Compare(a.ID.Job, b.ID.Job), cmp.Compare(a.ID.Due, b.ID.Due))
	})
	slices.SortStableFunc(h.Looks, func(a, b Look) int {
		return cmp.Or(cmp.Compare(a.Run.Job, b.Run.Job), cmp.Compare(a.Asked, b.Asked))
	})
	rest := remainder{h.Jobs, view{nil, h.Lines, h.Writes, h.Commands, h.Records, h.Looks}}
	for id := rest.first(); id != none; id = rest.first() {
		v := view{}
		if len(rest.jobs) > 0 && rest.jobs[0].ID == id {
			v.job, rest.jobs = &rest.jobs[0], rest.jobs[1:]
		}
		v.lines, rest.lines = split(rest.lines, func(l *Line) bool { return l.Run.Job == id })
		v.writes, rest.writes = split(rest.writes, func(w *Write) bool { return w.Run.Job == id })
		v.commands, rest.commands = split(rest.commands, func(c *Command) bool { return c.Job == id })
		v.records, rest.records = split(rest.records, func(r *Record) bool { return r.ID.Job == id })
		v.looks, rest.looks = split(rest.looks, func(l *Look) bool { return l.Run.Job == id })
		visit(&v)
	}
}

// remainder is the part of a sorted history that no view has yet.
type remainder struct {
	jobs []Job
	view
}

const none carillon.JobID = math.MaxInt64

// first is the lowest job in any of the lists.
func (r *remainder) first() carillon.JobID {
	id := none
	if len(r.jobs) > 0 {
		id = min(id, r.jobs[0].ID)
	}
	if len(r.lines) > 0 {
		id = min(id, r.lines[0].Run.Job)
	}
	if len(r.writes) > 0 {
		id = min(id, r.writes[0].Run.Job)
	}
	if len(r.commands) > 0 {
		id = min(id, r.commands[0].Job)
	}
	if len(r.records) > 0 {
		id = min(id, r.records[0].ID.Job)
	}
	if len(r.looks) > 0 {
		id = min(id, r.looks[0].Run.Job)
	}
	return id
}

// split cuts a sorted list after the items of one job.
func split[T any](list []T, of func(*T) bool) (own, rest []T) {
	n := 0
	for n < len(list) && of(&list[n]) {
		n++
	}
	return list[:n:n], list[n:]
}

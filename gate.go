package carillon

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"strings"
)

// Gate stops the runs of the jobs that it matches, until a person opens it or it expires: runs that come to a
// closed gate wait for it (hold), or are skipped (drop).
type Gate struct {
	ID     string    `json:"id,omitempty"`
	Match  GateMatch `json:"match"`
	Mode   GateMode  `json:"mode"`
	Reason string    `json:"reason,omitempty"`
	// Expires is when the gate opens by itself; 0: it does not.
	Expires Time        `json:"expires_at,omitzero"`
	Running GateRunning `json:"running"`
	By      string      `json:"closed_by,omitempty"`
	At      Time        `json:"closed_at,omitzero"`

	// Opened says that the gate matches nothing any more: the runs that it held leave. 0: it is closed.
	Opened   Time   `json:"opened_at,omitzero"`
	OpenedBy string `json:"opened_by,omitempty"`
	// Rate is how many held runs leave in a time. Default: as fast as it goes.
	Rate Rate `json:"rate,omitzero"`
	// Operation is the release of the held runs; 0: the gate is closed, no run has waited, or an older node
	// opened it.
	Operation OperationID `json:"operation,omitzero"`

	// Stopped says that all running runs were asked to stop, if Running asks for that.
	Stopped   bool   `json:"stopped,omitempty"`
	Namespace string `json:"-"`
}

// GateMatch says which jobs a gate concerns: those that match every field that is given.
type GateMatch struct {
	// All matches every job of the namespace: a match that is empty by mistake must not stop everything.
	All       bool              `json:"all,omitempty"`
	Type      string            `json:"type,omitempty"` // a star stands for any characters
	Queue     string            `json:"queue,omitempty"`
	Namespace string            `json:"namespace,omitempty"` // that of the gate; all its jobs
	Owner     string            `json:"owner,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"` // all of them, with exactly these values
}

// GateMode is what a closed gate does to due runs.
type GateMode string

const (
	GateHold GateMode = "hold" // they wait until it opens
	GateDrop GateMode = "drop" // they are skipped
)

// GateRunning is what happens to the runs that workers hold when a gate is closed.
type GateRunning string

const (
	GateKeep GateRunning = "keep" // they go on to their end
	GateStop GateRunning = "stop" // they are asked to stop, and end as canceled
)

// GateState is the state of a gate.
type GateState string

const (
	GateClosed  GateState = "closed"
	GateOpening GateState = "opening" // it stops nothing, and runs that it held are leaving
)

const (
	gatePrefix    = "gate/"
	maxGateReason = 300 // characters
)

// State is the state at now: a gate that has expired is opening.
func (g *Gate) State(now Time) GateState {
	if g.Opened != 0 || g.Expires != 0 && g.Expires <= now {
		return GateOpening
	}
	return GateClosed
}

// OpenedAt is when the gate began to open; 0: it is closed.
func (g *Gate) OpenedAt(now Time) Time {
	switch {
	case g.State(now) == GateClosed:
		return 0
	case g.Opened != 0 && (g.Expires == 0 || g.Opened < g.Expires):
		return g.Opened
	}
	return g.Expires
}

// Admit checks a gate that a caller wants to close in the gate's namespace, and fills in its defaults.
func (g *Gate) Admit(now Time) error {
	if g.Mode == "" {
		g.Mode = GateHold
	}
	if g.Running == "" {
		g.Running = GateKeep
	}
	if err := g.Match.admit(g.Namespace); err != nil {
		return err
	}
	switch {
	case g.Mode != GateHold && g.Mode != GateDrop:
		return invalid("mode", cut(string(g.Mode)), "hold or drop")
	case g.Running != GateKeep && g.Running != GateStop:
		return invalid("running", cut(string(g.Running)), "keep or stop")
	case g.Reason != "" && !printable(g.Reason, maxGateReason):
		return invalid("reason", cut(g.Reason), "1 to %d printable characters", maxGateReason)
	case g.Expires < 0 || g.Expires != 0 && g.Expires <= now:
		return invalid("expires_at", g.Expires, "a time in the future")
	}
	return nil
}

func (m *GateMatch) admit(namespace string) *FieldError {
	typeForm := "1 to 64 characters of a-z A-Z 0-9 . _ - / @, and stars for any characters"
	if !word(strings.ReplaceAll(m.Type, "*", "x"), 64) && m.Type != "" {
		return invalid("match.type", cut(m.Type), "%s", typeForm)
	}
	for _, f := range [...]struct{ field, value string }{{"queue", m.Queue}, {"owner", m.Owner}} {
		if f.value != "" && !word(f.value, 64) {
			return invalid("match."+f.field, cut(f.value), NameForm)
		}
	}
	if m.Namespace != "" && m.Namespace != namespace {
		return invalid("match.namespace", cut(m.Namespace), "%s, the namespace of the token", namespace)
	}
	if err := checkLabels("match.labels", m.Labels, maxLabels); err != nil {
		return err
	}
	narrow := strings.Trim(m.Type, "*")+m.Queue+m.Owner != "" || len(m.Labels) > 0
	switch {
	case m.All && (narrow || m.Type != "" || m.Namespace != ""):
		return invalid("match.all", "true", "it alone").because("other fields are given beside it")
	case !m.All && !narrow && m.Namespace == "":
		return invalid("match", "", `type, queue, namespace, owner or labels; "all": true matches every job`).
			because("it matches every job")
	}
	return nil
}

// Matches says whether a gate with this match concerns the runs of a job.
func (m *GateMatch) Matches(job *Job) bool {
	if m.Queue != "" && m.Queue != job.Queue || m.Owner != "" && m.Owner != job.Owner ||
		m.Namespace != "" && m.Namespace != job.Namespace || m.Type != "" && !glob(m.Type, job.Type) {
		return false
	}
	for key, value := range m.Labels {
		if has, is := job.Labels[key]; !is || has != value {
			return false
		}
	}
	return true
}

// Hold is what runs wait for that the gate holds.
func (g *Gate) Hold() string { return gatePrefix + g.ID }

// GateOfHold is the id of the gate that a Hold names; false: the Hold is of something else.
func GateOfHold(hold string) (id string, is bool) { return strings.CutPrefix(hold, gatePrefix) }

// HoldWords names in words what a Hold is: "limit customer-42", "gate queue/mail".
func HoldWords(hold string) string {
	if words, is := LimitHold(hold); is {
		return words
	}
	if id, is := GateOfHold(hold); is {
		return "gate " + id
	}
	return hold
}

// heldByGate says that the run has its Hold from a gate.
func (r *Run) heldByGate() bool { return strings.HasPrefix(r.Hold, gatePrefix) }

// NewGateID is an id that no other gate has.
func NewGateID() string {
	var random [8]byte
	rand.Read(random[:])
	return string(appendDigits([]byte("gate_"), binary.BigEndian.Uint64(random[:])>>14, dueDigits))
}

// IsGateID says whether a text can be the id of a gate.
func IsGateID(s string) bool { return word(s, len(queueGate)+64) }

const queueGate = "queue/"

// QueueGate is the id of the gate that pauses a queue.
func QueueGate(queue string) string { return queueGate + queue }

// Shard is the partition of a gate: the node that owns it lets the held runs leave.
func (g *Gate) Shard() int {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s/%s", g.Namespace, g.ID)
	return JobID(h.Sum64()).Shard()
}

// words name the gate with its reason.
func (g *Gate) words() string {
	words := "gate " + g.ID
	if g.Reason != "" {
		words += ": " + g.Reason
	}
	return words
}

// gated decides about a run that waits for a gate, or that a closed gate matches.
func (d *Candidate) gated(now Time) (verdict Verdict, c Change, decided bool) {
	switch {
	case d.Run.heldByGate() && d.Line != nil && d.Run.Wake == Never:
		return VerdictHold, Change{}, true // the release passes it on when its turn has come
	case d.Gate == nil && d.Run.heldByGate():
		return VerdictWait, d.Release(now), true
	case d.Gate == nil:
		return 0, Change{}, false
	case d.Gate.Mode == GateDrop:
		return VerdictEnd, d.drop(now), true
	}
	run := d.Run
	run.Hold, run.Wake = d.Gate.Hold(), Never
	// It came in time. When the gate opens, the misfire policy decides only about the times after it.
	run.Flags &^= FlagMisfirePolicy
	return VerdictWait, Change{Runs: []Run{run}}, true
}

// drop ends a run that came to a closed gate. Its schedule goes on.
func (d Candidate) drop(now Time) Change {
	c := Change{Runs: []Run{d.Run.ended(d.Job, StateSkipped, d.Gate.words(), now)}}
	if next := d.plan(&c.Runs[0], false); next != nil {
		c.Runs = append(c.Runs, *next)
	}
	c.settle(d.Job)
	return d.leaveTurn(c)
}

// Release makes a run that a gate held wait for its start again.
func (d *Candidate) Release(now Time) Change {
	run := d.Run
	run.Hold, run.Wake = d.Job.line(), run.ready(now)
	return Change{Runs: []Run{run}}
}

// StopFor asks a run that a worker holds to stop because of a gate; false: there is nothing to do.
func (d *Candidate) StopFor(g *Gate) (c Change, needed bool) {
	if !d.Run.State.Held() || d.Run.Has(FlagStop) || !g.Match.Matches(d.Job) {
		return Change{}, false
	}
	run := d.Run
	run.Flags |= FlagStop
	run.Reason = g.words()
	return Change{Runs: []Run{run}}, true
}

// heldByGate says in words what a run waits for that a gate holds.
func (d *Candidate) heldByGate(now Time) string {
	g := d.Line
	if g == nil {
		return HoldWords(d.Run.Hold) + ", which is open: it is about to start"
	}
	if g.State(now) == GateOpening {
		words := g.words() + ", open since " + g.OpenedAt(now).String() + ": the runs that it held leave"
		if g.Rate.Starts > 0 {
			words += ", " + g.Rate.String()
		}
		return words
	}
	words := g.words() + ", closed"
	if g.By != "" {
		words += " by " + g.By
	}
	words += " at " + g.At.String()
	if g.Expires != 0 {
		words += " until " + g.Expires.String()
	}
	return words
}

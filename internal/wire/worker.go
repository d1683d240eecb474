package wire

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/jobjson"
	"github.com/carillon-run/carillon/worker/protocol"
)

// Registration is what a worker tells about itself.
type Registration struct {
	Name       string            `json:"name,omitempty"`       // default: the worker's address
	Host       string            `json:"host,omitempty"`       // the machine it runs on
	Version    string            `json:"version,omitempty"`    // of the worker's program
	Namespaces []string          `json:"namespaces,omitempty"` // none: all that its token may serve
	Queues     []string          `json:"queues,omitempty"`     // "name" or "name=weight"; none: any
	Kinds      []string          `json:"kinds,omitempty"`      // of targets; none: any
	Types      []string          `json:"types,omitempty"`      // of handlers; none: any
	Labels     map[string]string `json:"labels,omitempty"`     // that jobs can need, such as gpu=true
	Slots      int               `json:"slots,omitempty"`      // runs at the same time; default: not known
}

// NewRegistration returns the message for a registration.
func NewRegistration(r protocol.Registration) Registration {
	return Registration{
		r.Name, r.Host, r.Version, r.Namespaces, r.Queues, r.Kinds, r.Types, r.Labels, r.Slots,
	}
}

// ReadRegistration reads and checks a registration.
func ReadRegistration(body []byte) (r protocol.Registration, err error) {
	var given Registration
	if err := jobjson.Decode(body, &given); err != nil {
		return r, err
	}
	profile := carillon.Profile{
		Host: given.Host, Version: given.Version, Slots: given.Slots,
		Want: carillon.Want{
			Namespaces: given.Namespaces, Queues: given.Queues, Kinds: given.Kinds, Types: given.Types,
			Labels: given.Labels,
		},
	}
	return protocol.Registration{Name: given.Name, Profile: profile}, given.check(&profile.Want)
}

// The limits of what a worker tells about itself, and of a pull.
const (
	maxName = 200 // characters
	// maxSlots leaves room in a beat, which also lists up to 10,000 attempts that have ended: these need no
	// slot.
	maxSlots  = 50_000
	maxNames  = 1000 // in each list of a Want
	maxWeight = 100
)

func (g *Registration) check(want *carillon.Want) error {
	for _, field := range []struct{ name, given, want string }{
		{"name", g.Name, "1 to 200 printable characters, such as host:pid"},
		{"host", g.Host, "up to 200 printable characters"},
		{"version", g.Version, "up to 200 printable characters"},
	} {
		if utf8.RuneCountInString(field.given) > maxName ||
			strings.ContainsFunc(field.given, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return invalid(field.name, field.given, field.want)
		}
	}
	if g.Slots < 0 || g.Slots > maxSlots {
		return invalid(
			"slots", strconv.Itoa(g.Slots), "a number from 1 to "+strconv.Itoa(maxSlots)+", or none",
		)
	}
	return checkWant(want)
}

// Registered is the answer to a registration: a session, and the times to keep.
type Registered struct {
	Worker    string            `json:"worker_id"`
	Nodes     []string          `json:"nodes"`
	BeatEvery carillon.Duration `json:"beat_every"`
	Lease     carillon.Duration `json:"lease"`
	PullWait  carillon.Duration `json:"pull_wait"`
	PullLate  carillon.Duration `json:"pull_late"`
}

// NewRegistered returns the answer for a worker and the addresses of the nodes.
func NewRegistered(worker string, nodes []string) Registered {
	return Registered{
		Worker: worker, Nodes: append([]string{}, nodes...), // never null
		BeatEvery: carillon.Duration(protocol.BeatEvery), Lease: carillon.Duration(protocol.LeaseTime),
		PullWait: carillon.Duration(protocol.PullWait), PullLate: carillon.Duration(protocol.PullLate),
	}
}

// Pull asks for tasks.
type Pull struct {
	Namespaces []string `json:"namespaces,omitempty"` // none: all that its token may serve
	Queues     []string `json:"queues,omitempty"`     // "name" or "name=weight"; none: any
	Kinds      []string `json:"kinds,omitempty"`      // of targets; none: any
	Types      []string `json:"types,omitempty"`      // of handlers; none: any
	// Labels are those of the worker: it gets runs that need only labels which it has.
	Labels map[string]string `json:"labels,omitempty"`
	Max    int               `json:"max"` // default 1
	// Lone says that these are slots that the worker keeps for lone runs: see carillon.Demand.
	Lone bool `json:"lone,omitempty"`
}

// NewPull returns the message for a pull.
func NewPull(p protocol.Pull) Pull {
	return Pull{p.Namespaces, p.Queues, p.Kinds, p.Types, p.Labels, min(p.Max, MaxPull), p.Lone}
}

// ReadPull reads and checks a pull. The request's path has its Worker.
func ReadPull(body []byte) (p protocol.Pull, err error) {
	given := Pull{Max: 1}
	if err := jobjson.Decode(body, &given); err != nil {
		return p, err
	}
	if given.Max < 1 || given.Max > MaxPull {
		return p, invalid("max", strconv.Itoa(given.Max), "a number from 1 to "+strconv.Itoa(MaxPull))
	}
	p = protocol.Pull{
		Want: carillon.Want{
			Namespaces: given.Namespaces, Queues: given.Queues, Kinds: given.Kinds, Types: given.Types,
			Labels: given.Labels,
		}, Max: given.Max, Lone: given.Lone,
	}
	return p, checkWant(&p.Want)
}

// word is the grammar of namespaces, queues and types, see carillon.Definition.
var word = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._/@-]{0,63}$`)

func checkWant(want *carillon.Want) error {
	for _, list := range []struct {
		field string
		names []string
		want  string
	}{
		{"namespaces", want.Namespaces, "a namespace"},
		{"queues", want.Queues, ""},
		{"kinds", want.Kinds, "a kind of target, such as http"},
		{"types", want.Types, "a type of jobs, such as mail.send"},
	} {
		if len(list.names) > maxNames {
			return invalid(
				list.field, strconv.Itoa(len(list.names))+" of them",
				"up to "+strconv.Itoa(maxNames)+", or none for all",
			)
		}
		for i, name := range list.names {
			if list.want != "" && !word.MatchString(name) {
				return invalid(list.field+"["+strconv.Itoa(i)+"]", name, list.want)
			}
		}
	}
	if err := carillon.CheckLabels("labels", want.Labels, carillon.MaxWorkerLabels); err != nil {
		return err
	}
	return checkQueues(want.Queues)
}

func checkQueues(queues []string) error {
	seen := map[string]bool{}
	for i, queue := range queues {
		field := "queues[" + strconv.Itoa(i) + "]"
		name, weight, weighted := strings.Cut(queue, "=")
		n, err := strconv.Atoi(weight)
		switch {
		case !word.MatchString(name):
			return invalid(field, queue, "a queue, such as mail, or mail=3 to give it a weight")
		case weighted && (err != nil || n < 1 || n > maxWeight || weight != strconv.Itoa(n)):
			return invalid(field, queue, "a weight from 1 to "+strconv.Itoa(maxWeight)+" behind the =")
		case seen[name]:
			return invalid(field, queue, "each queue once")
		}
		seen[name] = true
	}
	return nil
}

// Beat prolongs a worker's session.
type Beat struct {
	Number int    `json:"number"` // rises with every beat
	Heard  *int   `json:"heard"`  // number of the latest beat that was answered
	Holds  []Hold `json:"holds"`
	// Stopping: the worker waits for no pull any more, and begins no run that it does not list here.
	Stopping bool `json:"stopping,omitzero"`
}

// Hold is an attempt that a worker holds.
type Hold struct {
	Run   string `json:"run_id"`
	Fence string `json:"fence"`
}

// AppendBeat writes a Beat by hand: each lists all attempts that the worker holds.
func AppendBeat(b []byte, beat *carillon.Beat) []byte {
	b = strconv.AppendInt(append(b, `{"number":`...), beat.Number, 10)
	b = strconv.AppendInt(append(b, `,"heard":`...), beat.Heard, 10)
	b = append(b, `,"holds":[`...)
	for i, h := range beat.Holds {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendHeld(b, h), '}')
	}
	b = append(b, ']')
	if beat.Stopping {
		b = append(b, `,"stopping":true`...)
	}
	return append(b, '}')
}

// ReadBeat reads and checks a beat. The request's path has its ID.
func ReadBeat(body []byte) (beat carillon.Beat, err error) {
	var given Beat
	if err := jobjson.Decode(body, &given); err != nil {
		return beat, err
	}
	switch want := "the number of the latest beat that was answered with 200, 0 if there is none"; {
	case given.Number < 1:
		return beat, invalid(
			"number", strconv.Itoa(given.Number), "a number above 0 that rises from one beat to the next",
		)
	case given.Heard == nil:
		return beat, invalid("heard", "", want)
	case *given.Heard < 0 || *given.Heard >= given.Number:
		return beat, invalid("heard", strconv.Itoa(*given.Heard), want)
	}
	holds := make([]carillon.Held, len(given.Holds))
	for i, h := range given.Holds {
		held, fault := heldOf(h.Run, h.Fence)
		if fault != nil {
			return beat, fault.In("holds[" + strconv.Itoa(i) + "]")
		}
		holds[i] = held
	}
	return carillon.Beat{
		Number: int64(given.Number), Heard: int64(*given.Heard), Holds: holds, Stopping: given.Stopping,
	}, nil
}

// Orders is the answer to a beat.
type Orders struct {
	Stop  []Order  `json:"stop"`
	Nodes []string `json:"nodes"`
}

// Order tells a worker to stop an attempt.
type Order struct {
	Run    carillon.RunID `json:"run_id"`
	Fence  int64          `json:"fence,string"`
	Lost   bool           `json:"lost"`
	Reason string         `json:"reason"`
}

// NewOrders returns the message for orders.
func NewOrders(told protocol.Orders) Orders {
	orders := Orders{Stop: make([]Order, len(told.Stop)), Nodes: append([]string{}, told.Nodes...)}
	for i, o := range told.Stop {
		orders.Stop[i] = Order{o.Run, o.Fence, o.Lost, o.Reason}
	}
	return orders
}

// Orders returns what the message says.
func (o *Orders) Orders() protocol.Orders {
	told := protocol.Orders{Nodes: o.Nodes}
	for _, s := range o.Stop {
		held := carillon.Held{Run: s.Run, Fence: s.Fence}
		told.Stop = append(told.Stop, protocol.Order{Held: held, Lost: s.Lost, Reason: s.Reason})
	}
	return told
}

func invalid(field, given, want string) error {
	return &carillon.FieldError{Field: field, Given: given, Want: want}
}

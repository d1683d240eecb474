package api

import (
	"context"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/jobjson"
)

// The messages of workers, as docs/worker-protocol.md describes them. workers_wire.go has tasks and reports.
type (
	registration struct {
		Name    string   `json:"name"`    // what the worker calls itself; default: its address
		Host    string   `json:"host"`    // the machine it runs on
		Version string   `json:"version"` // of the worker's program
		Queues  []string `json:"queues"`  // "name" or "name=weight"; none: any
		Slots   int      `json:"slots"`   // runs at the same time; default: not known
	}
	registered struct {
		Worker    string            `json:"worker"`
		Nodes     []string          `json:"nodes"`
		BeatEvery carillon.Duration `json:"beat_every"`
		Lease     carillon.Duration `json:"lease"`
		PullWait  carillon.Duration `json:"pull_wait"`
		PullLate  carillon.Duration `json:"pull_late"`
	}
	pull struct {
		Queues []string `json:"queues"` // "name" or "name=weight"; none: any
		Max    int      `json:"max"`    // default 1
	}
	heartbeat struct {
		Number int    `json:"number,omitzero"` // rises with every heartbeat
		Holds  []hold `json:"holds"`
		// Stopping: the worker waits for no pull any more, and begins no run that it does not list here.
		Stopping bool `json:"stopping,omitzero"`
	}
	hold struct {
		Run   string `json:"run"`
		Fence string `json:"fence"`
	}
	orders struct {
		Stop  []order  `json:"stop"`
		Nodes []string `json:"nodes"`
	}
	order struct {
		Run    carillon.RunID `json:"run"`
		Fence  string         `json:"fence"`
		Lost   bool           `json:"lost"`
		Reason string         `json:"reason"`
	}
	receipts struct {
		Receipts []carillon.Receipt `json:"receipts"`
	}
)

func (s *server) workerRoutes() []route {
	return []route{
		{
			Method: "GET", Pattern: "/v1/workers", Summary: "List the nodes and workers that are alive",
			Status: 200, Gives: memberList{}, handle: s.listMembers,
		},
		{
			Method: "POST", Pattern: "/v1/workers", Summary: "Register a worker", Takes: registration{},
			Status: 201, Gives: registered{}, handle: s.register,
		},
		{
			Method: "POST", Pattern: "/v1/workers/{id}/pull",
			Summary: "Wait for due runs, and claim them for the worker", Takes: pull{},
			Status: 200, Gives: tasks{}, handle: s.pull,
		},
		{
			Method: "POST", Pattern: "/v1/workers/{id}/report",
			Summary: "Hand in what attempts have to say: begun, lines, checkpoint, end",
			Takes:   reports{}, Status: 200, Gives: receipts{}, handle: s.report,
		},
		{
			Method: "POST", Pattern: "/v1/workers/{id}/heartbeat",
			Summary: "Prolong the worker's session; 410 if it is over", Takes: heartbeat{},
			Status: 200, Gives: orders{}, handle: s.beat,
		},
		{
			Method: "DELETE", Pattern: "/v1/workers/{id}", Summary: "End the worker's session",
			Status: 204, handle: s.leave,
		},
	}
}

// The limits of one message. A worker with more to say sends another message.
const (
	maxPull    = 1000
	maxReports = 10_000
	maxName    = 200 // characters
	maxSlots   = 100_000
	maxQueues  = 1000
	maxWeight  = 100
)

// dispatcher is what workers talk to.
func (s *server) dispatcher() (carillon.Dispatcher, error) {
	if s.Dispatcher == nil {
		return nil, notFound("dispatcher for workers on this server")
	}
	return s.Dispatcher, nil
}

func (s *server) register(w http.ResponseWriter, r *http.Request, _ *query) error {
	var given registration
	if err := readMessage(w, r, &given); err != nil {
		return err
	}
	if given.Name == "" {
		given.Name, _, _ = net.SplitHostPort(r.RemoteAddr)
	}
	if err := given.check(); err != nil {
		return err
	}
	answer := registered{
		BeatEvery: carillon.Duration(carillon.BeatEvery), Lease: carillon.Duration(carillon.LeaseTime),
		PullWait: carillon.Duration(carillon.PullWait), PullLate: carillon.Duration(carillon.PullLate),
	}
	dispatcher, err := s.dispatcher()
	if err != nil {
		return err
	}
	answer.Worker, err = dispatcher.Register(r.Context(), carillon.Registration{
		Name: given.Name,
		Profile: carillon.Profile{
			Host: given.Host, Version: given.Version, Queues: given.Queues, Slots: given.Slots,
		},
	})
	if err != nil {
		return err
	}
	answer.Nodes = s.nodes(r.Context())
	return reply(w, http.StatusCreated, answer)
}

func (g *registration) check() error {
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
	if len(g.Queues) > maxQueues {
		return invalid(
			"queues", strconv.Itoa(len(g.Queues))+" queues",
			"up to "+strconv.Itoa(maxQueues)+", or none for all",
		)
	}
	return checkQueues(g.Queues)
}

// nodes returns the addresses where nodes serve the API. A worker that gets none now learns them with its
// first heartbeat.
func (s *server) nodes(ctx context.Context) []string {
	members, err := s.members(ctx)
	if err != nil {
		s.Logger.WarnContext(ctx, "list the nodes for a worker", "error", err)
	}
	return append([]string{}, carillon.NodeAddresses(members, s.Clock.Now())...) // never null
}

// workerOf returns the worker that the path names. Nodes and their inner workers are members too, but no
// caller may speak for them here.
func workerOf(r *http.Request) (string, error) {
	id := r.PathValue("id")
	if !strings.HasPrefix(id, "worker_") {
		return "", notFound("worker " + id)
	}
	return id, nil
}

func (s *server) pull(w http.ResponseWriter, r *http.Request, _ *query) error {
	given := pull{Max: 1}
	if err := readMessage(w, r, &given); err != nil {
		return err
	}
	if err := given.check(); err != nil {
		return err
	}
	worker, err := workerOf(r)
	if err != nil {
		return err
	}
	dispatcher, err := s.dispatcher()
	if err != nil {
		return err
	}
	tasks, err := dispatcher.Pull(r.Context(), carillon.Pull{
		Worker: worker, Queues: given.Queues, Max: given.Max,
	})
	if err == nil {
		s.writeTasks(w, namespace(r), tasks)
	}
	return err
}

// queueName is the grammar of queues, see carillon.Definition.
var queueName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._/@-]{0,63}$`)

func (p *pull) check() error {
	if p.Max < 1 || p.Max > maxPull {
		return invalid("max", strconv.Itoa(p.Max), "a number from 1 to "+strconv.Itoa(maxPull))
	}
	return checkQueues(p.Queues)
}

func checkQueues(queues []string) error {
	seen := map[string]bool{}
	for i, queue := range queues {
		field := "queues[" + strconv.Itoa(i) + "]"
		name, weight, weighted := strings.Cut(queue, "=")
		n, err := strconv.Atoi(weight)
		switch {
		case !queueName.MatchString(name):
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

func (s *server) beat(w http.ResponseWriter, r *http.Request, _ *query) error {
	var given heartbeat
	if err := readMessage(w, r, &given); err != nil {
		return err
	}
	if given.Number < 0 {
		return invalid(
			"number", strconv.Itoa(given.Number),
			"a number that rises from one heartbeat to the next, or none",
		)
	}
	holds := make([]carillon.Held, len(given.Holds))
	for i, h := range given.Holds {
		held, err := attemptOf(h.Run, h.Fence)
		if err != nil {
			return err.In("holds[" + strconv.Itoa(i) + "]")
		}
		holds[i] = held
	}
	worker, err := workerOf(r)
	if err != nil {
		return err
	}
	dispatcher, err := s.dispatcher()
	if err != nil {
		return err
	}
	told, err := dispatcher.Beat(r.Context(), carillon.Beat{
		ID: worker, Number: int64(given.Number), Holds: holds, Stopping: given.Stopping,
	})
	if err != nil {
		return err
	}
	answer := orders{Stop: []order{}, Nodes: append([]string{}, told.Nodes...)}
	for _, o := range told.Stop {
		answer.Stop = append(answer.Stop, order{o.Run, fenceOf(o.Held), o.Lost, o.Reason})
	}
	return reply(w, http.StatusOK, answer)
}

func (s *server) leave(w http.ResponseWriter, r *http.Request, _ *query) error {
	worker, err := workerOf(r)
	if err != nil {
		return err
	}
	dispatcher, err := s.dispatcher()
	if err != nil {
		return err
	}
	if err := dispatcher.Leave(r.Context(), worker); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// report passes on the reports that have the right token. Every other report gets a refusal at its index.
func (s *server) report(w http.ResponseWriter, r *http.Request, _ *query) error {
	all, err := s.readReports(w, r)
	if err != nil {
		return err
	}
	answer := receipts{make([]carillon.Receipt, len(all))}
	var proved []carillon.Report
	var places []int
	for i := range all {
		answer.Receipts[i] = carillon.ReceiptRefused
		if s.seal.proves(all[i].Token, namespace(r), all[i].Held) {
			proved, places = append(proved, all[i]), append(places, i)
		}
	}
	dispatcher, err := s.dispatcher()
	if err != nil {
		return err
	}
	if len(proved) > 0 {
		got, err := dispatcher.Report(r.Context(), r.PathValue("id"), proved)
		if err != nil {
			return err
		}
		for i := range got {
			answer.Receipts[places[i]] = got[i]
		}
	}
	return reply(w, http.StatusOK, answer)
}

// readMessage reads the body of a worker's message. A worker can hold many runs, so every message may be
// large.
func readMessage(w http.ResponseWriter, r *http.Request, into any) error {
	body, err := readJSON(w, r, maxBatchBody)
	if err != nil {
		return err
	}
	return jobjson.Decode(body, into)
}

func (s *server) readReports(w http.ResponseWriter, r *http.Request) ([]carillon.Report, error) {
	body, err := readJSON(w, r, maxBatchBody)
	if err != nil {
		return nil, err
	}
	var given reports
	var ok bool
	if given.Reports, ok = quickReports(body); !ok {
		given.Reports = nil
		err = jobjson.Decode(body, &given)
	}
	if err != nil {
		return nil, err
	}
	return given.reports(s.Clock.Now())
}

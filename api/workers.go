package api

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/cluster"
	"github.com/carillon-run/carillon/internal/wire"
	"github.com/carillon-run/carillon/worker/protocol"
)

func (s *server) workerRoutes() []route {
	return []route{
		{
			Method: "GET", Pattern: "/v1/members", Summary: "List the nodes and workers that are alive",
			Status: 200, Gives: wire.List[wire.Member]{}, handle: s.listMembers,
		},
		{
			Method: "POST", Pattern: "/v1/workers", Summary: "Register a worker", Takes: wire.Registration{},
			Status: 201, Gives: wire.Registered{}, handle: s.register,
		},
		{
			Method: "POST", Pattern: "/v1/workers/{id}/pull",
			Summary: "Wait for due runs, and claim them for the worker", Takes: wire.Pull{},
			Status: 200, Gives: wire.Tasks{}, handle: s.pull,
		},
		{
			Method: "POST", Pattern: "/v1/workers/{id}/report",
			Summary: "Report on attempts: when they began, lines, checkpoint, end",
			Takes:   wire.Reports{}, Status: 200, Gives: wire.Receipts{}, handle: s.report,
		},
		{
			Method: "POST", Pattern: "/v1/workers/{id}/beat",
			Summary: "Prolong the session of the worker; 410 if it is over", Takes: wire.Beat{},
			Status: 200, Gives: wire.Orders{}, handle: s.beat,
		},
		{
			Method: "DELETE", Pattern: "/v1/workers/{id}", Summary: "End the session of the worker",
			Status: 204, handle: s.leave,
		},
	}
}

// dispatcher is what workers talk to.
func (s *server) dispatcher() (protocol.Dispatcher, error) {
	if s.Dispatcher == nil {
		return nil, notFound("dispatcher for workers on this server")
	}
	return s.Dispatcher, nil
}

func (s *server) register(w http.ResponseWriter, r *http.Request, _ *query) error {
	given, err := readMessage(w, r, wire.ReadRegistration)
	if err != nil {
		return err
	}
	if given.Name == "" {
		given.Name, _, _ = net.SplitHostPort(r.RemoteAddr)
	}
	dispatcher, err := s.dispatcher()
	if err != nil {
		return err
	}
	if err := serveOwn(r, &given.Want); err != nil {
		return err
	}
	given.ID = s.seal.worker(credentialOf(r))
	worker, err := dispatcher.Register(r.Context(), given)
	if err != nil {
		return err
	}
	return reply(w, http.StatusCreated, wire.NewRegistered(worker, s.nodes(r.Context())))
}

// nodes returns the addresses where nodes serve the API. A worker that gets none now learns them with its
// first beat.
func (s *server) nodes(ctx context.Context) []string {
	members, err := s.members(ctx, false)
	if err != nil {
		s.Logger.WarnContext(ctx, "list the nodes for a worker", "error", err)
	}
	return cluster.Addresses(members, s.Clock.Now())
}

// serveOwn restricts a worker to the namespace of its credential.
func serveOwn(r *http.Request, want *carillon.Want) error {
	for i, name := range want.Namespaces {
		if name != namespace(r) {
			return invalid(
				"namespaces["+strconv.Itoa(i)+"]", name, namespace(r)+", which is the namespace of the token",
			)
		}
	}
	want.Namespaces = []string{namespace(r)}
	return nil
}

// workerOf returns the worker that the path names. Nodes and their inner workers are members too, but no
// caller may speak for them here, and none for the worker of another credential. To the caller, such a
// session is over: a worker whose token was changed then registers again.
func (s *server) workerOf(r *http.Request) (string, error) {
	id := r.PathValue("id")
	if _, err := s.dispatcher(); err != nil {
		return "", err
	}
	switch {
	case !strings.HasPrefix(id, cluster.WorkerPrefix):
		return "", notFound("worker " + id)
	case !s.seal.owns(credentialOf(r), id):
		return "", fmt.Errorf("%w: worker %s", carillon.ErrSessionOver, id)
	}
	return id, nil
}

func (s *server) pull(w http.ResponseWriter, r *http.Request, _ *query) error {
	given, err := readMessage(w, r, wire.ReadPull)
	if err != nil {
		return err
	}
	if given.Worker, err = s.workerOf(r); err != nil {
		return err
	}
	if err := serveOwn(r, &given.Want); err != nil {
		return err
	}
	dispatcher, err := s.dispatcher()
	if err != nil {
		return err
	}
	tasks, err := dispatcher.Pull(r.Context(), given)
	if err == nil {
		s.replyTasks(w, tasks)
	}
	return err
}

// buffers holds buffers for answers to pulls: tens of thousands of tasks pass in a second.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

const maxPooled = 4 << 20 // one answer with large payloads must not stay in memory for good

// replyTasks answers a pull. The token of an attempt is for the namespace of its run.
func (s *server) replyTasks(w http.ResponseWriter, tasks []protocol.Task) {
	buffer := buffers.Get().(*[]byte)
	b := wire.AppendTasks((*buffer)[:0], tasks, func(b []byte, t *protocol.Task) []byte {
		return s.seal.append(b, t.Run.Namespace, t.Held())
	})
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = w.Write(b) // an error means that the worker has gone; its runs are taken back
	if *buffer = b; cap(b) <= maxPooled {
		buffers.Put(buffer)
	}
}

func (s *server) beat(w http.ResponseWriter, r *http.Request, _ *query) error {
	given, err := readMessage(w, r, wire.ReadBeat)
	if err != nil {
		return err
	}
	if given.ID, err = s.workerOf(r); err != nil {
		return err
	}
	dispatcher, err := s.dispatcher()
	if err != nil {
		return err
	}
	told, err := dispatcher.Beat(r.Context(), given)
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, wire.NewOrders(told))
}

func (s *server) leave(w http.ResponseWriter, r *http.Request, _ *query) error {
	worker, err := s.workerOf(r)
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
	all, err := readMessage(w, r, func(body []byte) ([]protocol.Report, error) {
		return wire.ReadReports(body, s.Clock.Now())
	})
	if err != nil {
		return err
	}
	answer := wire.Receipts{Receipts: make([]protocol.Receipt, len(all))}
	var proved []protocol.Report
	var places []int
	for i := range all {
		answer.Receipts[i] = protocol.ReceiptRefused
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

// readMessage reads a worker's message. A worker can hold many runs, so every message may be large.
func readMessage[T any](
	w http.ResponseWriter, r *http.Request, read func(body []byte) (T, error),
) (message T, err error) {
	body, err := readJSON(w, r, wire.MaxLargeBody)
	if err != nil {
		return message, err
	}
	return read(body)
}

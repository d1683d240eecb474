package api

import (
	"fmt"
	"net/http"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/catalog"
	"github.com/carillon-run/carillon/internal/jobjson"
	"github.com/carillon-run/carillon/internal/wire"
)

func (s *server) gateRoutes() []route {
	var gate wire.Gate
	return []route{
		{
			Method: "POST", Pattern: "/v1/gates",
			Summary: "Close a gate: due runs of jobs that match wait for it (hold) or are skipped (drop) " +
				"(201); with dry_run only count what it would stop (200)",
			Takes: wire.GateRequest{}, Status: 201, Or: 200, Gives: gate, Keyed: true, handle: s.closeGate,
		},
		{
			Method: "GET", Pattern: "/v1/gates", Summary: "List gates with the number of runs that they hold",
			Status: 200, Gives: wire.List[wire.Gate]{}, handle: s.listGates,
		},
		{
			Method: "GET", Pattern: "/v1/gates/{id}",
			Summary: "Read a gate; one that is open, and that no run waits for, is gone",
			Status:  200, Gives: gate, handle: s.getGate,
		},
		{
			Method: "POST", Pattern: "/v1/gates/{id}/open",
			Summary: "Open a gate: the runs that it holds leave in the order of their due times, by a " +
				"rate; with dry_run only count them",
			Takes: wire.OpenRequest{}, MayTake: true, Status: 200, Gives: gate, Keyed: true,
			handle: s.openGate,
		},
		{
			Method: "POST", Pattern: "/v1/queues/{name}/pause",
			Summary: "Pause a queue: its due runs wait until it is resumed",
			Takes:   wire.PauseRequest{}, MayTake: true, Status: 200, Gives: gate, Keyed: true,
			handle: s.pauseQueue,
		},
		{
			Method: "POST", Pattern: "/v1/queues/{name}/drain",
			Summary: "Pause a queue, also if it is paused already, and say how many of its runs still go on",
			Takes:   wire.PauseRequest{}, MayTake: true, Status: 200, Gives: gate, Keyed: true,
			handle: s.drainQueue,
		},
		{
			Method: "POST", Pattern: "/v1/queues/{name}/resume",
			Summary: "Resume a queue: its held runs leave in the order of their due times, by a rate; with " +
				"dry_run only count them",
			Takes: wire.OpenRequest{}, MayTake: true, Status: 200, Gives: gate, Keyed: true,
			handle: s.resumeQueue,
		},
	}
}

// shownGate is a gate as the API shows it.
func shownGate(g *carillon.Gate, counts []carillon.QueueCount, now carillon.Time) wire.Gate {
	held := 0
	for i := range counts {
		if counts[i].Hold == g.Hold() {
			held += counts[i].Runs
		}
	}
	return wire.Gate{Gate: *g, State: g.State(now), Held: &held}
}

func (s *server) listGates(w http.ResponseWriter, r *http.Request, _ *query) error {
	list := wire.List[wire.Gate]{Items: []wire.Gate{}}
	records := s.settings().Gates.All(namespace(r))
	if len(records) == 0 {
		return reply(w, http.StatusOK, list)
	}
	counted, err := s.count(w, r, namespace(r))
	if err != nil {
		return err
	}
	now := s.Clock.Now()
	for _, record := range records {
		list.Items = append(list.Items, shownGate(&record.Value, counted.counts, now))
	}
	return reply(w, http.StatusOK, list)
}

func (s *server) getGate(w http.ResponseWriter, r *http.Request, _ *query) error {
	id, err := gateID(r)
	if err != nil {
		return err
	}
	record := s.settings().Gates.Get(namespace(r), id)
	if record == nil {
		return notFound("gate " + id)
	}
	counted, err := s.count(w, r, namespace(r))
	if err != nil {
		return err
	}
	return reply(w, http.StatusOK, shownGate(&record.Value, counted.counts, s.Clock.Now()))
}

func gateID(r *http.Request) (string, error) {
	id := r.PathValue("id")
	if !carillon.IsGateID(id) {
		return "", invalid("id", id, "the id of a gate, such as gate_0f8j2v5r3c or queue/mail")
	}
	return id, nil
}

func (s *server) closeGate(w http.ResponseWriter, r *http.Request, _ *query) error {
	body, err := readJSON(w, r, wire.MaxBody)
	if err != nil {
		return err
	}
	var given wire.GateRequest
	if err := jobjson.Decode(body, &given); err != nil {
		return err
	}
	gate := carillon.Gate{
		ID: carillon.NewGateID(), Match: given.Match, Mode: given.Mode, Reason: given.Reason,
		Expires: given.Expires, Running: given.Running, Namespace: namespace(r), By: credentialOf(r).Name,
	}
	if err := gate.Admit(s.Clock.Now()); err != nil {
		return err
	}
	if given.DryRun {
		effect, err := s.gateEffect(r, &gate.Match)
		if err != nil {
			return err
		}
		gate.ID, gate.By = "", ""
		return reply(w, http.StatusOK, wire.Gate{Gate: gate, Would: &effect})
	}
	return s.writeGate(w, r, gate.ID, http.StatusCreated, func(
		_ *carillon.Gate, now carillon.Time, _ *carillon.Change,
	) (carillon.Gate, error) {
		gate.At = now
		return gate, nil
	})
}

// gateEdit makes the next gate of the present one; nil: there is none. It adds to beside what has to be
// written in the same change.
type gateEdit func(was *carillon.Gate, now carillon.Time, beside *carillon.Change) (carillon.Gate, error)

// writeGate writes a gate, and answers with it.
func (s *server) writeGate(
	w http.ResponseWriter, r *http.Request, id string, status int, edit gateEdit, more ...func(*wire.Gate),
) error {
	known, err := s.catalog()
	if err != nil {
		return err
	}
	var shown wire.Gate
	return s.write(w, r, func(*carillon.Job, *carillon.Run) outcome {
		for _, add := range more {
			add(&shown)
		}
		said := newOutcome(status, shown)
		if status == http.StatusCreated {
			said.Location = "/v1/gates/" + id
		}
		return said
	}, func() (carillon.Job, carillon.Run, error) {
		name := catalog.Name{Namespace: namespace(r), Name: id}
		_, err := catalog.Gates.Write(r.Context(), known, name, credentialOf(r).Name, func(
			was, next *catalog.Record[carillon.Gate], beside *carillon.Change,
		) (remove bool, err error) {
			next.Value, err = edit(catalog.GateIn(was), next.At, beside)
			shown = wire.Gate{Gate: next.Value, State: next.Value.State(next.At)}
			return false, err
		})
		return carillon.Job{}, carillon.Run{}, err
	})
}

func (s *server) openGate(w http.ResponseWriter, r *http.Request, _ *query) error {
	id, err := gateID(r)
	if err != nil {
		return err
	}
	return s.open(w, r, id, notFound("gate "+id))
}

// open opens a gate, or changes the rate of one that opens. missing is the error if there is no such gate.
func (s *server) open(w http.ResponseWriter, r *http.Request, id string, missing error) error {
	var given wire.OpenRequest
	if err := readOptional(w, r, &given); err != nil {
		return err
	}
	var rate carillon.Rate
	if given.Rate != "" {
		parsed, err := carillon.ParseRate(given.Rate)
		if err != nil {
			return invalid("rate", given.Rate, carillon.RateForm)
		}
		rate = parsed
	}
	if given.DryRun {
		return s.wouldOpen(w, r, id, missing)
	}
	known, err := s.catalog()
	if err != nil {
		return err
	}
	return s.writeGate(w, r, id, http.StatusOK, func(
		was *carillon.Gate, now carillon.Time, beside *carillon.Change,
	) (carillon.Gate, error) {
		if was == nil {
			return carillon.Gate{}, missing
		}
		how := catalog.Opening{By: credentialOf(r).Name, Rate: rate, At: now}
		err := known.OpenGate(r.Context(), was, how, beside)
		return *was, err
	})
}

// wouldOpen answers with how many runs would leave a gate if it were opened now.
func (s *server) wouldOpen(w http.ResponseWriter, r *http.Request, id string, missing error) error {
	record := s.settings().Gates.Get(namespace(r), id)
	if record == nil {
		return missing
	}
	now := s.Clock.Now()
	counts, err := s.Store.Counts(r.Context(), namespace(r), now)
	if err != nil {
		return err
	}
	shown := shownGate(&record.Value, counts, now)
	shown.WouldRelease, shown.Held = shown.Held, nil
	return reply(w, http.StatusOK, shown)
}

func (s *server) pauseQueue(w http.ResponseWriter, r *http.Request, _ *query) error {
	return s.pause(w, r, false)
}

func (s *server) drainQueue(w http.ResponseWriter, r *http.Request, _ *query) error {
	return s.pause(w, r, true)
}

// pause closes the gate of a queue. drain says that it can be closed already.
func (s *server) pause(w http.ResponseWriter, r *http.Request, drain bool) error {
	name, err := pathName(r, "name")
	if err != nil {
		return err
	}
	var given wire.PauseRequest
	if err := readOptional(w, r, &given); err != nil {
		return err
	}
	gate := carillon.Gate{
		ID: carillon.QueueGate(name), Match: carillon.GateMatch{Queue: name}, Reason: given.Reason,
		Expires: given.Expires, Running: given.Running, Namespace: namespace(r), By: credentialOf(r).Name,
	}
	if err := gate.Admit(s.Clock.Now()); err != nil {
		return err
	}
	counts, err := s.Store.Counts(r.Context(), namespace(r), s.Clock.Now())
	if err != nil {
		return err
	}
	active := 0
	for i := range counts {
		if counts[i].Queue == name && counts[i].State.Held() {
			active += counts[i].Runs
		}
	}
	known, err := s.catalog()
	if err != nil {
		return err
	}
	return s.writeGate(w, r, gate.ID, http.StatusOK, func(
		was *carillon.Gate, now carillon.Time, beside *carillon.Change,
	) (carillon.Gate, error) {
		switch closed := was != nil && was.State(now) == carillon.GateClosed; {
		case closed && drain && given == (wire.PauseRequest{}):
			return *was, nil
		case closed && !drain:
			return *was, fmt.Errorf("%w: queue %s is paused already, by %s at %s", carillon.ErrConflict, name,
				was.By, was.At)
		}
		gate.At = now
		if was == nil {
			return gate, nil
		}
		return gate, known.EndRelease(r.Context(), was, catalog.Ending{
			State: carillon.OperationCanceled, Reason: catalog.ClosedAgain(gate.ID, gate.By), At: now,
		}, beside)
	}, func(g *wire.Gate) { g.Active = &active })
}

func (s *server) resumeQueue(w http.ResponseWriter, r *http.Request, _ *query) error {
	name, err := pathName(r, "name")
	if err != nil {
		return err
	}
	return s.open(w, r, carillon.QueueGate(name),
		fmt.Errorf("%w: queue %s is not paused", carillon.ErrConflict, name))
}

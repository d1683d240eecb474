package api

import (
	"context"
	"net/http"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/internal/cluster"
	"github.com/carillon-run/carillon/internal/wire"
)

// How many runs the list names: for one worker, and in total.
const (
	maxRunningOf = 100
	maxRunning   = 1000
)

func (s *server) members(ctx context.Context) ([]carillon.Member, error) {
	if s.Members == nil {
		return nil, nil
	}
	return s.Members(ctx)
}

func (s *server) listMembers(w http.ResponseWriter, r *http.Request, _ *query) error {
	members, err := s.members(r.Context())
	if err != nil {
		return err
	}
	held, err := s.holdings(r.Context(), members)
	if err != nil {
		return err
	}
	runs := s.namesOf(r.Context(), namespace(r), held)
	var nodes []string
	for _, m := range members {
		if m.Kind == carillon.MemberNode {
			nodes = append(nodes, m.ID)
		}
	}
	list := wire.List[wire.Member]{Items: []wire.Member{}}
	for _, m := range members {
		item := wire.Member{ID: m.ID, Kind: m.Kind, Addr: m.Addr, Profile: m.Profile, Joined: m.Joined}
		if m.Kind == carillon.MemberNode {
			shards := len(cluster.Shards(m.ID, nodes))
			item.Shards = &shards
		}
		if said, ok := held[m.ID]; ok {
			addHolding(&item, said, runs)
		}
		list.Items = append(list.Items, item)
	}
	return reply(w, http.StatusOK, list)
}

// addHolding adds what the member said with its last beat.
func addHolding(m *wire.Member, said carillon.Holding, runs map[carillon.RunID]*carillon.Run) {
	m.Beat = said.At
	if m.Kind != carillon.MemberWorker {
		return
	}
	used := len(said.Runs)
	m.Used = &used
	for _, h := range said.Runs {
		run := runs[h.Run]
		if run == nil || !run.State.Held() || run.Fence() != h.Fence || len(m.Running) == maxRunningOf {
			continue
		}
		r := wire.Running{Run: run.ID, Attempt: run.Attempt, State: run.State, Claimed: run.Claimed}
		if run.About != nil {
			r.Name = run.About.Name
		}
		m.Running = append(m.Running, r)
	}
}

// holdings returns what each member said with its last beat, by the member's id.
func (s *server) holdings(
	ctx context.Context, members []carillon.Member,
) (map[string]carillon.Holding, error) {
	if s.Holds == nil || len(members) == 0 {
		return nil, nil
	}
	ids := make([]string, len(members))
	for i := range members {
		ids[i] = members[i].ID
	}
	list, err := s.Holds(ctx, ids)
	held := make(map[string]carillon.Holding, len(list))
	for _, h := range list {
		held[h.ID] = h
	}
	return held, err
}

// namesOf reads some of the held runs, those of one namespace. The list of live members is useful even while
// the store does not answer, so namesOf only logs an error.
func (s *server) namesOf(
	ctx context.Context, namespace string, held map[string]carillon.Holding,
) map[carillon.RunID]*carillon.Run {
	var ids []carillon.RunID
	for _, h := range held {
		for i := 0; i < len(h.Runs) && i < maxRunningOf && len(ids) < maxRunning; i++ {
			ids = append(ids, h.Runs[i].Run)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	list, err := s.Store.Runs(ctx, ids, false)
	if err != nil {
		s.Logger.WarnContext(ctx, "read what workers hold", "error", err)
	}
	runs := make(map[carillon.RunID]*carillon.Run, len(list))
	for i := range list {
		if list[i].Namespace == namespace {
			runs[list[i].ID] = &list[i]
		}
	}
	return runs
}

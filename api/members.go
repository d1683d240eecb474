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

// members returns the live members; holds adds what they hold.
func (s *server) members(ctx context.Context, holds bool) ([]carillon.Member, error) {
	if s.Members == nil {
		return nil, nil
	}
	members, _, err := s.Members(ctx, carillon.MemberQuery{Holds: holds})
	return members, err
}

func (s *server) listMembers(w http.ResponseWriter, r *http.Request, _ *query) error {
	members, err := s.members(r.Context(), true)
	if err != nil {
		return err
	}
	runs := s.namesOf(r.Context(), namespace(r), members)
	var nodes []string
	for _, m := range members {
		if m.Kind == carillon.MemberNode {
			nodes = append(nodes, m.ID)
		}
	}
	list := wire.List[wire.Member]{Items: []wire.Member{}}
	for i := range members {
		m := &members[i]
		item := wire.Member{
			ID: m.ID, Kind: m.Kind, Addr: m.Addr, Profile: m.Profile, Joined: m.Joined, Beat: m.Beat,
		}
		if m.Kind == carillon.MemberNode {
			shards := len(cluster.Shards(m.ID, nodes))
			item.Shards = &shards
		} else {
			addHolds(&item, m.Holds, runs)
		}
		list.Items = append(list.Items, item)
	}
	return reply(w, http.StatusOK, list)
}

// addHolds adds what the worker said with its last beat.
func addHolds(m *wire.Member, holds []carillon.Held, runs map[carillon.RunID]*carillon.Run) {
	used := len(holds)
	m.Used = &used
	for _, h := range holds {
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

// namesOf reads some of the held runs, those of one namespace. The list of live members is useful even while
// the store does not answer, so namesOf only logs an error.
func (s *server) namesOf(
	ctx context.Context, namespace string, members []carillon.Member,
) map[carillon.RunID]*carillon.Run {
	var ids []carillon.RunID
	for i := range members {
		holds := members[i].Holds
		for k := 0; k < len(holds) && k < maxRunningOf && len(ids) < maxRunning; k++ {
			ids = append(ids, holds[k].Run)
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

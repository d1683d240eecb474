package porttest

import (
	"errors"
	"maps"
	"slices"

	"github.com/carillon-run/carillon"
)

func coordinatorJoin(t coordinatorTest) {
	node := carillon.Member{ID: "Zulu", Kind: carillon.MemberNode, Addr: "http://10.0.0.1:7878"}
	bare := carillon.Member{ID: "zulu-ä'\"\\", Kind: carillon.MemberWorker}
	t.join(member(2), bare)
	t.join(member(1), node)
	t.there(false, node, member(1), member(2), bare)
	t.there(true, node, member(1), member(2), bare)
}

// A node whose session has ended joins again under its own id.
func coordinatorJoinAgain(t coordinatorTest) {
	t.join(member(1))
	if err := t.Leave(t.Context(), []string{member(1).ID}); err != nil {
		t.Fatal(err)
	}
	t.there(false)
	t.join(member(1))
	t.there(false, member(1))
}

func coordinatorProfile(t coordinatorTest) {
	told := member(1)
	told.Profile = carillon.Profile{
		Host: "höst'\"\\", Version: "v1.2.3", Slots: 64, Want: carillon.Want{
			Namespaces: []string{"a"}, Queues: []string{"mail=3", "default"}, Kinds: []string{"handler"},
			Types: []string{"mail.send"}, Labels: map[string]string{"zone": "ä"},
		},
	}
	node := carillon.Member{
		ID: "zulu", Kind: carillon.MemberNode, Profile: carillon.Profile{Host: "a", Version: "v1"}, Joined: 1,
	}
	before := t.now()
	joins := told
	joins.Namespaces, joins.Queues = slices.Clone(told.Namespaces), slices.Clone(told.Queues)
	joins.Kinds, joins.Types = slices.Clone(told.Kinds), slices.Clone(told.Types)
	joins.Labels = maps.Clone(told.Labels)
	joins.Holds = []carillon.Held{{Fence: 1}} // no member that joins holds anything
	t.join(joins, node)
	for _, list := range [][]string{joins.Namespaces, joins.Queues, joins.Kinds, joins.Types} {
		list[0] = "what was told stays told"
	}
	joins.Labels["zone"] = "what was told stays told"
	after := t.now()
	list, _, err := t.Members(t.Context(), carillon.MemberQuery{})
	if err != nil || len(list) != 2 {
		t.Fatalf("members: %v, %v", list, err)
	}
	for _, m := range list {
		if m.Joined < before || m.Joined > after || m.Beat != m.Joined {
			t.Errorf(
				"%s joined at %s, and beat at %s: want both between %s and %s", m.ID, m.Joined, m.Beat,
				before, after,
			)
		}
	}
	coordinatorLastBeat(t, after)
	node.Joined = 0
	t.there(false, told, node)
	t.there(true, told, node)
}

// coordinatorLastBeat lets the member "zulu" beat, and checks the time of that beat.
func coordinatorLastBeat(t coordinatorTest, after carillon.Time) {
	if _, err := t.Beat(t.Context(), []carillon.Beat{{ID: "zulu"}}); err != nil {
		t.Fatal(err)
	}
	for _, expire := range []carillon.Time{0, carillon.Never} {
		list, _, err := t.Members(t.Context(), carillon.MemberQuery{Expire: expire})
		if err != nil || len(list) != 2 || list[1].ID != "zulu" || list[1].Beat < after {
			t.Fatalf("after a beat: %v, %v; want that it came at %s or later", list, err, after)
		}
	}
}

func coordinatorTwice(t coordinatorTest) {
	t.join(member(1))
	if err := t.Join(t.Context(), []carillon.Member{
		member(2), member(1),
	}); !errors.Is(err, carillon.ErrConflict) {
		t.Fatalf("join again: %v", err)
	}
	t.there(false, member(1))
}

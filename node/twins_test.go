package node

import (
	"testing"
	"time"

	"github.com/carillon-run/carillon"
)

func TestAFormerProcessIsNotAnotherNodeAtTheSameAddress(t *testing.T) {
	const address = "http://10.0.0.7:8420"
	self := carillon.Member{ID: "node_self", Kind: carillon.MemberNode, Addr: address, Joined: 1000}
	former := carillon.Member{ID: "node_former", Kind: carillon.MemberNode, Addr: address, Joined: 500}
	later := carillon.Member{ID: "node_later", Kind: carillon.MemberNode, Addr: address, Joined: 2000}
	elsewhere := carillon.Member{
		ID: "node_elsewhere", Kind: carillon.MemberNode, Addr: "http://10.0.0.8:8420", Joined: 2000,
	}
	worker := carillon.Member{ID: "worker_1", Kind: carillon.MemberWorker, Addr: address, Joined: 2000}
	type look struct {
		after   time.Duration
		members []carillon.Member
		want    string // the id of the twin
	}
	for name, looks := range map[string][]look{
		"alone": {{0, []carillon.Member{self, elsewhere, worker}, ""}},
		"killed and started again": {
			{0, []carillon.Member{former, self}, ""},
			{8 * time.Second, []carillon.Member{former, self}, ""},
			{time.Second, []carillon.Member{self}, ""},
		},
		"another one comes to this address": {{0, []carillon.Member{self, later}, "node_later"}},
		"another one was here before": {
			{0, []carillon.Member{former, self}, ""},
			{twinWait, []carillon.Member{former, self}, "node_former"},
		},
		"its own session is not listed yet": {
			{0, []carillon.Member{former}, ""}, {time.Second, []carillon.Member{former, self}, ""},
		},
		"killed again and again": {
			{0, []carillon.Member{former, self}, ""},
			{20 * time.Second, []carillon.Member{self}, ""},
			{20 * time.Second, []carillon.Member{former, self}, ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var known twins
			now := time.Unix(1_800_000_000, 0)
			for i, l := range looks {
				now = now.Add(l.after)
				twin, ok := known.find(l.members, self.ID, address, now)
				if twin.ID != l.want || ok != (l.want != "") {
					t.Errorf("look %d finds %q, want %q", i+1, twin.ID, l.want)
				}
			}
		})
	}
}

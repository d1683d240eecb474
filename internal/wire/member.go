package wire

import "github.com/carillon-run/carillon"

// Member is a node or a worker that is alive.
type Member struct {
	ID   string `json:"id"`
	Kind string `json:"kind"` // carillon.MemberNode or MemberWorker
	Addr string `json:"addr"` // of a node: where it serves the API; of a worker: its name
	carillon.Profile
	Joined  carillon.Time `json:"joined_at,omitzero"`
	Beat    carillon.Time `json:"beat_at,omitzero"`  // of its last beat
	Shards  *int          `json:"shards,omitempty"`  // of a node: how many it is responsible for
	Used    *int          `json:"used,omitempty"`    // of a worker: slots in use, by its last beat
	Running []Running     `json:"running,omitempty"` // some of the runs that it holds
}

// Running is a run that a worker holds.
type Running struct {
	Run     carillon.RunID `json:"run_id"`
	Attempt int32          `json:"attempt"`
	Name    string         `json:"name"` // of the job
	State   carillon.State `json:"state"`
	Claimed carillon.Time  `json:"claimed_at"`
}

package wire

import (
	"encoding/json"

	"github.com/carillon-run/carillon"
)

// SignalRequest is the body of a request that sends a signal to a run of a workflow.
type SignalRequest struct {
	Name    string          `json:"name"` // can be empty if the run is that of the node that waits
	Payload json.RawMessage `json:"payload"`
}

// Workflow is how far a run of a workflow is.
type Workflow struct {
	Run      carillon.Run   `json:"run"`
	Deadline carillon.Time  `json:"deadline_at"` // null: none
	Counts   map[string]int `json:"counts"`      // nodes by state
	Nodes    int            `json:"nodes"`
}

// Node is how far a node of a workflow is.
type Node struct {
	Name  string             `json:"name"`
	State carillon.NodeState `json:"state"`
	After []carillon.Edge    `json:"after"`
	Join  carillon.Join      `json:"join"`
	// WaitsFor are the edges to nodes that have not ended, of a node that has not begun.
	WaitsFor []carillon.Edge `json:"waits_for,omitempty"`
	Target   string          `json:"target"`           // the kind of its target
	Signal   string          `json:"signal,omitempty"` // that it waits for
	Run      *carillon.Run   `json:"run"`              // the latest; nil: none
	Items    *NodeItems      `json:"items,omitempty"`  // of a node that maps over a list
}

// NodeItems counts the items of a node that maps over a list. The jobs of the items have the label
// carillon/workflow with the run of the workflow.
type NodeItems struct {
	Total int `json:"total"`
	Open  int `json:"open"` // have not ended
	Bad   int `json:"bad"`  // failed, or were canceled
}

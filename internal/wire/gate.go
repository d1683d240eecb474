package wire

import "github.com/carillon-run/carillon"

// Gate is a gate as it stands.
type Gate struct {
	carillon.Gate
	State carillon.GateState `json:"state,omitempty"` // left out in the answer to dry_run
	// Held is how many runs wait for it; in the answer to a write it is left out.
	Held *int `json:"held,omitempty"`
	// Active is how many runs of the queue workers hold, in the answer to a pause or a drain of a queue.
	Active *int `json:"active,omitempty"`
	// Would is the answer to dry_run of closing a gate.
	Would *GateEffect `json:"would_hit,omitempty"`
	// WouldRelease is the answer to dry_run of opening it: how many runs would leave.
	WouldRelease *int `json:"would_release,omitempty"`
}

// GateEffect says what a gate would stop. A number with AtLeast can be higher: looking further would take too
// long.
type GateEffect struct {
	Waiting        int  `json:"waiting"` // due runs that wait now
	WaitingAtLeast bool `json:"waiting_at_least,omitempty"`
	Running        int  `json:"running"` // runs that workers hold now
	RunningAtLeast bool `json:"running_at_least,omitempty"`
	Hourly         int  `json:"hourly"` // due times of schedules in the next hour
	HourlyAtLeast  bool `json:"hourly_at_least,omitempty"`
}

// GateRequest closes a gate.
type GateRequest struct {
	Match   carillon.GateMatch   `json:"match"`
	Mode    carillon.GateMode    `json:"mode,omitempty"`
	Reason  string               `json:"reason,omitempty"`
	Expires carillon.Time        `json:"expires_at,omitzero"`
	Running carillon.GateRunning `json:"running,omitempty"`
	DryRun  bool                 `json:"dry_run,omitempty"` // only say what it would stop
}

// OpenRequest opens a gate.
type OpenRequest struct {
	// Rate is how many held runs leave in a time, such as 5000/s. Default: as fast as it goes.
	Rate   string `json:"rate,omitempty"`
	DryRun bool   `json:"dry_run,omitempty"` // only count the runs that would leave
}

// PauseRequest pauses a queue.
type PauseRequest struct {
	Reason  string               `json:"reason,omitempty"`
	Expires carillon.Time        `json:"expires_at,omitzero"`
	Running carillon.GateRunning `json:"running,omitempty"`
}

package carillon

import "time"

// Retention is how long ended runs, their logs and dead letters are kept. A zero takes the server's
// default.
type Retention struct {
	Runs        Duration `json:"runs"`         // ended runs, and one-off jobs with them
	Logs        Duration `json:"logs"`         // what runs printed
	DeadLetters Duration `json:"dead_letters"` // runs that failed for good
}

// DefaultRetention is the retention of a server that is not configured otherwise.
var DefaultRetention = Retention{
	Runs: Duration(30 * 24 * time.Hour), Logs: Duration(7 * 24 * time.Hour),
	DeadLetters: Duration(90 * 24 * time.Hour),
}

// Equal says that two retentions are the same.
func (r Retention) Equal(other Retention) bool { return r == other }

// Or fills the fields that are not set from the server's retention.
func (r Retention) Or(server Retention) Retention {
	if r.Runs == 0 {
		r.Runs = server.Runs
	}
	if r.Logs == 0 {
		r.Logs = server.Logs
	}
	if r.DeadLetters == 0 {
		r.DeadLetters = server.DeadLetters
	}
	return r
}

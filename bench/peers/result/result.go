// Package result is the figures of a run of bench/peers, in the form in which results.json keeps them.
package result

import "github.com/carillon-run/carillon/bench/peers/peer"

// Run is one run. Figures of different runs are never compared.
type Run struct {
	At        string            `json:"at"` // RFC 3339
	Commit    string            `json:"commit"`
	Machine   string            `json:"machine"`
	Servers   map[string]string `json:"servers"` // postgres, redis: version and settings
	Rounds    int               `json:"rounds"`
	RoundsBig int               `json:"rounds_big"` // for scenarios that are large or take long
	Scale     float64           `json:"scale"`      // below 1: a look, not a measurement
	Peers     []peer.Hello      `json:"peers"`
	Absent    []Absent          `json:"absent"`
	Figures   []Figure          `json:"figures"`
}

// Absent is a peer that could not be measured, or a scenario that a peer does not have.
type Absent struct {
	Peer     string `json:"peer"`
	Scenario string `json:"scenario,omitempty"` // empty: all
	Why      string `json:"why"`
}

// Figure is one measurement in one round.
type Figure struct {
	// Scenario is one of plain submit bulk drain instant pickup ahead recurring kill nodes backlog history
	Scenario string `json:"scenario"`
	// Peer is the name in Hello, e.g. carillon-postgres, river; for plain: plain-postgres, plain-sqlite.
	Peer string `json:"peer"`
	Size int    `json:"size"` // what the scenario varies: jobs, nodes, …; 0 if nothing
	// Name is one of rate, rate_warm, first, p50, p99, max, rss, cpu, cpu_server, cpu_per_job, bytes_per_job,
	// syncs_per_job, allocs_per_job, seconds, ran, expected.
	Name  string  `json:"name"`
	Unit  string  `json:"unit"` // jobs/s, ms, MB, %, us, bytes, s, …
	Round int     `json:"round"`
	Value float64 `json:"value"`
	Note  string  `json:"note,omitempty"` // e.g. stopped after 60 s
}

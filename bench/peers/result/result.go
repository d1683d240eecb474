// Package result is what a run of bench/peers has measured, as it is kept in results.json.
package result

import "github.com/carillon-run/carillon/bench/peers/peer"

// Run is one run: figures of different runs are never compared.
type Run struct {
	At        string            `json:"at"` // RFC 3339
	Commit    string            `json:"commit"`
	Machine   string            `json:"machine"`
	Servers   map[string]string `json:"servers"` // postgres, redis: version and settings
	Rounds    int               `json:"rounds"`
	RoundsBig int               `json:"rounds_big"` // of scenarios that are large or take long
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
	Scenario string  `json:"scenario"` // plain submit bulk drain instant pickup ahead recurring kill nodes backlog history
	Peer     string  `json:"peer"`     // as in Hello, e.g. carillon-postgres, river; for plain: plain-postgres, plain-sqlite
	Size     int     `json:"size"`     // jobs, nodes, … : what the scenario varies; 0 if nothing
	Name     string  `json:"name"`     // rate, p50, p99, max, rss, cpu, cpu_per_job, bytes_per_job, syncs_per_job, allocs_per_job, seconds, ran, expected
	Unit     string  `json:"unit"`     // jobs/s, ms, MB, %, us, bytes, s, …
	Round    int     `json:"round"`
	Value    float64 `json:"value"`
	Note     string  `json:"note,omitempty"` // e.g. stopped after 60 s
}

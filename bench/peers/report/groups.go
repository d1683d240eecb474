package report

import (
	"fmt"
	"slices"
	"strings"
)

// group is a heading with one or more tables, about one question.
type group struct {
	title  string
	about  string
	plots  []plot
	tables []question
}

// question is one table: the same question to every peer.
type question struct {
	title   string // empty: the group's title is enough
	columns []column
	flat    bool // with a column for the cost of a job at the worst size, relative to the best
}

// column is one figure.
type column struct {
	head     string
	scenario string
	name     string
	size     int
	lower    bool // less is better
	rank     bool // this column sorts the rows
	ratio    bool // with a column for the ratio to Carillon
}

func (c column) key(peer string) key {
	if isPlain(peer) && c.scenario == "drain" && c.name == "rate" {
		return key{"plain", peer, anySize, "rate"} // the limit, beside the figures that are compared with it
	}
	return key{c.scenario, peer, c.size, c.name}
}

// groups are all groups of the report, in order.
func (b *book) groups() []group {
	return []group{
		{
			title: "Submit", plots: []plot{submitPlot},
			about: "Single jobs, due a day ahead, from 16 callers that each wait for their own; and in " +
				"bulk, by the quickest way that its users have.",
			tables: []question{{columns: []column{
				{
					head: "one by one, 16 callers, jobs/s", scenario: "submit", name: "rate", size: anySize,
					rank: true, ratio: true,
				},
				{head: "in bulk, jobs/s", scenario: "bulk", name: "rate", size: anySize, ratio: true},
			}}},
		},
		{
			title: "Drain", plots: []plot{drainPlot},
			about: "200,000 due no-op jobs with about 200 bytes of payload wait in the store; from the " +
				"moment a worker begins until each has run and its end is recorded. Processor time and " +
				"bytes are those of the scheduler and of the server together. `plain-…` is inserting, " +
				"claiming and finishing rows by SQL with no scheduler around it, on a server of its own: " +
				"what the engine does in that minute. Drains do not insert, but read the jobs, which plain " +
				"does not. Bytes are what was written until the last end was recorded: of PostgreSQL " +
				"mostly its log, before the checkpoint.",
			tables: []question{{columns: []column{
				{head: "jobs/s", scenario: "drain", name: "rate", size: anySize, rank: true, ratio: true},
				{
					head: "us of processor per job", scenario: "drain", name: "cpu_per_job", size: anySize,
					lower: true,
				},
				{
					head: "bytes written per job", scenario: "drain", name: "bytes_per_job", size: anySize,
					lower: true,
				},
				{head: "syncs per job", scenario: "drain", name: "syncs_per_job", size: anySize, lower: true},
				{
					head: "allocations per job", scenario: "drain", name: "allocs_per_job", size: anySize,
					lower: true,
				},
			}}},
		},
		{
			title: "Many due at one instant", plots: []plot{instantPlot},
			about: "All jobs have the same due time. Lateness is from that time to the first instruction " +
				"of the job; done is when the last end is recorded: in a burst Carillon on SQLite starts " +
				"first and records after. Memory is that of the scheduler's process, not of its server.",
			tables: b.bySize("instant", "jobs due at one instant", instantColumns),
		},
		{
			title: "Pickup", plots: []plot{pickupPlot},
			about: "An idle system: from the call that hands in a job to its first instruction.",
			tables: []question{{columns: []column{
				{
					head: "p50, ms", scenario: "pickup", name: "p50", size: anySize, lower: true, rank: true,
					ratio: true,
				},
				{head: "p99, ms", scenario: "pickup", name: "p99", size: anySize, lower: true, ratio: true},
				{head: "max, ms", scenario: "pickup", name: "max", size: anySize, lower: true},
			}}},
		},
		{
			title: "Jobs a day ahead",
			about: "A freshly started process while so many jobs wait for tomorrow, over 20 s of doing " +
				"nothing; then pickup again.",
			tables: b.bySize("ahead", "jobs a day ahead", aheadColumns),
		},
		{
			title: "Recurring jobs",
			about: "10,000 jobs, each every 10 s, for a minute.",
			tables: []question{{columns: []column{
				{head: "ran", scenario: "recurring", name: "ran", size: anySize},
				{head: "expected", scenario: "recurring", name: "expected", size: anySize},
				{head: "late p50, ms", scenario: "recurring", name: "p50", size: anySize, lower: true},
				{
					head: "late p99, ms", scenario: "recurring", name: "p99", size: anySize, lower: true,
					rank: true, ratio: true,
				},
				{head: "late max, ms", scenario: "recurring", name: "max", size: anySize, lower: true},
				{head: "% of a core", scenario: "recurring", name: "cpu", size: anySize, lower: true},
			}}},
		},
		{
			title: "A worker is killed",
			about: "Ten jobs run when their process is killed with SIGKILL and another starts: until all " +
				"ten have started again, by each one's own way to notice.",
			tables: []question{{columns: []column{
				{
					head: "seconds", scenario: "kill", name: "seconds", size: anySize, lower: true,
					rank: true, ratio: true,
				},
			}}},
		},
		{
			title: "Several nodes", plots: []plot{nodesPlot},
			about: "The drain of above, shared by processes on the same two cores and one store: sharing " +
				"must not cost.",
			tables: []question{{columns: b.rates("nodes", "nodes", "rate"), flat: true}},
		},
		{
			title: "Backlog", plots: []plot{backlogPlot},
			about: "The rate at which jobs are recorded, for a minute or until all are, while so many are " +
				"due: what a job costs must not depend on how many others wait. The clock starts with the " +
				"order to work, so that the first start, which comes after the program has opened its " +
				"store, weighs more on few jobs; the second table is from the first start on.",
			tables: []question{
				{columns: b.rates("backlog", "due", "rate"), flat: true},
				{
					title:   "The same from the first start on",
					columns: b.rates("backlog", "due", "rate_warm"), flat: true,
				},
			},
		},
		{
			title: "History", plots: []plot{historyPlot},
			about:  "A drain of 100,000 jobs, and pickup, with so many ended jobs in the store.",
			tables: []question{{columns: b.historyColumns(), flat: true}},
		},
	}
}

// bySize is one table for each size of a scenario.
func (b *book) bySize(scenario, what string, columns func(size int) []column) (list []question) {
	for _, size := range b.sizes(scenario) {
		list = append(list, question{title: grouped(int64(size)) + " " + what, columns: columns(size)})
	}
	return list
}

func instantColumns(size int) []column {
	return []column{
		{head: "late p50, ms", scenario: "instant", name: "p50", size: size, lower: true},
		{
			head: "late p99, ms", scenario: "instant", name: "p99", size: size, lower: true, rank: true,
			ratio: true,
		},
		{head: "late max, ms", scenario: "instant", name: "max", size: size, lower: true},
		{head: "done, s", scenario: "instant", name: "seconds", size: size, lower: true, ratio: true},
		{head: "peak memory, MB", scenario: "instant", name: "rss", size: size, lower: true},
	}
}

func aheadColumns(size int) []column {
	return []column{
		{
			head: "memory of the process, MB", scenario: "ahead", name: "rss", size: size, lower: true,
			ratio: true, rank: true,
		},
		{head: "% of a core", scenario: "ahead", name: "cpu", size: size, lower: true},
		{head: "the server's, %", scenario: "ahead", name: "cpu_server", size: size, lower: true},
		{head: "pickup p50, ms", scenario: "ahead", name: "p50", size: size, lower: true, ratio: true},
		{head: "pickup p99, ms", scenario: "ahead", name: "p99", size: size, lower: true},
	}
}

// rates are one column for each size of a scenario. The smallest size, which every peer has, sorts the rows.
func (b *book) rates(scenario, what, name string) (list []column) {
	for i, size := range b.sizes(scenario) {
		unit := what
		if size == 1 {
			unit = strings.TrimSuffix(what, "s")
		}
		list = append(list, column{
			head: fmt.Sprintf("%s %s, jobs/s", brief(float64(size)), unit), scenario: scenario, name: name,
			size: size, rank: i == 0, ratio: i == 0,
		})
	}
	return list
}

func (b *book) historyColumns() []column {
	list := b.rates("history", "ended", "rate")
	for _, size := range b.sizes("history") {
		list = append(list, column{
			head: brief(float64(size)) + " ended, pickup p50, ms", scenario: "history", name: "p50",
			size: size, lower: true,
		})
	}
	return list
}

// flatness is the cost of a job at the worst size, relative to the best, over the sizes of one run: the
// newest run that has all sizes in must, and at least two.
func (b *book) flatness(of key, must ...int) (ratio float64, p *page, sizes []int) {
	for _, p := range b.pages {
		var rates []float64
		var sizes []int
		for _, size := range b.sizes(of.scenario) {
			of.size = size
			if c := p.find(of); c != nil && c.median() > 0 {
				rates, sizes = append(rates, c.median()), append(sizes, size)
			}
		}
		missing := slices.ContainsFunc(must, func(size int) bool { return !slices.Contains(sizes, size) })
		if len(rates) >= 2 && !missing {
			return slices.Max(rates) / slices.Min(rates), p, sizes
		}
	}
	return 0, nil, nil
}

package report

import (
	"fmt"
	"strings"
)

// outcome is the result of one bar.
type outcome struct {
	what, bar, measured string
	met                 bool
	page                *page // nil: not measured
	noBar               bool  // shown without a bar
}

const (
	pg   = "carillon-postgres"
	lite = "carillon-sqlite"
	http = "carillon-http"
)

// outcomes compares the measured figures with the bars.
func (b *book) outcomes() (list []outcome) {
	add := func(o ...outcome) { list = append(list, o...) }
	drain := func(peer string) key { return key{"drain", peer, anySize, "rate"} }
	submit := func(peer string) key { return key{"submit", peer, anySize, "rate"} }
	add(
		b.times("drain on PostgreSQL, of River's", drain(pg), drain("river"), 3),
		b.times(
			"drain on PostgreSQL, of graphile-worker's, tuned as its page says", drain(pg),
			drain("graphile-worker"), 2,
		),
		b.times(
			"drain on PostgreSQL, of graphile-worker's with a queue of 4000", drain(pg),
			drain("graphile-worker-4000"), 2,
		),
		b.share(
			"drain on PostgreSQL, of plain SQL", drain(pg), key{"plain", "plain-postgres", anySize, "rate"},
			60,
		),
		b.atLeast("drain on SQLite", drain(lite), 55_000, "jobs/s"),
		b.share(
			"drain on SQLite, of plain SQL", drain(lite), key{"plain", "plain-sqlite", anySize, "rate"}, 60,
		),
		b.least(
			"100k at one instant on PostgreSQL, p99, of the best peer's on PostgreSQL",
			key{"instant", pg, 100_000, "p99"}, b.rivals("postgres"), 1.0/3,
		),
		b.atMost("100k at one instant on SQLite, p99", key{"instant", lite, 100_000, "p99"}, 1000, "ms"),
	)
	for _, c := range []string{lite, pg} {
		add(
			b.proportion(c),
			b.shown("1M at one instant on "+on(c)+", peak memory", key{"instant", c, 1_000_000, "rss"}, "MB"),
		)
	}
	for _, c := range []string{lite, pg} {
		p50 := map[string]float64{lite: 1.2, pg: 1.6}[c]
		for _, at := range []struct {
			what string
			key  key
		}{
			{"pickup", key{"pickup", c, anySize, ""}},
			{"pickup with 10M ahead", key{"ahead", c, 10_000_000, ""}},
			{"pickup with 10M ended", key{"history", c, 10_000_000, ""}},
		} {
			middle, tail := at.key, at.key
			middle.name, tail.name = "p50", "p99"
			add(
				b.atMost(at.what+" on "+on(c)+", p50", middle, p50, "ms"),
				b.atMost(at.what+" on "+on(c)+", p99", tail, 5, "ms"),
			)
		}
		where, rivals := on(c), b.rivals(b.engineOf(c))
		if c == lite { // no other scheduler keeps jobs there
			where, rivals = "any engine", b.rivals("")
		}
		add(b.least(
			"pickup on "+on(c)+", p50, of the best peer's on "+where, key{"pickup", c, anySize, "p50"},
			rivals, 1,
		))
	}
	add(
		b.times("submit from 16 callers on PostgreSQL, of River's", submit(pg), submit("river"), 5),
		b.times("submit from 16 callers over HTTP in shared requests, of River's",
			submit(http), submit("river"), 3),
		b.timesBest(
			"submit in bulk on PostgreSQL, of the best peer's", key{"bulk", pg, anySize, "rate"},
			b.rivals(""), 1.5,
		),
	)
	for _, c := range []string{lite, pg} {
		add(
			b.atMost("10M a day ahead on "+on(c)+", memory", key{"ahead", c, 10_000_000, "rss"}, 100, "MB"),
			b.atMost(
				"10M a day ahead on "+on(c)+", share of a core", key{"ahead", c, 10_000_000, "cpu"}, 1, "%",
			),
			b.flatBy(
				"backlog of 10k to 10M on "+on(c)+", from the first start on",
				key{"backlog", c, anySize, "rate_warm"}, 10_000, 10_000_000,
			),
			b.withStart("backlog of 10k to 10M on "+on(c)+", with the start of the process", c),
			b.flat("history of 0 to 10M on "+on(c), "history", c, 0, 10_000_000),
		)
	}
	add(b.flat("1 to 8 nodes on "+on(pg), "nodes", pg, 1, 8))
	return list
}

func on(carillon string) string { return engineName(strings.TrimPrefix(carillon, "carillon-")) }

func (b *book) engineOf(carillon string) string { return strings.TrimPrefix(carillon, "carillon-") }

// barTable shows all outcomes.
func (b *book) barTable() string {
	t := table{head: []string{"", "bar", "measured", ""}}
	missed, unknown, bars := 0, 0, 0
	for _, o := range b.outcomes() {
		verdict := "met"
		if !o.noBar {
			bars++
		}
		switch {
		case o.page == nil:
			verdict = "not measured"
			if !o.noBar {
				unknown++
			}
		case o.noBar:
			verdict = ""
		case !o.met:
			verdict = "**NOT MET**"
			missed++
		}
		measured := o.measured
		if o.page != nil {
			measured += o.page.sign()
		}
		t.rows = append(t.rows, []string{o.what, o.bar, measured, verdict})
	}
	return fmt.Sprintf(
		"### Bars\n\nWhat Carillon is meant to reach. %d of %d are met, %d are not, %d were not "+
			"measured.\n\n%s",
		bars-missed-unknown, bars, missed, unknown, t,
	)
}

// times: our figure is at least limit times theirs.
func (b *book) times(what string, ours, theirs key, limit float64) outcome {
	o := outcome{what: what, bar: fmt.Sprintf(">= %vx", limit)}
	if x, y, p := b.together(ours, theirs); p != nil && y.median() > 0 {
		v := x.median() / y.median()
		o.page, o.met = p, v >= limit && x.sound()
		o.measured = fmt.Sprintf(
			"%s (%s to %s)%s", exact(v), number(x.median()), number(y.median()), x.but()+y.but(),
		)
	}
	return o
}

// sound says that a figure has no notes: a figure that was cut off, or with jobs that started twice, meets no
// bar.
func (c *cell) sound() bool { return len(c.notes) == 0 }

// but is the notes of a figure, for the report.
func (c *cell) but() string {
	if c.sound() {
		return ""
	}
	return ", but " + strings.Join(c.notes, "; ")
}

// exact has one digit more than factor: 2.96x must not be shown as 3.0x beside a bar of 3.
func exact(v float64) string { return fmt.Sprintf("%.2fx", v) }

// share: our figure is at least that percentage of the limit that the engine sets.
func (b *book) share(what string, ours, limit key, percent float64) outcome {
	o := outcome{what: what, bar: fmt.Sprintf(">= %v %%", percent)}
	if x, y, p := b.together(ours, limit); p != nil && y.median() > 0 {
		v := 100 * x.median() / y.median()
		o.page, o.met = p, v >= percent && x.sound()
		o.measured = fmt.Sprintf("%.1f %% (%s of %s)%s", v, number(x.median()), number(y.median()), x.but())
	}
	return o
}

func (b *book) atLeast(what string, k key, limit float64, unit string) outcome {
	o := b.shown(what, k, unit)
	o.bar, o.noBar = ">= "+bound(limit)+" "+unit, false
	if c, p := b.pick(k); p != nil && c != nil {
		o.met = c.median() >= limit && c.sound()
	}
	return o
}

func (b *book) atMost(what string, k key, limit float64, unit string) outcome {
	o := b.shown(what, k, unit)
	o.bar, o.noBar = "<= "+bound(limit)+" "+unit, false
	if c, p := b.pick(k); p != nil && c != nil {
		o.met = c.median() <= limit && c.sound()
	}
	return o
}

// bound is a limit as it was written: 1.2, 1,000.
func bound(v float64) string {
	if v < 100 {
		return fmt.Sprint(v)
	}
	return number(v)
}

// shown is a figure without a bar.
func (b *book) shown(what string, k key, unit string) outcome {
	o := outcome{what: what, noBar: true}
	if c, p := b.pick(k); c != nil {
		o.page, o.measured = p, c.spread()+" "+unit+c.but()
	}
	return o
}

// rival is the peer that comes closest to us or is farthest ahead of us, each compared in a run that has
// both.
func (b *book) rival(ours key, peers []string, lower bool) (name string, x, y *cell, p *page) {
	worst := 0.0
	for _, peer := range peers {
		theirs := ours
		theirs.peer = peer
		cx, cy, at := b.together(ours, theirs)
		if at == nil {
			continue
		}
		if v, ok := better(cx.median(), cy.median(), lower); ok && (p == nil || v < worst) {
			worst, name, x, y, p = v, peer, cx, cy, at
		}
	}
	return name, x, y, p
}

// timesBest: our figure is at least limit times that of the best peer.
func (b *book) timesBest(what string, ours key, peers []string, limit float64) outcome {
	o := outcome{what: what, bar: fmt.Sprintf(">= %vx", limit)}
	if name, x, y, p := b.rival(ours, peers, false); p != nil {
		v := x.median() / y.median()
		o.page, o.met = p, v >= limit && x.sound()
		o.measured = fmt.Sprintf(
			"%s (%s to %s of %s)%s", exact(v), number(x.median()), number(y.median()), escaped(name),
			x.but()+y.but(),
		)
	}
	return o
}

// least: our figure is at most limit times that of the best peer; with limit 1, less.
func (b *book) least(what string, ours key, peers []string, limit float64) outcome {
	o := outcome{what: what, bar: fmt.Sprintf("<= %.2f", limit)}
	if limit == 1 {
		o.bar = "< 1"
	}
	if name, x, y, p := b.rival(ours, peers, true); p != nil {
		v := x.median() / y.median()
		o.page, o.met = p, v <= limit && v < 1 && x.sound()
		o.measured = fmt.Sprintf(
			"%.2f (%s to %s of %s)%s", v, number(x.median()), number(y.median()), escaped(name),
			x.but()+y.but(),
		)
	}
	return o
}

// proportion: ten times the jobs at one instant take about ten times as long.
func (b *book) proportion(c string) outcome {
	o := outcome{what: "1M at one instant on " + on(c) + ", done, of 100k's", bar: "<= 12x"}
	if x, y, p := b.together(key{"instant", c, 1_000_000, "seconds"}, key{
		"instant", c, 100_000, "seconds",
	}); p != nil &&
		y.median() > 0 {
		v := x.median() / y.median()
		o.page, o.met = p, v <= 12 && x.sound() && y.sound()
		o.measured = fmt.Sprintf(
			"%s (%s s to %s s)%s%s", exact(v), number(x.median()), number(y.median()), x.but(), y.but(),
		)
	}
	return o
}

// flat: the cost of a job hardly depends on the size. One run must have both ends of the range.
func (b *book) flat(what, scenario, c string, from, to int) outcome {
	return b.flatBy(what, key{scenario, c, anySize, "rate"}, from, to)
}

func (b *book) flatBy(what string, of key, from, to int) outcome {
	o := outcome{what: what + ", cost at worst", bar: "<= 1.2x"}
	if v, p, sizes := b.flatness(of, from, to); p != nil {
		o.page, o.met = p, v <= 1.2
		o.measured = fmt.Sprintf("%s over %d sizes", exact(v), len(sizes))
		for _, size := range sizes {
			of.size = size
			c := p.find(of)
			o.met = o.met && (c.sound() || of.scenario == "backlog") // measured for a minute at most
			o.measured += c.but()
		}
	}
	return o
}

// withStart has no bar: the time until the first job starts is not a cost of a job, and weighs more on a
// small backlog.
func (b *book) withStart(what, c string) outcome {
	o := b.flat(what, "backlog", c, 10_000, 10_000_000)
	o.bar, o.noBar = "", true
	return o
}

package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// plot is a picture: bars of the peers, or lines over sizes.
type plot struct {
	file  string
	title string
	about string
	unit  string
	bars  []column // one, or two side by side
	names []string // of the bars side by side
	lines string   // instead of bars: a scenario, whose rate is drawn over its sizes
	over  string   // what the sizes are
	scale scale
}

var (
	submitPlot = plot{
		file: "peers-submit.svg", title: "Submit: single jobs from 16 callers", about: "more is better",
		unit: "jobs per second", scale: linear,
		bars: []column{{scenario: "submit", name: "rate", size: anySize}},
	}
	drainPlot = plot{
		file: "peers-drain.svg", title: "Drain: 200,000 due jobs until each end is recorded",
		about: "more is better; grey: plain SQL, the engine's limit", unit: "jobs per second", scale: linear,
		bars: []column{{scenario: "drain", name: "rate", size: anySize}},
	}
	instantPlot = plot{
		file: "peers-instant.svg", title: "100,000 jobs due at one instant: lateness, p99",
		about: "less is better", unit: "milliseconds", scale: logarithmic,
		bars: []column{{scenario: "instant", name: "p99", size: 100_000, lower: true}},
	}
	pickupPlot = plot{
		file: "peers-pickup.svg", title: "Pickup on an idle system: from submit to start",
		about: "less is better", unit: "milliseconds", names: []string{"p50", "p99"},
		bars: []column{
			{scenario: "pickup", name: "p50", size: anySize, lower: true},
			{scenario: "pickup", name: "p99", size: anySize, lower: true},
		},
	}
	nodesPlot = plot{
		file: "peers-nodes.svg", title: "Drain by several nodes on the same cores",
		about: "flat: sharing costs nothing", unit: "jobs per second", lines: "nodes", over: "nodes",
	}
	backlogPlot = plot{
		file: "peers-backlog.svg", title: "Rate while so many jobs are due",
		about: "flat: a job costs the same however many wait", unit: "jobs per second", lines: "backlog",
		over: "jobs due when work begins",
	}
	historyPlot = plot{
		file: "peers-history.svg", title: "Drain with so many ended jobs in the store",
		about: "flat: what is over costs nothing", unit: "jobs per second", lines: "history",
		over: "ended jobs in the store",
	}
)

var plots = []plot{submitPlot, drainPlot, instantPlot, pickupPlot, nodesPlot, backlogPlot, historyPlot}

const (
	width  = 860.0
	barH   = 18.0
	left   = 212.0 // for names
	right  = 96.0  // for values beyond the end of a bar
	top    = 72.0
	bottom = 52.0
)

// draw returns "" if nothing was measured.
func (p plot) draw(b *book) string {
	if p.lines != "" {
		return p.drawLines(b)
	}
	return p.drawBars(b)
}

// shown is the bars of one peer.
type shown struct {
	name  string
	cells []*cell
	marks []string
}

func (p plot) drawBars(b *book) string {
	var rows []shown
	var values []float64
	rounds, earlier, noted := 1, false, false
	for _, name := range b.peers() {
		r := shown{name: name}
		for _, col := range p.bars {
			c, page := b.pick(col.key(name))
			if c == nil {
				continue
			}
			values, rounds = append(values, c.least(), c.most()), max(rounds, len(c.values))
			earlier, noted = earlier || page.mark != "", noted || len(c.notes) > 0
			r.cells, r.marks = append(r.cells, c), append(r.marks, page.mark)
		}
		if len(r.cells) == len(p.bars) {
			rows = append(rows, r)
		}
	}
	if !slices.ContainsFunc(rows, func(r shown) bool { return !isPlain(r.name) }) {
		return ""
	}
	slices.SortStableFunc(rows, func(x, y shown) int { return best(x.cells[0], y.cells[0], p.bars[0].lower) })
	pitch := barH*float64(len(p.bars)) + 14
	height := top + pitch*float64(len(rows)) + bottom
	legend := 0.0
	if len(p.names) > 0 {
		legend = 22
	}
	c := panel(width, height+legend, p.title, subtitle(p, rounds, earlier, noted))
	a := newAxis(values, width-left-right, p.scale)
	p.legend(c)
	y0 := top + legend
	for _, t := range a.ticks {
		x := left + a.place(t)
		c.line(x, y0-4, x, height+legend-bottom, grid, 1)
		c.text(x, height+legend-bottom+18, tick(t), style{size: 11.5, color: faint, anchor: "middle"})
	}
	unit := p.unit
	if a.log {
		unit += ", logarithmic"
	}
	c.text(left+a.length/2, height+legend-14, unit, style{size: 12, color: faint, anchor: "middle"})
	for i, r := range rows {
		p.bar(c, a, r, y0+float64(i)*pitch+7, b.engine(r.name))
	}
	c.line(left, y0-4, left, height+legend-bottom, faint, 1)
	return c.done()
}

// bar draws one peer: its name with the engine, and its bars with the spread of the rounds and the median
// beside them.
func (p plot) bar(c *canvas, a axis, r shown, y float64, engine string) {
	ours := isCarillon(r.name)
	middle := y + barH*float64(len(r.cells))/2
	label := r.name
	if r.marks[0] != "" {
		label += " (" + r.marks[0] + ")"
	}
	c.text(left-12, middle-1, label, style{size: 13, anchor: "end", bold: ours})
	c.text(left-12, middle+12, engineName(engine), style{size: 10.5, color: faint, anchor: "end"})
	for i, cell := range r.cells {
		row := y + barH*float64(i)
		opacity := 1.0
		if i > 0 {
			opacity = 0.45
		}
		end := a.place(cell.median())
		c.rect(left, row+1, end, barH-2, color(r.name), opacity)
		if len(cell.values) > 1 {
			from, to := left+a.place(cell.least()), left+a.place(cell.most())
			c.line(from, row+barH/2, to, row+barH/2, ink, 1.2)
			c.line(from, row+barH/2-3, from, row+barH/2+3, ink, 1.2)
			c.line(to, row+barH/2-3, to, row+barH/2+3, ink, 1.2)
			end = max(end, a.place(cell.most()))
		}
		value := number(cell.median())
		if len(cell.notes) > 0 {
			value += " †"
		}
		c.text(left+end+8, row+barH/2+4, value, style{size: 12, bold: ours})
	}
}

// legend explains bars that are side by side.
func (p plot) legend(c *canvas) {
	x := left
	for i, name := range p.names {
		opacity := 1.0
		if i > 0 {
			opacity = 0.45
		}
		c.rect(x, 66, 14, 12, faint, opacity)
		c.text(x+20, 76, name, style{size: 12})
		x += 76
	}
}

func subtitle(p plot, rounds int, earlier, noted bool) string {
	said := []string{p.about}
	if rounds > 1 {
		said = append(said, fmt.Sprintf("median of %d rounds, line: least to most", rounds))
	}
	if earlier {
		said = append(said, "(B): an earlier run")
	}
	if noted {
		said = append(said, "†: see the table")
	}
	return strings.Join(said, "; ")
}

// tick is a value on an axis.
func tick(v float64) string {
	if v != 0 && math.Abs(v) < 1 {
		return fmt.Sprintf("%g", math.Round(v*1e6)/1e6)
	}
	return brief(math.Round(v*100) / 100)
}

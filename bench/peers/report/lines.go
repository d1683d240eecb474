package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

const (
	linesH     = 400.0
	linesLeft  = 84.0
	linesRight = 258.0 // for the legend
	linesTop   = 76.0
)

// course is one peer's line.
type course struct {
	name  string
	sizes []int
	rates []float64
	marks []string
}

// drawLines shows the rate over the sizes. The sizes are at equal distances, no matter how large: 10k, 100k
// and 1M, or 0 and 1M.
func (p plot) drawLines(b *book) string {
	sizes := b.sizes(p.lines)
	var courses []course
	var values []float64
	earlier := false
	for _, name := range b.peers() {
		l := course{name: name}
		for _, size := range sizes {
			if c, page := b.pick(key{p.lines, name, size, "rate"}); c != nil && c.median() > 0 {
				l.sizes, l.rates, l.marks = append(l.sizes, size), append(
					l.rates, c.median(),
				), append(l.marks, page.mark)
				values, earlier = append(values, c.median()), earlier || page.mark != ""
			}
		}
		if len(l.rates) > 0 {
			courses = append(courses, l)
		}
	}
	if len(courses) == 0 || len(sizes) < 2 {
		return ""
	}
	slices.SortStableFunc(courses, func(x, y course) int {
		return cmp.Compare(y.rates[len(y.rates)-1], x.rates[len(x.rates)-1])
	})
	height := max(linesH, linesTop+float64(len(courses))*38+40)
	c := panel(width, height, p.title, subtitle(p, 1, earlier, false))
	a := newAxis(values, height-linesTop-62, p.scale)
	base, end := linesTop+a.length, width-linesRight
	p.frame(c, a, base, end)
	place := func(size int) float64 {
		return linesLeft + 24 + (end-linesLeft-48)*float64(slices.Index(sizes, size))/float64(len(sizes)-1)
	}
	for _, size := range sizes {
		c.line(place(size), base, place(size), base+5, faint, 1)
		c.text(place(size), base+20, brief(float64(size)), style{size: 11.5, color: faint, anchor: "middle"})
	}
	// Carillon is drawn last, above the others.
	for _, ours := range []bool{false, true} {
		for _, l := range courses {
			if isCarillon(l.name) == ours {
				l.draw(c, place, func(v float64) float64 { return base - a.place(v) })
			}
		}
	}
	for i, l := range courses {
		l.legend(c, end+24, linesTop+8+float64(i)*38)
	}
	return c.done()
}

// frame draws the axes with their names.
func (p plot) frame(c *canvas, a axis, base, end float64) {
	for _, t := range a.ticks {
		c.line(linesLeft, base-a.place(t), end, base-a.place(t), grid, 1)
		c.text(linesLeft-8, base-a.place(t)+4, tick(t), style{size: 11.5, color: faint, anchor: "end"})
	}
	c.line(linesLeft, base, end, base, faint, 1)
	unit := p.unit
	if a.log {
		unit += ", logarithmic"
	}
	c.text(28, base-a.length/2, unit, style{size: 12, color: faint, anchor: "middle", turn: -90})
	c.text((linesLeft+end)/2, base+44, p.over, style{size: 12, color: faint, anchor: "middle"})
}

func (l course) draw(c *canvas, x func(size int) float64, y func(rate float64) float64) {
	var points []string
	for i := range l.sizes {
		points = append(points, at(x(l.sizes[i]))+","+at(y(l.rates[i])))
	}
	fmt.Fprintf(
		c, `<polyline points="%s" fill="none" stroke="%s" stroke-width="%s"%s/>`+"\n",
		strings.Join(points, " "), color(l.name), at(l.weight()), l.dashes(),
	)
	for i := range l.sizes {
		fmt.Fprintf(
			c, `<circle cx="%s" cy="%s" r="%s" fill="%s" stroke="%s"/>`+"\n", at(x(l.sizes[i])),
			at(y(l.rates[i])), at(l.weight()+1.6), color(l.name), paper,
		)
	}
}

func (l course) weight() float64 {
	if isCarillon(l.name) {
		return 3.2
	}
	return 2
}

// dashes tell Carillon's lines apart for readers who do not see the shades.
func (l course) dashes() string {
	switch l.name {
	case "carillon-sqlite":
		return ` stroke-dasharray="9 4"`
	case "carillon-http":
		return ` stroke-dasharray="3 3"`
	default:
		return ""
	}
}

// legend names a line, with its first and last value.
func (l course) legend(c *canvas, x, y float64) {
	fmt.Fprintf(
		c, `<line x1="%s" y1="%s" x2="%s" y2="%s" stroke="%s" stroke-width="%s"%s/>`+"\n", at(x), at(y),
		at(x+28), at(y), color(l.name), at(l.weight()), l.dashes(),
	)
	name := l.name
	if slices.ContainsFunc(l.marks, func(m string) bool { return m != "" }) {
		name += " (" + strings.Join(slices.Compact(slices.Sorted(slices.Values(l.marks))), "") + ")"
	}
	c.text(x+38, y+4, name, style{size: 13, bold: isCarillon(l.name)})
	last := len(l.rates) - 1
	values := fmt.Sprintf("%s at %s", number(l.rates[0]), brief(float64(l.sizes[0])))
	if last > 0 {
		values += fmt.Sprintf(", %s at %s", number(l.rates[last]), brief(float64(l.sizes[last])))
	}
	c.text(x+38, y+18, values, style{size: 11, color: faint})
}

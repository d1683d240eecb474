package report

import (
	"fmt"
	"hash/fnv"
	"html"
	"math"
	"strings"
)

// The colors are for the plot's own white panel, so that they look the same on a light and on a dark page.
const (
	ink    = "#1f2328"
	faint  = "#59636e"
	grid   = "#e4e7eb"
	edge   = "#d0d7de"
	paper  = "#ffffff"
	plain  = "#b6bec8"
	strong = "#d9480f"
)

// colors are the same for a peer in every plot. Carillon has one strong color in three shades.
var colors = map[string]string{
	"carillon-postgres": strong,
	"carillon-sqlite":   "#ff922b",
	"carillon-http":     "#8a2c0a",
	"plain-postgres":    plain,
	"plain-sqlite":      plain,
	"river":             "#1c7ed6",
	"graphile-worker":   "#0c8599",
	"pg-boss":           "#5f3dc4",
	"asynq":             "#2f9e44",
	"bullmq":            "#9c36b5",
	"celery":            "#74b816",
	"temporal":          "#495057",
	"faktory":           "#846358",
}

var spare = []string{"#364fc7", "#087f5b", "#862e9c", "#5c940d", "#0b7285", "#343a40"}

func color(peer string) string {
	if c, ok := colors[peer]; ok {
		return c
	}
	if isCarillon(peer) {
		return strong
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(peer))
	return spare[int(h.Sum32())%len(spare)]
}

// canvas collects the SVG elements.
type canvas struct {
	strings.Builder
	width, height float64
}

// panel is a canvas with a background, a title and a line of text below it.
func panel(width, height float64, title, subtitle string) *canvas {
	c := &canvas{width: width, height: height}
	fmt.Fprintf(c,
		`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" role="img" font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', Helvetica, Arial, sans-serif">`+"\n",
		at(width), at(height), at(width), at(height))
	fmt.Fprintf(c, "<title>%s</title>\n", html.EscapeString(title))
	fmt.Fprintf(
		c, `<rect x="0.5" y="0.5" width="%s" height="%s" rx="8" fill="%s" stroke="%s"/>`+"\n", at(width-1),
		at(height-1), paper, edge,
	)
	c.text(24, 32, title, style{size: 17, bold: true})
	c.text(24, 52, subtitle, style{size: 12.5, color: faint})
	return c
}

func (c *canvas) done() string { return c.String() + "</svg>\n" }

// style is how a text looks.
type style struct {
	size   float64
	color  string
	anchor string // start, middle, end
	bold   bool
	turn   float64
}

func (c *canvas) text(x, y float64, s string, st style) {
	attrs := fmt.Sprintf(`x="%s" y="%s" font-size="%s"`, at(x), at(y), at(st.size))
	if st.color == "" {
		st.color = ink
	}
	attrs += fmt.Sprintf(` fill="%s"`, st.color)
	if st.anchor != "" {
		attrs += fmt.Sprintf(` text-anchor="%s"`, st.anchor)
	}
	if st.bold {
		attrs += ` font-weight="600"`
	}
	if st.turn != 0 {
		attrs += fmt.Sprintf(` transform="rotate(%s %s %s)"`, at(st.turn), at(x), at(y))
	}
	fmt.Fprintf(c, "<text %s>%s</text>\n", attrs, html.EscapeString(s))
}

func (c *canvas) line(x1, y1, x2, y2 float64, color string, width float64) {
	fmt.Fprintf(
		c, `<line x1="%s" y1="%s" x2="%s" y2="%s" stroke="%s" stroke-width="%s"/>`+"\n", at(x1), at(y1),
		at(x2), at(y2), color, at(width),
	)
}

func (c *canvas) rect(x, y, w, h float64, color string, opacity float64) {
	fmt.Fprintf(
		c, `<rect x="%s" y="%s" width="%s" height="%s" rx="2" fill="%s" fill-opacity="%s"/>`+"\n", at(x),
		at(y), at(max(w, 1)), at(h), color, at(opacity),
	)
}

func at(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }

// axis turns a value into a place: in pixels from its beginning.
type axis struct {
	from, to float64
	length   float64
	log      bool
	ticks    []float64
}

// scale is how an axis is divided.
type scale int

const (
	byRange scale = iota // logarithmic if the values lie orders of magnitude apart
	linear               // lengths are proportions
	logarithmic
)

// newAxis makes an axis that covers all values.
func newAxis(values []float64, length float64, by scale) axis {
	least, most := math.Inf(1), 0.0
	for _, v := range values {
		if v > 0 {
			least = min(least, v)
		}
		most = max(most, v)
	}
	if most == 0 {
		return axis{0, 1, length, false, []float64{0, 1}}
	}
	if by == logarithmic || by == byRange && most/least > 40 {
		return logAxis(least, most, length)
	}
	step := math.Pow(10, math.Floor(math.Log10(most/4)))
	for _, m := range []float64{1, 2, 2.5, 5, 10} {
		if most/(step*m) <= 6 {
			step *= m
			break
		}
	}
	a := axis{0, step * math.Ceil(most/step), length, false, nil}
	for i := 0; float64(i)*step <= a.to*1.0001; i++ {
		a.ticks = append(a.ticks, float64(i)*step)
	}
	return a
}

// logAxis begins far enough below the least value that its bar is still visible.
func logAxis(least, most, length float64) axis {
	low, high := math.Floor(math.Log10(least)), math.Floor(math.Log10(most))
	if math.Log10(least)-low < 0.2 {
		low--
	}
	a := axis{from: math.Pow(10, low), length: length, log: true}
	for e := low; e <= high; e++ {
		a.ticks = append(a.ticks, math.Pow(10, e))
	}
	for _, m := range []float64{1, 2, 5, 10} { // a whole decade more would leave the plot empty there
		if a.to = m * math.Pow(10, high); a.to >= most && a.to > a.from {
			break
		}
	}
	if len(a.ticks) == 1 || a.to >= 5*math.Pow(10, high) {
		a.ticks = append(a.ticks, a.to)
	}
	return a
}

func (a axis) place(v float64) float64 {
	if a.log {
		v = max(v, a.from)
		return a.length * (math.Log10(v) - math.Log10(a.from)) / (math.Log10(a.to) - math.Log10(a.from))
	}
	return a.length * (v - a.from) / (a.to - a.from)
}

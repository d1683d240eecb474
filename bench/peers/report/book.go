package report

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/carillon-run/carillon/bench/peers/peer"
	"github.com/carillon-run/carillon/bench/peers/result"
)

// book finds figures in runs, the newest first. It leaves out runs below scale 1.
type book struct {
	pages []*page
}

// page is one run. Figures are divided by each other only within one page.
type page struct {
	run   result.Run
	mark  string // marks figures of this run; empty for the newest run
	shown bool   // the report shows a figure of it
	cells map[key]*cell
}

// sign is the mark behind a figure of this run.
func (p *page) sign() string {
	p.shown = true
	if p.mark == "" {
		return ""
	}
	return " <sup>" + p.mark + "</sup>"
}

// key names a figure.
type key struct {
	scenario, peer string
	size           int
	name           string
}

// anySize asks for the largest measured size: most scenarios have only one.
const anySize = -1

// cell is one figure over all rounds.
type cell struct {
	values []float64
	notes  []string
}

func newBook(runs []result.Run) *book {
	b := &book{}
	for _, r := range runs {
		if r.Scale != 1 {
			continue
		}
		p := &page{run: r, cells: map[key]*cell{}}
		for _, f := range r.Figures {
			k := key{f.Scenario, f.Peer, f.Size, f.Name}
			c := p.cells[k]
			if c == nil {
				c = &cell{}
				p.cells[k] = c
			}
			c.values = append(c.values, f.Value)
			// That it is the peak is said above the table.
			if f.Note != "" && f.Note != "peak" && !slices.Contains(c.notes, f.Note) {
				c.notes = append(c.notes, f.Note)
			}
		}
		b.pages = append(b.pages, p)
	}
	slices.SortStableFunc(b.pages, func(x, y *page) int { return taken(y).Compare(taken(x)) })
	for i, p := range b.pages[min(1, len(b.pages)):] {
		p.mark = string(rune('B' + i))
	}
	return b
}

// taken is the time of a run. A run whose time cannot be parsed is older than all others.
func taken(p *page) time.Time {
	t, _ := time.Parse(time.RFC3339, p.run.At)
	return t
}

// pick is a figure in the newest run that has its scenario, peer and size.
func (b *book) pick(k key) (*cell, *page) {
	for _, p := range b.pages {
		if !p.has(k) {
			continue
		}
		return p.find(k), p
	}
	return nil, nil
}

// has is whether a run has any figure of that scenario, peer and size. With anySize it asks for the figure
// itself: a run without it must not hide an older run that has it.
func (p *page) has(k key) bool {
	if k.size == anySize {
		return p.find(k) != nil
	}
	for other := range p.cells {
		if other.scenario == k.scenario && other.peer == k.peer && other.size == k.size {
			return true
		}
	}
	return false
}

// find is a figure in this run; nil if there is none.
func (p *page) find(k key) *cell {
	if k.size != anySize {
		return p.cells[k]
	}
	best := anySize
	for other := range p.cells {
		if other.scenario == k.scenario && other.peer == k.peer && other.name == k.name && other.size > best {
			best = other.size
		}
	}
	k.size = best
	return p.cells[k]
}

// together are two figures of the newest run that has both.
func (b *book) together(x, y key) (cx, cy *cell, p *page) {
	for _, p := range b.pages {
		if cx, cy := p.find(x), p.find(y); cx != nil && cy != nil {
			return cx, cy, p
		}
	}
	return nil, nil, nil
}

// sizes are the sizes at which a scenario was measured, of any peer, smallest first.
func (b *book) sizes(scenario string) (sizes []int) {
	for _, p := range b.pages {
		for k := range p.cells {
			if k.scenario == scenario && !slices.Contains(sizes, k.size) {
				sizes = append(sizes, k.size)
			}
		}
	}
	slices.Sort(sizes)
	return sizes
}

// peers are all peers that have figures, by name.
func (b *book) peers() (names []string) {
	for _, p := range b.pages {
		for k := range p.cells {
			if !slices.Contains(names, k.peer) {
				names = append(names, k.peer)
			}
		}
	}
	slices.Sort(names)
	return names
}

// hello is the Hello of a peer in the newest run that has figures of it.
func (b *book) hello(name string) (peer.Hello, *page) {
	for _, p := range b.pages {
		measured := false
		for k := range p.cells {
			measured = measured || k.peer == name
		}
		if i := slices.IndexFunc(p.run.Peers, func(h peer.Hello) bool {
			return h.Name == name
		}); i >= 0 && measured {
			return p.run.Peers[i], p
		}
	}
	return peer.Hello{Name: name}, nil
}

// engine is postgres, redis or sqlite, or else the engine that the peer itself names.
func (b *book) engine(name string) string {
	if engine, ok := strings.CutPrefix(name, "plain-"); ok {
		return engine
	}
	h, _ := b.hello(name)
	said := strings.ToLower(h.Engine)
	for _, engine := range []string{"postgres", "redis", "sqlite"} {
		if strings.Contains(said, engine) {
			return engine
		}
	}
	return said
}

func isCarillon(name string) bool { return strings.HasPrefix(name, "carillon") }
func isPlain(name string) bool    { return strings.HasPrefix(name, "plain-") }

// rivals are the peers that are neither Carillon nor the plain engine: on one engine or, if engine is empty,
// on any.
func (b *book) rivals(engine string) []string {
	return slices.DeleteFunc(b.peers(), func(name string) bool {
		return isCarillon(name) || isPlain(name) || engine != "" && b.engine(name) != engine
	})
}

// median is the middle value, or the mean of the two middle values.
func (c *cell) median() float64 {
	v := slices.Sorted(slices.Values(c.values))
	n := len(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}

func (c *cell) least() float64 { return slices.Min(c.values) }
func (c *cell) most() float64  { return slices.Max(c.values) }

// best orders cells, best first; a missing one comes last.
func best(x, y *cell, lower bool) int {
	switch {
	case x == nil || y == nil:
		return cmp.Compare(btoi(x == nil), btoi(y == nil))
	case lower:
		return cmp.Compare(x.median(), y.median())
	default:
		return cmp.Compare(y.median(), x.median())
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

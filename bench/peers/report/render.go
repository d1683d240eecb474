package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carillon-run/carillon/bench/peers/result"
)

// markdown is the whole text between the markers.
func (b *book) markdown(drawn map[string]string) string {
	if len(b.pages) == 0 {
		return "Nothing has been measured yet: `make bench-peers` does."
	}
	var out strings.Builder
	out.WriteString(b.compared())
	for _, g := range b.groups() {
		out.WriteString(b.group(g, drawn))
	}
	out.WriteString(b.barTable())
	return b.opening() + out.String() // last: only now it is known which runs are shown
}

// opening says which runs these are, and how to read the tables.
func (b *book) opening() string {
	var out strings.Builder
	out.WriteString("What `make bench-peers` measured: the same scenarios on Carillon and on other " +
		"schedulers, in turns, on the same servers in the same run. " +
		"[bench/peers/README.md](../bench/peers/README.md) says how. Figures are medians of the rounds, " +
		"with (least..most) where there was more than one; the best comes first. \"Carillon is\" says by " +
		"what factor Carillon is better than that peer in that same run; below 1 it is worse. Peers on " +
		"PostgreSQL are held against Carillon on PostgreSQL. Carillon does not keep jobs in Redis: peers " +
		"that do are held against Carillon on PostgreSQL and on SQLite.\n\n")
	shown := slices.DeleteFunc(slices.Clone(b.pages), func(p *page) bool { return p.mark != "" && !p.shown })
	for _, p := range shown {
		r := p.run
		name := "**The run**"
		if len(shown) > 1 {
			name = "**The newest run**"
		}
		if p.mark != "" {
			name = "**Run " + p.mark + "**"
		}
		fmt.Fprintf(
			&out, "%s: %s, commit %s, %s, %s", name, escaped(r.At), escaped(r.Commit), escaped(r.Machine),
			roundsOf(r),
		)
		for _, s := range sortedKeys(r.Servers) {
			fmt.Fprintf(&out, "; %s: %s", engineName(s), escaped(r.Servers[s]))
		}
		out.WriteString(".\n\n")
	}
	if len(shown) > 1 {
		out.WriteString(
			"A figure that the newest run does not have is from the newest one that does, marked with its " +
				"letter. Such a one is never part of a ratio with one of another run, and the order of " +
				"rows and bars says little there.\n\n",
		)
	}
	return out.String()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (b *book) group(g group, drawn map[string]string) string {
	var body strings.Builder
	for _, q := range g.tables {
		body.WriteString(b.answer(q))
	}
	body.WriteString(b.absences(g))
	if body.Len() == 0 {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "### %s\n\n%s\n\n", g.title, g.about)
	for _, p := range g.plots {
		if drawn[p.file] != "" {
			fmt.Fprintf(&out, "![%s](img/%s)\n\n", p.title, p.file)
		}
	}
	return out.String() + body.String()
}

// answer is the table of a question, with the notes of its figures below.
func (b *book) answer(q question) string {
	rank := max(slices.IndexFunc(q.columns, func(c column) bool { return c.rank }), 0)
	var peers []string
	for _, name := range b.peers() {
		if slices.ContainsFunc(q.columns, func(c column) bool {
			cell, _ := b.pick(c.key(name))
			return cell != nil
		}) {
			peers = append(peers, name)
		}
	}
	if !slices.ContainsFunc(peers, func(name string) bool { return !isPlain(name) }) {
		return ""
	}
	slices.SortStableFunc(peers, func(x, y string) int {
		cx, _ := b.pick(q.columns[rank].key(x))
		cy, _ := b.pick(q.columns[rank].key(y))
		return best(cx, cy, q.columns[rank].lower)
	})
	// A column without any figure says nothing.
	columns := slices.DeleteFunc(slices.Clone(q.columns), func(c column) bool {
		return !slices.ContainsFunc(peers, func(name string) bool {
			cell, _ := b.pick(c.key(name))
			return cell != nil
		})
	})
	t := table{head: []string{"", "engine"}}
	for _, c := range columns {
		t.head = append(t.head, c.head)
		if c.ratio {
			t.head = append(t.head, "Carillon is")
		}
	}
	if q.flat {
		t.head = append(t.head, "cost, worst to best")
	}
	var notes []string
	for _, name := range peers {
		t.rows = append(t.rows, b.row(name, columns, q.flat, &notes))
	}
	var out strings.Builder
	if q.title != "" {
		fmt.Fprintf(&out, "**%s**\n\n", q.title)
	}
	out.WriteString(t.String() + "\n")
	if len(notes) > 0 {
		out.WriteString("† " + strings.Join(notes, "; ") + ".\n\n")
	}
	return out.String()
}

func (b *book) row(name string, columns []column, flat bool, notes *[]string) []string {
	row := []string{escaped(name), engineName(b.engine(name))}
	for _, c := range columns {
		cell, page := b.pick(c.key(name))
		text := ""
		if cell != nil {
			text = cell.spread()
			for _, n := range cell.notes {
				if note := escaped(name) + ": " + escaped(n); !slices.Contains(*notes, note) {
					*notes = append(*notes, note)
				}
			}
			if len(cell.notes) > 0 {
				text += " †"
			}
			text += page.sign()
		}
		row = append(row, text)
		if c.ratio {
			row = append(row, b.advantage(name, c))
		}
	}
	if flat && len(columns) > 0 {
		text := ""
		if ratio, _, _ := b.flatness(columns[0].key(name)); ratio > 0 {
			text = fmt.Sprintf("%.2f", ratio)
		}
		row = append(row, text)
	}
	if isCarillon(name) {
		for i, text := range row {
			if text != "" {
				row[i] = "**" + text + "**"
			}
		}
	}
	return row
}

// advantage is by what factor Carillon is better than a peer, in the run of the peer's figure.
func (b *book) advantage(name string, c column) string {
	cell, page := b.pick(c.key(name))
	if cell == nil || isCarillon(name) || isPlain(name) {
		return ""
	}
	var said []string
	for _, engine := range references(b.engine(name)) {
		ours := page.find(c.key("carillon-" + engine))
		if ours == nil {
			continue
		}
		if v, ok := better(ours.median(), cell.median(), c.lower); ok {
			said = append(said, factor(v)+" on "+engineName(engine))
		}
	}
	return strings.Join(said, ", ")
}

// references are the engines on which Carillon is compared with a peer on this engine.
func references(engine string) []string {
	switch engine {
	case "postgres", "sqlite":
		return []string{engine}
	default:
		return []string{"postgres", "sqlite"}
	}
}

// better is by what factor our figure is better than theirs; not ok if one of them is zero.
func better(ours, theirs float64, lower bool) (float64, bool) {
	if ours <= 0 || theirs <= 0 {
		return 0, false
	}
	if lower {
		return theirs / ours, true
	}
	return ours / theirs, true
}

// roundsOf says how often scenarios were measured; large ones mostly less often.
func roundsOf(r result.Run) string {
	text := count(r.Rounds, "round")
	if r.RoundsBig > 0 && r.RoundsBig != r.Rounds {
		text += fmt.Sprintf(" (%d of what is large)", r.RoundsBig)
	}
	return text
}

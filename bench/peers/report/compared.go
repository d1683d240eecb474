package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/carillon-run/carillon/bench/peers/peer"
)

// compared describes the peers in their own words, and says which figures are not comparable.
func (b *book) compared() string {
	t := table{
		head: []string{
			"", "version", "engine", "settings", "what a submit that has returned survives",
			"what is kept of a job that has ended",
		},
	}
	var loose, forgetful, elsewhere []string
	for _, name := range b.peers() {
		h, page := b.hello(name)
		if page == nil {
			continue
		}
		shown := escaped(name)
		if isCarillon(name) {
			shown = "**" + shown + "**"
		}
		shown += page.sign()
		t.rows = append(t.rows, []string{
			shown, escaped(h.Version), engineName(b.engine(name)), escaped(h.Settings), escaped(h.Durable),
			escaped(h.History),
		})
		if !onDisk(h) {
			loose = append(loose, fmt.Sprintf("%s (%s)", escaped(name), escaped(h.Durable)))
		}
		if !keeps(h) {
			forgetful = append(forgetful, fmt.Sprintf("%s (%s)", escaped(name), escaped(h.History)))
		}
		if e := b.engine(name); !isCarillon(name) && e != "postgres" && e != "sqlite" {
			elsewhere = append(elsewhere, escaped(name))
		}
	}
	var out strings.Builder
	fmt.Fprintf(&out, "### What is compared\n\n%s\n", t)
	out.WriteString(incomparable(loose, forgetful, elsewhere))
	if gone := b.gone(); gone != "" {
		out.WriteString(gone)
	}
	return out.String()
}

// incomparable is the paragraph on what the figures do not say.
func incomparable(loose, forgetful, elsewhere []string) string {
	var said []string
	if len(loose) > 0 {
		said = append(said, "A submit that has returned is not on disk with "+list(loose)+
			": what was accepted can be lost with the machine, and no wait for a disk is in their figures, "+
			"as it is in all others.")
	}
	if len(forgetful) > 0 {
		said = append(said, "Nothing is kept of what has ended by "+list(forgetful)+
			": they write less for each job, and there is nothing to look up afterwards. Carillon writes a "+
			"record of every run, and its figures include that.")
	}
	if len(elsewhere) > 0 {
		said = append(
			said,
			"For "+list(
				elsewhere,
			)+" there is no Carillon on the same engine, so those ratios compare engines as well as "+
				"schedulers.",
		)
	}
	if len(said) == 0 {
		said = append(said, "Every submit is on disk before it returns, and all keep what has ended.")
	}
	return "**What is not comparable.** " + strings.Join(said, " ") + "\n\n"
}

// onDisk is whether an accepted job survives the loss of the machine, by the peer's own description.
func onDisk(h peer.Hello) bool {
	said := strings.ToLower(h.Durable)
	if strings.Contains(strings.ToLower(h.Engine), "redis") && !strings.Contains(said, "always") {
		return false // Redis syncs once a second unless it is told otherwise
	}
	for _, doubt := range []string{
		"not on disk", "everysec", "every second", "once a second", "a second", "memory", "lost", "lose",
		"nothing", "off",
	} {
		if strings.Contains(said, doubt) {
			return false
		}
	}
	return strings.Contains(said, "disk") || strings.Contains(said, "fsync") ||
		strings.Contains(said, "commit")
}

// keeps is whether a job that has ended can be looked up, by the peer's own description.
func keeps(h peer.Hello) bool {
	said := strings.ToLower(h.History)
	for _, start := range []string{"nothing", "none", "no ", "not "} {
		if strings.HasPrefix(said, start) {
			return false
		}
	}
	for _, part := range []string{"keeps nothing", "nothing is kept", "not kept", "nothing kept"} {
		if strings.Contains(said, part) {
			return false
		}
	}
	return said != ""
}

// gone are the peers that could not be measured at all, except those that a newer run has.
func (b *book) gone() string {
	var said []string
	seen := map[string]bool{}
	for _, p := range b.pages {
		for _, a := range p.run.Absent {
			if a.Scenario == "" && !seen[a.Peer] {
				seen[a.Peer] = true
				said = append(said, fmt.Sprintf("- %s: %s", escaped(a.Peer), escaped(a.Why)))
			}
		}
		for k := range p.cells {
			seen[k.peer] = true
		}
	}
	if len(said) == 0 {
		return ""
	}
	return "Not measured:\n\n" + strings.Join(said, "\n") + "\n\n"
}

// absences are the peers that could not be measured in the scenarios of a group, except those that a newer
// run has.
func (b *book) absences(g group) string {
	var scenarios []string
	if g.title == "Drain" {
		scenarios = append(scenarios, "plain")
	}
	for _, q := range g.tables {
		for _, c := range q.columns {
			scenarios = append(scenarios, c.scenario)
		}
	}
	var said []string
	measured := map[[2]string]bool{} // by a newer run
	for _, p := range b.pages {
		for _, a := range p.run.Absent {
			text := fmt.Sprintf("- %s: %s", escaped(a.Peer), escaped(a.Why))
			if a.Scenario != "" && slices.Contains(scenarios, a.Scenario) &&
				!measured[[2]string{a.Peer, a.Scenario}] && !slices.Contains(said, text) {
				said = append(said, text)
			}
		}
		for k := range p.cells {
			measured[[2]string{k.peer, k.scenario}] = true
		}
	}
	if len(said) == 0 {
		return ""
	}
	return "Not measured:\n\n" + strings.Join(said, "\n") + "\n\n"
}

// list joins names: "a, b and c".
func list(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }

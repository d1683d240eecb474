package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
	"github.com/carillon-run/carillon/internal/wire"
)

func (a *app) membersCommand() *cobra.Command {
	return &cobra.Command{
		Use:        "members",
		Aliases:    []string{"workers"},
		SuggestFor: []string{"nodes"},
		Short:      "List the nodes and workers that are alive, and what they run",
		Long: `List the nodes and workers that are alive.

SLOTS shows how many slots of a worker were in use at its last beat, and how many it has.
RUNNING shows the names of the jobs whose runs it performs. LABELS is there if any worker has one.
-o wide adds the machine, the version, the shards that a node owns, when it joined, and its last
beat. -o json has the runs too.`,
		Example: `  carillon members
  carillon members -o wide
  carillon runs --worker worker_1d0e6f0b5c9a44f2a7b3`,
		Args:              none,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: a.reached(func(ctx context.Context, c *client.Client, _ []string) error {
			members, err := c.Members(ctx)
			if err != nil {
				return err
			}
			return a.show(wire.List[client.Member]{Items: members}, func() { a.memberTable(members) })
		}),
	}
}

func (a *app) memberTable(members []client.Member) {
	if a.wide() {
		t := a.table(
			"ID", "KIND", "ADDRESS OR NAME", "HOST", "VERSION", "QUEUES", "LABELS", "SLOTS", "SHARDS",
			"SINCE", "LAST BEAT", "RUNNING",
		)
		for i := range members {
			m := &members[i]
			t.row(m.ID, m.Kind, cmp.Or(m.Addr, "-"), cmp.Or(m.Host, "-"), cmp.Or(m.Version, "-"), queuesOf(m),
				labelsOf(m), slotsOf(m), shardsOf(m),
				a.ago(m.Joined), a.ago(m.Beat), runningOf(m))
		}
		t.end()
		return
	}
	header := []string{"ID", "KIND", "ADDRESS OR NAME", "QUEUES", "SLOTS", "RUNNING"}
	labeled := slices.ContainsFunc(members, func(m client.Member) bool { return len(m.Labels) > 0 })
	if labeled {
		header = slices.Insert(header, 4, "LABELS")
	}
	t := a.table(header...)
	for i := range members {
		m := &members[i]
		cells := []string{
			m.ID, m.Kind, a.cut(cmp.Or(m.Addr, "-"), 24), a.cut(queuesOf(m), 14), slotsOf(m), runningOf(m),
		}
		if labeled {
			cells = slices.Insert(cells, 4, a.cut(labelsOf(m), 30))
		}
		t.row(cells...)
	}
	t.end()
}

func labelsOf(m *client.Member) string { return cmp.Or(pairsText(m.Labels), "-") }

func queuesOf(m *client.Member) string {
	if m.Kind != carillon.MemberWorker {
		return "-"
	}
	return cmp.Or(strings.Join(m.Queues, ","), "all")
}

// slotsOf is used/total. A worker written by others can leave out its total.
func slotsOf(m *client.Member) string {
	if m.Kind != carillon.MemberWorker {
		return "-"
	}
	used, total := "?", "?"
	if m.Used != nil {
		used = strconv.Itoa(*m.Used)
	}
	if m.Slots > 0 {
		total = strconv.Itoa(m.Slots)
	}
	return used + "/" + total
}

func shardsOf(m *client.Member) string {
	if m.Shards == nil {
		return "-"
	}
	return strconv.Itoa(*m.Shards)
}

// maxNames is how many jobs the column RUNNING names: a worker can hold thousands of runs.
const maxNames = 20

// runningOf names each job once, with the number of its runs, and says how many more runs there are.
func runningOf(m *client.Member) string {
	var names []string
	counts := map[string]int{}
	more := max(used(m), len(m.Running))
	for _, r := range m.Running {
		if counts[r.Name] == 0 {
			if len(names) == maxNames {
				continue
			}
			names = append(names, r.Name)
		}
		counts[r.Name]++
		more--
	}
	for i, name := range names {
		if n := counts[name]; n > 1 {
			names[i] = fmt.Sprintf("%s x%d", name, n)
		}
	}
	if more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return cmp.Or(strings.Join(names, ", "), "-")
}

func used(m *client.Member) int {
	if m.Used == nil {
		return 0
	}
	return *m.Used
}

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/carillon-run/carillon/bench/peers/result"
)

// kept is the content of the results file.
type kept struct {
	Runs []result.Run `json:"runs"`
}

// keepRuns is how many runs are kept: the latest.
const keepRuns = 20

func load(path string) ([]result.Run, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var k kept
	if err := json.Unmarshal(b, &k); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return k.Runs, nil
}

// keep saves the figures of this run so far, so that a run that is interrupted is not lost.
func (b *bench) keep() error {
	if b.results == "" || len(b.result.Figures) == 0 {
		return nil
	}
	runs, err := load(b.results)
	if err != nil {
		return err
	}
	runs = slices.DeleteFunc(runs, func(r result.Run) bool { return r.At == b.result.At })
	runs = append(runs, b.result)
	text, err := json.MarshalIndent(kept{runs[max(0, len(runs)-keepRuns):]}, "", " ")
	if err != nil {
		return err
	}
	beside := b.results + ".new"
	if err := os.WriteFile(beside, append(text, '\n'), 0o644); err != nil {
		return err
	}
	return os.Rename(beside, b.results)
}

// table prints medians and, for every other peer, how they compare with Carillon on PostgreSQL.
func (b *bench) table(out io.Writer) {
	type row struct {
		scenario, name string
		size           int
	}
	var rows []row
	values := map[row]map[string][]float64{}
	units := map[row]string{}
	for _, f := range b.result.Figures {
		r := row{f.Scenario, f.Name, f.Size}
		if values[r] == nil {
			rows = append(rows, r)
			values[r] = map[string][]float64{}
			units[r] = f.Unit
		}
		values[r][f.Peer] = append(values[r][f.Peer], f.Value)
	}
	fmt.Fprintf(
		out,
		"%s, commit %s, scale %v; median (min..max); of carillon: the figure divided by that of "+
			"carillon-postgres\n",
		b.result.Machine, b.result.Commit, b.scale,
	)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "scenario\tfigure\tpeer\tmedian\tunit\tof carillon")
	for _, r := range rows {
		what := r.scenario
		if r.size != 0 {
			what = fmt.Sprintf("%s %d", r.scenario, r.size)
		}
		own := values[r]["carillon-postgres"]
		for _, p := range append([]string{"plain-sqlite", "plain-postgres"}, names(schedulers)...) {
			v := values[r][p]
			if len(v) == 0 {
				continue
			}
			ratio := ""
			if len(own) > 0 && median(own) != 0 && p != "carillon-postgres" {
				ratio = fmt.Sprintf("%.2fx", median(v)/median(own))
			}
			fmt.Fprintf(
				table, "%s\t%s\t%s\t%s (%s..%s)\t%s\t%s\n", what, r.name, p, number(median(v)),
				number(slices.Min(v)), number(slices.Max(v)), units[r], ratio,
			)
		}
	}
	table.Flush()
	for _, a := range b.result.Absent {
		fmt.Fprintln(out, "absent:", a.Peer, a.Scenario, a.Why)
	}
}

func names(list []scheduler) (names []string) {
	for _, p := range list {
		names = append(names, p.name)
	}
	return names
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if n := len(v); n%2 == 0 {
		return (v[n/2-1] + v[n/2]) / 2
	}
	return v[len(v)/2]
}

func number(v float64) string {
	if v < 100 {
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// commit is the version of the sources.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// machine describes the machine of the run.
func machine() string {
	model := "unknown processor"
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%d cores (%s), %.0f GiB, Linux %s, %s", runtime.NumCPU(), model,
		field("/proc/meminfo", "MemTotal:")/(1<<20),
		strings.TrimSpace(string(kernel)), runtime.Version())
}

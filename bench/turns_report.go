package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// reportRounds prints for every step the figures of both versions and how they differ.
func reportRounds(out io.Writer, of []step, starts [][][]round) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\nfigure\tunit\tstarts\tbefore\tnow\tdifference\tbounds\tnoise\tbounds\tnow is\t")
	for i, s := range of {
		if len(starts[i]) == 0 {
			fmt.Fprintf(table, "%s\t\t0\tnot measured\t\t\t\t\t\t\t\n", s.figure)
			continue
		}
		unit := "jobs/s"
		if s.wait {
			unit = "ms"
		}
		was := overall(starts[i], base)
		is := overall(starts[i], func(r round) float64 { return r[now] })
		differs, noise := difference(starts[i]), noise(starts[i])
		for _, cell := range []any{
			s.figure, unit, len(starts[i]), number(was), number(is),
			percent(median(differs)), differs.bounds(), percent(median(noise)), noise.bounds(),
			differs.verdict(s.wait),
		} {
			fmt.Fprintf(table, "%v\t", cell)
		}
		fmt.Fprintln(table)
	}
	err := table.Flush()
	fmt.Fprintln(out, `
before, now   medians
difference    now compared with the geometric mean of both programs of before; the median over all starts
bounds        the true median is between them with a confidence of 95 %
noise         one program of before compared with the other`)
	return err
}

// base is the figure of the earlier version in a round: the geometric mean of its two turns, which treats
// rates and times alike.
func base(r round) float64 { return math.Sqrt(r[before] * r[again]) }

// overall is the median of a figure over all rounds.
func overall(starts [][]round, figure func(round) float64) float64 {
	var all []float64
	for _, rounds := range starts {
		for _, r := range rounds {
			all = append(all, figure(r))
		}
	}
	slices.Sort(all)
	return median(all)
}

func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// shares are sorted shares of the earlier version's figure, one for each start; 1 means equal.
type shares []float64

func difference(starts [][]round) shares {
	return byStart(starts, func(r round) float64 { return r[now] / base(r) })
}

func noise(starts [][]round) shares {
	return byStart(starts, func(r round) float64 { return r[again] / r[before] })
}

// byStart makes one share of all rounds of a start: they have processes and databases in common, so they do
// not count as independent of each other.
func byStart(starts [][]round, share func(round) float64) shares {
	var all shares
	for _, rounds := range starts {
		var some []float64
		for _, r := range rounds {
			some = append(some, share(r))
		}
		slices.Sort(some)
		all = append(all, median(some))
	}
	slices.Sort(all)
	return all
}

// fewest is the number of starts below which no two of them bound the median with a confidence of 95 %.
const fewest = 6

// ranks are those of the shares that bound the median with a confidence of 95 %. They assume nothing about
// how shares spread.
func (s shares) ranks() (low, high int, enough bool) {
	half := 0.98 * math.Sqrt(float64(len(s)))
	middle := float64(len(s)-1) / 2
	low, high = int(max(math.Floor(middle-half), 0)), int(min(math.Ceil(middle+half), float64(len(s)-1)))
	return low, high, len(s) >= fewest
}

func (s shares) bounds() string {
	low, high, enough := s.ranks()
	if !enough {
		return fmt.Sprintf("not below %d starts", fewest)
	}
	return percent(s[low]) + " to " + percent(s[high])
}

// verdict says which way the versions differ, if the bounds leave no doubt.
func (s shares) verdict(wait bool) string {
	low, high, enough := s.ranks()
	less, more := "slower", "faster"
	if wait {
		less, more = more, less
	}
	switch {
	case enough && s[high] < 1:
		return less
	case enough && s[low] > 1:
		return more
	}
	return "-"
}

func percent(share float64) string { return fmt.Sprintf("%+.1f %%", 100*(share-1)) }

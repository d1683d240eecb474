package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
)

// reportTurns prints for every step the medians of both versions and how they differ.
func reportTurns(out io.Writer, chosen []step, turns [][]turn) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\nfigure\tunit\tturns\tbefore\tnow\tdifference\tbounds\tnoise\tbounds\t")
	for i, s := range chosen {
		unit := "jobs/s"
		if s.wait {
			unit = "ms"
		}
		differs, noise := difference(turns[i]), noise(turns[i])
		fmt.Fprintf(
			table, "%s\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t\n", s.name, unit, len(turns[i]),
			number(figureOf(turns[i], before)), number(figureOf(turns[i], now)),
			differs.median(), differs.bounds(), noise.median(), noise.bounds(),
		)
	}
	err := table.Flush()
	fmt.Fprintln(out, "difference: now beside the mean of two turns of before, the median of all turns and its bounds (95 %)")
	fmt.Fprintln(out, "noise: the same for one turn of before beside the other")
	return err
}

func figureOf(turns []turn, version int) float64 {
	values := make([]float64, len(turns))
	for i, t := range turns {
		values[i] = t[version]
	}
	slices.Sort(values)
	return median(values)
}

func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// shares are sorted shares of the earlier version's figure: 1 means equal.
type shares []float64

// difference compares this version with the mean of both turns of the earlier one.
func difference(turns []turn) shares {
	return compared(turns, func(t turn) float64 { return t[now] / math.Sqrt(t[before]*t[again]) })
}

// noise compares the earlier version with itself.
func noise(turns []turn) shares {
	return compared(turns, func(t turn) float64 { return t[again] / t[before] })
}

func compared(turns []turn, share func(turn) float64) shares {
	s := make(shares, len(turns))
	for i, t := range turns {
		s[i] = share(t)
	}
	slices.Sort(s)
	return s
}

func (s shares) median() string { return percent(median(s)) }

// bounds are those of the median with a confidence of 95 %, by rank: they assume nothing about how turns
// spread.
func (s shares) bounds() string {
	half := 0.98 * math.Sqrt(float64(len(s)))
	middle := float64(len(s)-1) / 2
	low, high := int(max(math.Floor(middle-half), 0)), int(min(math.Ceil(middle+half), float64(len(s)-1)))
	return percent(s[low]) + " to " + percent(s[high])
}

func percent(share float64) string { return fmt.Sprintf("%+.1f %%", 100*(share-1)) }

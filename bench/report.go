package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// figure is one result.
type figure struct {
	name  string
	value float64
	unit  string
}

func (f figure) String() string { return f.name + " " + number(f.value) + " " + f.unit }

func number(v float64) string {
	if v < 100 {
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// bar is the limit that a figure must reach or, with atMost, must not exceed.
type bar struct {
	figure string
	limit  float64
	atMost bool
}

func (r bar) met(v float64) bool {
	if r.atMost {
		return v <= r.limit
	}
	return v >= r.limit
}

func (r bar) String() string {
	if r.atMost {
		return fmt.Sprintf("<= %v", r.limit)
	}
	return fmt.Sprintf(">= %v", r.limit)
}

// figure reports a result.
func (b *bench) figure(name string, value float64, unit string) {
	f := figure{name, value, unit}
	b.figures = append(b.figures, f)
	b.say("%s", f)
}

// known is a figure that was reported before; nil if there is none.
func (b *bench) known(name string) *figure {
	i := slices.IndexFunc(b.figures, func(f figure) bool { return f.name == name })
	if i < 0 {
		return nil
	}
	return &b.figures[i]
}

// report prints all figures, and which bars they meet.
func (b *bench) report(out io.Writer, about string) {
	fmt.Fprintf(out, "bench: on %s\n", about)
	for _, f := range b.figures {
		fmt.Fprintf(out, "bench: %s\n", f)
	}
	if b.scale != 1 {
		fmt.Fprintf(out, "\nscale %v: a look, not a measurement\n", b.scale)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\nfigure\tmeasured\tunit\tbar\t\t")
	missed := 0
	bars := b.kind.bars
	if b.known("overload_max") != nil {
		bars = slices.Concat(bars, overloadBars)
	}
	if b.known("flood_small_p99") != nil {
		bars = slices.Concat(bars, orderBars)
	}
	if b.known("keys_ratio") != nil {
		bars = slices.Concat(bars, keysBars)
	}
	if b.known("limits_hot") != nil {
		bars = slices.Concat(bars, limitsBars)
	}
	if b.known("gate_closed_after") != nil {
		bars = slices.Concat(bars, gatesBars)
	}
	if b.known("workflow_fan_1000") != nil {
		bars = slices.Concat(bars, workflowBars(b.kind.name))
	}
	if b.known("redrive_rate") != nil {
		bars = slices.Concat(bars, deadBars)
	}
	for _, r := range bars {
		f := b.known(r.figure)
		switch {
		case f == nil:
			fmt.Fprintf(table, "%s\t-\t\t%s\tnot measured\t\n", r.figure, r)
		case r.met(f.value):
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\tmet\t\n", r.figure, number(f.value), f.unit, r)
		default:
			missed++
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t!!! NOT MET\t\n", r.figure, number(f.value), f.unit, r)
		}
	}
	table.Flush()
	if missed > 0 {
		fmt.Fprintf(out, "\n!!! %d of %d bars NOT MET\n", missed, len(bars))
	}
}

package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"strings"
)

// recordFile is where --record writes. The path is relative to the root of the repository, where make runs
// bench.
const recordFile = "bench/recorded.json"

//go:embed recorded.json
var recordedJSON []byte

// tolerance is how much worse than the record a figure can be, as a share of it: on a quiet machine, figures
// differ that much anyway.
const tolerance = 0.15

// record holds figures by store, in the form that level makes: as far as possible none of them depends on how
// fast the machine was at that minute.
type record map[string]map[string]float64

// yardstick says how to make a figure comparable with one that was measured at another time.
type yardstick int

const (
	asItIs   yardstick = iota // memory, allocations, ratios within one run, waits for a disk or a timer
	perPlain                  // rates: divided by plain_cycle
	inPlain                   // times that the processor takes: as a number of plain cycles
	never                     // not comparable by itself
)

// measure finds the yardstick of a figure, and whether more of it is better.
func measure(f figure) (by yardstick, more bool) {
	switch {
	// The yardstick itself, and drain in another form.
	case f.name == "plain_cycle", f.name == "drain_of_plain":
		return never, true
	case strings.HasSuffix(f.name, "_max"): // one straggler decides it
		return never, false
	case f.unit == "jobs/s":
		return perPlain, true
	case f.unit == "us/job", strings.HasPrefix(f.name, "instant_"):
		return inPlain, false
	default:
		return asItIs, f.unit == "%"
	}
}

// level is a figure in the form of the record. plain is plain_cycle of the same run, 0 if it was not
// measured.
func level(f figure, by yardstick, plain float64) float64 {
	switch by {
	case perPlain:
		return f.value / plain
	case inPlain:
		return f.value * seconds[f.unit] * plain
	default:
		return f.value
	}
}

var seconds = map[string]float64{"s": 1, "ms": 1e-3, "us/job": 1e-6}

// verdict is how the figures of a run compare with the record.
type verdict struct {
	worse      []string // in words
	without    []string // not comparable: plain_cycle was not measured
	unrecorded []string
	compared   int
}

// judge compares figures with the recorded ones of the same store.
func judge(figures []figure, recorded map[string]float64) (v verdict) {
	plain := plainOf(figures)
	for _, f := range figures {
		by, more := measure(f)
		was, known := recorded[f.name]
		switch {
		case by == never:
		case by != asItIs && plain == 0:
			v.without = append(v.without, f.name)
		case !known || was <= 0:
			v.unrecorded = append(v.unrecorded, f.name)
		default:
			v.compared++
			is := level(f, by, plain)
			loss := is/was - 1
			if more {
				loss = 1 - is/was
			}
			if loss > tolerance {
				v.worse = append(
					v.worse,
					fmt.Sprintf(
						"%s %s, recorded %s: %.0f %% worse", f.name, spoken(is, by, f.unit), short(was),
						100*loss,
					),
				)
			}
		}
	}
	return v
}

func plainOf(figures []figure) float64 {
	for _, f := range figures {
		if f.name == "plain_cycle" {
			return f.value
		}
	}
	return 0
}

func spoken(v float64, by yardstick, unit string) string {
	switch by {
	case perPlain:
		return short(v) + " of plain_cycle"
	case inPlain:
		return short(v) + " plain cycles"
	default:
		return short(v) + " " + unit
	}
}

// short shows small shares too: submits of one caller are a twentieth of plain_cycle.
func short(v float64) string {
	if v < 0.1 {
		return fmt.Sprintf("%.4f", v)
	}
	return number(v)
}

func (v verdict) print(out io.Writer) {
	fmt.Fprintln(out)
	for _, w := range v.worse {
		fmt.Fprintf(out, "worse than recorded: %s\n", w)
	}
	switch {
	case v.compared == 0:
		fmt.Fprintln(out, "nothing was compared with the record")
	case len(v.worse) == 0:
		fmt.Fprintf(
			out, "nothing got worse by more than %.0f %% (%d figures compared with the record)\n",
			100*tolerance, v.compared,
		)
	}
	if len(v.without) > 0 {
		fmt.Fprintf(out, "not comparable without plain_cycle: %s\n", strings.Join(v.without, ", "))
	}
	if len(v.unrecorded) > 0 {
		fmt.Fprintf(out, "not recorded so far: %s\n", strings.Join(v.unrecorded, ", "))
	}
}

// with is the record after a run: figures that were not measured stay as they were.
func (r record) with(store string, figures []figure) record {
	plain := plainOf(figures)
	next := record{store: {}}
	for s, known := range r {
		next[s] = maps.Clone(known)
	}
	for _, f := range figures {
		if by, _ := measure(f); by == asItIs || by != never && plain > 0 {
			// More digits would be noise in the file.
			next[store][f.name] = math.Round(1e5*level(f, by, plain)) / 1e5
		}
	}
	return next
}

// guard says which figures are worse than the record. That is an error only with -strict.
func (b *bench) guard(out io.Writer) error {
	if b.scale != 1 {
		fmt.Fprintln(out, "\nnothing was compared with the record, which is of scale 1")
		return nil
	}
	var r record
	if err := json.Unmarshal(recordedJSON, &r); err != nil {
		return fmt.Errorf("read the record: %w", err)
	}
	v := judge(b.figures, r[b.kind.name])
	v.print(out)
	if b.strict && len(v.worse) > 0 {
		return fmt.Errorf("%d figures are more than %.0f %% worse than recorded", len(v.worse), 100*tolerance)
	}
	return nil
}

// record writes this run's figures into the record.
func (b *bench) record(out io.Writer) error {
	var r record
	if err := json.Unmarshal(recordedJSON, &r); err != nil {
		return fmt.Errorf("read the record: %w", err)
	}
	text, err := json.MarshalIndent(r.with(b.kind.name, b.figures), "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(recordFile, append(text, '\n'), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(out, "recorded in %s\n", recordFile)
	return nil
}

// guarded refuses options that could not succeed, before the measurement takes its time.
func (b *bench) guarded(record bool) error {
	if b.scale != 1 && (record || b.strict) {
		return fmt.Errorf("record and strict are for scale 1: %v is a look, not a measurement", b.scale)
	}
	if record {
		if _, err := os.Stat(recordFile); err != nil {
			return fmt.Errorf("record, from the root of the repository: %w", err)
		}
	}
	return nil
}

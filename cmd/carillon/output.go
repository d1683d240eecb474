package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/goccy/go-yaml"
)

var formats = []string{"table", "json", "yaml"}

// show prints a value in the format asked for; table prints it for people.
func (a *app) show(value any, table func()) error {
	switch a.format {
	case "json":
		text, err := indented(value)
		if err == nil {
			_, err = a.out.Write(text)
		}
		return err
	case "yaml":
		// By way of JSON, so that names, order and the forms of times and ids are the same in both.
		text, err := indented(value)
		if err == nil {
			text, err = yaml.JSONToYAML(text)
		}
		if err == nil {
			_, err = a.out.Write(text)
		}
		return err
	}
	table()
	return nil
}

func indented(value any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // this goes to people and files, not into a page
	enc.SetIndent("", "  ")
	err := enc.Encode(value)
	return b.Bytes(), err
}

// done says what an action did, in one line, or shows the thing it was done to.
func (a *app) done(value any, format string, args ...any) error {
	return a.show(value, func() { fmt.Fprintf(a.out, format+"\n", args...) })
}

// colour is an ANSI code of two digits. All have the same length, because tabwriter counts them as width: a column stays
// straight only if every cell of it carries the same number of them.
type colour string

const (
	plain  colour = "00"
	bold   colour = "01"
	dim    colour = "02"
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
	blue   colour = "34"
)

// stateColour is for the states of jobs and runs.
func stateColour(state string) colour {
	switch state {
	case "succeeded", "active":
		return green
	case "failed":
		return red
	case "running", "claimed":
		return blue
	case "canceled", "skipped", "paused":
		return yellow
	case "finished":
		return dim
	}
	return plain
}

// colours says whether to paint what goes to w: only a person at a terminal is helped by it.
func (a *app) colours(w io.Writer) bool {
	return w == a.out && a.terminal && !a.noColor && a.env("NO_COLOR") == "" && a.env("TERM") != "dumb"
}

func (a *app) paint(c colour, text string) string { return paint(a.colours(a.out), c, text) }

func paint(on bool, c colour, text string) string {
	if !on {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[00m"
}

// table writes rows in straight columns.
type table struct {
	out     io.Writer
	text    bytes.Buffer
	w       *tabwriter.Writer // to text
	colours bool
	header  []string
}

func (a *app) table(header ...string) *table {
	t := a.tableTo(a.out)
	t.header = header
	t.write(header, func(int, string) colour { return bold })
	return t
}

// tableTo is for facts; it has no header.
func (a *app) tableTo(w io.Writer) *table {
	t := &table{out: w, colours: a.colours(w)}
	t.w = tabwriter.NewWriter(&t.text, 0, 0, 2, ' ', 0)
	return t
}

func (t *table) row(cells ...string) {
	t.write(cells, func(i int, cell string) colour {
		if t.header[i] == "STATE" {
			return stateColour(cell)
		}
		return plain
	})
}

func (t *table) write(cells []string, of func(i int, cell string) colour) {
	painted := make([]string, len(cells))
	for i, cell := range cells {
		painted[i] = paint(t.colours, of(i, cell), oneLine(cell))
	}
	fmt.Fprintln(t.w, strings.Join(painted, "\t"))
}

// fact is a line of a detail view. Empty values are left out: what is not there need not be read.
func (t *table) fact(name, value string) {
	if value == "" {
		return
	}
	c := plain
	if name == "State" {
		c = stateColour(value)
	}
	fmt.Fprintf(t.w, "%s\t%s\n", paint(t.colours, bold, name), paint(t.colours, c, oneLine(value)))
}

// facts is a fact of several lines.
func (t *table) facts(name string, values []string) {
	for i, value := range values {
		if i > 0 {
			name = ""
		}
		fmt.Fprintf(t.w, "%s\t%s\n", paint(t.colours, bold, name), paint(t.colours, plain, oneLine(value)))
	}
}

// end prints the table, without the spaces that tabwriter leaves where the last cell of a row is empty.
func (t *table) end() {
	_ = t.w.Flush()
	var b strings.Builder
	for line := range strings.Lines(t.text.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	fmt.Fprint(t.out, b.String())
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/carillon-run/carillon/client"
)

var formats = []string{"table", "wide", "json", "yaml"}

// wide says that the table can be wider than a terminal, and so has more columns.
func (a *app) wide() bool { return a.format == "wide" }

// forPeople says that the user wants a table, and not the API's object.
func (a *app) forPeople() bool { return a.format == "table" || a.wide() }

// show prints a value in the format of --output; table prints it for people.
func (a *app) show(value any, table func()) error {
	switch a.format {
	case "json":
		text, err := indented(value)
		if err == nil {
			_, err = a.out.Write(text)
		}
		return err
	case "yaml":
		// YAML is made from the JSON, so that names, order and the forms of times and ids are the same in
		// both.
		text, err := indented(value)
		if err == nil {
			text, err = toYAML(text)
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
	enc.SetEscapeHTML(false) // the JSON goes to people and files, not into a page
	enc.SetIndent("", "  ")
	err := enc.Encode(value)
	return b.Bytes(), err
}

// done reports an action in one line, or shows the object that it changed.
func (a *app) done(value any, format string, args ...any) error {
	return a.show(value, func() { fmt.Fprintf(a.out, format+"\n", args...) })
}

// warn shows a warning of the server. It goes to standard error, because a script can read the answer on
// standard output.
func (a *app) warn(text string) { fmt.Fprintln(a.err, "carillon: warning: "+oneLine(text)) }

// retrying says that the server did not answer a request, which is sent again. If the command cannot even
// connect at first, probably no server is running there: then it fails at once.
func (a *app) retrying(reason error, wait time.Duration) bool {
	if !a.connected && noConnection(reason) {
		return false
	}
	a.connected = true
	text := oneLine(reason.Error())
	fmt.Fprintf(a.err, "carillon: %s; trying again in %s\n", text, wait.Round(time.Millisecond))
	return true
}

// noConnection says that a request was not sent, because there was no connection.
func noConnection(err error) bool {
	var away *client.Unreachable
	return errors.As(err, &away) && away.NotSent()
}

// colour is an ANSI code of two digits. All codes have the same length, because tabwriter counts them as
// width: a column stays straight only if every cell of it has the same number of codes.
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

// stateColour is for the states of jobs, runs and operations.
func stateColour(state string) colour {
	switch state {
	case "succeeded", "active", "done":
		return green
	case "failed":
		return red
	case "running", "claimed", "counting", "expanding":
		return blue
	case "canceled", "skipped", "passed", "paused":
		return yellow
	case "finished":
		return dim
	}
	return plain
}

// colours says whether to colour the text that goes to w: colours help only a person at a terminal.
func (a *app) colours(w io.Writer) bool {
	return w == a.out && a.terminal && a.wantsColours()
}

func (a *app) wantsColours() bool {
	return !a.noColor && a.env("NO_COLOR") == "" && a.env("TERM") != "dumb"
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
	width   int // of the terminal; 0: as wide as needed
	header  []string
	rows    [][]string
}

func (a *app) table(header ...string) *table {
	t := a.tableTo(a.out)
	t.header = header
	if a.terminal && !a.wide() {
		t.width = a.width
	}
	return t
}

// tableTo is for facts; it has no header.
func (a *app) tableTo(w io.Writer) *table {
	t := &table{out: w, colours: a.colours(w)}
	t.w = tabwriter.NewWriter(&t.text, 0, 0, 2, ' ', 0)
	return t
}

func (t *table) row(cells ...string) {
	for i := range cells {
		cells[i] = oneLine(cells[i])
	}
	t.rows = append(t.rows, cells)
}

// fit cuts the last column, which has the longest texts, to the width that the terminal has left for it.
func (t *table) fit() {
	const least, gap = 20, 2
	last, used := len(t.header)-1, 0
	for column := range last {
		widest := utf8.RuneCountInString(t.header[column])
		for _, cells := range t.rows {
			widest = max(widest, utf8.RuneCountInString(cells[column]))
		}
		used += widest + gap
	}
	for _, cells := range t.rows {
		cells[last] = shorten(cells[last], max(least, t.width-used))
	}
}

func (t *table) write(cells []string, of func(i int, cell string) colour) {
	painted := make([]string, len(cells))
	for i, cell := range cells {
		painted[i] = paint(t.colours, of(i, cell), cell)
	}
	fmt.Fprintln(t.w, strings.Join(painted, "\t"))
}

// writeRows runs only when all rows are there: the width of a column follows from all of them.
func (t *table) writeRows() {
	if t.width > 0 {
		t.fit()
	}
	t.write(t.header, func(int, string) colour { return bold })
	for _, cells := range t.rows {
		t.write(cells, func(i int, cell string) colour {
			if t.header[i] == "STATE" {
				return stateColour(cell)
			}
			return plain
		})
	}
}

// fact is a line of a detail view. It leaves out empty values, so that there is less to read.
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
	if t.header != nil {
		t.writeRows()
	}
	_ = t.w.Flush()
	var b strings.Builder
	for line := range strings.Lines(t.text.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	fmt.Fprint(t.out, b.String())
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

// flowView is what a command shows of a run of a workflow.
type flowView struct {
	flow  client.Workflow
	nodes []client.Node // all of them, or those that matter most
}

// MarshalJSON writes the fields of the workflow, with the nodes in place of their number.
func (v *flowView) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		client.Workflow
		Nodes []client.Node `json:"nodes"`
	}{v.flow, v.nodes})
}

const (
	// treeNodes is up to how many nodes the whole graph is drawn without being asked for.
	treeNodes = 200
	// listNodes is how many nodes of a larger workflow are shown, unless the terminal has fewer lines.
	listNodes = 40
)

// ranks are the states of nodes by how much they matter to a person, in groups that are read together.
var ranks = [][]carillon.NodeState{
	{carillon.NodeFailed, carillon.NodeCanceled},
	{carillon.NodeActive, carillon.NodeExpanding},
	{carillon.NodePending},
	{carillon.NodeSkipped, carillon.NodePassed},
	{carillon.NodeSucceeded},
}

// readFlow reads how far a run is. Of a workflow with more than most nodes it reads only as many nodes as a
// list shows, those that matter most first. most is 0 for all.
func readFlow(
	ctx context.Context, c *client.Client, id carillon.RunID, most int,
) (v flowView, err error) {
	if v.flow, err = c.Workflow(ctx, id); err != nil {
		return v, err
	}
	v.nodes = []client.Node{}
	if most == 0 || v.flow.Nodes <= most {
		v.nodes, _, err = take(c.Nodes(ctx, id, client.NodeQuery{Limit: maxNodePage}), 0)
		return v, err
	}
	for _, states := range ranks {
		if left := listNodes - len(v.nodes); left > 0 {
			some, _, err := take(c.Nodes(ctx, id, client.NodeQuery{States: states, Limit: left}), left)
			if err != nil {
				return v, err
			}
			v.nodes = append(v.nodes, some...)
		}
	}
	return v, nil
}

// maxNodePage bounds what the server reads for one request: the run of each node.
const maxNodePage = 500

// showFlow shows a run of a workflow once.
func (a *app) showFlow(ctx context.Context, c *client.Client, id carillon.RunID, all bool) error {
	most := treeNodes
	if all || !a.forPeople() {
		most = 0
	}
	v, err := readFlow(ctx, c, id, most)
	if err != nil {
		return err
	}
	return a.show(&v, func() { fmt.Fprint(a.out, a.flowText(&v, 0)) })
}

// followFlow shows a run of a workflow until it has ended: in place on a terminal, else a line for each
// change. Only success is a nil error.
func (a *app) followFlow(ctx context.Context, c *client.Client, id carillon.RunID) error {
	f := &follower{a: a, seen: map[string]string{}}
	most := treeNodes
	live := a.terminal && a.forPeople()
	if !live {
		most = 0 // a change of any node is told
	}
	for {
		v, err := readFlow(ctx, c, id, most)
		var away *client.Unreachable
		switch {
		case errors.As(err, &away) && ctx.Err() == nil && f.drawn:
			f.note(away)
		case ctx.Err() != nil:
			fmt.Fprintf(a.err, "carillon: no longer following; %s goes on\n", id)
			return ctx.Err()
		case err != nil:
			return err
		case live:
			f.redraw(a.flowText(&v, a.rows()))
		default:
			if err := f.tell(&v); err != nil {
				return err
			}
		}
		if err == nil && v.flow.Run.State.Ended() {
			if !live && a.forPeople() {
				fmt.Fprintln(a.out, oneLine(verdictOf(&v.flow.Run)))
			}
			if v.flow.Run.State != carillon.StateSucceeded {
				return errQuiet
			}
			return nil
		}
		select {
		case <-ctx.Done():
		case <-time.After(followPause(&v)):
		}
	}
}

// followPause is longer for a large workflow, of which all nodes are read each time.
func followPause(v *flowView) time.Duration {
	return max(followEvery, time.Duration(len(v.nodes))*5*time.Millisecond)
}

// rows is how many nodes fit on the terminal; 0: as many as there are.
func (a *app) rows() int {
	const around = 10 // the lines above and below them, and that of the cursor
	if a.height == 0 {
		return 0
	}
	return max(a.height-around, 5)
}

// follower is the part of a terminal, or the lines of a file, in which a run is followed.
type follower struct {
	a     *app
	lines int // that were drawn last
	drawn bool
	seen  map[string]string // the last line of each node
}

// redraw draws over what was drawn last. The text goes through the safe terminal; only the moves of the
// cursor do not.
func (f *follower) redraw(text string) {
	if f.lines > 0 {
		fmt.Fprintf(f.a.raw, "\x1b[%dA\r\x1b[J", f.lines)
	}
	fmt.Fprint(f.a.out, text)
	f.lines, f.drawn = f.a.linesOf(text), true
}

// linesOf is how many lines a text takes on the terminal, where a long line goes on in the next one.
func (a *app) linesOf(text string) (n int) {
	for line := range strings.Lines(text) {
		n++
		if width := visible(strings.TrimSuffix(line, "\n")); a.width > 0 && width > a.width {
			n += (width - 1) / a.width
		}
	}
	return n
}

// visible counts the characters of a line that are no colours.
func visible(line string) (n int) {
	for i, r := range line {
		if r == 0x1b {
			n -= colourAt(line[i:]) - 1
			continue
		}
		n++
	}
	return n
}

// note says that the server does not answer.
func (f *follower) note(err error) {
	if f.seen[""] == "" {
		fmt.Fprintf(f.a.err, "carillon: %s; trying again\n", oneLine(err.Error()))
		f.lines = 0 // below it, the whole is drawn anew
	}
	f.seen[""] = "away"
}

// tell prints a line for each node that has changed.
func (f *follower) tell(v *flowView) error {
	f.drawn = true
	delete(f.seen, "")
	for i := range v.nodes {
		node := &v.nodes[i]
		line := f.a.nodeLine(node)
		if f.seen[node.Name] == line || f.seen[node.Name] == "" && node.State == carillon.NodePending {
			continue
		}
		f.seen[node.Name] = line
		if !f.a.forPeople() {
			var b bytes.Buffer
			enc := json.NewEncoder(&b)
			enc.SetEscapeHTML(false)
			if err := enc.Encode(node); err != nil {
				return err
			}
			if _, err := f.a.out.Write(b.Bytes()); err != nil {
				return err
			}
			continue
		}
		if _, err := fmt.Fprintln(f.a.out, oneLine(line)); err != nil {
			return err
		}
	}
	return nil
}

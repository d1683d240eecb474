package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/client"
)

const nightly = `name: nightly
payload: {bucket: raw}
target:
  workflow:
    deadline: 4h
    nodes:
      - name: list
        target: {command: {argv: [give, '{"files":["a","b","c"]}']}}
      - name: check
        after: [{node: list}]
        target: {command: {argv: [sleep, 1m]}}
      - name: load
        after: [{node: list}]
        map: ${nodes.list.result.files}
        target: {command: {argv: [sleep, 30s]}}
      - name: alarm
        after: [{node: load, on: failure}]
        target: {command: {argv: [echo, alarm]}}
      - name: pause
        after: [{node: load}]
        target: {wait: {for: 10m}}
      - name: approve
        after: [{node: pause}, {node: check}]
        target: {wait: {signal: approve, timeout: 2h}}
      - name: publish
        after: [{node: approve}]
        payload: {by: "${nodes.approve.result.who}"}
        retry: {max_attempts: 1}
        target: {command: {argv: [fail, cannot publish]}}
      - name: clean
        after: [{node: publish}]
        target: {command: {argv: [echo]}}
`

func TestAWorkflowIsShownAndSteered(t *testing.T) {
	inHouse(t, "workflow", func(h *house) {
		h.in = nightly
		h.carillon("submit", "-f", "-")
		h.later(10 * time.Second)
		h.carillon("workflow", "show", "nightly")
		h.carillon("jobs")
		h.carillon("jobs", "--parts")
		h.carillon("run", "nightly")
		h.later(2 * time.Minute)
		h.carillon("workflow", "show", "nightly")
		h.carillon("workflow", "signal", "nightly", "aprove")
		h.carillon("workflow", "signal", "nightly", "approve", "--payload", `{"who":"ann"}`)
		h.carillon("workflow", "signal", "nightly", "approve")
		h.carillon("workflow", "retry", "nightly", "list")
		h.carillon("workflow", "retry", "nightly", "lsit")
		h.carillon("workflow", "resume", "nightly")
		h.later(11 * time.Minute)
		h.carillon("workflow", "show", "nightly")
		out := h.carillon("runs", "--state", "failed")
		for _, line := range strings.Split(out, "\n") {
			if id, rest, _ := strings.Cut(line, " "); strings.HasPrefix(strings.TrimSpace(rest), "publish") {
				h.carillon("run", id)
			}
		}
		h.carillon("workflow", "resume", "nightly")
		h.later(time.Second)
		h.carillon("workflow", "show", "nightly")
		h.in = "name: two\ntarget: {workflow: {nodes: [{name: a, target: {command: {argv: [echo]}}}, " +
			"{name: b, after: [{node: a}], target: {wait: {for: 1h}}}]}}\n"
		h.carillon("submit", "-q", "-f", "-")
		h.later(time.Second)
		h.carillon("workflow", "show", "two", "-o", "yaml")
	})
}

func TestAWorkflowIsFollowedLineByLine(t *testing.T) {
	inHouse(t, "workflow-follow", func(h *house) {
		h.in = strings.ReplaceAll(nightly, "{signal: approve, timeout: 2h}", "{for: 1m}")
		h.carillon("submit", "-q", "-f", "-")
		h.later(3 * time.Millisecond)
		h.interrupt(20*time.Second, "workflow", "show", "nightly", "-f")
		h.carillon("workflow", "show", "nightly", "-f")
		h.in = "name: short\ntarget: {workflow: {nodes: [{name: a, target: {command: {argv: [echo]}}}]}}\n"
		h.carillon("submit", "-q", "-f", "-")
		h.later(3 * time.Millisecond)
		h.carillon("workflow", "show", "short", "-f")
	})
}

func TestAFailedNodeIsRetriedOrSkippedWhileItsWorkflowGoesOn(t *testing.T) {
	inHouse(t, "workflow-retry", func(h *house) {
		h.in = `name: flow
target:
  workflow:
    nodes:
      - {name: bad, retry: {max_attempts: 1}, target: {command: {argv: [fail]}}}
      - {name: next, after: [{node: bad}], target: {command: {argv: [echo]}}}
      - {name: either, after: [{node: bad}, {node: slow, on: any}], join: any, target: {command: {argv: [echo]}}}
      - {name: slow, target: {command: {argv: [sleep, 1h]}}}
`
		h.carillon("submit", "-q", "-f", "-")
		h.later(10 * time.Second)
		h.carillon("workflow", "show", "flow")
		h.carillon("workflow", "retry", "flow", "bad")
		h.later(10 * time.Second)
		h.carillon("workflow", "skip", "flow", "bad")
		h.carillon("workflow", "skip", "flow", "slow")
		h.later(10 * time.Second)
		h.carillon("workflow", "show", "flow")
		h.later(2 * time.Hour)
		h.carillon("workflow", "show", "flow")
		h.carillon("workflow", "skip", "flow", "next")
		h.carillon("workflow", "resume", "flow")
	})
}

func TestErrorsAboutWorkflowsAreClear(t *testing.T) {
	inHouse(t, "workflow-errors", func(h *house) {
		dir := t.TempDir()
		for _, change := range []string{
			"{node: check}=>{node: chek}", "signal: approve=>sginal: approve", "name: check=>name: list",
			"nodes.approve.result=>nodes.alarm.result", "on: failure=>on: fail", "max_attempts: 1=>max_attempts: x",
			"deadline: 4h=>deadline: -4h", "argv: [give,=>argv: {", "map: ${nodes=>map: x${nodes",
			"- name: list=>- name: list\n        after: [{node: publish}]",
		} {
			from, to, _ := strings.Cut(change, "=>")
			writeTestFile(t, filepath.Join(dir, "nightly.yaml"), strings.Replace(nightly, from, to, 1))
			out, _ := h.run("submit", "-f", filepath.Join(dir, "nightly.yaml"))
			fmt.Fprintf(&h.text, "# %s\n%s\n", change, strings.ReplaceAll(out, dir+"/", ""))
		}
		h.carillon("submit", "-q", "--name", "plain", "--", "echo")
		h.later(time.Second)
		h.carillon("workflow", "show", "plain")
		h.carillon("workflow", "show", "no such")
		h.carillon("workflow", "show")
		h.carillon("workflow", "signal", "plain")
		h.carillon("workflow", "shwo")
		h.carillon("workflow", "show", "plain", "-f", "--all")
	})
}

func TestTheArgumentsOfWorkflowCommandsAreCompleted(t *testing.T) {
	inHouse(t, "workflow-completion", func(h *house) {
		h.in = nightly
		h.carillon("submit", "-q", "-f", "-")
		h.carillon("submit", "-q", "--name", "plain", "--", "echo")
		h.later(10 * time.Second)
		h.carillon("__complete", "workflow", "show", "")
		h.carillon("__complete", "workflow", "signal", "nightly", "")
		h.carillon("__complete", "workflow", "skip", "nightly", "p")
		h.carillon("__complete", "workflow", "retry", "nightly", "")
		h.carillon("__complete", "workflow", "skip", "nightly", "pause", "")
	})
}

func TestOnATerminalAWorkflowIsDrawnInPlace(t *testing.T) {
	inHouse(t, "", func(h *house) {
		h.in = nightly
		h.run("submit", "-q", "-f", "-")
		h.later(10 * time.Second)
		h.app.terminal, h.app.width, h.app.height = true, 120, 40
		h.env["NO_COLOR"] = "1"
		h.run("workflow", "signal", "nightly", "approve", "--payload", `{"who":"ann"}`)
		out, code := h.run("workflow", "show", "nightly", "-f")
		first, _, _ := strings.Cut(out, "\x1b[")
		again := fmt.Sprintf("\x1b[%dA\r\x1b[J", strings.Count(first, "\n"))
		if code != 1 || !strings.Contains(out, again) || strings.Contains(out, `\x1b`) {
			t.Errorf("code %d; not drawn over %q:\n%q", code, again, first)
		}
		last := out[strings.LastIndex(out, "\x1b[J")+3:]
		if !strings.Contains(last, "✗ publish") || !strings.Contains(last, "State     failed") {
			t.Errorf("drawn last:\n%s", last)
		}
		// A small terminal has room for some nodes only, those that failed first.
		h.app.height = 15
		out, _ = h.run("workflow", "show", "nightly", "-f")
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if len(lines) >= 15 || !strings.Contains(lines[7], "✗ publish") ||
			lines[len(lines)-1] != "… and 3 more: 3 succeeded" {
			t.Errorf("%d lines:\n%s", len(lines), out)
		}
	})
}

func TestLinesAreCountedAsTheTerminalBreaksThem(t *testing.T) {
	a := &app{width: 10}
	for text, want := range map[string]int{
		"": 0, "a\n": 1, "0123456789\n": 1, "01234567890\n": 2, "a\nb\n": 2,
		"\x1b[31m0123456789\x1b[00m\n": 1, "├─●456789\n": 1, strings.Repeat("x", 31) + "\nb\n": 5,
	} {
		if got := a.linesOf(text); got != want {
			t.Errorf("%q: %d lines, want %d", text, got, want)
		}
	}
}

// graphOf makes nodes from texts such as "c: a b".
func graphOf(lines ...string) (nodes []client.Node) {
	for _, line := range lines {
		name, before, _ := strings.Cut(line, ":")
		node := client.Node{Name: name}
		for _, from := range strings.Fields(before) {
			node.After = append(node.After, carillon.Edge{Node: from})
		}
		nodes = append(nodes, node)
	}
	return nodes
}

func TestGraphsAreDrawn(t *testing.T) {
	for name, c := range map[string]struct {
		nodes []client.Node
		want  string
	}{
		"nothing":       {nil, ""},
		"one":           {graphOf("a"), "a"},
		"a row":         {graphOf("a", "b: a", "c: b"), "a\nb\nc"},
		"a row, turned": {graphOf("c: b", "b: a", "a"), "a\nb\nc"},
		"two rows":      {graphOf("a", "b: a", "x", "y: x"), "a\nb\nx\ny"},
		"a fork":        {graphOf("a", "b: a", "c: a"), "a\n├─b\n└─c"},
		"a diamond":     {graphOf("a", "b: a", "c: a", "d: b c", "e: d"), "a\n├─b\n├─c\nd\ne"},
		"a fork in a branch": {
			graphOf("a", "b: a", "c: a", "b1: b", "b2: b", "b3: b1 b2", "d: c b3"),
			"a\n├─b\n│ ├─b1\n│ ├─b2\n│ b3\n├─c\nd",
		},
		"a branch that goes on": {graphOf("a", "b: a", "b1: b", "c: a", "c1: c"), "a\n├─b\n│ b1\n└─c\n  c1"},
		"a shortcut":            {graphOf("a", "b: a", "c: a b"), "a\nb\nc"},
		"two roots that join":   {graphOf("a", "b", "c: a b", "d: c"), "a\nb\nc\nd"},
		"crossed":               {graphOf("a", "b", "c: a b", "d: a b"), "a\nb\nc\nd"},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			for _, line := range drawTree(c.nodes) {
				lines = append(lines, line.lead+c.nodes[line.node].Name)
			}
			if diff := cmp.Diff(c.want, strings.Join(lines, "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestALargeGraphIsDrawnInTime(t *testing.T) {
	lines := []string{"n0"}
	for i := 1; i < carillon.MaxWorkflowNodes; i++ { // a row, with a short cut at each node
		lines = append(lines, fmt.Sprintf("n%d: n%d n%d", i, i-1, max(0, i-2)))
	}
	drawn := drawTree(graphOf(lines...))
	if len(drawn) != len(lines) {
		t.Errorf("%d lines, want %d", len(drawn), len(lines))
	}
}

func TestALargeWorkflowIsSummedUp(t *testing.T) {
	inHouse(t, "", func(h *house) {
		var b strings.Builder
		b.WriteString("name: large\ntarget: {workflow: {nodes: [\n")
		for i := range 300 {
			argv := "[sleep, 1h]"
			if i == 50 {
				argv = "[fail, no]"
			}
			fmt.Fprintf(&b, "  {name: n%d, retry: {max_attempts: 1}, target: {command: {argv: %s}}},\n", i, argv)
		}
		b.WriteString("]}}\n")
		file := filepath.Join(t.TempDir(), "large.yaml")
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		h.output("submit", "-q", "-f", file)
		h.later(10 * time.Second)
		lines := strings.Split(strings.TrimSpace(h.output("workflow", "show", "large")), "\n")
		if len(lines) != 6+40+1 || !strings.Contains(lines[6], "✗ n50") ||
			!strings.HasPrefix(lines[len(lines)-1], "… and 260 more: 260 active; --all draws") {
			t.Errorf("%d lines:\n%s", len(lines), strings.Join(lines, "\n"))
		}
		if out := h.output("workflow", "show", "large", "--all"); strings.Count(out, "\n") != 6+300 {
			t.Errorf("%d lines with --all", strings.Count(out, "\n"))
		}
		if out := h.output("workflow", "show", "large", "-o", "json"); strings.Count(out, `"join"`) != 300 {
			t.Errorf("%d nodes as JSON", strings.Count(out, `"join"`))
		}
	})
}

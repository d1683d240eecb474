package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// tricks is output with which a job can change the terminal of the person who reads its log.
const tricks = "\x1b]0;title\x07 \x1b[2J \x1b[31mred\x1b[0m \u009b2J \r\x7f\ttab \x1b[5n \x1bc naïve 日本"

func TestControlSequencesOfAJobDoNotReachTheTerminal(t *testing.T) {
	const harmless = `\x1b]0;title\x07 \x1b[2J ` + "\x1b[31mred\x1b[0m" + ` \u009b2J \r\x7f` + "\ttab" +
		` \x1b[5n \x1bc naïve 日本` +
		"\x1b[0m\n"
	inHouse(t, "", func(h *house) {
		h.app.terminal, h.app.errTerminal = true, true
		waited, _ := h.run("submit", "--name", "job", "--wait", "--", "echo", tricks)
		failed, _ := h.run("submit", "--name", "fails", "--max-attempts", "1", "--wait", "--", "fail", tricks)
		h.later(10 * time.Second)
		for what, got := range map[string]string{
			"logs":            h.output("logs", "job"),
			"waiting":         waited,
			"standard error":  failed,
			"with timestamps": h.output("logs", "job", "-t"),
		} {
			if !strings.Contains(got, harmless) {
				t.Errorf("%s: %q", what, got)
			}
		}
		if got := h.output("logs", "job", "--no-color"); strings.ContainsAny(got, "\x1b\u009b") ||
			!strings.Contains(got, "red") {
			t.Errorf("without colours: %q", got)
		}
		for _, format := range []string{"json", "yaml"} {
			if got := h.output(
				"logs", "job", "-o", format, "--no-color",
			); strings.ContainsAny(got, "\x1b\u009b\x07\x7f\r") {
				t.Errorf("as %s: %q", format, got)
			}
		}
		if got := h.output("logs", "job", "--raw"); got != tricks+"\n" {
			t.Errorf("raw: %q", got)
		}
		h.app.terminal = false
		if got := h.output("logs", "job"); got != tricks+"\n" {
			t.Errorf("to a file: %q", got)
		}
	})
}

// output is what a command prints.
func (h *house) output(args ...string) string {
	h.t.Helper()
	out, code := h.run(args...)
	if code != 0 {
		h.t.Errorf("carillon %s ends with %d: %s", quoteAll(args), code, out)
	}
	return out
}

func TestATerminalIsShownWhatIsHarmless(t *testing.T) {
	for given, want := range map[string]string{
		"":                                       "",
		"plain ä 日本 🙂\n":                         "plain ä 日本 🙂\n",
		"a\tb\n\n":                               "a\tb\n\n",
		"\x1b[m\x1b[1;38:5:9mx\x1b[0m":           "\x1b[m\x1b[1;38:5:9mx\x1b[0m",
		"\x1b[31":                                `\x1b[31`,
		"\x1b[?25l":                              `\x1b[?25l`,
		"\x1b":                                   `\x1b`,
		"\x1b\x1b[0m":                            `\x1b` + "\x1b[0m",
		"\u0080\u009f\u00a0":                     `\u0080\u009f` + "\u00a0",
		"\xc2":                                   `\xc2`,
		"\ufffd":                                 "\ufffd",
		"a\r\nb\rc":                              `a\r` + "\n" + `b\rc`,
		"\x1b[" + strings.Repeat("1;", 50) + "m": `\x1b[` + strings.Repeat("1;", 50) + "m",
	} {
		var b bytes.Buffer
		s := &safeTerminal{w: &b, colours: func() bool { return true }}
		if n, err := s.Write([]byte(given)); n != len(given) || err != nil || b.String() != want {
			t.Errorf("%q becomes %q (%d, %v), want %q", given, b.String(), n, err, want)
		}
	}
}

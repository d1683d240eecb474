package executor

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/carillon-run/carillon"
)

func TestOutput(t *testing.T) {
	long := strings.Repeat("x", maxLine)
	for _, c := range []struct {
		name, written string
		max           int64
		want          []string
	}{
		{"nothing", "", 1000, nil},
		{"lines", "a\nb\n", 1000, []string{"stdout: a", "stdout: b"}},
		{"a last line without an end", "a\nb", 1000, []string{"stdout: a", "stdout: b"}},
		{"empty lines", "\n\na\n", 1000, []string{"stdout: ", "stdout: ", "stdout: a"}},
		{"lines as Windows ends them", "a\r\nb\r", 1000, []string{"stdout: a", "stdout: b"}},
		{"what is not text", "a\xff\xfeb\x00\n", 1000, []string{"stdout: a\uFFFDb\uFFFD"}},
		{
			"a line of just the longest length", long[:maxLine-1] + "\nb\n", 1 << 20,
			[]string{"stdout: " + long[:maxLine-1], "stdout: b"},
		},
		{
			"a line too long", long + "yz\nb\n", 1 << 20,
			[]string{"stdout: " + long + goesOn, "stdout: yz", "stdout: b"},
		},
		{
			"a line too long, split between characters", long[1:] + "éz\n", 1 << 20,
			[]string{"stdout: " + long[1:] + goesOn, "stdout: éz"},
		},
		{
			"more than is kept", "12345\n123\n12\n1\n", 140,
			[]string{"stdout: 12345", "stdout: 123", "carillon: the output is cut here: more than 140 bytes"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, wrap := range map[string]func(io.Reader) io.Reader{
				"at once": func(r io.Reader) io.Reader { return r }, "byte by byte": iotest.OneByteReader,
				"with its end": iotest.DataErrReader,
			} {
				task, r := newTask(carillon.Target{})
				o := &output{task: task, max: c.max}
				o.copy(stdout, wrap(strings.NewReader(c.written)))
				if !slices.Equal(r.lines, c.want) {
					t.Errorf("%s: got %.200q, want %.200q", name, r.lines, c.want)
				}
			}
		})
	}
}

// FuzzOutput: no byte of text is lost and no line is too long, whatever a command writes and in whatever
// pieces.
func FuzzOutput(f *testing.F) {
	f.Add([]byte("a\nb\r\n\n\xff"), uint16(3))
	f.Add(bytes.Repeat([]byte("é"), maxLine), uint16(1000))
	f.Fuzz(func(t *testing.T, written []byte, piece uint16) {
		task, r := newTask(carillon.Target{})
		o := &output{task: task, max: 1 << 40}
		o.copy(stdout, &pieces{written, int(piece) + 1})
		var got strings.Builder
		for _, line := range r.lines {
			line = strings.TrimPrefix(line, "stdout: ")
			if len(line) > 3*maxLine+len(goesOn) { // a replaced byte takes three
				t.Fatalf("a line of %d bytes", len(line))
			}
			got.WriteString(strings.TrimSuffix(line, goesOn))
		}
		drop := strings.NewReplacer("\n", "", "\r", "", "\uFFFD", "")
		if g, w := drop.Replace(got.String()), drop.Replace(clean(string(written))); g != w &&
			!strings.Contains(string(written), goesOn) {
			t.Fatalf("got %.100q\nwant %.100q", g, w)
		}
	})
}

type pieces struct {
	left []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), p.size)], p.left)
	p.left = p.left[n:]
	return n, nil
}

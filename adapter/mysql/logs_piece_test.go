package mysql

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
)

func TestPackedLinesComeBackWhole(t *testing.T) {
	random := make([]byte, 5000)
	for i := range random {
		random[i] = byte(rand.IntN(256))
	}
	for name, lines := range map[string][]carillon.Line{
		"none":         {},
		"an empty one": {{}},
		"short ones": {
			{At: 5, Stream: "stdout", Text: "a"},
			{At: 3, Stream: "stderr", Text: "b"},
			{At: -1, Stream: "carillon", Text: "c\n"},
		},
		"of other streams":    {{Stream: "other", Text: "a"}, {Stream: strings.Repeat("long ", 100)}},
		"a long one":          {{Text: strings.Repeat("all work and no play ", 10_000)}},
		"what no one presses": {{Text: string(random)}, {Text: string(random[:77])}},
	} {
		t.Run(name, func(t *testing.T) {
			var p press
			for range 3 { // reuse from the pools must not show
				body, err := p.pack(lines)
				if err != nil {
					t.Fatal(err)
				}
				if got, err := p.unpack(body, len(lines)); err != nil || !slices.Equal(got, lines) {
					t.Errorf("%d lines became %d: %v", len(lines), len(got), err)
				}
				if len(lines) > 0 {
					if _, err := p.unpack(body[:len(body)-1], len(lines)); err == nil {
						t.Error("the last byte may be missing")
					}
				}
				if _, err := p.unpack(body, len(lines)+1); err == nil {
					t.Error("there may be a line more")
				}
			}
		})
	}
}

func TestPiecesAreNeitherLongNorManyLines(t *testing.T) {
	chunk := carillon.Chunk{Offset: 100}
	for i := range 5000 {
		chunk.Lines = append(chunk.Lines, carillon.Line{Text: strings.Repeat("x", i/1000*200)})
	}
	chunk.Lines = append(
		chunk.Lines, carillon.Line{Text: strings.Repeat("x", 10*maxText)}, carillon.Line{Text: "end"},
	)
	next := chunk.Offset
	for p := range pieces([]carillon.Chunk{chunk, {}}) {
		size := 0
		for _, line := range p.lines {
			size += len(line.Text)
		}
		if p.offset != next || len(p.lines) > maxLines || size > maxText && len(p.lines) > 1 {
			t.Errorf(
				"a piece of %d lines and %d bytes at %d, want one at %d", len(p.lines), size, p.offset, next,
			)
		}
		next += int64(len(p.lines))
	}
	if next != chunk.Offset+int64(len(chunk.Lines)) {
		t.Errorf("they end at %d", next)
	}
}

func FuzzUnpackPiece(f *testing.F) {
	var p press
	for _, text := range []string{"", "short", strings.Repeat("long ", 100)} {
		body, err := p.pack([]carillon.Line{{At: 1 << 40, Stream: "stdout", Text: text}, {Stream: "other"}})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body, 2)
	}
	f.Fuzz(func(t *testing.T, body []byte, count int) {
		lines, err := p.unpack(bytes.Clone(body), count)
		if err != nil {
			return
		}
		again, err := p.pack(lines)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := p.unpack(again, count); err != nil || !slices.Equal(got, lines) {
			t.Errorf("%v became %v: %v", lines, got, err)
		}
	})
}

func BenchmarkPress(b *testing.B) {
	var p press
	var lines []carillon.Line
	size := 0
	for i := range 600 {
		text := "2026-11-15T05:00:00.123Z INFO request served method=GET path=/v1/jobs/" +
			strings.Repeat("ab", i%20) + " status=200"
		lines, size = append(lines, carillon.Line{At: carillon.Time(i), Stream: "stdout", Text: text}), size+
			len(text)
	}
	body, err := p.pack(lines)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("pack", func(b *testing.B) {
		b.SetBytes(int64(size))
		b.ReportMetric(float64(size)/float64(len(body)), "times-smaller")
		for b.Loop() {
			if _, err := p.pack(lines); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("unpack", func(b *testing.B) {
		b.SetBytes(int64(size))
		for b.Loop() {
			if _, err := p.unpack(body, len(lines)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

package disk

import (
	"fmt"
	"strings"
	"testing"

	"github.com/carillon-run/carillon"
)

func BenchmarkAppend(b *testing.B) {
	line := strings.Repeat("x", 100)
	b.Run("one line to a new run", func(b *testing.B) {
		logs, id := open(b), run
		for b.Loop() {
			id.Job++
			if err := logs.Append(b.Context(), []carillon.Chunk{chunkOf(id, 0, line)}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("one line to the same run", func(b *testing.B) {
		logs, offset := open(b), int64(0)
		for b.Loop() {
			logs.say(offset, line)
			offset++
		}
	})
	b.Run("1000 lines to the same run", func(b *testing.B) {
		logs, offset := open(b), int64(0)
		lines := make([]string, 1000)
		for i := range lines {
			lines[i] = line
		}
		b.SetBytes(int64(1000 * len(line)))
		for b.Loop() {
			logs.say(offset, lines...)
			offset += 1000
		}
	})
}

func BenchmarkReadSealed(b *testing.B) {
	logs, id := open(b), run
	for range 2 * defaultLimits.extents / 1024 {
		var chunks []carillon.Chunk
		for range 1024 {
			id.Job++
			chunks = append(chunks, chunkOf(id, 0, "hello"))
		}
		if err := logs.Append(b.Context(), chunks); err != nil {
			b.Fatal(err)
		}
	}
	if logs.held > 0 {
		b.Fatal("not all segments are sealed")
	}
	for b.Loop() {
		if id.Job--; id.Job == run.Job {
			b.Fatal("too few runs")
		}
		if lines, err := logs.Read(b.Context(), carillon.LogQuery{
			Namespace: "default", Run: id,
		}); err != nil ||
			len(lines) != 1 {
			b.Fatal(lines, err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	const lines = 100_000
	logs := open(b)
	texts := make([]string, lines)
	for i := range texts {
		texts[i] = fmt.Sprintf("%d %s", i, strings.Repeat("x", 90))
	}
	logs.say(0, texts...)
	read := func(b *testing.B, after int64, limit int) {
		q := carillon.LogQuery{
			Namespace: "default", Run: run, AfterAttempt: 1, AfterOffset: after, Limit: limit,
		}
		if _, err := logs.Read(b.Context(), q); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("1000 lines at the beginning", func(b *testing.B) {
		for b.Loop() {
			read(b, -1, 1000)
		}
	})
	b.Run("1000 lines in the middle", func(b *testing.B) {
		for b.Loop() {
			read(b, lines/2, 1000)
		}
	})
	b.Run("following, nothing new", func(b *testing.B) {
		for b.Loop() {
			read(b, lines, 1000)
		}
	})
	b.Run("following, one line new", func(b *testing.B) {
		next := int64(lines)
		for b.Loop() {
			logs.say(next, "new")
			read(b, next-1, 1000)
			next++
		}
	})
}

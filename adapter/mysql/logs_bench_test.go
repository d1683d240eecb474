package mysql

import (
	"fmt"
	"testing"

	"github.com/carillon-run/carillon"
	"github.com/carillon-run/carillon/porttest/server"
)

func BenchmarkLogs(b *testing.B) {
	t := logsTest{b, NewLogs(openURL(b, server.MariaDB(b).URL))}
	var texts []string
	for i := range 600 {
		texts = append(
			texts,
			fmt.Sprintf(
				"2026-11-15T05:00:00.%03dZ INFO request served method=GET path=/v1/jobs/%d status=200 bytes=%d",
				i, i*i, i*7919,
			),
		)
	}
	run, offset := someRun, int64(0)
	size := 0
	for _, text := range texts {
		size += len(text)
	}
	b.Run("append 600 lines", func(b *testing.B) {
		b.SetBytes(int64(size))
		for b.Loop() {
			t.say(someRun, offset, texts...)
			offset += int64(len(texts))
		}
	})
	b.Run("read 1000 lines", func(b *testing.B) {
		for b.Loop() {
			t.texts(someRun, offset/2, 1000)
		}
	})
	b.Run("follow, nothing new", func(b *testing.B) {
		for b.Loop() {
			t.texts(someRun, offset, 1000)
		}
	})
	b.Run("append a line of a new run", func(b *testing.B) {
		for b.Loop() {
			run.Job++
			t.say(run, 0, texts[0])
		}
	})
	b.Run("append a line of each of 500 runs", func(b *testing.B) {
		chunks := make([]carillon.Chunk, 500)
		for b.Loop() {
			for i := range chunks {
				run.Job++
				chunks[i] = carillon.Chunk{
					Namespace: "default", Run: run, Attempt: 1,
					Lines: []carillon.Line{{At: run.Due, Stream: "stdout", Text: texts[0]}},
				}
			}
			if err := t.Append(b.Context(), chunks); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkBeat(b *testing.B) {
	t := sessionsTest{b, NewCoordinator(openURL(b, server.MariaDB(b).URL))}
	for _, many := range []int{1, 100, 900} {
		var beats []carillon.Beat
		for i := range many {
			id := fmt.Sprintf("of-%d-%d", many, i)
			t.join(id)
			holds := make([]carillon.Held, 50)
			for j := range holds {
				holds[j] = carillon.Held{
					Run: carillon.RunID{
						Job: carillon.JobID(i+j) << 30, Due: someRun.Due + carillon.Time(j),
					},
					Fence: int64(someRun.Due+carillon.Time(j))<<20 | 1,
				}
			}
			beats = append(beats, carillon.Beat{ID: id, Holds: holds})
		}
		b.Run(fmt.Sprintf("%d sessions that hold 50 runs each", many), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				for j := range beats {
					beats[j].Holds[i%50].Fence++
				}
				t.beat(beats...)
			}
		})
	}
	b.Run("members", func(b *testing.B) {
		for b.Loop() {
			t.members(carillon.Never)
		}
	})
}

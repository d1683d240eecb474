package worker

import (
	"context"
	"sync"

	"github.com/carillon-run/carillon"
)

// maxHeldLines bounds what is kept of an attempt's output while the log store does not take it.
const maxHeldLines = 10_000

// output collects the lines of one attempt on their way to the log store.
type output struct {
	mu      sync.Mutex
	lines   []carillon.Line
	next    int64 // offset of the next line
	dropped int64
	writing sync.Mutex // keeps chunks in order
}

// print takes one line. It never waits for the log store: a full disk must not stop work.
func (a *attempt) print(stream, text string) {
	o := &a.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.lines) >= maxHeldLines {
		o.dropped++
		return
	}
	o.lines = append(o.lines, carillon.Line{At: carillon.Now(), Stream: stream, Text: text, Offset: o.next})
	o.next++
}

// flush hands what has been printed to the log store.
func (o *output) flush(a *attempt) {
	o.writing.Lock()
	defer o.writing.Unlock()
	o.mu.Lock()
	lines, dropped := o.lines, o.dropped
	o.lines, o.dropped = nil, 0
	if dropped > 0 {
		lines = append(lines, carillon.Line{
			At: carillon.Now(), Stream: "carillon", Offset: o.next, Text: "some lines were lost: the log store did not take them in time",
		})
		o.next++
	}
	o.mu.Unlock()
	if len(lines) == 0 {
		return
	}
	a.mu.Lock()
	chunk := carillon.Chunk{Namespace: a.run.Namespace, Run: a.run.ID, Attempt: a.run.Attempt, Offset: lines[0].Offset, Lines: lines}
	if a.job != nil {
		chunk.Keep = a.job.Retention.Logs.Std()
	}
	a.mu.Unlock()
	if err := a.w.cfg.Logs.Append(context.WithoutCancel(a.w.base), []carillon.Chunk{chunk}); err != nil {
		a.w.cfg.Logger.Error("keep output", "run", chunk.Run, "error", err)
		o.mu.Lock()
		o.lines = append(lines, o.lines...) // tried again with the next flush
		o.mu.Unlock()
	}
}

func (o *output) pending() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.lines) > 0
}

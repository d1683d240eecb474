package worker

import (
	"context"
	"fmt"
	"sync"

	"github.com/carillon-run/carillon"
)

const (
	// flushLines are written at once by whoever prints: a run that prints faster than that waits for the disk.
	flushLines = 1000
	// maxHeldLines bounds what is kept of an attempt's output while the log store does not take it.
	maxHeldLines = 10_000
)

// output collects the lines of one attempt on their way to the log store.
type output struct {
	mu      sync.Mutex
	lines   []carillon.Line
	taken   int   // lines that the log store is being given
	next    int64 // offset of the next line
	dropped int64
	writing sync.Mutex // keeps chunks in order
}

// print takes one line. A log store that takes nothing, such as a full disk, does not stop the run: what there is no room
// for is dropped, and said so in its place.
func (a *attempt) print(stream, text string) {
	if a.out.add(stream, text) {
		a.out.flush(a)
	}
}

// add keeps a line and says whether it is time to write.
func (o *output) add(stream, text string) (full bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.lines)+o.taken >= maxHeldLines {
		o.dropped++
		return false
	}
	o.sayDropped()
	o.append(stream, text)
	return len(o.lines)%flushLines == 0
}

// sayDropped puts into the place of lines that were dropped how many they are. The caller holds mu.
func (o *output) sayDropped() {
	if o.dropped > 0 {
		o.append("carillon", fmt.Sprintf("%d lines are missing here: the log store did not take them", o.dropped))
		o.dropped = 0
	}
}

// end flushes what is left when nothing more will be printed.
func (o *output) end(a *attempt) {
	o.mu.Lock()
	o.sayDropped()
	o.mu.Unlock()
	o.flush(a)
}

func (o *output) append(stream, text string) {
	o.lines = append(o.lines, carillon.Line{At: carillon.Now(), Stream: stream, Text: text, Offset: o.next})
	o.next++
}

// flush hands what has been printed to the log store.
func (o *output) flush(a *attempt) {
	o.writing.Lock()
	defer o.writing.Unlock()
	o.mu.Lock()
	lines := o.lines
	o.lines, o.taken = nil, len(lines)
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
	err := a.w.cfg.Logs.Append(context.WithoutCancel(a.w.base), []carillon.Chunk{chunk})
	o.mu.Lock()
	o.taken = 0
	if err != nil {
		o.lines = append(lines, o.lines...) // tried again with the next flush
	}
	o.mu.Unlock()
	if err != nil {
		a.w.cfg.Logger.Error("keep output", "run", chunk.Run, "error", err)
	}
}

func (o *output) pending() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.lines) > 0
}
